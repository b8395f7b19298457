"""Pace against simulated providers: a virtual clock, workers that come back for more, and a quota on the other side."""

import heapq
import math
import random
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import pytest

from ci_evals.engine.gates import GROWTH_CALLS, LEAST_SPAN_S, TRIAL_TURNS, LearntRate
from ci_evals.engine.pace import Pace
from ci_evals.response import Usage

RATE = 10.0  # a second: 600 a minute
RUNS = 600


class Reply(NamedTuple):
    latency_s: float
    retry_after_s: float | None = None  # not None: refused
    headers: tuple[tuple[str, str], ...] = ()


class Bucket:
    """A token bucket; a call costs `tokens` where it counts them, else 1. It refuses within `refusal_s`."""

    def __init__(
        self, burst: float, latency_s: float, refusal_s: float = 0.005, *, rate: float = RATE, tokens: int = 0
    ) -> None:
        self.burst, self.rate, self.cost = burst, rate, max(tokens, 1)
        self.latency_s, self.refusal_s = latency_s, refusal_s
        self.level, self.then = burst, 0.0

    def minimum_s(self, runs: int) -> float:
        """The least time in which the quota lets so many calls through."""
        return (runs * self.cost - self.burst) / self.rate + self.latency_s

    def call(self, now: float) -> Reply:
        self.level, self.then = min(self.burst, self.level + (now - self.then) * self.rate), now
        if self.level < self.cost - 1e-9:
            return Reply(self.refusal_s, math.ceil((self.cost - self.level) / self.rate))
        self.level -= self.cost
        return Reply(self.latency_s, headers=self.headers())

    def headers(self) -> tuple[tuple[str, str], ...]:
        return ()

    def end(self) -> None:
        pass


class TellingBucket(Bucket):
    """The same with OpenAI's headers."""

    def headers(self) -> tuple[tuple[str, str], ...]:
        kind = "tokens" if self.cost > 1 else "requests"
        return (
            (f"x-ratelimit-limit-{kind}", str(int(self.burst))),
            (f"x-ratelimit-remaining-{kind}", str(int(self.level))),
            (f"x-ratelimit-reset-{kind}", f"{math.ceil((self.burst - self.level) / self.rate * 1000)}ms"),
        )


class Window(Bucket):
    """A quota that is there again at once every so many seconds, told by generic headers or by refusals alone."""

    def __init__(self, burst: float, latency_s: float, length_s: float, *, telling: bool) -> None:
        super().__init__(burst, latency_s, rate=burst / length_s)
        self.length_s, self.telling = length_s, telling
        self.ends_at = length_s

    def call(self, now: float) -> Reply:
        if now >= self.ends_at:
            self.ends_at += math.floor((now - self.ends_at) / self.length_s + 1) * self.length_s
            self.level = self.burst
        left_s = self.ends_at - now
        if self.level < 1:
            return Reply(self.refusal_s, math.ceil(left_s))
        self.level -= 1
        told = {"limit": self.burst, "remaining": self.level, "reset": math.ceil(left_s)} if self.telling else {}
        return Reply(self.latency_s, headers=tuple((f"x-ratelimit-{name}", str(value)) for name, value in told.items()))


class Seats:
    """Refuses what is more than so many calls at once, and a share of the others."""

    def __init__(self, seats: int, latency_s: float, *, share: float = 0.0) -> None:
        self.seats, self.latency_s, self.share = seats, latency_s, share
        self.draw = random.Random(0).random

    def minimum_s(self, runs: int) -> float:
        return runs * self.latency_s / self.seats

    def call(self, now: float) -> Reply:
        if not self.seats or (self.share and self.draw() < self.share):
            return Reply(0.005, 1)
        self.seats -= 1
        return Reply(self.latency_s)

    def end(self) -> None:
        self.seats += 1


class Moody(Bucket):
    """Refuses a share of all calls, however slowly it is asked."""

    def __init__(self, latency_s: float, retry_after_s: float, *, share: float = 0.1, seed: int = 0) -> None:
        super().__init__(math.inf, latency_s)
        self.retry_after_s, self.share = retry_after_s, share
        self.draw = random.Random(seed).random

    def call(self, now: float) -> Reply:
        return Reply(self.refusal_s, self.retry_after_s) if self.draw() < self.share else Reply(self.latency_s)


