"""The cases that `cases` names: inline, in YAML, JSON, JSONL and CSV files, in task folders, or Python objects."""

import csv
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from ci_evals.errors import ConfigError, Problem
from ci_evals.model.case import Case
from ci_evals.suite.problems import Written, check, unknown
from ci_evals.suite.tasks import read_task, task_id
from ci_evals.suite.types import CaseFiles, TaskFolders
from ci_evals.suite.yaml import MAX_BYTES, Lines, parse, read_text

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row

_PARSED_COLUMNS = frozenset(
    {"expect", "runs", "min_pass_rate", "critical", "timeout_s", "threshold", "overrides", "budget", "turns", "user"}
)


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """A case as it is written, and as it was checked: None if it is wrong."""

    case: Case | None
    written: Written


def find_cases(written: Written, folder: Path, problems: list[Problem]) -> Iterator[CaseEntry]:
    """Yield every case that `cases` names, in the order of the file; a file that is named twice is read once.

    Args:
        written: the value of `cases`.
        folder: where relative paths start.
        problems: gets every problem.
    """
    seen: set[Path] = set()
    if isinstance(written.value, Mapping):
        yield from _cases_of(written, folder, problems, seen)
    elif isinstance(written.value, list | tuple):
        for entry in written.items():
            if isinstance(entry.value, Case):
                case = entry.value
                yield from _check_case(Written(case, Lines(case.line), case.file, entry.path, in_code=True), problems)
            elif "file" in entry or "tasks" in entry:
                yield from _cases_of(entry, folder, problems, seen)
            else:
                yield from _check_case(entry, problems)
    else:
        problems.append(written.problem("expected a list of cases, or `file:` with a path or glob"))


def _check_case(written: Written, problems: list[Problem]) -> Iterator[CaseEntry]:
    if written.in_code and not isinstance(written.value, Mapping | Case):
        problems.append(written.problem(f"expected a Case, or the text of its input, got {written.value!r:.80}"))
        return
    case = check(Case, written, problems, found={"file": written.file, "line": written.line})
    if isinstance(written.value, Mapping) and "id" not in written:
        problems.append(written.problem("the key 'id' is missing"))
        case = None
    if case is not None or isinstance(written.value, Mapping | Case):
        yield CaseEntry(case, written)


def _cases_of(written: Written, folder: Path, problems: list[Problem], seen: set[Path]) -> Iterator[CaseEntry]:
    """Yield the cases of `file:` or `tasks:`."""
    if "tasks" in written:
        yield from _tasks(written, folder, problems)
    elif "file" in written:
        files = check(CaseFiles, written, problems)
        for _, path in _matches(files.file if files else (), "no such file:", written["file"], folder, problems):
            if path not in seen:
                seen.add(path)
                for row in _read_rows(path, _display_path(path, folder, written.file), problems):
                    yield from _check_case(row, problems)
    elif written.value:
        for key in written.value:
            text = unknown("key", str(key), ("file", "tasks"))
            problems.append(written[key].problem(text)._replace(path=written.path))
    else:
        problems.append(written.problem("expected a list of cases, or `file:` or `tasks:` with a path or glob"))


def _tasks(written: Written, folder: Path, problems: list[Problem]) -> Iterator[CaseEntry]:
    tasks = check(TaskFolders, written, problems)
    patterns = tasks.tasks if tasks else ()
    for pattern, path in _matches(patterns, "no task.toml matches", written["tasks"], folder, problems):
        shown = _display_path(path, folder, written.file)
        try:
            case = read_task(path, shown, task_id(path, pattern, folder))
        except ConfigError as error:
            problems.extend(error.problems)
        else:
            yield CaseEntry(case, Written(case, Lines(None), shown))


def _matches(
    patterns: str | Sequence[str], lack: str, written: Written, folder: Path, problems: list[Problem]
) -> Iterator[tuple[str, Path]]:
    """Yield each file with the path or glob that means it; `lack` begins to say that there is none."""
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        path = folder / pattern
        try:
            start = Path(path.anchor) if Path(pattern).is_absolute() else folder
            globbed = [path] if path.is_file() else sorted(start.glob(str(path.relative_to(start))))
            matches = [match for match in globbed if match.is_file()]
        except (OSError, ValueError, IndexError, NotImplementedError):  # a glob of nothing is an IndexError
            matches = []
        if not matches:
            problems.append(written.problem(f"{lack} {pattern!r} (looked in {folder})"))
        for match in matches:
            yield pattern, match


