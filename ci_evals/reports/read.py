"""Reads saved reports back: as a baseline, as the side to compare, or as a summary."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from ci_evals.errors import StorageError
from ci_evals.format import name_of, number_of, one_line, shorten
from ci_evals.gate.baseline import Baseline, join
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.outages import find_lost_reports
from ci_evals.gate.wording.bases import lost_report_sentences
from ci_evals.graders.scoring import passes
from ci_evals.model.case import Case
from ci_evals.model.fields import first_problem
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteInfo, SuiteReport
from ci_evals.model.result import Result, Status
from ci_evals.redaction import Redactor
from ci_evals.reports.report_json import REPORT, SCHEMA_VERSION, Measured
from ci_evals.reports.saved import (
    ContradictionError,
    SavedReport,
    lines_of,
    records_of,
    restore,
)
from ci_evals.reports.similar_answers import nearest
from ci_evals.reports.summary import BaseAnswer, Note, Summary
from ci_evals.reports.view import (
    LINE_CHARACTERS,
    MANY,
    TEXT_CHARACTERS,
    answer_text,
    cell_views,
    reasons_of,
)

MAX_REPORT_BYTES: Final = 1 << 30
MAX_ANSWERS: Final = 300

_OTHER_SUFFIXES: Final = (".html", ".jsonl", ".md", ".xml", ".yaml", ".yml")
"""The suffixes of files that are often passed by mistake."""


@cache
def _document_adapter() -> TypeAdapter[Measured]:
    return TypeAdapter(Measured)


class ReportError(StorageError):
    """A report.json that cannot be used; `problem` is the reason, without the path."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem


def read_report(path: Path, redactor: Redactor | None = None) -> SavedReport:
    """Read one report.json, or the one in a folder.

    Args:
        path: where it is.
        redactor: takes out what the process that wrote it did not know to be secret.

    Raises:
        ReportError: the file is missing or damaged, contradicts itself, or was written by another
            version of ci-evals.
    """
    if path.is_dir():
        path = path / REPORT
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            limit = f"{MAX_REPORT_BYTES >> 20:,} MiB"
            raise ReportError(path, f"is larger than {limit}: no report of ci-evals is")
        content = path.read_bytes()
        if redactor is not None:
            content = redactor.clean_text(content.decode("utf-8", "replace")).encode()
    except FileNotFoundError:
        raise ReportError(path, f"there is no report: {_WHAT_TO_NAME}") from None
    except OSError as error:
        raise ReportError(path, f"cannot be read: {error.strerror}") from error
    try:
        return replace(decode_report(content), path=path)
    except ValueError as error:
        raise ReportError(path, _explain(error, content, path)) from error


_WHAT_TO_NAME: Final = "pass one written by `ci-evals run`, or its folder"


def decode_report(content: bytes) -> SavedReport:
    """Decode an untrusted report.json.

    Raises:
        ContradictionError: it contradicts itself, or has impossible numbers.
        ValueError: it is not a report, or has another schema version.
    """
    try:
        document = _document_adapter().validate_json(content)
    except ValidationError as error:
        raise ValueError(one_line(first_problem(error))) from error
    return restore(document)


def _explain(error: ValueError, content: bytes, path: Path) -> str:
    """Return the reason why a file cannot be used, with advice."""
    # A newer version may have any shape, so its validation errors would explain nothing.
    if advice := _advise_upgrade(content):
        return advice
    if isinstance(error, ContradictionError):
        return f"contradicts itself, so it is not used: {error}"
    if path.suffix in _OTHER_SUFFIXES:
        return f"is not a report.json: {_WHAT_TO_NAME}"
    why = "it is empty"
    if content.strip():
        why = f"damaged or cut off: {error}"
    return f"is not a complete report of ci-evals ({why}): download it again, or name another"


def _advise_upgrade(content: bytes) -> str | None:
    """Return advice about a file that a newer ci-evals wrote; None if it is not one."""
    try:
        document = from_json(content)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    version, suite = document.get("schema_version"), document.get("suite")
    if not isinstance(version, int) or version <= SCHEMA_VERSION:
        return None
    writer = "?"
    if isinstance(suite, dict):
        writer = one_line(str(suite.get("version", "?")), 40)
    written = f"is of schema version {version}, written by ci-evals {writer}"
    return f"{written}; this one reads up to {SCHEMA_VERSION}: upgrade ci-evals here"