class Down(Bucket):
    """Refuses everything for some time, and nothing before and after."""

    def __init__(self, latency_s: float, retry_after_s: float, *, from_s: float, until_s: float) -> None:
        super().__init__(math.inf, latency_s)
        self.retry_after_s, self.from_s, self.until_s = retry_after_s, from_s, until_s

    def call(self, now: float) -> Reply:
        down = self.from_s <= now < self.until_s
        return Reply(self.refusal_s, self.retry_after_s) if down else Reply(self.latency_s)


class Changing(Bucket):
    """A quota of which others leave another part free from some moment on."""

    def __init__(self, latency_s: float, before: float, after: float, *, at_s: float) -> None:
        super().__init__(10, latency_s, rate=before)
        self.after, self.at_s = after, at_s

    def call(self, now: float) -> Reply:
        if now >= self.at_s:
            self.rate = self.after
        return super().call(now)


class Misleading(Bucket):
    """Limits nothing, whatever its headers say."""

    def __init__(self, latency_s: float, **told: str) -> None:
        super().__init__(math.inf, latency_s)
        self.told = tuple((f"x-ratelimit-{name.replace('_', '-')}", value) for name, value in told.items())

    def headers(self) -> tuple[tuple[str, str], ...]:
        return self.told


class Stop(NamedTuple):
    """The process stands still, as on a machine with too much to do."""

    at_s: float
    length_s: float


class Outcome(NamedTuple):
    wall_s: float
    refused: int
    sent: int

    @property
    def refused_share(self) -> float:
        return self.refused / self.sent


def simulate(
    server: Bucket | Seats,
    workers: int,
    *,
    runs: int = RUNS,
    rpm: float | None = None,
    tpm: float | None = None,
    jitter: float = 0.1,
    prepared_in_s: float = 0.0,
    stop: Stop | None = None,
) -> Outcome:
    """Run a job to its end; latencies vary by the fraction `jitter`, and the first call goes `prepared_in_s` late."""
    job = Job(server, workers, jitter, stop)
    job.pace = Pace(rpm=rpm, tpm=tpm, limit=workers, clock=lambda: job.now, wall_clock=lambda: job.now)
    job.now += prepared_in_s
    job.work(runs)
    return Outcome(job.now, job.refused, runs + job.refused)


class Job:
    """Workers on a virtual clock. One asks, the others wait behind it; its sleeps end up to 2 ms late."""

    pace: Pace

    def __init__(self, server: Bucket | Seats, workers: int, jitter: float, stop: Stop | None = None) -> None:
        self.now = 0.0
        self.refused = 0
        self._stop = stop
        self._server, self._idle, self._jitter = server, workers, jitter
        self._todo = self._left = 0
        self._asleep = False
        self._draw = random.Random(1).random
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def work(self, runs: int) -> None:
        """Do so many runs."""
        self._todo = self._left = runs
        self._ask()
        while self._left:
            self._step()

    def _step(self) -> None:
        at, _, what = heapq.heappop(self._events)
        self.now = max(self.now, at)
        if self._stop and self.now >= self._stop.at_s:
            self.now, self._stop = self.now + self._stop.length_s, None
        what()
        self._ask()

    def _ask(self) -> None:
        while self._todo and self._idle and not self._asleep:
            tokens = self.pace.estimate(400, None) if self.pace.counts_tokens else 0
            if wait_s := self.pace.admit(tokens):
                self._asleep = True
                self._later(wait_s + 0.002 * self._draw(), self._wake)
            else:
                self._call(tokens)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), what))

    def _wake(self) -> None:
        self._asleep = False

    def _call(self, tokens: int) -> None:
        self._todo, self._idle = self._todo - 1, self._idle - 1
        reply, started = self._server.call(self.now), self.now
        latency_s = reply.latency_s * (1 + self._jitter * (2 * self._draw() - 1))
        self._later(latency_s, lambda: self._end(reply, started, tokens))

    def _end(self, reply: Reply, started: float, tokens: int) -> None:
        self._idle += 1
        self.pace.observe(dict(reply.headers))
        if reply.retry_after_s is None:
            self._server.end()
            self._left -= 1
            self.pace.answered(Usage(60, 40) if tokens else None, tokens)
        else:
            self.refused += 1
            self.pace.refused(reply.retry_after_s, 1.0, self.now - started)
            self._later(reply.retry_after_s + 0.1 * self._draw(), self._retry)

    def _retry(self) -> None:
        self._todo += 1


