"""A variant that is better as a whole waives what is worse on it, with `on_regression: net`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from factories import report_of
from sides import base_of, head_of

from ci_evals.gate.baseline import Baseline, ReportedCell
from ci_evals.gate.compare import Comparison, compare, next_runs
from ci_evals.gate.confirmation import FurtherRuns
from ci_evals.gate.rules import RuleVerdict, rule_verdicts
from ci_evals.gate.verdict import decide, exit_code
from ci_evals.model.plan import CellKey
from ci_evals.model.report import MainNow, Outcome
from ci_evals.model.rules import Gate
from ci_evals.stats.thresholds import RISE_P

NET = Gate(on_regression="net")
MAIN = MainNow(name="main (0123456)")
CONFIRM_RUNS = 10

STEADY = "steady"
"""A case passes on main, here, and on main now."""
DIES = "dies"
"""It passes on main, and on main now, but not here."""
GAINS = "gains"
"""It passes here, but not on main, nor on main now."""
VENDOR = "vendor"
"""It passes here, and on main now, but not in main's reports."""

ON_MAIN = {STEADY: True, DIES: True, GAINS: False, VENDOR: False}
ON_MAIN_NOW = {STEADY: True, DIES: True, GAINS: False, VENDOR: True}
HERE = {STEADY: True, DIES: False, GAINS: True, VENDOR: True}

Cases = Sequence[str]
"""What becomes of each case of a variant."""


class PullRequest:
    """A pull request that is run until nothing more can be said.

    Args:
        variants: what becomes of the cases of each variant.
        rules: those that it is judged by.
        main_runs: main's code runs, too.
        critical: the numbers of the critical cases.
    """

    def __init__(
        self,
        variants: Mapping[str, Cases],
        rules: Gate = NET,
        *,
        main_runs: bool = False,
        critical: Sequence[int] = (),
    ) -> None:
        self.rules = rules
        self.main_now = MAIN if main_runs else None
        self.fates: dict[CellKey, str] = {}
        self.steps: list[FurtherRuns] = []
        self.cells: list[ReportedCell] = []
        bases: list[Baseline] = []
        for name, cases in variants.items():
            planned = {str(number): (3 * HERE[fate], 3) for number, fate in enumerate(cases)}
            history = {str(number): (30 * ON_MAIN[fate], 30) for number, fate in enumerate(cases)}
            for cell, fate in zip(head_of(planned, provider=name), cases, strict=True):
                self.fates[cell.key] = fate
                is_critical = int(cell.case.id) in critical
                self.cells.append(replace(cell, critical=is_critical))
            bases.append(base_of(history, provider=name))
        cells = {key: cell for base in bases for key, cell in base.cells.items()}
        self.base = replace(bases[0], cells=cells)
        while step := next_runs(self.cells, self.base, CONFIRM_RUNS, rules, main_now=self.main_now):
            self.steps.append(step)
            self.cells = [
                self.run_again(cell, step.runs.get(cell.key, 0), on_main=step.on_main)
                for cell in self.cells
            ]

    def run_again(self, cell: ReportedCell, count: int, *, on_main: bool) -> ReportedCell:
        fate = self.fates[cell.key]
        main_now = dict(cell.main_now)
        if on_main:
            made = range(len(cell.repeats), len(cell.repeats) + count)
            main_now |= dict.fromkeys(made, Outcome(ON_MAIN_NOW[fate]))
        repeats = (*cell.repeats, *[Outcome(HERE[fate])] * count)
        return replace(cell, repeats=repeats, main_now=main_now)

    @property
    def comparison(self) -> Comparison:
        return compare(
            self.cells,
            self.base,
            confirm_runs=CONFIRM_RUNS,
            rules=self.rules,
            main_now=self.main_now,
        )

    @property
    def verdicts(self) -> list[RuleVerdict]:
        report = report_of(dict.fromkeys(map(str, range(40)), "PPP"))
        return list(rule_verdicts(report, self.rules, self.comparison))

    @property
    def found(self) -> list[tuple[str, str]]:
        return [(each.rule, each.status) for each in self.verdicts]

    @property
    def reasons(self) -> list[str]:
        return [step.why for step in self.steps]


def cases(*, dies: int = 0, gains: int = 0, vendor: int = 0) -> Cases:
    """Forty cases, of which so many change."""
    changed = [DIES] * dies + [GAINS] * gains + [VENDOR] * vendor
    return changed + [STEADY] * (40 - len(changed))


