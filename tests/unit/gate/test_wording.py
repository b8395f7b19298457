"""The sentences on cells, variants, the baseline, and runs without an answer."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import cycle

import pytest
from factories import many, report_of
from sides import base_of, compared, head_of, key_of

from ci_evals.faults import ErrorKind
from ci_evals.gate.run_errors import same_reason
from ci_evals.gate.verdict import decide
from ci_evals.gate.wording.bases import baseline_sentence
from ci_evals.gate.wording.comparisons import cell_sentence, variant_sentence
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate


@pytest.mark.parametrize(
    ("head", "more", "base", "sentence"),
    [
        (
            (0, 3),
            (4, 7),
            (30, 30),
            "a: 30 of 30 on main, 4 of 10 here; p = 5.5e-05 (by chance, once in 18,000)",
        ),
        (
            (2, 3),
            None,
            (30, 30),
            "a: 30 of 30 on main, 2 of 3 here: can't tell",
        ),
        (
            (0, 3),
            None,
            (30, 30),
            (
                "a: 30 of 30 on main, 0 of 3 here: probably worse (p = 0.00018), "
                "but not confirmed by further runs"
            ),
        ),
        (
            (2, 3),
            None,
            (20, 30),
            "a: 20 of 30 on main, 2 of 3 here: answers vary from run to run, no change detected",
        ),
        ((0, 1), None, (1, 1), "a: 1 of 1 on main, 0 of 1 here: too few runs to call it a change"),
        ((3, 3), None, (30, 30), "a: 30 of 30 on main, 3 of 3 here: unchanged"),
        ((0, 0), None, (30, 30), "a: not compared: no new run was graded here"),
        ((3, 3), None, (0, 0), "a: not compared: no new run was graded on main"),
    ],
)
def test_every_kind_has_its_sentence(
    head: tuple[int, int], more: tuple[int, int] | None, base: tuple[int, int], sentence: str
) -> None:
    comparison = compared(
        head_of({"a": head}, {} if more is None else {"a": more}), base_of({"a": base})
    )
    assert cell_sentence(comparison, comparison.by_key[key_of("a")]) == sentence


def test_cases_of_one_side_and_renamed_ones() -> None:
    comparison = compared(
        head_of({"new": (3, 3), "q/2": (3, 3)}), base_of({"old": (2, 3), "q/1": (3, 3)})
    )
    assert [cell_sentence(comparison, cell) for cell in comparison.cells] == [
        "q/2 (was q/1): 3 of 3 on main, 3 of 3 here: unchanged",
        "new: new, 3 of 3 here",
        "old: removed, 2 of 3 on main",
    ]


def test_a_drop_that_chance_hardly_explains_is_probable_unless_it_had_enough_runs() -> None:
    steady = {f"case {number}": (3, 3) for number in range(39)}

    def sentence(base_runs: int, head: tuple[int, int], more: tuple[int, int]) -> str:
        base = base_of(dict.fromkeys(("a", *steady), (base_runs, base_runs)))
        comparison = compared(head_of({"a": head} | steady, {"a": more}), base)
        return cell_sentence(comparison, comparison.by_key[key_of("a")])

    assert sentence(3, (0, 3), (0, 7)) == (
        "a: 3 of 3 on main, 0 of 10 here: probably worse (p = 0.0035), but too few runs to name it"
    )
    assert sentence(30, (1, 3), (6, 7)) == (
        "a: 30 of 30 on main, 7 of 10 here: can't tell; p = 0.49, adjusted for 40 cases"
    )


def test_a_variant_is_named_where_there_are_several() -> None:
    head = head_of({"a": (3, 3)}, provider="one") + head_of({"a": (3, 3)}, provider="two")
    comparison = compared(head, base_of({"a": (3, 3)}, provider="one"))
    assert cell_sentence(comparison, comparison.cells[0]).startswith("a on one: ")
    text = variant_sentence(comparison, comparison.variants[0])
    assert text == "one: pass rate 100 % on main, 100 % here over 1 case: no change"


def test_the_baseline_is_told_with_its_age_and_depth() -> None:
    comparison = compared(head_of({"a": (3, 3)}), base_of({"a": [(3, 3)] * 6}))
    text = (
        "compared with main at 0123456, 3 hours older, and 5 reports before it (18 runs per case)"
    )
    assert str(baseline_sentence(comparison, 1000.0 + 3 * 3600)) == text
    for age, told in (
        (1, "1 second"),
        (180, "3 minutes"),
        (86_400, "24 hours"),
        (2 * 86_400, "2 days"),
    ):
        assert f", {told} older, " in str(baseline_sentence(comparison, 1000.0 + age))
    single = compared(head_of({"a": (3, 3)}), base_of({"a": (1, 1)}))
    assert (
        str(baseline_sentence(single, 1180.0))
        == "compared with main at 0123456, 3 minutes older (1 run per case)"
    )
    uneven = compared(head_of({"a": (3, 3), "b": (3, 3)}), base_of({"a": (1, 1), "b": (3, 3)}))
    assert str(baseline_sentence(uneven, 1180.0)).endswith("(up to 3 runs per case)")


def test_a_comparison_of_nothing_says_why() -> None:
    others = compared(
        head_of({"a": (3, 3)}) + head_of({"a": (3, 3)}, provider="b"), base_of({"a": (3, 3)}, "old")
    )
    assert (
        str(baseline_sentence(others, 0))
        == "nothing to compare: main has other providers or prompts (old)"
    )
    ungraded = compared(head_of({"a": (0, 0)}), base_of({"a": (3, 3)}))
    expected = "nothing to compare: no case that is the same here and on main was graded on both"
    assert str(baseline_sentence(ungraded, 0)) == expected


# Runs without an answer: how many, of which variant, and their commonest reason.


BAD_KEY = RunError("auth", "api.openai.com answered 401: Incorrect API key", status=401)
GIVEN_UP = RunError(
    "given_up", f"given up after 5 failures in a row: {BAD_KEY.message}", cause=BAD_KEY.message
)


def failing_with(*errors: RunError) -> Callable[[Result], Result]:
    """Give errored results these errors in turn."""
    turns = cycle(errors)
    return lambda result: (
        replace(result, error=next(turns)) if result.status == "errored" else result
    )


def reason_of(report: SuiteReport, gate: Gate | None = None) -> str:
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
    assert told.startswith("all 3 runs errored: \u200e\\x1b[2J ::error::owned \u05d0\u05d1 x")
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
    below = "pass rate 0 % is below the bar of 90 % (at most 52.7 %, 95 % confidence)"
    assert all_failed_with(REFUSED, gate=Gate(min_pass_rate=0.9)) == f"{below}: {REFUSED.message}"


def test_an_outage_that_settled_the_verdict_is_named() -> None:
    failed = report_of(
        many((16, "F")), edit=lambda result: replace(result, error=REFUSED), settled="fail"
    )
    told = "pass rate 0 % is below the bar of 90 % (at most 17.1 %, 95 % confidence)"
    stopped = "; stopped after 1 round: the rest could not change the verdict"
    assert decide(failed, Gate(min_pass_rate=0.9)).reason == f"{told}: {REFUSED.message}{stopped}"
    graded = report_of(many((16, "F")), settled="fail")
    assert decide(graded, Gate(min_pass_rate=0.9)).reason == told + stopped


def test_where_some_run_had_an_answer_nothing_is_said_of_the_others() -> None:
    assert all_failed_with(REFUSED, None) == "4 of 4 runs failed, and every run must pass"
    assert all_failed_with(REFUSED, runs="PFFF") == "3 of 4 runs failed, and every run must pass"


def test_reasons_that_differ_by_words_with_digits_are_one() -> None:
    def reason(message: str, kind: ErrorKind = "server") -> object:
        return same_reason(RunError(kind, message))

    assert reason("request req-1a: try again in 5 s") == reason(
        "request req-77: try again in 12.5 s"
    )
    assert reason("api-1 answered 500: busy") == reason("api-2 answered 500: busy")
    assert reason("api-1 answered 500: busy") != reason("api-1 answered 529: busy")
    assert reason("exit status 3: out of memory") != reason("exit status 4: out of memory")
    assert reason("lost") != reason("gone")
    assert reason("") != reason("", kind="network")


def test_a_run_that_was_given_up_is_one_with_those_that_were_not() -> None:
    assert same_reason(GIVEN_UP) == same_reason(BAD_KEY)
    silent = "grader llm_rubric could not judge: gpt did not answer"
    judged = RunError("judge", f"{silent}: {BAD_KEY.message}", cause=BAD_KEY.message)
    given_up = RunError("judge", f"{silent}: {GIVEN_UP.message}", cause=BAD_KEY.message)
    assert same_reason(judged) == same_reason(given_up)


def test_the_cause_of_an_outage_is_not_its_reason() -> None:
    outage = RunError("outage", "all 40 failures were in run 2", cause=BAD_KEY.message)
    assert same_reason(outage) != same_reason(BAD_KEY)
