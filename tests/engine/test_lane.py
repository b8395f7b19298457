"""What a provider's queue hands out, and when it stops doing so."""

import asyncio
import math

import pytest

from ci_evals.engine.breaker import State
from ci_evals.engine.contact import Attempt, Contact
from ci_evals.engine.lane import Lane
from ci_evals.engine.outage import LONGEST_DOWN_S, LONGEST_REFUSED_S
from ci_evals.engine.pace import Pace
from ci_evals.engine.slots import Slots
from ci_evals.errors import ProviderError
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.http import Http
from ci_evals.providers.mock import Mock, MockProvider
from ci_evals.providers.openai import OpenAI

LIMIT = 8
DOWN = ProviderError("server", "503: maintenance", status=503)
GONE = ProviderError("network", "connection refused")
PATIENT = ProviderError("server", "503: maintenance", status=503, retry_after_s=1.0)
LIMITED = ProviderError("rate_limit", "429: slow down", status=429, retry_after_s=1.0)
TOO_LONG = ProviderError("rejected", "400: too long", status=400)
WRONG_KEY = ProviderError("auth", "401: wrong key", status=401)
API = OpenAI(name="api", model="m", base_url="http://127.0.0.1")
SERVICE = Http(name="service", url="http://127.0.0.1")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Calls:
    """A lane with its clock, and the calls that are under way."""

    def __init__(self, options: ProviderOptions = API, *, retries: int = 0, fresh: int = 1000) -> None:
        self.clock = Clock()
        self.pace = Pace(rpm=None, tpm=None, limit=LIMIT, clock=self.clock)
        self.contact = Contact(
            MockProvider(Mock()),
            limit=LIMIT,
            retries=retries,
            pace=self.pace,
            turn=asyncio.Lock(),
            own_code=options.own_code,
            clock=self.clock,
            draw=lambda: 0.5,
        )
        self.lane = Lane(
            options,
            self.contact,
            iter(range(fresh)),
            limit=LIMIT,
            claim=Slots(LIMIT).claim(),
            price=lambda _: None,
        )

    def state(self) -> State:
        return self.contact.breaker.state

    def start(self) -> Attempt:
        """Take the next attempt, waiting as long as the lane and the pace ask for."""
        while isinstance(step := self.lane.take(), float):
            self.clock.now += step
        assert step is not None
        while wait_s := self.pace.admit():
            self.clock.now += wait_s
        return step

    def lose(self, attempt: Attempt, error: ProviderError) -> bool:
        """Note a call without an answer; returns whether it is to be tried again."""
        delay_s = self.contact.lost(attempt, error, 0.0)
        if delay_s is not None:
            self.lane.try_again(attempt, delay_s)
        return delay_s is not None


def test_calls_that_were_under_way_when_an_outage_was_noticed_are_no_probes() -> None:
    calls = Calls()
    under_way = [calls.start() for _ in range(3 * LIMIT)]
    for attempt in under_way:
        calls.lose(attempt, DOWN)
    assert calls.state() == "probing"
    probe = calls.start()
    calls.contact.answered(None, 0)
    assert calls.state() == "closed"
    assert probe.slot == 3 * LIMIT


def test_there_is_one_probe_at_a_time_whatever_else_comes_back() -> None:
    calls = Calls()
    under_way = [calls.start() for _ in range(LIMIT + 2)]
    for attempt in under_way[:LIMIT]:
        calls.lose(attempt, DOWN)
    calls.start()
    assert isinstance(calls.lane.take(), float)
    calls.lose(under_way[-1], DOWN)
    assert isinstance(calls.lane.take(), float)


def test_probes_are_further_and_further_apart() -> None:
    calls = Calls(retries=3)
    while calls.state() == "closed":
        calls.lose(calls.start(), GONE)
    waits = []
    while calls.state() == "probing":
        before = calls.clock.now
        probe = calls.start()
        waits.append(calls.clock.now - before)
        calls.lose(probe, GONE)
    assert waits == [0.5, 1.0, 2.0, 4.0]
    assert calls.lane.given_up


@pytest.mark.parametrize("late", [DOWN, GONE, WRONG_KEY])
def test_what_was_given_up_stays_so(late: ProviderError) -> None:
    calls = Calls()
    under_way = [calls.start() for _ in range(LIMIT)]
    for attempt in under_way[:5]:
        calls.lose(attempt, WRONG_KEY)
    reason = calls.contact.breaker.reason
    for attempt in under_way[5:] * LIMIT:
        calls.lose(attempt, late)
    assert calls.lane.given_up
    assert calls.contact.breaker.reason == reason


def test_an_outage_costs_no_run_that_has_attempts_left() -> None:
    calls = Calls(retries=2)
    late = [calls.start() for _ in range(3)]
    while calls.state() == "closed":
        calls.lose(calls.start(), DOWN)
    assert all(calls.lose(attempt, DOWN) for attempt in late)
    assert calls.contact.breaker.probes == 0
    probe = calls.start()
    assert calls.lose(probe, DOWN) == (probe.number <= 2)
    assert calls.contact.breaker.probes == 1


