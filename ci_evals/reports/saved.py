"""Reports that are read back from report.json.

A report is untrusted. Its measurements are used if they are possible; everything else is derived
from them again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import isclose
from pathlib import Path

from ci_evals.gate.baseline import (
    TREND_POINTS,
    BaseCell,
    Baseline,
    Evidence,
    History,
    ReportedCell,
    evidence_to_keep,
    report_ref,
    reported_cells,
    trend_point,
)
from ci_evals.gate.cells import base_keys
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.drift import follow
from ci_evals.gate.outages import unanswered_runs
from ci_evals.graders.scoring import passes, score_of
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey, RunPlan, plan_further_runs
from ci_evals.model.report import Looks, MainNow, Outcome, RunRecord, SuiteInfo, SuiteReport, Tally
from ci_evals.model.result import Result, encode_result, every_grade
from ci_evals.model.ruler import Ruler
from ci_evals.model.rules import ConfirmRuns, Gate
from ci_evals.model.settings import CaseSettings, ProviderSettings, SuiteSettings
from ci_evals.reports.report_json import (
    MOST_OF_A_RUN,
    MOST_RUNS,
    BaseEntry,
    CellEntry,
    Measured,
)
from ci_evals.reports.summary import BaseAnswer, Summary, summarize
from ci_evals.reports.view import bar_of


class ContradictionError(ValueError):
    """A report.json is complete, but has contents that no run of ci-evals can have written."""


@dataclass(frozen=True)
class SavedReport:
    """A report with all that is needed to re-judge it, or to compare another one with it.

    Args:
        report: all results. Its cases have only the fields that reports show, not their questions.
        gate: the rules that it was judged by.
        base: its baseline, or the reason why there was none; None if nobody asked for one.
        confirm_runs: how often its suspects were to be run again.
        before: the base's answers for cells that changed or failed.
        path: its file; None if it was not read from one.
    """

    report: SuiteReport
    gate: Gate | None
    base: Baseline | NoComparison | None
    confirm_runs: ConfirmRuns = 0
    before: Mapping[CellKey, BaseAnswer] = field(default_factory=dict)
    path: Path | None = None

    @classmethod
    def of(cls, summary: Summary) -> "SavedReport":
        """Return a summary's report as if it had been written and read back."""
        comparison = summary.comparison
        if not isinstance(comparison, Comparison):
            return cls(summary.report, summary.gate, comparison)
        return cls(
            summary.report,
            summary.gate,
            comparison.baseline,
            comparison.confirm_runs,
            summary.before,
        )

    def off_default_branch(self) -> "SavedReport":
        """Return it as a pull request's report, which is no evidence about the default branch."""
        suite = replace(self.report.suite, on_default_branch=False)
        return replace(self, report=replace(self.report, suite=suite))

    def of_variant(self, variant: Variant) -> "SavedReport":
        """Return the planned runs of one of its variants, without a comparison."""
        full = self.report
        cells = full.cells_of(variant)
        counts = [full.plan.runs(cell) for cell in cells]
        plan = RunPlan(full.plan.cases, [variant], counts, first_runs=[1] * len(counts))
        results: dict[int, Result] = {}
        for row, cell in enumerate(cells):
            for result in full.results(full.plan.indices(cell)):
                results[plan.index(row, result.run)] = result
        report = replace(
            full,
            plan=plan,
            records=records_of(results),
            lines=lines_of(results),
            confirmation=None,
            looks=None,
            settled=None,
            ruler=None,
            changed_settings=None,
            main_now=None,
            main_cost=None,
        )
        return replace(self, report=report, base=None, confirm_runs=0, before={})

    @property
    def name(self) -> str:
        """Its name in sentences."""
        if self.path is None:
            return "the given report"
        return self.path.as_posix()

    @property
    def suite(self) -> SuiteInfo:
        return self.report.suite

    @cached_property
    def failed_cases(self) -> frozenset[str]:
        """The ids of the cases that did not pass all planned runs when they last ran."""
        failed = {cell.case.id for cell in self.head if cell.counts.passed < cell.counts.planned}
        return frozenset(failed.union(self.suite.failed_before))

    @cached_property
    def head(self) -> Sequence[ReportedCell]:
        """Its cells, to be compared with a baseline."""
        return reported_cells(self.report, self.gate)

    @cached_property
    def summary(self) -> Summary:
        """The summary of its results, compared with its own baseline."""
        return replace(self.judge(self.base), before=self.before)

    def judge(self, baseline: Baseline | NoComparison | None) -> Summary:
        """Compare it with a baseline and re-judge it by its own gate."""
        return summarize(self.report, self.gate, baseline, confirm_runs=self.confirm_runs)

    @cached_property
    def baseline(self) -> Baseline:
        """The baseline that consists of this report and those before it.

        If a quarter of a variant's runs failed without an answer, these runs are not counted.
        """
        # Main's grades are those of another suite's checks.
        if self.report.ruler is not None:
            return replace(self, report=replace(self.report, ruler=None)).baseline
        own = report_ref(self.report)
        references = {own.id: own}
        trend = [trend_point(self.report)]
        earlier_cells: dict[CellKey, BaseCell | None] = {}
        earlier = None
        if isinstance(self.base, Baseline):
            earlier = self.base
            for reference in (*(lost.report for lost in earlier.lost), *earlier.reports):
                references.setdefault(reference.id, reference)
            trend += [point for point in earlier.trend if point.report.id != own.id]
            for key, base_key in base_keys(self.head, earlier).items():
                earlier_cells[key] = earlier.cells.get(base_key)
        lost = unanswered_runs(own, self.head)
        cells = {}
        for cell in self.head:
            runs, scores = cell.planned, cell.scores_to_keep
            per_runs = {own.id: cell.per_run}
            if cell.variant in lost:
                runs = Tally(runs.passed, runs.graded - cell.unanswered)
                if scores is not None:  # theirs are 0
                    scores = scores._replace(runs=runs.graded)
                per_runs = {}
            kept = evidence_to_keep(earlier_cells.get(cell.key), cell.fingerprint)
            older = [evidence for evidence in kept if evidence.report != own.id]
            cells[cell.key] = BaseCell(
                cell.fingerprint,
                History((Evidence(own.id, *runs, scores, cell.metrics_to_keep), *older)),
                per_runs,
                cell.is_quarantined,
                bar_of(cell.case, cell.variant, self.gate),
            )
        known = {own.id}
        for base_cell in cells.values():
            known.update(evidence.report for evidence in base_cell.history.evidence)
        source = None
        if self.path is not None:
            source = str(self.path)
        return Baseline(
            suite=self.suite.name,
            reports=tuple(each for each in references.values() if each.id in known),
            cells=cells,
            fingerprint=self.suite.fingerprint,
            trend=tuple(trend[:TREND_POINTS]),
            source=source,
            gate=self.gate or Gate(),
            settings=self._settings,
            lost=tuple(lost.values()),
            drift=follow(self.report, self.head, earlier, self.gate),
        )

    @property
    def _settings(self) -> SuiteSettings:
        """The settings of its suite that it knows.

        The command line may have set the number of runs.
        """
        gate, report = self.gate or Gate(), self.report
        live = {cell.case.id for cell in self.head if cell.planned.graded}
        cases = {}
        for case, fingerprint in zip(report.plan.cases, report.fingerprints, strict=True):
            cases[case.id] = CaseSettings(
                fingerprint=fingerprint,
                critical=case.critical or gate.marks_critical(case.tags),
                min_pass_rate=case.min_pass_rate,
                quarantined=case.quarantine is not None,
                recorded=case.id not in live,
            )
        kinds = self.suite.provider_kinds
        providers = {name: ProviderSettings(kind=kind) for name, kind in kinds.items()}
        return SuiteSettings(
            gate=gate,
            providers=providers,
            cases=cases,
            confirm_runs=self.suite.confirm_runs,
            fail_on=self.suite.fail_on or "",
        )


