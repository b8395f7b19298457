"""The report of the Python API: inspect, slice, save, load and compare results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_evals.errors import StorageError, UsageError
from ci_evals.files import write_atomically
from ci_evals.format import number_of, one_line, percent
from ci_evals.gate.bars import VerdictStatus
from ci_evals.gate.baseline import Baseline, ReportedCell
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.verdict import Verdict
from ci_evals.model.case import Case
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import Counts, Figures, Spent, SuiteInfo, SuiteReport, Unpriced
from ci_evals.model.result import Judging, Result
from ci_evals.model.rules import Gate
from ci_evals.reports import report_json as json_report
from ci_evals.reports import terminal
from ci_evals.reports.notes import outcome
from ci_evals.reports.read import baseline_of, read_baseline, read_report, read_summary
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.variants import Standing, rank, variant_reports
from ci_evals.reports.view import Failures, input_text
from ci_evals.suite.problems import unknown

_INPUT_CHARACTERS = 100
_MOST_REASONS = 3  # of a cell


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """All results of one evaluation, with their verdict."""

    judged: Summary

    def __repr__(self) -> str:
        return f"<Report {self.suite.name!r}: {self.verdict.status}, {outcome(self._report)}>"

    @property
    def _report(self) -> SuiteReport:
        return self.judged.report

    # What was run.

    @property
    def suite(self) -> SuiteInfo:
        """The suite that was run, with its `label` and revision."""
        return self._report.suite

    @property
    def run_id(self) -> str | None:
        """The unique id of this evaluation."""
        return self.suite.run_id

    @property
    def duration_s(self) -> float:
        """The wall-clock time of the run phase in seconds."""
        return self._report.duration_s

    @property
    def plan(self) -> RunPlan:
        """The planned cases, variants and runs."""
        return self._report.plan

    @property
    def interrupted(self) -> str | None:
        """The signal or other reason that ended the evaluation early, or None."""
        return self._report.interrupted

    @property
    def settled(self) -> VerdictStatus | None:
        """The verdict that no further round could have changed, if `stop_early` ended the run."""
        return self._report.settled

    @property
    def confirmation(self) -> SuiteReport | None:
        """The further runs of suspects; None if there were no suspects."""
        return self._report.confirmation

    @property
    def runs(self) -> list[Result]:
        """Every result in plan order, read from the journal."""
        return self._report.runs

    @property
    def cells(self) -> Sequence[ReportedCell]:
        """Every case on every variant that has runs, in plan order."""
        return self.judged.cells

    # Counts and rates.

    @property
    def totals(self) -> Counts:
        """The counts of all planned runs by status."""
        return self._report.totals

    @property
    def total(self) -> int:
        """The number of planned runs."""
        return self._report.total

    @property
    def passed(self) -> int:
        return self._report.passed

    @property
    def failed(self) -> int:
        return self._report.failed

    @property
    def errored(self) -> int:
        return self._report.errored

    @property
    def pass_rate(self) -> float | None:
        """The mean over cells of their share of passed runs; None without graded runs."""
        return self._report.pass_rate

    @property
    def match_rate(self) -> float | None:
        """The mean score of all graded runs; None without any."""
        return self._report.match_rate

    @property
    def by_case(self) -> Mapping[str, Counts]:
        """The counts of each case over all its variants, by case id."""
        return self._report.by_case

    @property
    def by_variant(self) -> Mapping[str, Counts]:
        """The counts of each variant over all its cases, by `provider` or `provider · prompt`."""
        return self._report.by_variant

    # Time and cost.

    def figures(self) -> Figures:
        """Latency, cost and tokens of the planned runs."""
        return self._report.figures()

    @property
    def spent(self) -> Spent:
        """The cost of all runs, including confirm runs and judges."""
        return self._report.spent

    @property
    def judging(self) -> Judging:
        """The calls, tokens and cost of judges, including those of confirm runs."""
        return self._report.judging

    @property
    def unpriced(self) -> Unpriced:
        """The calls without a known price, which `spent` leaves out."""
        return self._report.unpriced

    # The verdict.

    @property
    def gate(self) -> Gate | None:
        """The rules for merging; None if there are none."""
        return self.judged.gate

    @property
    def verdict(self) -> Verdict:
        """The verdict of the gate."""
        return self.judged.verdict

    @property
    def comparison(self) -> Comparison | NoComparison | None:
        """The comparison with the baseline of the evaluation, or the reason why there is none; None
        if no baseline was given.
        """
        return self.judged.comparison

    @property
    def leaderboard(self) -> Sequence[Standing]:
        """Every variant with `place`, `rank`, `tied` and its figures, the best first."""
        return rank(variant_reports(self.judged))

    @property
    def all_passed(self) -> bool:
        """True if there are runs and every one of them passed."""
        return 0 < self.total == self.passed

    @property
    def cases(self) -> Mapping[str, Case]:
        """The cases by id; in a loaded report, they have only the fields that report.json keeps."""
        return {case.id: case for case in self.plan.cases}

    def summary(self) -> str:
        """Return a text summary: a line for all runs, then for each case and variant a line with
        its input and a line for each reason why runs did not pass.
        """
        several = len(self.plan.variants) > 1
        lines = [outcome(self._report)]
        for cell in self.cells:
            question = one_line(input_text(cell.case), _INPUT_CHARACTERS)
            if not question:
                question = cell.case.id
            if several:
                question = f"{question} on {cell.variant}"
            score = percent(self._report.mean_score((cell.cell,)))
            runs = f"{cell.counts.passed:,} of {number_of(cell.counts.planned, 'run')}"
            lines.append(f"  {question}: {runs}, score {score}")
            for reason, count in self._failures(cell).reasons[:_MOST_REASONS]:
                lines.append(f"    {number_of(count, 'run')}: {reason.text}")
        return "\n".join(lines)

    def _failures(self, cell: ReportedCell) -> Failures:
        """Return the reasons why runs of a cell did not pass."""
        if cell.counts.passed == cell.counts.graded + cell.counts.errored:
            return Failures()
        results = self._report.results(self.plan.indices(cell.cell))
        return Failures.of(result for result in results if result.status != "passed")

    # Saving and comparing.

    def save(self, path: Path | str) -> Path:
        """Write the report as JSON to a file, or to `report.json` in a folder.

        Raises:
            StorageError: the file cannot be written.
        """
        path = Path(path)
        if path.is_dir():
            path = path / json_report.REPORT
        write_atomically(path, json_report.render(self.judged))
        return path

    @classmethod
    def load(cls, path: Path | str) -> "Report":
        """Read a `report.json`, or the one in a results folder.

        Raises:
            StorageError: the file cannot be read, is not a report, or was written by a newer
                ci-evals.
        """
        return cls(read_summary(Path(path)))

    def diff(self, other: "Report | Path | str") -> Comparison:
        """Compare this report with an earlier one, cell by cell and variant by variant.

        Args:
            other: the baseline, or its path. Cells are matched by question and name.

        Returns:
            The `cells` and `variants`, with rates, p-values and the `kind` of each cell;
            `select("regressed")` returns the cells of a kind.

        Raises:
            StorageError: the baseline cannot be read.
        """
        if isinstance(other, Report):
            saved = SavedReport.of(other.judged)
        else:
            saved = read_report(Path(other))
        gate = self.gate or Gate()
        return compare(
            self.cells,
            saved.baseline,
            confirm_runs=0,
            rules=gate,
            is_selection=self.suite.selection is not None,
        )

    def diff_table(self, other: "Report | Path | str") -> str:
        """Return `diff` as text: figures of each variant, then the cells, changed ones first."""
        return terminal.render_comparison(self.diff(other))

    def slice(
        self,
        *,
        tag: str | None = None,
        case: str | None = None,
        provider: str | None = None,
        prompt: str | None = None,
    ) -> "Report":
        """Return the part of the report with the given tag, case, provider and prompt.

        Raises:
            UsageError: the report has no such tag, case, provider or prompt.
        """
        tags: set[str] = set()
        for known in self.cases.values():
            tags.update(known.tags)
        variants = self.plan.variants
        providers = [variant.provider for variant in variants]
        prompts = [variant.prompt for variant in variants if variant.prompt is not None]
        _check_known("tag", tag, tags)
        _check_known("case", case, self.cases)
        _check_known("provider", provider, providers)
        _check_known("prompt", prompt, prompts)
        cells = list(self.cells)
        if tag is not None:
            cells = [cell for cell in cells if tag in cell.case.tags]
        if case is not None:
            cells = [cell for cell in cells if cell.case.id == case]
        if provider is not None:
            cells = [cell for cell in cells if cell.variant.provider == provider]
        if prompt is not None:
            cells = [cell for cell in cells if cell.variant.prompt == prompt]
        part = _part_of(self._report, cells)
        return Report(summarize(part, self.gate))


def _check_known(noun: str, name: str | None, known: Collection[str]) -> None:
    if name is not None and name not in known:
        raise UsageError(f"slice({noun}={name!r}): {unknown(noun, name, known)}")


def as_baseline(saved: "Report | Path | str", suite: str) -> Baseline | NoComparison:
    """Return a report, or the reports saved at a path, as the baseline of a suite.

    Raises:
        StorageError: the path does not exist or cannot be read.
    """
    if isinstance(saved, Report):
        return baseline_of([SavedReport.of(saved.judged)], suite)
    path = Path(saved)
    if not path.exists():
        remedy = "name a report.json, or the folder of one or several"
        raise StorageError(f"{path}: there is no baseline here: {remedy}")
    return read_baseline((path,), suite)


def _part_of(report: SuiteReport, cells: Sequence[ReportedCell]) -> SuiteReport:
    """Return a report of some cells, with the same runs at new indices."""
    plan = report.plan
    numbers = {(cell.case.id, cell.variant): cell.cell for cell in cells}
    cases = {cell.case.id: cell.case for cell in cells}
    used = {cell.variant for cell in cells}
    variants = [variant for variant in plan.variants if variant in used]
    counts: list[int] = []
    indices: list[int] = []
    for case_id in cases:
        for variant in variants:
            number = numbers.get((case_id, variant))
            runs: Sequence[int] = ()
            if number is not None:
                runs = plan.indices(number)
            counts.append(len(runs))
            indices += runs
    fingerprints = {}
    for case, fingerprint in zip(plan.cases, report.fingerprints, strict=True):
        fingerprints[case.id] = fingerprint
    records = {}
    for new, old in enumerate(indices):
        if old in report.records:
            records[new] = report.records[old]
    return SuiteReport(
        report.suite,
        RunPlan(list(cases.values()), variants, counts, first_runs=[1] * len(counts)),
        records,
        lines=lambda chosen: report.lines(indices[index] for index in chosen),
        started_at=report.started_at,
        duration_s=report.duration_s,
        interrupted=report.interrupted,
        resumption=report.resumption,
        fingerprints=[fingerprints[case_id] for case_id in cases],
        looks=report.looks,
    )