def _display_path(path: Path, folder: Path, suite_file: str) -> str:
    """Return the file's name as the user would type it where they named the suite."""
    try:
        return (Path(suite_file).parent / path.relative_to(folder)).as_posix()
    except ValueError:
        return path.as_posix()


def _read_rows(path: Path, shown: str, problems: list[Problem]) -> Iterator[Written]:
    try:
        match path.suffix.lower():
            case ".yaml" | ".yml" | ".json":
                yield from _read_yaml(read_text(path, shown), shown, problems)
            case ".jsonl" | ".ndjson":
                yield from _read_jsonl(path, shown, problems)
            case ".csv":
                yield from _read_csv(read_text(path, shown), shown, problems)
            case suffix:
                what = suffix or "a file without suffix"
                text = f"cannot read cases from {what}: use .yaml, .json, .jsonl or .csv"
                problems.append(Problem(shown, None, "", text))
    except ConfigError as error:
        problems.extend(error.problems)


def _read_yaml(text: str, shown: str, problems: list[Problem]) -> Iterator[Written]:
    written = Written(*parse(text, shown, problems), shown)
    if isinstance(written.value, dict) and set(written.value) == {"cases"}:
        written = written["cases"]
    if isinstance(written.value, list):
        yield from written.items()
    else:
        problems.append(Problem(shown, 1, written.path, "expected a list of cases, as in `- id: …`"))


def _read_jsonl(path: Path, shown: str, problems: list[Problem]) -> Iterator[Written]:
    try:
        file = path.open("rb")
    except OSError as error:
        problems.append(Problem(shown, None, "", f"cannot be read: {error.strerror}"))
        return
    with file:
        for number, text in enumerate(file, 1):
            row = (text.removeprefix(BOM_UTF8) if number == 1 else text).strip()
            try:
                if row:
                    yield Written(from_json(row, allow_inf_nan=False), Lines(number), shown)
            except ValueError as error:
                problems.append(Problem(shown, number, "", f"not a line of JSON: {error}"))
            if len(problems) >= MAX_PROBLEMS:
                return


def _read_csv(text: str, shown: str, problems: list[Problem]) -> Iterator[Written]:
    csv.field_size_limit(MAX_BYTES)
    rows = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(rows, [])]
        twice = [column for index, column in enumerate(columns) if column in columns[:index]]
        if "id" not in columns:
            message = "a column `id` is missing: results are compared by it, so it must be stable"
            problems.append(Problem(shown, 1, "", message))
            return
        if twice:
            problems.append(Problem(shown, 1, "", f"the column {twice[0]!r} is there twice: rename one of them"))
            return
        line = rows.line_num + 1
        for cells in rows:
            place = Written(None, Lines(line), shown)
            if cells and len(cells) != len(columns):
                message = f"{len(cells)} cells under {len(columns)} columns"
                problems.append(place.problem(f"{message}: put quotes round a cell that has a comma in it"))
            elif cells and (case := _case_of_cells(dict(zip(columns, cells, strict=True)), place, problems)):
                yield place.having(case)
            if len(problems) >= MAX_PROBLEMS:
                return
            line = rows.line_num + 1
    except csv.Error as error:
        problems.append(Problem(shown, rows.line_num, "", f"not valid CSV: {error}"))


def _case_of_cells(cells: Mapping[str, str], place: Written, problems: list[Problem]) -> dict[str, Any] | None:
    """Return a row as a case: `id`, `input`, `tags`, `expect` and settings mean the same, other columns are vars.

    None if one of its cells is wrong.
    """
    before = len(problems)
    case: dict[str, Any] = {"vars": {}}
    for column, cell in cells.items():
        if column in ("id", "input"):
            case[column] = cell
        elif column == "description":
            case[column] = cell or None
        elif column == "tags":
            case[column] = [tag.strip() for tag in cell.replace(";", ",").split(",") if tag.strip()]
        elif column not in _PARSED_COLUMNS:
            case["vars"][column.removeprefix("vars.")] = cell
        elif cell.strip():
            found: list[Problem] = []
            try:
                case[column], _ = parse(cell, place.file, found)
            except ConfigError as error:
                found.extend(error.problems)
            problems += [place[column].problem(problem.message) for problem in found]
    return case if len(problems) == before else None
