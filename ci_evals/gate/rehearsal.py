"""What the gate would say: of pull requests drawn at random, and of stored reports.

Both are judged by the functions that judge real pull requests.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean
from typing import NamedTuple

from ci_evals.gate.baseline import BaseCell, Baseline, Evidence, History, ReportedCell, ReportRef
from ci_evals.gate.cells import cell_key
from ci_evals.gate.compare import Comparison, compare, next_runs
from ci_evals.gate.outages import find_lost_reports
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Counts, MainNow, Outcome, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.thresholds import (
    ASSUMED_FAILURES,
    ASSUMED_PASSES,
    KEPT_REPORTS,
    MAX_SIMULATED,
    MAX_SIMULATED_CELLS,
    MIN_SIMULATED,
    POOLED_RUNS,
    POWER,
)

Again = Callable[[int], Outcome | None]
"""Makes one more run of the cell with this index in the head."""


def run_to_the_end(
    head: Sequence[ReportedCell],
    base: Baseline,
    again: Again,
    on_main: Again | None,
    *,
    confirm_runs: int,
    rules: Gate,
) -> tuple[Sequence[ReportedCell], Comparison]:
    """Make all further runs that the gate asks for; return the cells with them, and the comparison.

    Args:
        head: the cells of a report, without further runs.
        base: the baseline.
        again: makes one more run of a cell.
        on_main: makes one of main's code; None where it can't be run.
        confirm_runs: how many runs name a candidate.
        rules: those that the head is judged by.
    """
    head = list(head)
    main_now = MainNow(name="main") if on_main is not None else None
    while step := next_runs(head, base, confirm_runs, rules, main_now=main_now):
        for index, cell in enumerate(head):
            made, more = len(cell.repeats), step.runs.get(cell.key, 0)
            pairs = dict(cell.main_now)
            if step.on_main and on_main is not None:
                pairs |= {number: on_main(index) for number in range(made, made + more)}
            repeats = (*cell.repeats, *(again(index) for _ in range(more)))
            head[index] = replace(cell, repeats=repeats, main_now=pairs)
    compared = compare(head, base, confirm_runs=confirm_runs, rules=rules, main_now=main_now)
    return head, compared


class Judged(NamedTuple):
    """What a gate says of a comparison.

    Args:
        worse: something got worse, by more than the gate allows.
        red: the gate blocks that; with `on_regression: warn`, only where a case is critical.
    """

    worse: bool
    red: bool


def judge(comparison: Comparison, rules: Gate) -> Judged:
    """Judge a comparison by the rules on regressions."""
    named = [cell for cell in comparison.select("regressed") if cell.key not in comparison.waived]
    critical = {cell.case for cell in named if cell.critical}
    allowed = rules.allows({cell.case for cell in named}, critical)
    worse = bool(comparison.worse_variants()) or not allowed
    if rules.on_regression == "warn":
        return Judged(worse, bool(critical))
    return Judged(worse, worse)


# Pull requests drawn at random.


class PlannedCell(NamedTuple):
    """One case on one variant, and how often it runs."""

    case: Case
    variant: Variant
    runs: int

    @property
    def key(self) -> CellKey:
        return cell_key(self.case.id, self.variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What pull requests that were drawn at random came to. Shares are fractions in [0, 1].

    Args:
        pull_requests: how many were drawn for each of the figures below.
        main_runs: main's code runs beside the change, as it does unless nothing runs again.
        drop: the smallest fall of the pass rate of one variant, in whole hundredths, that is seen
            in `POWER` of them; None if not even a fall to nothing is.
        dead_case: the share in which one case that dies on that variant is seen; None if no case of
            it passes in most runs.
        only_warns: what is seen is not red, unless a case is critical.
        unchanged: the share that is red where nothing changed.
        further_calls: the mean number of calls beyond the plan, main's included, where nothing
            changed.
        without_scores: the history has scores, which took no part: runs were drawn as passed or
            failed.
    """

    pull_requests: int
    main_runs: bool
    drop: float | None
    dead_case: float | None
    only_warns: bool
    unchanged: float
    further_calls: float
    without_scores: bool