def restore(document: Measured) -> SavedReport:
    """Return the report of a document, with its baseline.

    Raises:
        ContradictionError: its parts contradict each other, or it has impossible figures.
    """
    _check_looks(document.looks)
    report = _restore_report(document)
    base = document.base
    if not isinstance(base, BaseEntry):
        return SavedReport(report, document.gate, base)
    baseline = _restore_baseline(document.suite.name, base)
    answers = {}
    for cell in base.cells:
        if cell.answer is not None:
            answers[cell.key] = BaseAnswer(
                text=cell.answer, is_now=cell.answered_now, missed=cell.missed
            )
    before = {}
    for key, base_key in base_keys(reported_cells(report, document.gate), baseline).items():
        if base_key in answers:
            before[key] = answers[base_key]
    return SavedReport(report, document.gate, baseline, base.confirm_runs, before)


def _check_looks(looks: Looks | None) -> None:
    if looks is None:
        return
    if not looks.rounds or not 0 <= looks.taken <= len(looks.rounds):
        raise ContradictionError(
            "`looks.taken` exceeds the number of rounds, or there are no rounds"
        )


def _restore_report(document: Measured) -> SuiteReport:
    plan, further = _restore_plans(document)
    cells = {plan.key(cell): cell for cell in range(len(plan))}
    planned_results: dict[int, Result] = {}
    further_results: dict[int, Result] = {}
    for result in document.results:
        run = f"run {result.run} of {result.case!r}"
        cell = cells.get((result.case, result.provider, result.prompt))
        if cell is None or not 1 <= result.run <= plan.runs(cell) + further.runs(cell):
            raise ContradictionError(f"{run} is of no cell of the report")
        _check_result(result, plan.case(cell).threshold)
        if result.run <= plan.runs(cell):
            index = plan.index(cell, result.run)
            results = planned_results
        else:
            index = further.index(cell, result.run)
            results = further_results
        if index in results:
            raise ContradictionError(f"it has two results of {run}")
        results[index] = result
    fingerprints = {cell.case: cell.fingerprint for cell in document.cells}
    report = SuiteReport(
        document.suite,
        plan,
        records_of(planned_results),
        lines=lines_of(planned_results),
        started_at=document.started_at,
        duration_s=document.duration_s,
        interrupted=document.interrupted,
        resumption=document.resumption,
        fingerprints=list(fingerprints.values()),
        looks=document.looks,
        settled=document.settled,
        ruler=document.ruler,
        changed_settings=document.changed_settings,
        main_now=_restore_main(document, further),
        main_cost=document.main_cost,
    )
    _check_ruler(document.ruler, plan, further)
    if further.total:
        report.confirmation = replace(
            report,
            plan=further,
            records=records_of(further_results),
            lines=lines_of(further_results),
            interrupted=None,
            resumption=None,
            looks=None,
            settled=None,
            main_now=None,
            main_cost=None,
        )
    return report