@pytest.mark.parametrize("main_runs", [False, True], ids=["history", "main-runs"])
def test_a_sure_rise_waives_what_is_worse(*, main_runs: bool) -> None:
    upgrade = {"agent": cases(dies=2, gains=12)}
    assert PullRequest(upgrade, Gate(), main_runs=main_runs).found == [("regressions", "fail")]
    made = PullRequest(upgrade, main_runs=main_runs)
    assert made.found == [("waived", "borderline")]
    [variant] = made.comparison.variants
    assert variant.better
    assert not variant.fell
    assert variant.further_rounds
    assert variant.head_rate - variant.base_rate == pytest.approx(0.25)
    assert {case for case, *_ in made.comparison.waived} == {"0", "1"}
    [waived] = made.verdicts
    assert waived.sentence.startswith(
        "2 cases are waived (on_regression: net): pass rate 70 % on main, 95 % here over 40 cases,"
        " with 3 further rounds; better as a whole, p < 1e-09"
    )
    assert waived.sentence.endswith("95 % here, 70 % on main (0123456) in the same minutes") == (
        main_runs
    )


def test_a_waived_case_is_borderline_as_the_gate_takes_it() -> None:
    made = PullRequest({"agent": cases(dies=1, gains=5)})
    report = report_of(dict.fromkeys(map(str, range(40)), "PPP"))
    verdict = decide(report, NET, made.comparison)
    assert (verdict.status, exit_code(verdict, NET)) == ("borderline", 0)
    strict = replace(NET, on_borderline="fail")
    assert exit_code(decide(report, strict, made.comparison), strict) == 1
    assert not verdict.blocking_cells


def test_a_likely_rise_gets_further_rounds() -> None:
    likely = PullRequest({"agent": cases(dies=1, gains=2)})
    assert likely.reasons == ["suspects", "candidates", "maybe better"]
    assert likely.steps[-1].variants == [cell.variant for cell in likely.cells[:1]]
    assert set(likely.steps[-1].runs.values()) == {3}
    assert len(likely.steps[-1].runs) == 39, "the case that is named has enough runs"
    unlikely = PullRequest({"agent": cases(dies=1, gains=1)})
    assert unlikely.reasons == ["suspects", "candidates"]
    assert unlikely.found == [("regressions", "fail")]
    assert PullRequest({"agent": cases(gains=5)}).reasons == [], "there is nothing to waive"


def test_what_is_better_runs_on_both_sides_where_main_runs() -> None:
    made = PullRequest({"agent": cases(dies=1, gains=5)}, main_runs=True)
    assert made.reasons == ["suspects", "candidates", "maybe better", "maybe better"]
    assert [step.on_main for step in made.steps] == [False, True, False, True]
    assert {len(cell.main_now) for cell in made.cells} == {3, 10}


def test_where_main_rose_as_well_nothing_is_waived() -> None:
    vendor = {"agent": cases(dies=1, vendor=5)}
    made = PullRequest(vendor, main_runs=True)
    assert made.reasons[-1] == "maybe better"
    assert made.found == [("regressions", "fail")]
    level = PullRequest({"agent": cases(dies=2, gains=2, vendor=5)}, main_runs=True)
    assert level.found == [("regressions", "fail")], "no better than main now"
    assert PullRequest(vendor).found == [("waived", "borderline")], "nobody knows it"


@pytest.mark.parametrize("main_runs", [False, True], ids=["history", "main-runs"])
def test_a_critical_case_is_not_waived_and_nothing_is_spent(*, main_runs: bool) -> None:
    made = PullRequest({"agent": cases(dies=2, gains=12)}, main_runs=main_runs, critical=[0])
    assert made.found == [("critical", "fail"), ("regressions", "fail")]
    assert "maybe better" not in made.reasons
    assert not made.comparison.waived


def test_what_no_variant_waives_is_red_and_nothing_is_spent() -> None:
    variants = {"agent": [DIES, *cases(gains=12)[1:]], "other": [STEADY, DIES, *cases()[2:]]}
    made = PullRequest(variants)
    assert made.found == [("regressions", "fail")]
    assert "maybe better" not in made.reasons