def simulate(
    cells: Sequence[PlannedCell],
    history: Baseline | None,
    *,
    confirm_runs: int,
    rules: Gate,
    likely_drop: float | None = None,
) -> Simulated:
    """Draw pull requests of a suite, all from the same seeds, and judge them.

    The change falls, or kills a case, on the variant with the fewest cases. Main's code runs beside
    it, and is as good as when its reports were made.

    Args:
        cells: the suite.
        history: its reports, which are the baseline of every pull request. The true rate of a cell
            is drawn from what they leave open: a beta distribution, its passes and failures added
            to those that are assumed. None draws the reports, too.
        confirm_runs: how many runs name a candidate.
        rules: those that the head is judged by.
        likely_drop: where to look for the drop first.
    """
    number = MAX_SIMULATED_CELLS // len(cells)
    number = max(MIN_SIMULATED, min(MAX_SIMULATED, number))
    drawn = [_Drawn.of(cells, history, seed) for seed in range(number)]
    least = _smallest_variant(cells)

    def seen(points: int) -> bool:
        """Return True if a fall by so many hundredths is seen in `POWER` of the pull requests."""
        wanted = round(POWER * number)
        may_miss = number - wanted
        for each in drawn:
            if each.judge(each.fallen(least, points / 100), confirm_runs, rules).verdict.worse:
                wanted -= 1
            else:
                may_miss -= 1
            if wanted == 0 or may_miss < 0:
                break
        return may_miss >= 0

    unchanged = [each.judge(each.rates, confirm_runs, rules) for each in drawn]
    with_dead = [(each, each.with_dead_case(least)) for each in drawn]
    dead = [
        each.judge(rates, confirm_runs, rules).verdict.worse
        for each, rates in with_dead
        if rates is not None
    ]
    first = 10
    if likely_drop is not None:
        first = ceil(100 * likely_drop) + 1  # the formula is a little too hopeful
    mean = fmean(each.rates[index] for each in drawn for index in least)
    points = _smallest(seen, first, most=int(100 * mean))
    without_scores = False
    if history is not None:
        without_scores = any(cell.history.has_scores for cell in history.cells.values())
    drop = dead_case = None
    if points is not None:
        drop = points / 100
    if dead:
        dead_case = fmean(dead)
    return Simulated(
        pull_requests=number,
        main_runs=confirm_runs > 0,
        drop=drop,
        dead_case=dead_case,
        only_warns=rules.on_regression == "warn",
        unchanged=fmean(each.verdict.red for each in unchanged),
        further_calls=fmean(each.further_calls for each in unchanged),
        without_scores=without_scores,
    )


def _smallest(seen: Callable[[int], bool], first: int, most: int) -> int | None:
    """Return the smallest number from 1 to `most` that is seen, going step by step from `first`."""
    number = max(1, min(first, most))
    if seen(number):
        while number > 1 and seen(number - 1):
            number -= 1
        return number
    while number < most:
        number += 1
        if seen(number):
            return number
    return None


def _smallest_variant(cells: Sequence[PlannedCell]) -> frozenset[int]:
    """Return the indices of the cells of the variant with the fewest."""
    groups: dict[Variant, list[int]] = {}
    for index, cell in enumerate(cells):
        groups.setdefault(cell.variant, []).append(index)
    smallest = min(groups.values(), key=len)
    return frozenset(smallest)


class _Outcome(NamedTuple):
    verdict: Judged
    further_calls: int


class _Drawn(NamedTuple):
    """One pull request: the true rates of main's cells, and its baseline.

    Its planned runs are drawn from the same numbers whatever it changes, so that a larger fall is
    hardly ever seen less.
    """

    cells: Sequence[PlannedCell]
    base: Baseline
    rates: Sequence[float]
    seed: int

    @classmethod
    def of(cls, cells: Sequence[PlannedCell], history: Baseline | None, seed: int) -> "_Drawn":
        rng = random.Random(f"main {seed}")  # noqa: S311 - no secret
        known: Mapping[CellKey, BaseCell] = history.cells if history is not None else {}
        rates = []
        for cell in cells:
            passed = failed = 0
            if cell.key in known:
                tally = known[cell.key].history.tally
                passed, failed = tally.passed, tally.graded - tally.passed
            rates.append(rng.betavariate(ASSUMED_PASSES + passed, ASSUMED_FAILURES + failed))
        if history is None:
            base = _drawn_base(cells, rates, rng)
        else:
            # Runs are drawn as passed or failed, so no scores can be compared.
            kept = {
                cell.key: BaseCell(cell.key[0], _without_scores(known[cell.key].history))
                for cell in cells
                if cell.key in known
            }
            base = replace(history, cells=kept)
        return cls(cells, base, rates, seed)

    def fallen(self, chosen: frozenset[int], by: float) -> Sequence[float]:
        """Return the rates, with those of some cells lowered in proportion, their mean by `by`."""
        mean = fmean(self.rates[index] for index in chosen)
        left = max(0.0, 1 - by / mean) if mean else 1.0
        return [rate * left if index in chosen else rate for index, rate in enumerate(self.rates)]

    def with_dead_case(self, chosen: frozenset[int]) -> Sequence[float] | None:
        """Return the rates with one of some cells at 0 that mostly passed; None if none did."""
        alive = [index for index in sorted(chosen) if self.rates[index] > 0.5]
        if not alive:
            return None
        rates = list(self.rates)
        rng = random.Random(f"dead {self.seed}")  # noqa: S311 - no secret
        rates[rng.choice(alive)] = 0.0
        return rates

    def judge(self, rates: Sequence[float], confirm_runs: int, rules: Gate) -> _Outcome:
        """Return the verdict on a change that leads to these rates."""
        # First the planned runs, so that these are the same numbers for each change.
        rng = random.Random(f"change {self.seed}")  # noqa: S311 - no secret
        head = []
        for number, (cell, rate) in enumerate(zip(self.cells, rates, strict=True)):
            passed = sum(rng.random() < rate for _ in range(cell.runs))
            head.append(_reported(number, cell, Tally(passed, cell.runs), rules))
        cells, compared = run_to_the_end(
            head,
            self.base,
            lambda index: Outcome(rng.random() < rates[index]),
            lambda index: Outcome(rng.random() < self.rates[index]),
            confirm_runs=confirm_runs,
            rules=rules,
        )
        calls = sum(len(cell.repeats) + len(cell.main_now) for cell in cells)
        return _Outcome(judge(compared, rules), calls)