def _check_ruler(ruler: Ruler | None, plan: RunPlan, further: RunPlan) -> None:
    """Refuse main's grades of runs that the report does not have, and impossible counts."""
    if ruler is None:
        return
    numbers = {key: number for number, key in enumerate(plan.keys)}
    if len(ruler.by_key) != len(ruler.cells):
        raise ContradictionError("`ruler` has two entries of a cell")
    for cell in ruler.cells:
        number = numbers.get(cell.key)
        runs = 0 if number is None else plan.runs(number) + further.runs(number)
        if not all(1 <= run <= runs for run in cell.passed):
            raise ContradictionError(f"`ruler` has a run of {cell.case!r} that the report lacks")
    counts = [ruler.dropped_unasked, *(case.graded for case in ruler.dropped)]
    possible = all(0 <= count <= MOST_RUNS for count in counts)
    if not possible or not all(0 <= case.passed <= case.graded for case in ruler.dropped):
        raise ContradictionError("`ruler.dropped` has impossible counts")


def _restore_main(document: Measured, further: RunPlan) -> MainNow | None:
    """Return main's runs, each with the run here that it was made with.

    Raises:
        ContradictionError: there is no such run.
    """
    if document.main is None:
        return None
    numbers = {key: number for number, key in enumerate(further.keys)}
    runs = {}
    for cell in document.cells:
        number = numbers[cell.key]
        first = further.first_runs[number]
        of_cell: dict[int, Outcome | None] = {}
        for run, passed, score in cell.main_now:
            if not first <= run < first + further.runs(number):
                raise ContradictionError(f"run {run} of main is of no run of {cell.case!r}")
            of_cell[run] = None
            if passed is not None:
                of_cell[run] = Outcome(passed, score)
        if of_cell:
            runs[number] = of_cell
    return MainNow(name=document.main.name, lack=document.main.lack, runs=runs)


def report_so_far(
    suite: SuiteInfo, started_at: float, results: Iterable[Result]
) -> SuiteReport | None:
    """Return the report of a run that has not ended; None without results.

    As its plan is not known, it is derived from the results, with cases and variants in the order
    of their first result. If a run has several results, the last one counts.
    """
    latest: dict[tuple[str, Variant, int], Result] = {}
    for result in results:
        latest[result.case, Variant(result.provider, result.prompt), result.run] = result
    if not latest:
        return None
    rows: dict[str, int] = {}
    columns: dict[Variant, int] = {}
    runs: dict[tuple[int, int], int] = {}
    for case, variant, run in latest:
        row = rows.setdefault(case, len(rows))
        column = columns.setdefault(variant, len(columns))
        runs[row, column] = max(run, runs.get((row, column), 0))
    cases = [Case(id=name, file=suite.file) for name in rows]
    variants = list(columns)
    counts = [runs.get(place, 0) for place in product(range(len(rows)), range(len(columns)))]
    plan = RunPlan(cases, variants, counts, first_runs=[1] * len(counts))
    by_index: dict[int, Result] = {}
    ended_at = started_at
    for (case, variant, run), result in latest.items():
        cell = rows[case] * len(columns) + columns[variant]
        by_index[plan.index(cell, run)] = result
        ended_at = max(ended_at, result.started_at + result.latency_s)
    return SuiteReport(
        suite,
        plan,
        records_of(by_index),
        lines=lines_of(by_index),
        started_at=started_at,
        duration_s=ended_at - started_at,
        fingerprints=[""] * len(cases),
    )