def read_summary(path: Path, redactor: Redactor | None = None) -> Summary:
    """Read one report.json, or the one in a folder, and judge its results again.

    Args:
        path: where it is.
        redactor: see `read_report`.

    Raises:
        StorageError: see `read_report`.
    """
    return read_report(path, redactor).summary


def read_reports(path: Path) -> list[SavedReport]:
    """Read a report.json, the one in a folder, or the reports of several suites in its subfolders.

    Raises:
        StorageError: see `read_report`.
    """
    return [read_report(folder) for folder in report_folders(path) or (path,)]


def report_folders(path: Path) -> Sequence[Path]:
    """Return the results folder itself, or its subfolders with the reports of several suites."""
    if path.is_file() or (path / REPORT).is_file():
        return [path]
    return [file.parent for file in sorted(path.glob(f"*/{REPORT}"))]


# Baselines.


def read_baseline(
    paths: Sequence[Path],
    suite: str,
    name: str | None = None,
    *,
    but: SavedReport | None = None,
    redactor: Redactor | None = None,
    suites: Collection[str] = (),
) -> Baseline | NoComparison:
    """Read the reports that a run is compared with: the newest one is the baseline, the others are
    its history.

    Args:
        paths: report.json files, folders with one in them, or folders of such folders.
        suite: the name of the suite that is compared with them.
        name: the name of the baseline in sentences.
        but: the report to be compared, which is skipped as it cannot be its own baseline.
        redactor: redacts the names of cases in the same way as the suite's.
        suites: the names of all suites of the run, if known. A report of any other suite suggests
            that a suite was renamed, so a comparison was expected.

    Returns:
        The baseline, or the reason why there is none: no report, or reports of other suites only.

    Raises:
        StorageError: see `read_report`.
    """
    found = []
    for path in paths:
        found += [read_report(file) for file in _report_files(path)]
    if not found:
        places = " or ".join(path.as_posix() for path in paths)
        return NoComparison(f"there is no report at {places}")
    return baseline_of(found, suite, name, but=but, redactor=redactor, suites=suites)


def _report_files(path: Path) -> Sequence[Path]:
    folders = report_folders(path)
    if path in folders:
        return folders
    return [*folders, *sorted(path.glob("*.json"))]


def baseline_of(
    found: Sequence[SavedReport],
    suite: str,
    name: str | None = None,
    *,
    but: SavedReport | None = None,
    redactor: Redactor | None = None,
    suites: Collection[str] = (),
) -> Baseline | NoComparison:
    """Return a baseline made of one or more reports in memory. See `read_baseline`."""
    same = [report for report in found if report.suite.name == suite]
    if not same:
        other = found[0]
        reason = f"{other.name} is of another suite, {other.suite.name!r}"
        expected = bool(suites) and any(report.suite.name not in suites for report in found)
        return NoComparison(reason, expected)
    newest = same[0].name
    if but is not None:
        same = [report for report in same if report.report.id != but.report.id]
        if not same and newest == but.name:
            return NoComparison(f"{newest} is compared with itself")
        if not same:
            return NoComparison(f"{newest} and {but.name} are the same report")
    baseline = find_lost_reports(join([report.baseline for report in same]))
    if not baseline.cells:
        return NoComparison(f"{newest} has no cells")
    if name:
        baseline = replace(baseline, name=name)
    counting = any(cell.history.tally.graded for cell in baseline.cells.values())
    if baseline.lost and not counting and not baseline.broken:
        return NoComparison("; ".join(lost_report_sentences(baseline)), expected=True)
    if redactor is not None:
        keys = redactor.clean(tuple(baseline.cells))
        cells = dict(zip(keys, baseline.cells.values(), strict=True))
        baseline = replace(baseline, cells=cells, drift=redactor.clean(baseline.drift))
    return baseline


def with_answers(summary: Summary) -> Summary:
    """Return the summary with the base's answers for cells that changed or failed.

    Where main ran a cell in the same minutes, its answer is one of these runs; elsewhere, it is
    from the newest report. Of several, it is the one that is nearest to an answer that failed here.
    A missing answer must not cost the verdict, so files that cannot be read are left out.
    """
    comparison = summary.compared
    if comparison is None:
        return summary
    cells = _cells_to_compare(comparison)
    answers = _answers_of_main(comparison, cells)
    others = [cell for cell in cells if cell.key not in answers]
    answers |= _answers_of_report(comparison, others)
    views = {view.key: view for view in cell_views(summary)}
    before = {}
    for key, of_base in answers.items():
        failed_here = views[key].results("failed", most=MANY)
        before[key] = _nearest(of_base, failed_here)
    return replace(summary, before=before)