def test_only_what_is_not_waived_counts_for_max_regressions() -> None:
    variants = {
        "agent": [DIES, *cases(gains=12)[1:39], GAINS],
        "other": [STEADY, DIES, *cases()[2:]],
    }
    made = PullRequest(variants, replace(NET, max_regressions=1))
    assert made.found == [("waived", "borderline")]
    better, other = made.comparison.variants
    assert (better.better, other.better) == (True, False)
    assert {case for case, *_ in made.comparison.waived} == {"0"}


def test_what_the_gate_allows_needs_no_waiver() -> None:
    made = PullRequest({"agent": cases(dies=2, gains=12)}, replace(NET, max_regressions=2))
    assert made.found == []
    assert made.reasons == ["suspects", "candidates"]
    assert not made.comparison.waived


def test_a_case_of_several_variants_is_waived_if_all_of_these_are_better() -> None:
    better = [DIES, *[GAINS] * 12, *[STEADY] * 27]
    level = [DIES, *[STEADY] * 39]
    both = PullRequest({"agent": better, "other": better})
    assert both.found == [("waived", "borderline")]
    one = PullRequest({"agent": better, "other": level})
    assert one.found == [("regressions", "fail")]
    assert not one.comparison.waived
    elsewhere = PullRequest({"agent": better, "other": [STEADY] * 40})
    assert elsewhere.found == [("waived", "borderline")]


def test_without_further_runs_the_planned_ones_decide() -> None:
    head = head_of({str(n): (10 * HERE[fate], 10) for n, fate in enumerate(cases(dies=1, gains=6))})
    base = base_of(
        {str(n): (30 * ON_MAIN[fate], 30) for n, fate in enumerate(cases(dies=1, gains=6))}
    )
    found = compare(head, base, confirm_runs=0, rules=NET)
    [variant] = found.variants
    assert variant.better
    assert not variant.further_rounds
    assert {case for case, *_ in found.waived} == {"0"}


def test_further_rounds_that_are_missing_waive_nothing() -> None:
    """A shard makes none, and its merge calls nothing."""
    made = PullRequest({"agent": cases(dies=1, gains=12)}, Gate())
    found = compare(made.cells, made.base, confirm_runs=CONFIRM_RUNS, rules=NET)
    assert found.counts["regressed"] == 1
    assert not found.waived
    step = next_runs(made.cells, made.base, CONFIRM_RUNS, NET, is_whole=False)
    assert step is None


def test_what_main_had_gained_before_waives_nothing() -> None:
    """Its newest reports are above all older ones, so only these count for the variant."""
    fates = cases(dies=1, gains=12)
    gained = [(3, 3)] * 3 + [(0, 3)] * 7
    histories = {str(n): gained if fate == GAINS else [(3, 3)] * 10 for n, fate in enumerate(fates)}
    planned = {str(n): (3 * HERE[fate], 3) for n, fate in enumerate(fates)}
    again = {str(n): (3 * HERE[fate], 3) for n, fate in enumerate(fates)} | {"0": (0, 14)}
    head = head_of(planned, again)
    lately = compare(head, base_of(histories), confirm_runs=CONFIRM_RUNS, rules=NET)
    assert (lately.counts["regressed"], lately.waived) == (1, frozenset())
    never = {case: (0, 30) if runs == gained else (30, 30) for case, runs in histories.items()}
    found = compare(head, base_of(never), confirm_runs=CONFIRM_RUNS, rules=NET)
    assert {case for case, *_ in found.waived} == {"0"}


def test_reports_of_main_that_vary_widen_the_test_of_a_rise() -> None:
    fates = cases(dies=1, gains=3)
    head = head_of(
        {str(n): (3 * HERE[fate], 3) for n, fate in enumerate(fates)},
        {str(n): (3 * HERE[fate], 3) for n, fate in enumerate(fates)} | {"0": (0, 14)},
    )
    steady = {str(n): [(3 * ON_MAIN[fate], 3)] * 10 for n, fate in enumerate(fates)}
    wobbling = {
        case: [(1, 3) if int(case) > 30 and age % 2 else runs for age, runs in enumerate(reports)]
        for case, reports in steady.items()
    }
    ps = []
    for histories in (steady, wobbling):
        base = base_of(histories)
        [variant] = compare(head, base, confirm_runs=CONFIRM_RUNS, rules=NET).variants
        assert variant.rise_p is not None
        ps.append(variant.rise_p)
        assert variant.better == (variant.rise_p <= RISE_P)
    assert ps[0] < 1e-6 < ps[1]
