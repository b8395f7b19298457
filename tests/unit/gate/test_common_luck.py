"""Which bounds allow for luck that cases share, and by how much."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from factories import AGENT, STARTED_AT, Outcome, baseline_of, many, report_of

from ci_evals.gate.bars import ScopeVerdict
from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    Evidence,
    History,
    ReportRef,
    evidence_to_keep,
)
from ci_evals.gate.verdict import Verdict, noise_of_base
from ci_evals.model.case import Variant
from ci_evals.model.rules import Gate
from ci_evals.reports.findings import findings
from ci_evals.reports.summary import summarize
from ci_evals.stats.overdispersion import overdispersion
from ci_evals.stats.rates import pass_rate
from ci_evals.stats.thresholds import KEPT_REPORTS

FAST, STRONG, OTHER = Variant("fast"), Variant("strong"), Variant("other")
SWINGING = [(3, 3), (1, 3)] * 5
SWAYING = [(3, 3), (2, 3), (2, 3)] * 4
STEADY = [(2, 3)] * 10
FACTOR = overdispersion([[counts] * 40 for counts in SWINGING])
CELLS: Mapping[str, Outcome | list[Outcome]] = many((30, "PPP"), (10, "PFF"))


def base_of(variants: Mapping[Variant, Sequence[tuple[int, int]]]) -> Baseline:
    """A baseline whose cases all have these runs in its reports, newest first."""
    refs = tuple(ReportRef(f"report {number}", -float(number)) for number in range(20))
    cells = {}
    for case in CELLS:
        for variant, counts in variants.items():
            pairs = zip(refs, counts, strict=False)
            history = History(tuple(Evidence(ref.id, *each) for ref, each in pairs))
            cells[case, variant.provider, variant.prompt] = BaseCell("another question", history)
    return Baseline(suite="test", reports=refs, cells=cells)


def verdict_of(base: Baseline, gate: Gate, variants: Sequence[Variant], **options: Any) -> Verdict:
    report = report_of(CELLS, variants=variants, **options)
    return summarize(report, gate, base).verdict


def factor_in(scope: ScopeVerdict) -> float:
    """By how much the bounds of a scope are wider than those of independent runs."""
    cells = [(3, 3)] * 30 + [(1, 3)] * 10
    estimate = pass_rate(cells * (scope.graded // 120))
    if scope.kind == "case":
        estimate = pass_rate([(1, 3), (1, 3)])
    assert estimate is not None
    for factor in (1.0, FACTOR):
        if estimate.widen(factor).bounds(scope.confidence).upper == pytest.approx(scope.upper):
            return factor
    raise AssertionError(scope)


def test_all_parts_with_a_variant_that_swings_have_wider_bounds_and_single_cases_do_not() -> None:
    cases: dict[str, dict[str, Any]] = {case: {"tags": ("all",)} for case in CELLS}
    last = list(CELLS)[-1]
    cases[last] |= {"min_pass_rate": 0.5}
    gate = Gate(
        min_pass_rate=0.8,
        per_variant=True,
        tags={"all": 0.8},
        providers={"fast": 0.8, "strong": 0.8},
    )
    base = base_of({FAST: SWINGING, STRONG: STEADY})
    verdict = verdict_of(base, gate, [FAST, STRONG], cases=cases)
    assert [(scope.kind, scope.name, factor_in(scope)) for scope in verdict.scopes] == [
        ("suite", "capitals", FACTOR),
        ("variant", "fast", FACTOR),
        ("variant", "strong", 1.0),
        ("provider", "fast", FACTOR),
        ("provider", "strong", 1.0),
        ("tag", "all", FACTOR),
        ("case", last, 1.0),
    ]


def test_a_variant_that_was_renamed_swings_as_it_did() -> None:
    verdict = verdict_of(base_of({OTHER: SWINGING}), Gate(min_pass_rate=0.8), [FAST])
    assert factor_in(verdict.scopes[0]) == FACTOR


def test_a_variant_that_the_base_lacks_has_the_bounds_of_independent_runs() -> None:
    base = base_of({FAST: SWINGING, OTHER: SWINGING})
    report = report_of(CELLS, variants=[FAST, STRONG, AGENT])
    assert noise_of_base(report, base).overdispersion == {FAST: FACTOR}


def test_runs_that_are_needed_are_more_where_bounds_are_wider() -> None:
    gate = Gate(min_pass_rate=0.87)
    [alone] = verdict_of(base_of({FAST: STEADY}), gate, [FAST]).scopes
    [swinging] = verdict_of(base_of({FAST: SWAYING}), gate, [FAST]).scopes
    assert (alone.status, swinging.status) == ("borderline", "borderline")
    assert alone.runs_needed is not None
    assert swinging.runs_needed is not None
    assert swinging.runs_needed > 2 * alone.runs_needed


@pytest.mark.parametrize("runs", [1, 3, 10, 100])
def test_what_a_report_hands_on_shows_how_much_reports_vary(runs: int) -> None:
    swinging = [(runs, runs), (0, runs)] * 10
    base = base_of({FAST: swinging})
    cells = {}
    for key, cell in base.cells.items():
        kept = evidence_to_keep(cell, cell.fingerprint)
        assert len(kept) == max(KEPT_REPORTS, min(20, 30 // runs))
        cells[key] = BaseCell(cell.fingerprint, History(kept))
    handed_on = Baseline(suite="test", reports=base.reports, cells=cells)
    assert handed_on.overdispersion == base.overdispersion


def test_of_several_variants_the_one_that_swings_most_is_named() -> None:
    report = report_of(CELLS, variants=[FAST, STRONG])
    summary = summarize(report, None, base_of({FAST: SWINGING, STRONG: SWAYING}))
    notes = {note.label: note.text for note in findings(summary).notes}
    assert notes["Common luck"] == (
        f"reports of the baseline on fast vary {FACTOR:.1f} times as much as independent runs, so "
        "bounds are wider"
    )


def test_reports_that_hardly_vary_more_are_not_worth_a_note() -> None:
    report = report_of(CELLS, variants=[FAST])
    summary = summarize(report, None, base_of({FAST: STEADY}))
    notes = {note.label: note.text for note in findings(summary).notes}
    assert "Common luck" not in notes
    assert "taken as independent" not in notes["Ranges"]


def test_a_single_case_is_not_said_to_be_independent_of_others() -> None:
    for cells, is_said in (({"a": "PPP", "b": "PPP"}, True), ({"a": "PPP"}, False)):
        older = report_of(cells, started_at=STARTED_AT - 3600)
        summary = summarize(report_of(cells), None, baseline_of(older))
        (note,) = [note for note in findings(summary).notes if note.label == "Ranges"]
        assert ("cases are taken as independent" in note.text) is is_said