def _drawn_base(
    cells: Sequence[PlannedCell], rates: Sequence[float], rng: random.Random
) -> Baseline:
    """Draw as many reports as are kept, or as it takes to know each cell well."""
    most = max(KEPT_REPORTS, ceil(POOLED_RUNS / min(cell.runs for cell in cells)))
    refs = tuple(ReportRef(f"report {age}", -float(age)) for age in range(most))
    known = {}
    for cell, rate in zip(cells, rates, strict=True):
        evidence = [
            Evidence(ref.id, sum(rng.random() < rate for _ in range(cell.runs)), cell.runs)
            for ref in refs
        ]
        known[cell.key] = BaseCell(cell.key[0], History(tuple(evidence)))
    return Baseline(suite="", reports=refs, cells=known)


def _without_scores(history: History) -> History:
    evidence = tuple(each._replace(scores=None) for each in history.evidence)
    return replace(history, evidence=evidence)


def _reported(number: int, cell: PlannedCell, planned: Tally, rules: Gate) -> ReportedCell:
    counts = Counts(planned.passed, planned.graded - planned.passed, 0, planned.graded)
    critical = cell.case.critical or rules.marks_critical(cell.case.tags)
    return ReportedCell(
        number, cell.case, cell.variant, counts, cell.case.id, planned, critical=critical
    )


# Stored reports.


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Reports that were compared, each with those before it.

    Args:
        comparisons: how many there were.
        red: how many of them were red.
        left_out: how many reports were not compared, as they look like an outage.
        partial_cases: how many cases took no part in some of the reports: they were added or edited
            since, or had no graded run.
    """

    comparisons: int
    red: int
    left_out: int
    partial_cases: int


def replay(cells: Sequence[PlannedCell], history: Baseline, rules: Gate) -> Replayed | None:
    """Judge each report of a history by those before it, as if it were of a pull request.

    Only its recorded runs count, and only whether they passed, for no further ones can be made.

    Args:
        cells: the suite. What it no longer has is left out.
        history: the reports.
        rules: those that each report is judged by.

    Returns:
        None if there are fewer than two reports.
    """
    known = [
        (cell, _without_scores(history.cells[cell.key].history))
        for cell in cells
        if cell.key in history.cells
    ]
    made = {each.report for _, cell in known for each in cell.evidence if each.graded}
    reports = [ref for ref in history.reports if ref.id in made]
    lost = {report for _, cell in known for report in cell.lost}
    red = compared = left_out = 0
    for age, report in enumerate(reports[:-1]):
        if report.id in lost:
            left_out += 1
            continue
        head = [
            _reported(number, cell, runs, rules)
            for number, (cell, each) in enumerate(known)
            if (runs := _runs_in(report, each)) is not None
        ]
        base = _older(known, reports[age + 1 :])
        compared += 1
        red += judge(compare(head, base, confirm_runs=0, rules=rules), rules).red
    if not compared:
        return None
    partial = {cell.case.id for cell in cells if cell.key not in history.cells}
    for cell, each in known:
        if any(_runs_in(report, each) is None for report in reports if report.id not in lost):
            partial.add(cell.case.id)
    return Replayed(comparisons=compared, red=red, left_out=left_out, partial_cases=len(partial))


def _older(known: Sequence[tuple[PlannedCell, History]], reports: Sequence[ReportRef]) -> Baseline:
    """Return the baseline of these reports, as it was when the first of them was the newest."""
    ids = {ref.id for ref in reports}
    cells = {}
    for cell, history in known:
        evidence = tuple(each for each in history.evidence if each.report in ids)
        if evidence:
            cells[cell.key] = BaseCell(cell.case.id, History(evidence))
    return find_lost_reports(Baseline(suite="", reports=tuple(reports), cells=cells))


def _runs_in(report: ReportRef, history: History) -> Tally | None:
    """Return the graded runs of a cell in one report; None if there are none."""
    for each in history.evidence:
        if each.report == report.id and each.graded:
            return each.tally
    return None