LATENCIES = pytest.mark.parametrize("latency_s", [0.005, 0.05, 2.0])
WORKERS = pytest.mark.parametrize("workers", [16, 64])


def room(server: Bucket, workers: int) -> float:
    """The least time of the quota, or of the workers where these are the tighter limit."""
    return max(server.minimum_s(RUNS), RUNS / workers * server.latency_s)


@LATENCIES
@WORKERS
@pytest.mark.parametrize("burst", [5, 10, 60])
def test_a_declared_rpm_is_used_up_and_never_refused(latency_s: float, workers: int, burst: int) -> None:
    server = Bucket(burst, latency_s)
    outcome = simulate(server, workers, rpm=60 * RATE)
    assert outcome.refused == 0
    assert outcome.wall_s <= 1.05 * max(RUNS / RATE + latency_s if burst > 10 else 0.0, room(server, workers))


@LATENCIES
@WORKERS
def test_a_declared_tpm_is_used_up_and_never_refused(latency_s: float, workers: int) -> None:
    server = Bucket(1000, latency_s, rate=1000, tokens=100)
    outcome = simulate(server, workers, tpm=60_000)
    assert outcome.refused == 0
    assert outcome.wall_s - latency_s <= 1.05 * room(server, workers)  # the first call goes alone


@LATENCIES
@WORKERS
def test_an_undeclared_rate_is_found(latency_s: float, workers: int) -> None:
    server = Bucket(10, latency_s)
    outcome = simulate(server, workers)
    assert outcome.wall_s <= 1.25 * room(server, workers)
    assert outcome.refused_share <= 0.03


def test_an_undeclared_rate_is_found_when_refusals_are_no_faster_than_answers() -> None:
    server = Bucket(10, 0.05, 0.05)
    outcome = simulate(server, 16)
    assert outcome.wall_s <= 1.25 * room(server, 16)
    assert outcome.refused_share <= 0.03


@LATENCIES
@WORKERS
def test_an_undeclared_rate_by_tokens_is_found(latency_s: float, workers: int) -> None:
    server = Bucket(1000, latency_s, rate=1000, tokens=100)
    outcome = simulate(server, workers)
    assert outcome.wall_s <= 1.25 * room(server, workers)
    assert outcome.refused_share <= 0.03


@pytest.mark.parametrize("length_s", [0.01, 0.05, 0.2])
def test_a_process_that_is_busy_as_it_starts_still_hears_of_refusals_before_all_workers_call(length_s: float) -> None:
    outcome = simulate(Bucket(10, 0.05, 0.008), 64, stop=Stop(0.001, length_s))
    assert outcome.refused_share <= 0.03


@pytest.mark.parametrize("refusal_s", [0.05, 0.3])
def test_refusals_that_come_late_cost_one_round_of_all_workers(refusal_s: float) -> None:
    server = Bucket(10, 2.0, refusal_s)
    outcome = simulate(server, 64)
    assert outcome.wall_s <= 1.25 * room(server, 64)
    assert outcome.refused <= (64 - 10) + 0.03 * RUNS


@LATENCIES
@WORKERS
@pytest.mark.parametrize(("burst", "wall", "share"), [(1, 1.6, 0.04), (60, 1.1, 0.08)])
def test_other_bursts_are_found_too(latency_s: float, workers: int, burst: int, wall: float, share: float) -> None:
    server = Bucket(burst, latency_s)
    outcome = simulate(server, workers)
    assert outcome.wall_s <= wall * room(server, workers)
    assert outcome.refused_share <= share


@pytest.mark.parametrize("length_s", [10, 30])
def test_a_quota_that_comes_back_at_once_is_waited_for(length_s: int) -> None:
    server = Window(10 * length_s, 0.05, length_s, telling=False)
    outcome = simulate(server, 16)
    assert outcome.wall_s <= 1.25 * RUNS / RATE
    assert outcome.refused_share <= 0.03