def records_of(results: Mapping[int, Result]) -> Mapping[int, RunRecord]:
    """Return the record of each result, by the index of its run."""
    return {index: RunRecord.of(result, offset=index) for index, result in results.items()}


def lines_of(results: Mapping[int, Result]) -> Callable[[Iterable[int]], Iterator[bytes]]:
    """Return a reader of the journal lines of results in memory, by the index of their runs."""
    return lambda indices: (encode_result(results[index]) for index in indices)


def _restore_plans(document: Measured) -> tuple[RunPlan, RunPlan]:
    """Return the plan of the report and the plan of its confirm runs."""
    variants = tuple(dict.fromkeys(document.variants))
    cells = {cell.key: cell for cell in document.cells}
    first_cells: dict[str, CellEntry] = {}
    for cell in document.cells:
        if Variant(cell.provider, cell.prompt) not in variants:
            raise ContradictionError(f"a cell is of no variant: {cell.key}")
        first_cells.setdefault(cell.case, cell)
    # Checked before the plan is built: a matrix of few cells can still claim billions of places.
    runs = sum(cell.planned + cell.confirm_runs for cell in document.cells)
    if max(runs, len(first_cells) * len(variants)) > MOST_RUNS:
        raise ContradictionError(f"it has more than {MOST_RUNS:,} runs")
    cases = []
    counts: list[int] = []
    confirm_runs: dict[int, int] = {}
    for cell in first_cells.values():
        case = Case(
            id=cell.case,
            tags=cell.tags,
            critical=cell.critical,
            quarantine=cell.quarantine,
            threshold=cell.threshold,
            min_pass_rate=cell.min_pass_rate,
            file=cell.file,
            line=cell.line,
        )
        cases.append(case)
        for variant in variants:
            found = cells.get((case.id, variant.provider, variant.prompt))
            planned = 0
            if found is not None:
                confirm_runs[len(counts)] = found.confirm_runs
                planned = found.planned
            counts.append(planned)
    plan = RunPlan(cases, variants, counts, first_runs=[1] * len(counts))
    return plan, plan_further_runs(plan, confirm_runs)


def _check_result(result: Result, threshold: float | None) -> None:
    """Refuse impossible figures, and a status or score that contradicts the grades."""
    run = f"run {result.run} of {result.case!r}"
    grades = result.grades
    amounts = [result.latency_s, result.cost_usd, result.score]
    amounts += [grade.score for grade in every_grade(grades)]
    if result.judging is not None:
        amounts.append(result.judging.cost_usd)
    for amount in amounts:
        if amount is not None and abs(amount) > MOST_OF_A_RUN:
            raise ContradictionError(f"{run} has a latency, cost or score that makes no sense")
    if result.status == "passed":
        follows = result.error is None and passes(grades, threshold)
    elif result.status == "failed":
        follows = result.error is not None or not grades or not passes(grades, threshold)
    else:
        follows = result.error is not None and not grades
    if grades:
        score = result.score
        follows = follows and score is not None and isclose(score, score_of(grades), abs_tol=1e-6)
    if not follows:
        raise ContradictionError(f"{run} is said to have {result.status}, unlike its grades")


def _restore_baseline(suite: str, base: BaseEntry) -> Baseline:
    known = {reference.id for reference in base.reports}
    known.update(lost.report.id for lost in base.lost)
    cells = {}
    for cell in base.cells:
        reports = [evidence.report for evidence in cell.history]
        for report in reports:
            if report not in known:
                raise ContradictionError(
                    f"its history has a report that it was not compared with: {report!r}"
                )
        cells[cell.key] = BaseCell(
            cell.fingerprint,
            History(cell.history, lost=frozenset(cell.outages)),
            dict.fromkeys(reports, cell.per_run),
            cell.quarantined,
            cell.bar,
        )
    return Baseline(
        suite=suite,
        name=base.name,
        reports=base.reports,
        cells=cells,
        trend=base.trend,
        lost=base.lost,
        broken=base.broken,
        gate=base.gate,
        removed_suites=base.removed_suites,
        drift=base.drift,
        alongside=base.alongside,
        run_url=base.run_url,
    )
