"""What a verdict says of runs without an answer: how many, of which variant, and their commonest reason."""

from collections.abc import Callable, Iterable
from itertools import cycle

from factories import many, report_of
from msgspec.structs import replace

from ci_evals.engine.breaker import REFUSALS, Breaker
from ci_evals.errors import ErrorKind, ProviderError
from ci_evals.model import Result, RunError, Variant
from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.verdict.gate import decide
from ci_evals.verdict.unanswered import same_reason

BAD_KEY = RunError("auth", "api.openai.com answered 401: Incorrect API key", status=401)
GIVEN_UP = RunError("given_up", f"given up after 5 failures in a row: {BAD_KEY.message}")


def failing_with(*errors: RunError) -> Callable[[Result], Result]:
    """Give errored results these errors in turn."""
    turns = cycle(errors)
    return lambda result: replace(result, error=next(turns)) if result.status == "errored" else result


def reason_of(report: Report, gate: Gate | None = None) -> str:
    verdict = decide(report, gate)
    assert verdict.status == "error"
    return verdict.reason


def errored_with(*errors: RunError, cases: Iterable[str] = ("EEE",)) -> str:
    return reason_of(report_of(many(*((1, runs) for runs in cases)), edit=failing_with(*errors)))


def test_the_only_run_is_called_so() -> None:
    assert errored_with(BAD_KEY, cases=["E"]) == f"the only run errored: {BAD_KEY.message}"


def test_runs_that_were_given_up_have_the_reason_of_those_before_them() -> None:
    assert errored_with(BAD_KEY, GIVEN_UP, GIVEN_UP) == f"all 3 runs errored: {BAD_KEY.message}"
    assert errored_with(GIVEN_UP) == f"all 3 runs errored: {GIVEN_UP.message}"


def test_runs_that_were_given_up_count_for_the_reason_of_those_before_them() -> None:
    other = RunError("rejected", "api.openai.com answered 400: no such parameter", status=400)
    told = errored_with(other, GIVEN_UP, other, BAD_KEY, GIVEN_UP, cases=["E" * 5] * 2)
    assert told == f"all 10 runs errored; most often: {BAD_KEY.message}"


def test_of_several_reasons_the_commonest_is_told() -> None:
    slow = [RunError("timeout", f"agent-{port} did not answer within 5 s") for port in (1, 2)]
    told = "all 9 runs errored; most often: agent-1 did not answer within 5 s"
    assert errored_with(slow[0], BAD_KEY, slow[1], cases=["EEE"] * 3) == told


def test_a_run_that_was_stopped_may_have_no_other_runs() -> None:
    told = f"no run was graded, 2 errored: {BAD_KEY.message}; stopped after 2 of 3 runs"
    assert errored_with(BAD_KEY, cases=["EE."]) == told


def test_an_error_without_words_is_told_by_its_kind() -> None:
    assert errored_with(RunError("network", " ")) == "all 3 runs errored: network"


def test_the_only_variant_with_errors_is_named() -> None:
    variants = (Variant("gpt"), Variant("claude"))
    several = report_of({"a": ["PPPP", "EEEE"]}, variants=variants, edit=failing_with(BAD_KEY))
    found = "4 of 8 runs errored (50 %, all on claude), more than the 5 % that the gate allows"
    assert reason_of(several) == f"{found}: {BAD_KEY.message}"
    single = report_of({"a": ["PPPP", "PPPE"]}, variants=variants, edit=failing_with(BAD_KEY))
    assert reason_of(single).startswith("1 of 8 runs errored (12.5 %, on claude), more than ")
    both = report_of({"a": ["PPPE", "PPPE"]}, variants=variants, edit=failing_with(BAD_KEY))
    assert reason_of(both).startswith("2 of 8 runs errored (25 %), more than ")


def test_what_others_wrote_stays_in_one_short_line_and_in_its_place() -> None:
    hostile = RunError("server", "\x1b[2J\n::error::owned\r\u05d0\u05d1 " + "x" * 1000)
    told = errored_with(hostile)
    assert told.replace("\u200e", "").isprintable()
    assert len(told) < 150
    assert told.startswith("all 3 runs errored: \u200e'\\x1b[2J ::error::owned \u05d0\u05d1 x")
    assert told.endswith("x…\u200e")


REFUSED = RunError("network", "no answer from localhost:8000: the connection was refused")


def all_failed_with(*errors: RunError | None, runs: str = "FFFF", gate: Gate | None = None) -> str:
    turns = cycle(errors)
    report = report_of({"a": runs}, edit=lambda result: replace(result, error=next(turns)))
    return decide(report, gate).reason


def test_where_no_run_failed_by_its_answer_it_is_said_why_there_was_none() -> None:
    found = "4 of 4 runs failed, and every run must pass"
    assert all_failed_with(REFUSED) == f"{found}: {REFUSED.message}"
    assert all_failed_with(REFUSED, REFUSED, BAD_KEY) == f"{found}; most often: {REFUSED.message}"
    assert all_failed_with(REFUSED, runs="FF..") == (
        f"2 of 2 runs failed, and every run must pass: {REFUSED.message}; stopped after 2 of 4 runs"
    )
    below = "pass rate 0 % is below the bar of 90 % (95 % sure: at most 52.7 %)"
    assert all_failed_with(REFUSED, gate=Gate(min_pass_rate=0.9)) == f"{below}: {REFUSED.message}"


def test_an_outage_that_settled_the_verdict_is_named() -> None:
    failed = report_of(many((16, "F"), (64, ".")), edit=lambda result: replace(result, error=REFUSED), settled="fail")
    told = "at least 16 failures, stopped at 16 of 80 runs: the bar of 90 % is out of reach"
    assert decide(failed, Gate(min_pass_rate=0.9)).reason == f"{told}: {REFUSED.message}"
    graded = report_of(many((16, "F"), (64, ".")), settled="fail")
    assert decide(graded, Gate(min_pass_rate=0.9)).reason == told


def test_where_some_run_had_an_answer_nothing_is_said_of_the_others() -> None:
    assert all_failed_with(REFUSED, None) == "4 of 4 runs failed, and every run must pass"
    assert all_failed_with(REFUSED, runs="PFFF") == "3 of 4 runs failed, and every run must pass"


def test_reasons_that_differ_by_words_with_digits_are_one() -> None:
    def reason(message: str, kind: ErrorKind = "server") -> object:
        return same_reason(RunError(kind, message))

    assert reason("request req-1a: try again in 5 s") == reason("request req-77: try again in 12.5 s")
    assert reason("api-1 answered 500: busy") == reason("api-2 answered 500: busy")
    assert reason("api-1 answered 500: busy") != reason("api-1 answered 529: busy")
    assert reason("exit status 3: out of memory") != reason("exit status 4: out of memory")
    assert reason("lost") != reason("gone")
    assert reason("") != reason("", kind="network")


def test_a_run_that_was_given_up_is_one_with_those_that_were_not() -> None:
    breaker = Breaker(limit=1, attempts=1)
    for _ in range(REFUSALS):
        breaker.gave_up(ProviderError("auth", BAD_KEY.message, status=BAD_KEY.status))
    assert breaker.state == "open"
    assert same_reason(RunError("given_up", breaker.reason)) == same_reason(BAD_KEY)
    judged = RunError("given_up", f"grader llm_rubric could not judge: {breaker.reason}")
    assert same_reason(judged) == same_reason(RunError("auth", f"grader llm_rubric could not judge: {BAD_KEY.message}"))
