"""Which earlier runs count, and what one report hands on to the next."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdict.sides import base_of, key_of

from ci_evals.verdict.history import (
    POOLED_RUNS,
    TREND_POINTS,
    BaseCell,
    Baseline,
    Evidence,
    History,
    Pool,
    ReportRef,
    TrendPoint,
    carried,
    joined,
    pooled,
    running_sums,
)


@pytest.mark.parametrize(
    ("evidence", "pool"),
    [
        ((), Pool(0, 0, 0)),
        (((0, 0),), Pool(0, 0, 0)),
        (((3, 3),) * 4, Pool(12, 12, 4)),
        (((3, 3),) * 40, Pool(30, 30, 10)),
        (((0, 0), (3, 3), (0, 0), (2, 3)), Pool(5, 6, 2)),
        (((50, 50), (3, 3)), Pool(50, 50, 1)),
        (((1, 1), (0, 1)), Pool(1, 2, 2)),
        (((3, 3), (3, 3), (0, 3), (3, 3)), Pool(6, 6, 2)),
    ],
    ids=["none", "ungraded", "few", "enough", "gaps", "one-large", "too-few-to-disagree", "changed"],
)
def test_reports_are_pooled_newest_first_while_they_agree(evidence: tuple[tuple[int, int], ...], pool: Pool) -> None:
    assert pooled(running_sums(evidence)) == pool


@given(st.lists(st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=20))
def test_no_more_reports_are_pooled_than_it_takes(evidence: list[tuple[int, int]]) -> None:
    pool = pooled(running_sums(evidence))
    assert 0 <= pool.passed <= pool.graded < POOLED_RUNS + 12
    graded = [each for each in evidence if each[1]]
    assert (pool.passed, pool.graded) == tuple(map(sum, zip((0, 0), *graded[: pool.reports], strict=True)))


def report(id: str, at: float, passed: int, graded: int, *older: Evidence, fingerprint: str = "f") -> Baseline:  # noqa: A002
    refs = (ReportRef(id, at), *(ReportRef(each.report, at - 1 - n) for n, each in enumerate(older)))
    cell = BaseCell(fingerprint, History((Evidence(id, passed, graded), *older)))
    return Baseline(suite="s", reports=refs, cells={key_of("a"): cell}, trend=(TrendPoint(refs[0], "c", ()),))


def evidence_in(baseline: Baseline) -> list[tuple[str, int, int]]:
    return [(each.report, each.passed, each.graded) for each in baseline.cells[key_of("a")].history.evidence]


def test_several_files_are_one_history_whatever_their_order() -> None:
    files = [report("new", 3, 3, 3), report("mid", 2, 2, 3), report("old", 1, 3, 3)]
    expected = [("new", 3, 3), ("mid", 2, 3), ("old", 3, 3)]
    assert evidence_in(joined(files)) == evidence_in(joined(files[::-1])) == expected
    assert [point.report.id for point in joined(files[::-1]).trend] == ["new", "mid", "old"]


def test_a_report_that_several_files_tell_of_counts_once() -> None:
    files = [report("new", 3, 3, 3, Evidence("old", 2, 3)), report("old", 2, 2, 3), report("old", 2, 2, 3)]
    assert evidence_in(joined(files)) == [("new", 3, 3), ("old", 2, 3)]
    assert len(joined(files).trend) == 2


def test_of_an_interrupted_report_and_the_one_that_went_on_the_fuller_counts() -> None:
    files = [report("one", 3, 1, 1), report("one", 3, 2, 3)]
    assert evidence_in(joined(files)) == evidence_in(joined(files[::-1])) == [("one", 2, 3)]


def test_only_the_same_case_is_pooled() -> None:
    files = [report("new", 3, 3, 3), report("mid", 2, 0, 3, fingerprint="edited"), report("old", 1, 3, 3)]
    assert evidence_in(joined(files)) == [("new", 3, 3), ("old", 3, 3)], "edited, and edited back"


def test_the_trend_is_as_long_as_it_may_be() -> None:
    assert len(joined([report(f"r{n}", n, 1, 1) for n in range(70)]).trend) == TREND_POINTS


def test_a_report_hands_on_what_its_successors_need_and_no_more() -> None:
    cell = base_of({"a": [(3, 3), (0, 0), *[(3, 3)] * 20]}).cells[key_of("a")]
    handed_on = carried(cell, "a")
    assert sum(each.graded for each in handed_on) == POOLED_RUNS
    assert all(each.graded for each in handed_on)


def test_nothing_is_handed_on_of_another_case() -> None:
    cell = base_of({"a": (3, 3)}).cells[key_of("a")]
    unknown = msgspec.structs.replace(cell, fingerprint=None)
    assert [carried(None, "a"), carried(cell, "b"), carried(cell, None), carried(unknown, "a")] == [()] * 4