@pytest.mark.parametrize(
    ("options", "error", "longest_s"),
    [
        (API, PATIENT, LONGEST_DOWN_S),
        (API, LIMITED, LONGEST_REFUSED_S),
        (SERVICE, PATIENT, math.inf),
        (SERVICE, LIMITED, LONGEST_REFUSED_S),
    ],
    ids=["a model is down", "a quota is used up", "the team's own is down", "the team's own has a quota"],
)
def test_what_asks_for_patience_without_end_is_given_up_unless_that_is_what_is_judged(
    options: ProviderOptions, error: ProviderError, longest_s: float
) -> None:
    calls = Calls(options, retries=3)
    while not calls.lane.given_up and calls.clock.now < 10 * LONGEST_REFUSED_S:
        calls.lose(calls.start(), error)
        assert (calls.state() == "closed") == (calls.clock.now < longest_s)
        calls.clock.now += LONGEST_REFUSED_S / 7
    assert calls.lane.given_up == (longest_s < math.inf)
    assert calls.contact.breaker.probes == (4 if calls.lane.given_up else 0)


def test_an_outage_among_refusals_for_a_quota_has_its_own_time() -> None:
    calls = Calls(retries=100)
    calls.lose(calls.start(), PATIENT)
    while calls.clock.now <= LONGEST_DOWN_S:
        calls.lose(calls.start(), LIMITED)
    calls.lose(calls.start(), PATIENT)
    assert calls.state() == "closed"
    while calls.state() == "closed":
        calls.lose(calls.start(), PATIENT)
    assert LONGEST_DOWN_S < calls.clock.now - LONGEST_DOWN_S < LONGEST_DOWN_S + 10


def test_the_rate_of_a_provider_that_was_given_up_is_none_of_those_that_share_its_pace() -> None:
    calls = Calls()
    under_way = [calls.start() for _ in range(LIMIT)]
    calls.clock.now += 0.1
    calls.contact.answered(None, 0)
    calls.lose(under_way[1], ProviderError("rate_limit", "429: slow down", status=429, retry_after_s=1.0))
    for attempt in under_way[2:]:
        calls.lose(attempt, WRONG_KEY)
    assert calls.lane.given_up
    calls.clock.now += 2
    assert [calls.pace.admit() for _ in range(50)] == [0.0] * 50


@pytest.mark.parametrize(
    ("error", "is_over"),
    [
        (ProviderError("server", "500: oops", status=500), True),
        (TOO_LONG, True),
        (ProviderError("bad_answer", "HTML, not JSON"), True),
        (ProviderError("server", "408: time-out", status=408), False),
        (WRONG_KEY, False),
        (DOWN, False),
        (GONE, False),
        (ProviderError("timeout", "no answer within 60 s"), False),
        (ProviderError("environment", "stage speech: 500: oops", status=500), False),
    ],
    ids=lambda value: value.message if isinstance(value, ProviderError) else "",
)
def test_calls_go_one_by_one_after_refusals_until_one_is_seen_to_be_let_through(
    error: ProviderError, is_over: bool
) -> None:
    calls = Calls(retries=100)
    for _ in range(10):
        calls.lose(calls.start(), LIMITED)
    calls.lose(calls.start(), error)
    assert ([calls.pace.admit() for _ in range(4)] == [0.0] * 4) == is_over


@pytest.mark.parametrize("error", [None, TOO_LONG], ids=["an answer", "a failure that shows it is there"])
def test_the_time_for_which_a_provider_is_said_to_be_down_ends_with(error: ProviderError | None) -> None:
    calls = Calls(retries=100)
    for _ in range(10):
        calls.lose(calls.start(), PATIENT)
        assert calls.state() == "closed"
        calls.clock.now += LONGEST_DOWN_S - 10
        attempt = calls.start()
        if error is None:
            calls.contact.answered(None, 0)
        else:
            calls.lose(attempt, error)


def test_a_probe_that_never_came_to_call_leaves_room_for_another() -> None:
    calls = Calls()
    while calls.state() == "closed":
        calls.lose(calls.start(), GONE)
    probe = calls.start()
    assert isinstance(calls.lane.take(), float)
    calls.contact.dropped(probe)
    calls.lose(calls.start(), GONE)
    assert calls.contact.breaker.probes == 1


def test_a_probe_that_is_answered_with_nonsense_shows_that_somebody_is_there() -> None:
    calls = Calls()
    while calls.state() == "closed":
        calls.lose(calls.start(), GONE)
    calls.lose(calls.start(), ProviderError("bad_answer", "HTML, not JSON"))
    assert calls.state() == "closed"


@pytest.mark.parametrize(
    "error",
    [DOWN, ProviderError("rejected", "404: no such page", status=404)],
    ids=["server error", "no such page"],
)
def test_how_the_teams_own_service_fails_is_judged_run_by_run(error: ProviderError) -> None:
    calls = Calls(SERVICE)
    for _ in range(100):
        calls.lose(calls.start(), error)
    assert calls.state() == "closed"


@pytest.mark.parametrize("error", [GONE, WRONG_KEY], ids=["gone", "wrong key"])
def test_the_teams_own_service_is_given_up_when_nobody_is_there_or_nobody_may_ask(error: ProviderError) -> None:
    calls = Calls(SERVICE)
    for _ in range(LIMIT + 1):
        calls.lose(calls.start(), error)
    assert calls.lane.given_up


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (ProviderError("rate_limit", "429: slow down", status=429, retry_after_s=7.0), 7.0),
        (ProviderError("server", "503: maintenance", status=503, retry_after_s=7.0), 7.0),
        (ProviderError("rate_limit", "429: slow down", status=429), 0.25),
        (DOWN, 0.0),
    ],
)
def test_a_refusal_that_asks_for_a_pause_pauses_every_run_of_the_provider(error: ProviderError, wait_s: float) -> None:
    calls = Calls(retries=1)
    attempt = calls.start()
    assert calls.lose(attempt, error), "it will be tried again"
    assert calls.pace.admit() == pytest.approx(wait_s)