def _nearest(answers: Sequence[BaseAnswer], failed_here: Sequence[Result]) -> BaseAnswer:
    """Return the answer of the base that is nearest to one that failed here, else the first."""
    position = 0
    if len(answers) > 1 and failed_here:
        here = [_beginning(result) for result in failed_here]
        position, _ = nearest([answer.text for answer in answers], here)
    return answers[position]


def _answers_of_main(
    comparison: Comparison, cells: Iterable[CellComparison]
) -> dict[CellKey, Sequence[BaseAnswer]]:
    """Return answers of main in the same minutes, by the name of the cell here.

    They are those that passed, unless none did or main fails the case now, too.
    """
    main = comparison.main_now
    wanted = {comparison.base_key(cell.key): cell for cell in cells if cell.main_now.graded}
    if main is None or not wanted:
        return {}
    by_run: dict[CellKey, dict[int, BaseAnswer]] = {}
    try:
        for result in main.results(wanted.keys()):
            if result.status != "errored":
                answer = BaseAnswer(
                    text=_beginning(result),
                    is_now=True,
                    missed=_missed(result),
                )
                # A journal may have a run twice: the last one counts.
                key = result.case, result.provider, result.prompt
                by_run.setdefault(key, {})[result.run] = answer
    except StorageError:
        return {}
    answers: dict[CellKey, Sequence[BaseAnswer]] = {}
    for key, runs in by_run.items():
        cell = wanted[key]
        # Earlier runs are those of main's plan.
        made = [runs[run] for run in sorted(runs)][-cell.main_now.graded :]
        passed = [answer for answer in made if not answer.missed]
        failed = [answer for answer in made if answer.missed]
        if cell.cleared:
            answers[cell.key] = failed or passed
        else:
            answers[cell.key] = passed or failed
    return answers


def _answers_of_report(
    comparison: Comparison, cells: Sequence[CellComparison]
) -> dict[CellKey, Sequence[BaseAnswer]]:
    """Return answers of the newest report, by the name of the cell here.

    They are those that passed, unless none did.
    """
    if comparison.baseline.source is None or not cells:
        return {}
    try:
        base = read_report(Path(comparison.baseline.source)).report
    except StorageError:
        return {}
    numbers = {base.plan.key(cell): cell for cell in range(len(base.plan))}
    answers: dict[CellKey, Sequence[BaseAnswer]] = {}
    for cell in cells:
        number = numbers.get(comparison.base_key(cell.key))
        if number is None:
            continue
        statuses: tuple[Status, ...] = ("passed", "failed")
        for status in statuses:
            found = _answers_with(base, number, status)
            if found:
                answers[cell.key] = found
                break
    return answers


def _answers_with(report: SuiteReport, cell: int, status: Status) -> list[BaseAnswer]:
    """Return the answers of a cell's runs that ended with `status`, the confirm runs last."""
    results: list[Result] = []
    for part in (report, report.confirmation):
        if part is not None:
            results += part.results(part.indices(status, (cell,)))
    return [BaseAnswer(text=_beginning(result)) for result in results[:MANY]]


def _beginning(result: Result) -> str:
    return shorten(answer_text(result) or "", TEXT_CHARACTERS)


def _missed(result: Result) -> str:
    """Return the reasons of a failed run on one line; empty for one that passed."""
    if result.status == "passed":
        return ""
    missed = ", ".join(reason.sentence for reason in reasons_of(result))
    return one_line(missed, LINE_CHARACTERS)


def _cells_to_compare(comparison: Comparison) -> Sequence[CellComparison]:
    """Return the cells whose base answers are shown, the most important first."""
    chosen = [*comparison.select("regressed"), *comparison.select("suspect", "fixed")]
    others = comparison.select("flaky", "unchanged")
    chosen += [cell for cell in others if cell.head.passed < cell.head.graded]
    return chosen[:MAX_ANSWERS]


# Untrusted reports.


