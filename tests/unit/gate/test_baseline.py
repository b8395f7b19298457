"""The two sides of a comparison: earlier runs that count, and the cells of a report."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from factories import report_of
from hypothesis import given
from hypothesis import strategies as st
from sides import base_of, key_of

from ci_evals.gate.baseline import (
    TREND_POINTS,
    UNMEASURED,
    BaseCell,
    Baseline,
    Evidence,
    History,
    PerRun,
    ReportRef,
    TrendPoint,
    evidence_to_keep,
    join,
    reported_cells,
)
from ci_evals.gate.history_only import recent_pool
from ci_evals.model.plan import plan_runs
from ci_evals.model.report import SuiteReport
from ci_evals.model.response import Response, Usage
from ci_evals.model.result import Result
from ci_evals.stats.differences import ScoreSums
from ci_evals.stats.thresholds import POOLED_RUNS


def history(evidence: Iterable[tuple[int, int]]) -> History:
    """What reports say of a cell, newest first, by (passed, graded) of each."""
    return History(tuple(Evidence(str(number), *each) for number, each in enumerate(evidence)))


@pytest.mark.parametrize(
    ("evidence", "full", "recent"),
    [
        ((), (0, 0), (0, 0)),
        (((0, 0),), (0, 0), (0, 0)),
        (((3, 3),) * 4, (12, 12), (12, 12)),
        (((3, 3),) * 40, (30, 30), (30, 30)),
        (((0, 0), (3, 3), (0, 0), (2, 3)), (5, 6), (5, 6)),
        (((50, 50), (3, 3)), (50, 50), (50, 50)),
        (((1, 1), (0, 1)), (1, 2), (1, 2)),
        (((3, 3), (3, 3), (0, 3), (3, 3)), (9, 12), (6, 6)),
    ],
    ids=[
        "none",
        "ungraded",
        "few",
        "enough",
        "gaps",
        "one-large",
        "too-few-to-disagree",
        "changed",
    ],
)
def test_all_reports_are_pooled_newest_first_and_the_newest_that_agree_by_themselves(
    evidence: tuple[tuple[int, int], ...], full: tuple[int, int], recent: tuple[int, int]
) -> None:
    found = history(evidence)
    assert (found.tally, recent_pool(found, None).tally) == (full, recent)


def test_the_recent_pool_ends_where_the_whole_variant_has_passed_less_since() -> None:
    found = history([(3, 3), (3, 3), (3, 3)])
    assert recent_pool(found, 2).tally == (6, 6)


@given(
    st.lists(
        st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=20
    )
)
def test_no_more_reports_are_pooled_than_it_takes(evidence: list[tuple[int, int]]) -> None:
    found = history(evidence)
    assert 0 <= found.tally.passed <= found.tally.graded < POOLED_RUNS + 12
    assert recent_pool(found, None).tally.graded <= found.tally.graded
    graded = [each for each in evidence if each[1]]
    assert found.tally == tuple(map(sum, zip((0, 0), *graded[: len(found.sums) - 1], strict=True)))


def report(
    id: str,  # noqa: A002
    at: float,
    passed: int,
    graded: int,
    *older: Evidence,
    fingerprint: str = "f",
) -> Baseline:
    refs = (
        ReportRef(id, at),
        *(ReportRef(each.report, at - 1 - n) for n, each in enumerate(older)),
    )
    cell = BaseCell(fingerprint, History((Evidence(id, passed, graded), *older)))
    return Baseline(
        suite="s", reports=refs, cells={key_of("a"): cell}, trend=(TrendPoint(refs[0], ()),)
    )


def evidence_in(baseline: Baseline) -> list[tuple[str, int, int]]:
    return [
        (each.report, each.passed, each.graded)
        for each in baseline.cells[key_of("a")].history.evidence
    ]


def test_several_files_are_one_history_whatever_their_order() -> None:
    files = [report("new", 3, 3, 3), report("mid", 2, 2, 3), report("old", 1, 3, 3)]
    expected = [("new", 3, 3), ("mid", 2, 3), ("old", 3, 3)]
    assert evidence_in(join(files)) == evidence_in(join(files[::-1])) == expected
    assert [point.report.id for point in join(files[::-1]).trend] == ["new", "mid", "old"]


def test_a_report_that_several_files_tell_of_counts_once() -> None:
    files = [
        report("new", 3, 3, 3, Evidence("old", 2, 3)),
        report("old", 2, 2, 3),
        report("old", 2, 2, 3),
    ]
    assert evidence_in(join(files)) == [("new", 3, 3), ("old", 2, 3)]
    assert len(join(files).trend) == 2


def test_of_an_interrupted_report_and_the_one_that_went_on_the_fuller_counts() -> None:
    files = [report("one", 3, 1, 1), report("one", 3, 2, 3)]
    assert evidence_in(join(files)) == evidence_in(join(files[::-1])) == [("one", 2, 3)]


def test_only_the_same_case_is_pooled() -> None:
    files = [
        report("new", 3, 3, 3),
        report("mid", 2, 0, 3, fingerprint="edited"),
        report("old", 1, 3, 3),
    ]
    assert evidence_in(join(files)) == [("new", 3, 3), ("old", 3, 3)], "edited, and edited back"


def test_the_trend_is_as_long_as_it_may_be() -> None:
    assert len(join([report(f"r{n}", n, 1, 1) for n in range(70)]).trend) == TREND_POINTS


def test_a_report_hands_on_what_its_successors_need_and_no_more() -> None:
    cell = base_of({"a": [(3, 3), (0, 0), *[(3, 3)] * 20]}).cells[key_of("a")]
    handed_on = evidence_to_keep(cell, "a")
    assert sum(each.graded for each in handed_on) == POOLED_RUNS
    assert all(each.graded for each in handed_on)


def test_a_report_hands_on_outages_that_lie_between() -> None:
    cell = base_of({"a": [(0, 3), (3, 3), (0, 3), *[(3, 3)] * 20]}).cells[key_of("a")]
    handed_on = evidence_to_keep(
        replace(cell, history=replace(cell.history, lost=frozenset(("report 0", "report 2")))), "a"
    )
    assert [each.passed for each in handed_on] == [0, 3, 0, *[3] * 9]


def test_nothing_is_handed_on_of_another_case() -> None:
    cell = base_of({"a": (3, 3)}).cells[key_of("a")]
    assert evidence_to_keep(None, "a") == evidence_to_keep(cell, "b") == ()


# The cells of a report.


def per_run_of(report: SuiteReport) -> PerRun:
    """The averages of the only cell of a report."""
    (cell,) = reported_cells(report, None)
    return cell.per_run


def graduated(result: Result) -> Result:
    """Runs that cost 1, 2, 4 and 8 dollars, take as many seconds, and tokens by the hundred."""
    amount = 2 ** (result.run - 1)
    response = Response(usage=Usage(90 * amount, 10 * amount))
    return replace(
        result, score=amount / 8, cost_usd=float(amount), latency_s=float(amount), response=response
    )


def test_a_run_comes_to_means_and_a_median_and_scores_are_summed_with_their_squares() -> None:
    scores, cost, tokens, latency_s = per_run_of(report_of({"a": "PFPF"}, edit=graduated))
    assert (scores, cost, tokens) == (ScoreSums(4, 15 / 8, 85 / 64), 15 / 4, 1500 / 4)
    assert latency_s == 3.0, "between the two in the middle"


@pytest.mark.parametrize("change", [{"status": "errored"}, {"recorded": True}])
def test_a_run_without_a_grade_and_one_that_repeats_a_record_take_no_part(
    change: dict[str, Any],
) -> None:
    def edit(result: Result) -> Result:
        return replace(graduated(result), **change) if result.run == 4 else graduated(result)

    report = report_of({"a": "PFPF"}, edit=edit)
    scores, cost, tokens, latency_s = per_run_of(report)
    assert (scores, cost, tokens) == (ScoreSums(3, 7 / 8, 21 / 64), 7 / 3, 700 / 3)
    assert latency_s == 2.0


def test_what_a_run_does_not_know_is_left_out_of_that_figure_alone() -> None:
    unknown: dict[int, dict[str, Any]] = {
        1: {"score": None},
        2: {"cost_usd": None},
        3: {"response": None},
    }
    report = report_of(
        {"a": "PFPF"}, edit=lambda result: replace(graduated(result), **unknown.get(result.run, {}))
    )
    scores, cost, tokens, latency_s = per_run_of(report)
    assert (scores, cost, tokens) == (ScoreSums(3, 14 / 8, 84 / 64), 13 / 3, 1100 / 3)
    assert latency_s == 3.0


def test_a_cell_without_graded_runs_comes_to_nothing() -> None:
    assert per_run_of(report_of({"a": "EE"})) == UNMEASURED


def test_cells_that_a_report_does_not_run_are_left_out_unless_asked_for() -> None:
    whole = report_of({"a": "P", "b": "P"})
    plan = plan_runs(whole.plan.cases, whole.plan.variants, 1, only={0})
    part = SuiteReport(
        whole.suite,
        plan,
        {0: whole.records[0]},
        lines=lambda _: iter(()),
        fingerprints=whole.fingerprints,
        started_at=0,
        duration_s=0,
    )
    assert [cell.key[0] for cell in reported_cells(part, None)] == ["a"]
    assert [(cell.key[0], cell.planned) for cell in reported_cells(part, None, unplanned=True)] == [
        ("a", (1, 1)),
        ("b", (0, 0)),
    ]
