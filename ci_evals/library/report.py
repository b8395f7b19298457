"""A report for Python: what was counted, every run, and what can be done with it."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_evals import report as counted
from ci_evals.columns import Columns
from ci_evals.engine.journal_lines import decode
from ci_evals.errors import StorageError
from ci_evals.files import remove_abandoned, write_whole
from ci_evals.matrix import Matrix
from ci_evals.model import Case, Variant
from ci_evals.recalled import read_summary
from ci_evals.reports import diff_table, json_report
from ci_evals.reports.figures import number_of, rate
from ci_evals.reports.findings import input_text
from ci_evals.reports.leaderboard import Standing, ranked
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.text import one_line
from ci_evals.reports.variants import variant_reports
from ci_evals.rules import Gate
from ci_evals.saved import read_baseline, read_report
from ci_evals.verdict.comparison import Comparison, NoComparison, compare
from ci_evals.verdict.gate import Verdict, settled
from ci_evals.verdict.head import head_cells
from ci_evals.verdict.history import Baseline

_INPUT_CHARACTERS = 100


class Report(counted.Report):
    """All results of one evaluation.

    `total`, `passed`, `failed` and `errored` count runs; `pass_rate` and `match_rate` (the mean score) are fractions;
    `runs` has every `Result`, `by_case` and `by_variant` their counts, `verdict` what the gate says. `comparison` is
    the report beside the baseline that it was evaluated with, or why there is none; None if there was to be none.
    """

    origin: counted.Report
    gate: Gate | None
    comparison: Comparison | NoComparison | None
    verdict: Verdict
    judged: Summary

    @classmethod
    def of(cls, judged: Summary) -> "Report":
        """The report of a run as it was judged, which is what every renderer is given."""
        self = object.__new__(cls)
        self.__dict__.update(judged.report.__dict__)
        self.origin, self.verdict, self.gate, self.comparison, _ = judged
        self.judged = judged
        return self

    @property
    def run_id(self) -> str | None:
        """What tells this evaluation from all others."""
        return self.suite.run_id

    @property
    def leaderboard(self) -> Sequence[Standing]:
        """Every variant, the best first: `place`, `rank`, `tied` and `variant` with its rates and figures."""
        return ranked(variant_reports(self.judged))

    @property
    def all_passed(self) -> bool:
        """Whether there were runs and every one of them passed."""
        return 0 < self.total == self.passed

    @property
    def cases(self) -> Mapping[str, Case]:
        """The cases by id: what was asked, tags, metadata. Of a loaded report only what report.json has."""
        return {case.id: case for case in self.matrix.cases}

    def summary(self) -> str:
        """For a person: one line for everything, and one for each case and variant with what was asked."""
        several = len(self.matrix.variants) > 1
        lines = [super().summary()]
        for cell in self.cells:
            asked = one_line(input_text(cell.case), _INPUT_CHARACTERS) or cell.case.id
            of = f" on {cell.variant}" if several else ""
            score = rate(self.mean_score((cell.cell,)))
            lines.append(
                f"  {asked}{of}: {cell.counts.passed:,} of {number_of(cell.counts.planned, 'run')}, score {score}"
            )
        return "\n".join(lines)

    # Kept and compared.

    def save(self, path: Path | str) -> Path:
        """Write the report as `report.json`; a folder gets one of that name.

        Raises:
            StorageError: the file cannot be written.
        """
        path = Path(path)
        path = path / "report.json" if path.is_dir() else path
        write_whole(path, json_report.render(self.judged))
        remove_abandoned(path)
        return path

    @classmethod
    def load(cls, path: Path | str) -> "Report":
        """Read a `report.json`, or that of a results folder.

        Raises:
            StorageError: the file cannot be read, is no report, or a newer ci-evals wrote it.
        """
        return cls.of(read_summary(Path(path), oldest=1))

    def diff(self, other: "Report | Path | str") -> Comparison:
        """This report beside an earlier one: the cells that got worse or better, and how sure that is.

        Args:
            other: the baseline, or where it was saved; its cells are matched by their questions and names.

        Returns:
            Its `cells` and `variants`, each with rates, p-values and a `kind`; `of("regressed")` has those of a kind.

        Raises:
            StorageError: the baseline cannot be read.
        """
        alpha = (self.gate or Gate()).alpha
        with tempfile.TemporaryDirectory(prefix="ci-evals-") as folder:
            saved = read_report(other.save(folder) if isinstance(other, Report) else Path(other))
        return compare(head_cells(self.origin, self.gate), saved.baseline, confirm_runs=0, alpha=alpha)

    def diff_table(self, other: "Report | Path | str") -> str:
        """As `diff`, as text: the figures of each variant, then every cell, those that changed first."""
        return diff_table.render(self.diff(other))

    def slice(
        self, *, tag: str | None = None, case: str | None = None, provider: str | None = None, prompt: str | None = None
    ) -> "Report":
        """The part of the report that is of a tag, a case, a provider, a prompt, or of several of these together."""
        matrix = self.matrix
        cells = [
            cell.cell
            for cell in self.cells
            if (tag is None or tag in cell.case.tags)
            and (case is None or cell.case.id == case)
            and (provider is None or cell.variant.provider == provider)
            and (prompt is None or cell.variant.prompt == prompt)
        ]
        part = _part(self.origin, [(matrix.case(c), matrix.variant(c), c) for c in cells])
        if self.settled is not None and part.totals.missing:
            part.settled = settled(part, self.gate)  # what the whole came to need not hold for a part
        return Report.of(summarize(part, self.gate))


def as_baseline(given: "Report | Path | str", suite: str) -> Baseline | NoComparison:
    """A report, or what is saved at a path, as what a suite is compared with.

    Raises:
        StorageError: nothing is at the path, or it cannot be read.
    """
    if not isinstance(given, Report):
        path = Path(given)
        if not path.exists():
            raise StorageError(f"{path}: no baseline is here: name a report.json, or the folder of one or several")
        return read_baseline((path,), suite)
    with tempfile.TemporaryDirectory(prefix="ci-evals-") as folder:
        return read_baseline((given.save(folder),), suite)


def _part(report: counted.Report, cells: list[tuple[Case, Variant, int]]) -> counted.Report:
    """A report of some cells: the same runs, numbered anew."""
    variants = tuple(v for v in report.matrix.variants if any(v == variant for _, variant, _ in cells))
    cases = list({case.id: case for case, _, _ in cells}.values())
    prints = {case.id: text for case, text in zip(report.matrix.cases, report.fingerprints, strict=True)}
    old = {(case.id, variant): number for case, variant, number in cells}
    pairs = [(case, variant) for case in cases for variant in variants]
    only = {new for new, (case, variant) in enumerate(pairs) if (case.id, variant) in old}
    rounds = max((report.matrix.runs(number) for case, _, number in cells if not case.runs), default=1)
    matrix = Matrix(cases, variants, rounds, only=only)
    slots = [slot for new in sorted(only) for slot in report.matrix.slots(old[pairs[new][0].id, pairs[new][1]])]
    done = [slot for slot in slots if report.columns.status[slot]]
    columns = Columns(matrix.total)
    position = {slot: number for number, slot in enumerate(slots)}
    for slot, result in zip(done, report.results(done), strict=True):
        columns.record(position[slot], result, offset=slot)
    return counted.Report(
        report.suite,
        matrix,
        columns,
        read=lambda chosen: report.lines(slots[slot] for slot in chosen),
        decode=decode,
        started_at=report.started_at,
        duration_s=report.duration_s,
        interrupted=report.interrupted,
        resumption=report.resumption,
        fingerprint_of=lambda row: prints[cases[row].id],
        looks=report.looks,
    )