def judge_beside(saved: SavedReport, baseline: Baseline) -> Summary:
    """Re-judge an untrusted report against a trusted baseline.

    Whoever writes a report also writes its rules: the gate, the bars of its cases, and which of
    them are critical. So it is also judged by the rules of the baseline's report, and the worse
    verdict counts.

    Raises:
        StorageError: the file of the baseline no longer exists.
    """
    trusted = read_report(Path(str(baseline.source)))
    # What main graded and ran is a claim of whoever writes the report, too: it could clear it.
    report = replace(saved.report, ruler=None, main_now=None, main_cost=None)
    saved = replace(saved, report=report)
    summary = saved.judge(baseline)
    comparison = summary.compared
    assert comparison is not None
    strict = _under_rules_of(trusted, saved, comparison).judge(baseline)
    status = summary.verdict.status
    notes = []
    if status in ("pass", "borderline") and strict.verdict.status not in ("pass", status):
        summary = strict
        text = f"judged by those of {baseline.label}, which this pull request changes"
        notes.append(Note("Rules", text, brief=True))
    if missing := _missing_runs(saved, trusted, baseline.label):
        notes.append(Note("Missing", missing, brief=True))
    if edited := dict.fromkeys(cell.case for cell in comparison.select("edited")):
        names, *others = map(name_of, edited)
        if others:
            names = f"{names} and {number_of(len(others), 'more case')}"
        text = f"said to be another question than on {baseline.label}, or judged otherwise"
        notes.append(Note("Edited", f"{names}: {text}", brief=True))
    return with_answers(replace(summary, notes=tuple(notes)))


def _under_rules_of(
    trusted: SavedReport, saved: SavedReport, comparison: Comparison
) -> SavedReport:
    """Return a report with the gate of a trusted one, and with the rules of its cases."""
    own, report = saved.report, trusted.report
    known = {case.id: case for case in report.plan.cases}
    variants = own.plan.variants
    cases = []
    for case in own.plan.cases:
        ruled_case = case
        for variant in variants:
            name, *_ = comparison.base_key((case.id, variant.provider, variant.prompt))
            if name in known:
                ruled_case = replace(known[name], id=case.id, file=case.file, line=case.line)
                break
        cases.append(ruled_case)
    # Else a fork could hide that only recordings answered for its code, by disowning the provider
    # or by claiming that its job had secrets.
    own_code = (*own.suite.own_code, *report.suite.own_code)
    suite = replace(own.suite, own_code=own_code, without_secrets=True)
    ruled = _with_rules(own, cases, suite)
    if own.confirmation is not None:
        ruled.confirmation = _with_rules(own.confirmation, cases, suite)
    return replace(saved, report=ruled, gate=trusted.gate)


def _with_rules(report: SuiteReport, cases: Sequence[Case], suite: SuiteInfo) -> SuiteReport:
    """Return a report with other rules in its cases, and with each status derived from them."""
    plan = replace(report.plan, cases=cases)
    results: dict[int, Result] = {}
    indices = sorted(report.records)
    for index, result in zip(indices, report.results(indices), strict=True):
        results[index] = result
        if result.error is None and result.grades:
            status: Status = "failed"
            if passes(result.grades, plan.case(plan.cell_of(index)).threshold):
                status = "passed"
            results[index] = replace(result, status=status)
    return replace(
        report,
        suite=suite,
        plan=plan,
        records=records_of(results),
        lines=lines_of(results),
    )


def _missing_runs(saved: SavedReport, trusted: SavedReport, base: str) -> str:
    """`2 cases of main were not run; 3 cases have fewer runs than on main`; nothing if all were."""
    runs = {cell.key: cell.counts.planned - cell.counts.missing for cell in saved.head}
    expected = {cell.key: cell.counts.planned for cell in trusted.head}
    missing = sum(key not in runs for key in expected)
    fewer = 0
    # A report that may end early says nothing about how many runs there should be.
    if trusted.report.looks is None and trusted.report.settled is None:
        fewer = sum(runs.get(key, planned) < planned for key, planned in expected.items())
    parts = []
    if missing:
        verb = "was" if missing == 1 else "were"
        parts.append(f"{number_of(missing, 'case')} of {base} {verb} not run")
    if fewer:
        verb = "has" if fewer == 1 else "have"
        parts.append(f"{number_of(fewer, 'case')} {verb} fewer runs than on {base}")
    return "; ".join(parts)
