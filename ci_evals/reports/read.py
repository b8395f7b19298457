"""Saved reports, read back as a baseline, as the side that is compared, or as the summary that they
were made from.

A report may come from anybody. Its results are believed; its figures must follow from them, and its
verdict is decided anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ci_evals.errors import StorageError
from ci_evals.format import name_of, number_of, one_line, shorten
from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    Evidence,
    HeadCell,
    History,
    ReportRef,
    head_cells,
    join,
)
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.outages import find_lost_reports, unanswered_runs
from ci_evals.gate.wording import lost_report_sentences
from ci_evals.graders.composite import passes, score_of
from ci_evals.model.case import Case, Variant
from ci_evals.model.fields import first_problem
from ci_evals.model.plan import CellKey, RunPlan, plan_further_runs, plan_runs
from ci_evals.model.report import Counts, RunRecord, SuiteInfo, SuiteReport, Tally
from ci_evals.model.result import Result, encode_result, every_grade
from ci_evals.model.rules import ConfirmRuns, Gate
from ci_evals.redaction import Redactor
from ci_evals.reports.report_json import (
    MOST_OF_A_RUN,
    MOST_RUNS,
    REPORT,
    SCHEMA_VERSION,
    CellComparisonEntry,
    ComparisonEntry,
    ReportDocument,
    SavedCellEntry,
    document_of,
    encode,
)
from ci_evals.reports.summary import Note, Summary, summarize
from ci_evals.reports.view import answer_text, bar_of

MAX_REPORT_BYTES: Final = 1 << 30
MAX_ANSWERS: Final = 100
ANSWER_CHARACTERS: Final = 2000

_ROUNDING: Final = 1e-6
_OTHER_SUFFIXES: Final = (
    ".html",
    ".jsonl",
    ".md",
    ".xml",
    ".yaml",
    ".yml",
)  # what else may be named by mistake
_DOCUMENT: Final = TypeAdapter(ReportDocument)


class ContradictionError(ValueError):
    """A report.json is complete, but says what no run of ci-evals leaves behind."""


@dataclass(frozen=True)
class SavedReport:
    """A report.json that was read back, checked for what no run leaves behind, or one that is not
    written yet.
    """

    document: ReportDocument
    path: Path | None = None

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return self.path.as_posix() if self.path else "the given report"

    @property
    def suite(self) -> SuiteInfo:
        return self.document.suite

    @property
    def interrupted(self) -> str | None:
        """The reason that the run ended early, or None."""
        return self.document.interrupted

    @property
    def failed_cases(self) -> frozenset[str]:
        """The ids of the cases that did not pass: not all of their planned runs did."""
        return frozenset(cell.case for cell in self.document.cells if cell.passed < cell.planned)

    @property
    def confirm_runs(self) -> ConfirmRuns:
        """The number of further runs that its suspects were given."""
        return self.document.compared.confirm_runs if self.document.compared else 0

    @property
    def head(self) -> list[HeadCell]:
        """Its cells, to be compared with a baseline."""
        return [
            HeadCell(
                key=cell.key,
                fingerprint=cell.fingerprint,
                planned=cell.evidence,
                unanswered=cell.unanswered,
                confirming=cell.confirming,
                confirmed=cell.confirmed,
                critical=cell.critical,
                quarantined=cell.quarantine is not None,
                per_run=cell.per_run,
            )
            for cell in self.document.cells
        ]

    @property
    def baseline(self) -> Baseline:
        """Itself and the reports before it, as a side to compare with.

        Of a variant of which a quarter of the runs failed without an answer, these runs do not
        count.
        """
        document, comparison = self.document, self.document.compared
        own = ReportRef(document.id, document.started_at, document.suite.revision)
        earlier = comparison.references if comparison else ()
        head = self.head
        lost = unanswered_runs(own, head)
        cells = {}
        for saved, cell in zip(document.cells, head, strict=True):
            runs, per_runs = cell.planned, {own.id: cell.per_run}
            if cell.variant in lost:
                runs, per_runs = Tally(runs.passed, runs.graded - cell.unanswered), {}
            history = History((Evidence(own.id, *runs), *saved.history))
            cells[saved.key] = BaseCell(
                saved.fingerprint, history, per_runs, cell.quarantined, saved.bar
            )
        return Baseline(
            suite=document.suite.name,
            reports=(own, *(ref for ref in earlier if ref.id != own.id)),
            cells=cells,
            trend=document.trend,
            source=str(self.path) if self.path else None,
            gate=document.gate or Gate(),
            lost=tuple(lost.values()),
        )

    @property
    def summary(self) -> Summary:
        """The summary of its results, judged again. Of its cases it has what a report shows, not
        what was asked.
        """
        return summary_of(self.document)


def read_report(path: Path) -> SavedReport:
    """Read one report.json, or the one in a folder.

    Raises:
        StorageError: there is none, it is damaged or contradicts itself, or another version of
            ci-evals wrote it.
    """
    path = path / REPORT if path.is_dir() else path
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            raise StorageError(
                f"{path}: is larger than {MAX_REPORT_BYTES >> 20:,} MiB: no report of ci-evals is"
            )
        content = path.read_bytes()
    except FileNotFoundError:
        raise StorageError(
            f"{path}: there is no report: name one that `ci-evals run` wrote, or its folder"
        ) from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return SavedReport(decode_report(content), path)
    except ValueError as error:
        if advice := _newer_version(content):
            raise StorageError(f"{path}: {advice}") from error
        if isinstance(error, ContradictionError):
            raise StorageError(f"{path}: contradicts itself, so it is not used: {error}") from error
        if path.suffix in _OTHER_SUFFIXES:
            raise StorageError(
                f"{path}: is no report.json: name one that `ci-evals run` wrote, or its folder"
            ) from error
        why = f"damaged or cut off: {error}" if content.strip() else "it is empty"
        raise StorageError(
            f"{path}: is not a complete report of ci-evals ({why}): download it again, or name another"
        ) from error


def as_saved(summary: Summary) -> SavedReport:
    """Return a report as if it had been written and read back, without its results."""
    return SavedReport(document_of(summary))


def read_summary(path: Path) -> Summary:
    """Read one report.json, or the one in a folder, and judge its results again.

    Raises:
        StorageError: see `read_report`.
    """
    return read_report(path).summary


def read_reports(path: Path) -> list[SavedReport]:
    """Read a report.json, the one in a folder, or those of several suites in the folders there.

    Raises:
        StorageError: see `read_report`.
    """
    return [read_report(each) for each in report_folders(path) or (path,)]


def read_baseline(
    paths: Sequence[Path],
    suite: str,
    name: str | None = None,
    *,
    but: SavedReport | None = None,
    redactor: Redactor | None = None,
) -> Baseline | NoComparison:
    """Read the reports that a run is compared with, the newest of them being the baseline and the
    others its history.

    Args:
        paths: report.json files, folders with one in them, or folders of such folders.
        suite: the name of the suite that is compared with them.
        name: what sentences call the base side.
        but: a report that is no part of its own baseline, wherever it lies.
        redactor: takes secrets out of the names of cases, as it does out of those that they are
            compared with.

    Returns:
        The baseline, or why there is none: nothing is there, or it is of another suite.

    Raises:
        StorageError: see `read_report`.
    """
    found = [read_report(file) for path in paths for file in _report_files(path)]
    if not found:
        return NoComparison(
            f"no baseline: there is no report at {' or '.join(path.as_posix() for path in paths)}"
        )
    return baseline_of(found, suite, name, but=but, redactor=redactor)


def report_folders(path: Path) -> Sequence[Path]:
    """Return the results folder itself, or the folders in it where those of several suites are."""
    is_one = path.is_file() or (path / REPORT).is_file()
    return [path] if is_one else [file.parent for file in sorted(path.glob(f"*/{REPORT}"))]


def _report_files(path: Path) -> Sequence[Path]:
    found = report_folders(path)
    return found if path in found else [*found, *sorted(path.glob("*.json"))]


def baseline_of(
    found: Sequence[SavedReport],
    suite: str,
    name: str | None = None,
    *,
    but: SavedReport | None = None,
    redactor: Redactor | None = None,
) -> Baseline | NoComparison:
    """As `read_baseline`, of reports that were read already; there is at least one."""
    same = [report for report in found if report.suite.name == suite]
    if not same:
        other = found[0]
        return NoComparison(f"no baseline: {other.name} is of another suite, {other.suite.name!r}")
    others = [report for report in same if but is None or report.document.id != but.document.id]
    if not others:
        given = but.name if but else ""
        both = f"{same[0].name} and {given} are the same report"
        return NoComparison(
            f"no baseline: {f'{given} is compared with itself' if given == same[0].name else both}"
        )
    baseline = find_lost_reports(join([report.baseline for report in others]))
    if not baseline.cells:
        return NoComparison(f"no baseline: {same[0].name} has no cells")
    if name:
        baseline = replace(baseline, name=name)
    if baseline.lost and not any(cell.history.tally.graded for cell in baseline.cells.values()):
        return NoComparison(f"no baseline: {'; '.join(lost_report_sentences(baseline))}")
    if redactor is not None and redactor.finds(encode(list(baseline.cells))):
        cells = {redactor.clean(key): cell for key, cell in baseline.cells.items()}
        baseline = replace(baseline, cells=cells)
    return baseline


def with_answers(summary: Summary) -> Summary:
    """Return the summary with what the baseline answered where answers look worse, if its file is
    still at hand.
    """
    comparison = summary.compared
    if comparison is None or comparison.baseline.source is None:
        return summary
    worse = islice((*comparison.select("regressed"), *comparison.select("suspect")), MAX_ANSWERS)
    wanted = {comparison.base_key(cell.key): cell.key for cell in worse}
    answers: dict[CellKey, str] = {}
    if wanted:
        try:
            results = read_report(Path(comparison.baseline.source)).document.results
        except StorageError:  # an answer less is no reason to lose the verdict
            results = ()
        for result in results:
            key = wanted.get((result.case, result.provider, result.prompt))
            if result.status == "passed" and key is not None and key not in answers:
                answers[key] = shorten(answer_text(result) or "", ANSWER_CHARACTERS)
    return replace(summary, before=answers)


def decode_report(content: bytes) -> ReportDocument:
    """Decode a report.json, whoever wrote it.

    Raises:
        ContradictionError: it contradicts itself, or has numbers that no report has.
        ValueError: it is none, or of another version.
    """
    try:
        document = _DOCUMENT.validate_json(content)
    except ValidationError as error:
        raise ValueError(one_line(first_problem(error))) from error
    _check(document)
    return document


def _newer_version(content: bytes) -> str | None:
    """Return advice about a file that a newer ci-evals wrote; None if it is no such file."""
    try:
        document = from_json(content)
    except ValueError:
        return None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(version, int) or version <= SCHEMA_VERSION:
        return None
    suite = document.get("suite")
    writer = one_line(str(suite.get("version", "?") if isinstance(suite, dict) else "?"), 40)
    return (
        f"is of schema version {version}, written by ci-evals {writer}; this one reads up to {SCHEMA_VERSION}: upgrade"
        " ci-evals here"
    )


def _check(document: ReportDocument) -> None:
    """Refuse what the types let pass and mathematics and layout would stumble over."""
    looks = document.looks
    if looks is not None and not (looks.rounds and 0 <= looks.taken <= len(looks.rounds)):
        raise ContradictionError("more looks were taken than agreed on, or none was agreed on")
    _check_references(document)
    thresholds = {cell.key: cell.threshold for cell in document.cells}
    for result in document.results:
        judging_usd = result.judging.cost_usd if result.judging else None
        scores = [result.score, *(grade.score for grade in every_grade(result.grades))]
        amounts = (result.latency_s, result.cost_usd, judging_usd, *scores)
        if any(amount is not None and abs(amount) > MOST_OF_A_RUN for amount in amounts):
            raise ContradictionError(
                f"run {result.run} of {result.case!r} has a latency, cost or score that makes no sense"
            )
        _check_status(result, thresholds[result.case, result.provider, result.prompt])
    _check_figures(document)


def _check_status(result: Result, threshold: float | None) -> None:
    """Refuse a status or a score that the error and the grades of a run do not allow."""
    grades = result.grades
    contradicts = {
        "passed": result.error is not None or not passes(grades, threshold),
        "failed": result.error is None and bool(grades) and passes(grades, threshold),
        "errored": result.error is None or bool(grades),
    }
    wrong_score = bool(grades) and not (
        result.score is not None
        and isclose(result.score, score_of(grades), rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    )
    if contradicts[result.status] or wrong_score:
        raise ContradictionError(
            f"run {result.run} of {result.case!r} is said to have {result.status}, unlike its grades"
        )


def _check_figures(document: ReportDocument) -> None:
    """Refuse counts that do not follow from the results."""
    report = _report(document)
    totals = document.totals
    if (totals.passed, totals.failed, totals.errored) != (
        report.passed,
        report.failed,
        report.errored,
    ):
        raise ContradictionError("its totals contradict its results")
    counted = {cell.key: cell.counts for cell in report.cells}
    for cell, head in zip(
        document.cells, head_cells(report, document.gate, unplanned=True), strict=True
    ):
        counts = counted.get(cell.key, Counts(0, 0, 0, 0))
        told = (
            cell.passed,
            cell.failed,
            cell.errored,
            *cell.evidence,
            cell.unanswered,
            *cell.confirming,
        )
        runs = (*head.planned, head.unanswered, *head.confirming)
        if told != (counts.passed, counts.failed, counts.errored, *runs):
            raise ContradictionError(f"the counts of the case {cell.case!r} contradict its results")
        amounts = zip(
            (*cell.per_run.scores, *cell.per_run[1:]),
            (*head.per_run.scores, *head.per_run[1:]),
            strict=True,
        )
        if not all(
            a is b or (a is not None and b is not None and isclose(a, b, rel_tol=_ROUNDING))
            for a, b in amounts
        ):
            raise ContradictionError(
                f"the costs, scores or latencies of the case {cell.case!r} contradict its results"
            )


def _check_references(document: ReportDocument) -> None:
    """Refuse parts that name others which are not there."""
    comparison = document.compared
    known = {ref.id for ref in comparison.references} if comparison else set()
    if unknown := {evidence.report for cell in document.cells for evidence in cell.history} - known:
        raise ContradictionError(
            f"its history has a report that it was not compared with: {min(unknown)!r}"
        )

    cells = {cell.key for cell in document.cells}
    variants = {(variant.provider, variant.prompt) for variant in document.variants}
    if strange := {key for key in cells if key[1:] not in variants}:
        raise ContradictionError(f"a cell is of no variant: {min(map(str, strange))}")
    if comparison and any(
        (each.provider, each.prompt) not in variants for each in comparison.variants
    ):
        raise ContradictionError("a variant was compared that it does not have")
    if any(cell.comparison and cell.comparison.key != cell.key for cell in document.cells):
        raise ContradictionError("the comparison of a cell is that of another one")
    planned = {cell.key: cell.planned for cell in document.cells}
    further: dict[CellKey, int] = {}
    seen: set[tuple[CellKey, int]] = set()
    for result in document.results:
        key = result.case, result.provider, result.prompt
        if (key, result.run) in seen:
            raise ContradictionError(f"it has two results of run {result.run} of {result.case!r}")
        seen.add((key, result.run))
        if key not in cells or not 1 <= result.run <= MOST_RUNS:
            raise ContradictionError(
                f"run {result.run} of {result.case!r} is of no cell of the report"
            )
        if result.run > planned[key]:
            further[key] = max(result.run - planned[key], further.get(key, 0))
    size = len({cell.case for cell in document.cells}) * len(variants)
    if (
        max(size, sum(planned.values()), len(further) * max(further.values(), default=0))
        > MOST_RUNS
    ):
        raise ContradictionError(f"it has more than {MOST_RUNS:,} runs")


def summary_of(
    document: ReportDocument, baseline: Baseline | NoComparison | None = None
) -> Summary:
    """Return the summary of a document's results, compared and judged again by its gate.

    Of what it says that was found, nothing is used.

    Args:
        document: what was read.
        baseline: what to compare with, or why there is nothing; None for what the document tells of
            its own.
    """
    confirm_runs = document.compared.confirm_runs if document.compared else 0
    told = baseline or _baseline(document)
    summary = summarize(_report(document), document.gate, told, confirm_runs=confirm_runs)
    if baseline is not None:
        return summary
    compared = ((cell.key, cell.comparison) for cell in document.cells)
    return replace(
        summary,
        before={key: found.before for key, found in compared if found and found.before is not None},
    )


def judge_beside(saved: SavedReport, baseline: Baseline) -> Summary:
    """Judge a report that anybody may have written, beside a baseline that is trusted and whose
    file is at hand.

    Whoever writes a report also writes its rules: the gate, the bars of its cases, which of them
    are critical. So it is judged by those of the baseline's report, too, and the worse verdict
    counts.

    Raises:
        StorageError: the file of the baseline is not there any more.
    """
    trusted = read_report(Path(str(baseline.source))).document
    summary = summary_of(saved.document, baseline)
    comparison = summary.compared
    assert comparison is not None
    strict = summary_of(_under_rules_of(trusted, saved.document, comparison), baseline)
    told = []
    if (
        summary.verdict.status in ("pass", "borderline")
        and summary.verdict.status != strict.verdict.status != "pass"
    ):
        summary = strict
        told.append(
            Note("Rules", f"judged by those of {baseline.label}, which this pull request changes")
        )
    if missing := _missing_runs(saved.document, trusted, baseline.label):
        told.append(Note("Missing", missing))
    if edited := dict.fromkeys(cell.case for cell in comparison.select("edited")):
        first, *others = map(name_of, edited)
        more = f" and {number_of(len(others), 'more case')}" if others else ""
        told.append(
            Note(
                "Edited",
                f"{first}{more}: said to be another question than on {baseline.label}, or judged otherwise",
            )
        )
    return with_answers(replace(summary, notes=tuple(told)))


def _under_rules_of(
    trusted: ReportDocument, document: ReportDocument, comparison: Comparison
) -> ReportDocument:
    """Return a document with the gate of another one, and with its cells: whatever is a rule there
    is taken over.
    """
    known = {cell.key: cell for cell in trusted.cells}

    def ruled(cell: SavedCellEntry) -> SavedCellEntry:
        if (base := known.get(comparison.base_key(cell.key))) is None:
            return cell
        return replace(
            base,
            case=cell.case,
            provider=cell.provider,
            prompt=cell.prompt,
            planned=cell.planned,
            fingerprint=cell.fingerprint,
            file=cell.file,
            line=cell.line,
        )

    cells = tuple(map(ruled, document.cells))
    thresholds = {cell.key: cell.threshold for cell in cells}

    def judged(result: Result) -> Result:
        if result.error is not None or not result.grades:
            return result
        passed = passes(result.grades, thresholds[result.case, result.provider, result.prompt])
        return replace(result, status="passed" if passed else "failed")

    own_code = (*document.suite.own_code, *trusted.suite.own_code)
    suite = replace(document.suite, own_code=own_code, without_secrets=True)
    return replace(
        document,
        suite=suite,
        gate=trusted.gate,
        cells=cells,
        results=tuple(map(judged, document.results)),
    )


def _missing_runs(document: ReportDocument, trusted: ReportDocument, base: str) -> str:
    """`2 cases of main were not run; 3 cases have fewer runs than on main`; nothing if all were."""
    planned = {cell.key: cell.planned for cell in document.cells}
    adaptive = trusted.looks is not None or trusted.settled is not None
    missing = sum(cell.key not in planned for cell in trusted.cells)
    fewer = (
        0
        if adaptive
        else sum(planned.get(cell.key, cell.planned) < cell.planned for cell in trusted.cells)
    )
    parts = []
    if missing:
        parts.append(
            f"{number_of(missing, 'case')} of {base} {'was' if missing == 1 else 'were'} not run"
        )
    if fewer:
        parts.append(
            f"{number_of(fewer, 'case')} {'has' if fewer == 1 else 'have'} fewer runs than on {base}"
        )
    return "; ".join(parts)


def _report(document: ReportDocument) -> SuiteReport:
    plan = _plan(document)
    cells = {plan.key(cell): cell for cell in range(len(plan))}
    planned: dict[tuple[int, int], Result] = {}
    further: dict[tuple[int, int], Result] = {}
    for result in document.results:
        cell = cells[result.case, result.provider, result.prompt]
        (planned if result.run <= plan.runs(cell) else further)[cell, result.run] = result
    fingerprints = list({cell.case: cell.fingerprint for cell in document.cells}.values())

    def report(
        plan: RunPlan, results: Mapping[tuple[int, int], Result], **more: Any
    ) -> SuiteReport:
        by_index = {plan.index(cell, run): result for (cell, run), result in results.items()}
        return SuiteReport(
            document.suite,
            plan,
            {index: RunRecord.of(result, offset=index) for index, result in by_index.items()},
            lines=lambda indices: (encode_result(by_index[index]) for index in indices),
            started_at=document.started_at,
            duration_s=document.duration_s,
            fingerprints=fingerprints,
            **more,
        )

    confirmation = None
    if further:
        runs: dict[int, int] = {}
        for cell, run in further:
            runs[cell] = max(run - plan.runs(cell), runs.get(cell, 0))
        confirmation = report(plan_further_runs(plan, runs), further)
    return report(
        plan,
        planned,
        interrupted=document.interrupted,
        resumption=document.resumption,
        looks=document.looks,
        settled=document.settled,
        confirmation=confirmation,
    )


def _plan(document: ReportDocument) -> RunPlan:
    by_case: dict[str, list[SavedCellEntry]] = defaultdict(list)
    for cell in document.cells:
        by_case[cell.case].append(cell)
    cases = []
    for cells in by_case.values():
        entry = cells[0]
        case = Case(
            id=entry.case,
            tags=entry.tags,
            runs=max(cell.planned for cell in cells) or None,
            critical=any(cell.critical for cell in cells),
            quarantine=entry.quarantine,
            threshold=entry.threshold,
            file=entry.file,
            line=entry.line,
        )
        explained = bar_of(case, Variant(entry.provider, entry.prompt), document.gate) == entry.bar
        cases.append(case if explained else replace(case, min_pass_rate=entry.bar))
    variants = [variant.variant for variant in document.variants]
    planned = {cell.key for cell in document.cells if cell.planned}
    keys = ((case.id, variant.provider, variant.prompt) for case in cases for variant in variants)
    return plan_runs(
        cases, variants, 1, only={number for number, key in enumerate(keys) if key in planned}
    )


def _baseline(document: ReportDocument) -> Baseline | NoComparison | None:
    """Return what a report tells of its baseline: the cells that both sides have, and those that
    only the base has.
    """
    if not isinstance(entry := document.comparison, ComparisonEntry):
        return entry
    cells = (*(cell.comparison for cell in document.cells if cell.comparison), *entry.removed)
    base = Baseline(
        suite=document.suite.name,
        name=entry.name,
        reports=tuple(entry.references),
        cells=_base_cells(document, entry, cells),
        trend=tuple(point for point in document.trend if point.report.id != document.id),
        gate=entry.base_gate,
    )
    return replace(find_lost_reports(base), reports=entry.baseline, lost=entry.lost)


def _base_cells(
    document: ReportDocument, entry: ComparisonEntry, cells: Iterable[CellComparisonEntry]
) -> Mapping[CellKey, BaseCell]:
    base = {each.variant: each.base_variant for each in entry.variants}
    saved = {cell.key: cell for cell in document.cells}

    def base_cell(found: CellComparisonEntry) -> BaseCell:
        cell = saved.get(found.key) if found.kind != "removed" else None
        pooled = (Evidence(entry.baseline[0].id, *found.base),)
        kept = cell.history if cell and cell.fingerprint == found.base_fingerprint else ()
        history = History(kept or pooled)
        per_runs = {each.report: found.base_per_run for each in history.evidence}
        return BaseCell(
            found.base_fingerprint, history, per_runs, found.base_quarantined, found.base_bar
        )

    return {found.base_key(base): base_cell(found) for found in cells if found.kind != "new"}