@pytest.mark.parametrize(("seats", "latency_s"), [(30, 1.0), (8, 2.0), (3, 1.0), (1, 1.0)])
def test_a_limit_of_calls_at_once_is_found(seats: int, latency_s: float) -> None:
    server = Seats(seats, latency_s)
    minimum_s = server.minimum_s(RUNS)
    outcome = simulate(server, 64)
    assert outcome.wall_s <= 2 * minimum_s
    assert outcome.refused <= 64 + 0.03 * RUNS


@pytest.mark.parametrize("retry_after_s", [0.0, 0.05, 1.0])
def test_refusals_that_slowing_down_does_not_help_against_do_not_slow_down_the_rest(retry_after_s: float) -> None:
    """Only the start is spent on looking for a rate: then nothing but the pauses that were asked for is kept."""
    spent = [simulate(Moody(0.05, retry_after_s), 16, runs=runs).wall_s for runs in (1000, 4000)]
    pauses_s = 3000 * 0.1 * retry_after_s
    assert spent[1] - spent[0] <= 3 * 3000 * 0.05 / 16 + pauses_s
    assert spent[0] <= 60 + 100 * retry_after_s


SOME_REFUSED = pytest.mark.parametrize("share", [0.02, 0.1, 0.3])


@SOME_REFUSED
def test_a_start_that_took_long_tells_nothing_about_a_rate(share: float) -> None:
    for seed in range(20):
        server = Moody(0.01, 0.0, share=share, seed=seed)
        assert simulate(server, 16, runs=3000, prepared_in_s=20).wall_s <= 20 + 5


@SOME_REFUSED
def test_a_rate_that_is_too_low_because_the_process_stood_still_is_found_to_be_so(share: float) -> None:
    for seed in range(20):
        server = Moody(0.01, 0.0, share=share, seed=seed)
        assert simulate(server, 16, runs=3000, stop=Stop(0.02, 5.0)).wall_s <= 5 + 10


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("retry_after_s", [0.3, 1.0])
def test_pauses_that_are_asked_for_at_random_are_all_that_is_lost(share: float, retry_after_s: float) -> None:
    for seed in range(5):
        outcome = simulate(Moody(0.05, retry_after_s, share=share, seed=seed), 16, runs=1000)
        assert outcome.wall_s <= 10 + outcome.refused * retry_after_s


