"""When a provider is no longer worth calling."""

from ci_evals.engine.breaker import REFUSALS, Breaker, State
from ci_evals.engine.outcome import given_up
from ci_evals.errors import ProviderError
from ci_evals.providers.http import Http
from ci_evals.providers.openai import OpenAI

WRONG_KEY = ProviderError("auth", "401: wrong key", status=401)
DOWN = ProviderError("network", "connection refused")


def state(watched: Breaker) -> State:
    return watched.state


def breaker() -> Breaker:
    return Breaker(limit=8, attempts=3)


def test_refusals_for_good_open_it_after_a_few() -> None:
    watched = breaker()
    for _ in range(REFUSALS - 1):
        watched.gave_up(WRONG_KEY)
    assert state(watched) == "closed"
    watched.gave_up(WRONG_KEY)
    assert state(watched) == "open"
    assert "401: wrong key" in watched.reason


def test_an_answer_in_between_starts_the_count_anew() -> None:
    watched = breaker()
    for _ in range(REFUSALS - 1):
        watched.gave_up(WRONG_KEY)
    watched.answered()
    watched.gave_up(WRONG_KEY)
    assert state(watched) == "closed"


def test_an_outage_is_probed_before_it_is_given_up() -> None:
    watched = breaker()
    for _ in range(8):
        watched.gave_up(DOWN)
    assert state(watched) == "probing"
    for _ in range(2):
        watched.gave_up(DOWN)
    assert state(watched) == "probing"
    watched.gave_up(DOWN)
    assert state(watched) == "open"


def test_a_probe_that_is_answered_closes_it() -> None:
    watched = breaker()
    for _ in range(9):
        watched.gave_up(DOWN)
    watched.answered()
    assert (state(watched), watched.probes) == ("closed", 0)


def test_a_bad_question_says_nothing_about_the_provider() -> None:
    watched = breaker()
    for _ in range(100):
        watched.gave_up(ProviderError("rejected", "400: too long", status=400))
    assert state(watched) == "closed"


def test_what_is_given_up_counts_as_what_it_was_given_up_for() -> None:
    watched = breaker()
    for _ in range(8 + 3):
        watched.gave_up(DOWN)
    service, model = Http(name="s", url="http://127.0.0.1:1/"), OpenAI(name="m", model="m")
    assert given_up(watched, service).status == "failed"
    outcome = given_up(watched, model)
    assert outcome.status == "errored"
    assert outcome.error is not None
    assert outcome.error.kind == "given_up"
    assert outcome.error.message == "given up after 11 failures in a row: connection refused"