@pytest.mark.parametrize("retry_after_s", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("from_s", [0.0, 1.0])
@pytest.mark.parametrize("length_s", [5.0, 60.0])
def test_refusals_of_an_outage_tell_nothing_about_a_rate(retry_after_s: float, from_s: float, length_s: float) -> None:
    server = Down(0.05, retry_after_s, from_s=from_s, until_s=from_s + length_s)
    outcome = simulate(server, 16, runs=3000)
    assert outcome.wall_s <= 1.25 * (from_s + length_s + 3000 / 16 * 0.05) + retry_after_s + 3
    assert outcome.refused <= 50 + length_s


@pytest.mark.parametrize("retry_after_s", [0.0, 0.001, 1.0])
def test_a_window_is_found_whatever_its_refusals_ask_for(retry_after_s: float) -> None:
    class Curt(Window):
        def call(self, now: float) -> Reply:
            reply = super().call(now)
            return reply if reply.retry_after_s is None else Reply(self.refusal_s, retry_after_s)

    outcome = simulate(Curt(100, 0.05, 10, telling=False), 16)
    assert outcome.wall_s <= 1.25 * RUNS / RATE
    assert outcome.refused <= RUNS / 2


def test_a_quota_of_which_more_becomes_free_is_used() -> None:
    for rates, minimum_s in (((1.0, 100.0), 60 + 29.4), ((2.0, 10.0), 60 + 287)):
        outcome = simulate(Changing(0.05, *rates, at_s=60), 16, runs=3000)
        assert outcome.wall_s <= 3 * minimum_s
        assert outcome.refused_share <= 0.03


def test_a_quota_of_which_less_becomes_free_is_kept() -> None:
    outcome = simulate(Changing(0.05, 10.0, 2.0, at_s=60), 16, runs=1000)
    assert outcome.wall_s <= 1.25 * (60 + 200)
    assert outcome.refused_share <= 0.1


def test_trials_go_on_after_one_that_nobody_refused() -> None:
    learnt = LearntRate(10, 0.0, 0.0)
    now = 0.0

    def sent(calls: int) -> None:
        nonlocal now
        for _ in range(calls):
            now = max(now, learnt.free_at)
            learnt.take(now, 0)
            learnt.answers += 1

    def refused_until_trial() -> None:
        nonlocal now
        for _ in range(2 * TRIAL_TURNS):
            sent(10)
            now += LEAST_SPAN_S
            learnt.refused(now, now, 0.0, now)
            if learnt._known.trying:
                return
        raise AssertionError("there was no trial")

    refused_until_trial()
    sent(2 * GROWTH_CALLS)
    assert not learnt._known.trying
    refused_until_trial()


@LATENCIES
@WORKERS
@pytest.mark.parametrize("idle_s", [300.0, 86_400.0])
def test_a_time_without_calls_does_not_raise_a_rate(latency_s: float, workers: int, idle_s: float) -> None:
    job = Job(Bucket(10, latency_s), workers, jitter=0.1)
    job.pace = Pace(rpm=None, tpm=None, limit=workers, clock=lambda: job.now)
    job.work(RUNS)
    refused, job.now = job.refused, job.now + idle_s
    job.work(RUNS)
    assert job.refused - refused <= 0.03 * RUNS


@pytest.mark.parametrize("seats", [1, 3])
def test_calls_at_once_are_still_limited_where_some_are_refused_at_random(seats: int) -> None:
    server = Seats(seats, 0.5, share=0.05)
    minimum_s = server.minimum_s(1000)
    outcome = simulate(server, 16, runs=1000)
    assert outcome.wall_s <= 5 * minimum_s
    assert outcome.refused_share <= 0.3


@LATENCIES
@WORKERS
@pytest.mark.parametrize("rate", [1.0, 10.0, 50.0])
def test_trying_a_higher_rate_now_and_then_costs_few_refusals(latency_s: float, workers: int, rate: float) -> None:
    server = Bucket(10, latency_s, rate=rate)
    outcome = simulate(server, workers, runs=4 * RUNS)
    assert outcome.refused_share <= 0.03


@LATENCIES
@pytest.mark.parametrize("burst", [30, 60, 200])
def test_told_requests_are_never_overdrawn(latency_s: float, burst: int) -> None:
    server = TellingBucket(burst, latency_s)
    outcome = simulate(server, 16)
    assert outcome.refused == 0
    assert outcome.wall_s <= 1.1 * room(server, 16)


@LATENCIES
def test_told_tokens_are_never_overdrawn(latency_s: float) -> None:
    server = TellingBucket(6000, latency_s, rate=1000, tokens=100)
    outcome = simulate(server, 16)
    assert outcome.refused == 0
    assert outcome.wall_s <= 1.1 * room(server, 16)


@pytest.mark.parametrize("length_s", [10, 60])
def test_a_told_window_is_waited_for(length_s: int) -> None:
    server = Window(10 * length_s, 0.05, length_s, telling=True)
    outcome = simulate(server, 16)
    assert outcome.refused == 0
    assert outcome.wall_s <= 1.1 * RUNS / RATE


@pytest.mark.parametrize(
    ("told", "most_s"),
    [
        ({"limit_requests": "10", "remaining_requests": "9", "reset_requests": "1h"}, 90),  # never counts down
        ({"limit_requests": "0", "remaining_requests": "0", "reset_requests": "1h"}, 3),
        ({"limit": "0", "remaining": "100", "reset": "60"}, 3),
        ({"remaining": "0", "reset": "60"}, 60 + 3),
        ({"limit": "100", "remaining": "0", "reset": "60"}, 60 + 3),
    ],
)
def test_limits_that_are_told_and_not_kept_are_not_waited_for_again_and_again(
    told: dict[str, str], most_s: float
) -> None:
    assert simulate(Misleading(0.05, **told), 16).wall_s <= most_s + RUNS / 16 * 0.05


def test_pauses_are_kept_where_neither_a_rate_nor_what_is_told_is() -> None:
    class Pausing(Moody):
        paused_until = 0.0
        too_early = 0

        def call(self, now: float) -> Reply:
            self.too_early += now < self.paused_until
            reply = super().call(now)
            if reply.retry_after_s is not None:
                self.paused_until = now + reply.retry_after_s
            left = 9 if now < 200 else 0  # when it is known that no rate is kept
            return reply._replace(headers=(("x-ratelimit-remaining", str(left)), ("x-ratelimit-reset", "1")))

    server = Pausing(0.05, 1.0, share=0.3)
    simulate(server, 1, runs=1000)
    assert server.too_early == 0


def test_who_waits_for_a_told_limit_asks_again_in_case_answers_under_way_tell_of_more() -> None:
    pace = Pace(rpm=None, tpm=None, limit=4, clock=lambda: 0.0)
    for _ in range(4):
        pace.admit()
    pace.observe({"x-ratelimit-limit": "9", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "200"})
    pace.answered()
    assert 0 < pace.admit() <= 1.0


@pytest.mark.parametrize(("workers", "runs", "bound"), [(16, 1000, 1.02), (64, 1000, 1.04), (100, 1000, 1.05)])
def test_without_a_limit_only_the_start_is_a_little_later(workers: int, runs: int, bound: float) -> None:
    free = Bucket(math.inf, 0.05)
    rounds = math.ceil(runs / workers)
    assert simulate(free, workers, runs=runs, jitter=0).wall_s <= bound * rounds * 0.05


def test_without_a_limit_a_call_costs_next_to_nothing_once_the_start_is_over() -> None:
    now = [0.0]
    pace = Pace(rpm=None, tpm=None, limit=1, clock=lambda: now[0])
    for _ in range(20):
        while wait_s := pace.admit():
            now[0] += wait_s
        pace.answered(None)
    assert not pace._gates  # the quick path: two counters


def test_a_pause_is_for_everybody_and_as_long_as_asked_for() -> None:
    now = [100.0]
    pace = Pace(rpm=None, tpm=None, limit=4, clock=lambda: now[0])
    assert [pace.admit() for _ in range(4)] == [0.0] * 4
    pace.refused(7.0, 1.0, 0.1)
    assert pace.admit() == 7.0
    pace.refused(2.0, 1.0, 0.1)
    now[0] += 3
    assert pace.admit() == 4.0
    pace.failed()
    pace.failed()
    now[0] += 4
    assert (pace.admit(), pace.under_way) == (0.0, 1)


def test_an_absurd_retry_after_is_cut() -> None:
    pace = Pace(rpm=None, tpm=None, limit=1, clock=lambda: 0.0)
    pace.admit()
    pace.refused(1e9, 1.0, 0.1)
    assert pace.admit() == 300.0


def test_a_provider_that_refuses_everything_is_still_asked_now_and_then() -> None:
    now = [0.0]
    pace = Pace(rpm=None, tpm=None, limit=8, clock=lambda: now[0])
    for _ in range(50):
        while wait_s := pace.admit():
            assert wait_s <= 3.0
            now[0] += wait_s
        now[0] += 0.1
        pace.refused(None, 1.0, 0.1)


def test_the_tokens_of_a_call_are_estimated_from_its_length_and_then_from_answers() -> None:
    pace = Pace(rpm=None, tpm=1000, limit=1, clock=lambda: 0.0)
    assert pace.estimate(400, None) == 100 + 256
    assert pace.estimate(400, 50) == 150
    pace.admit(150)
    pace.answered(Usage(120, 10), 150)
    assert pace.estimate(400, 50) == 120 + 10
    assert pace.estimate(4000, 50) == 1000 + 10


def test_with_a_declared_tpm_the_first_call_goes_alone_even_if_it_fails() -> None:
    now = [0.0]
    pace = Pace(rpm=None, tpm=60_000, limit=8, clock=lambda: now[0])
    assert pace.admit(10) == 0.0
    now[0] = 1.0
    assert pace.admit(10) > 0
    pace.failed()
    assert pace.admit(10) == 0.0
