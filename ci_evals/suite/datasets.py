"""The cases that `cases` names: inline, in YAML, JSON, JSONL and CSV files, in task folders, or
made by Python code.
"""

import csv
import inspect
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import quote
from ci_evals.model.case import Case
from ci_evals.registry import CASE_READERS
from ci_evals.suite.columns import ColumnMap, as_tags
from ci_evals.suite.file_values import FileValues
from ci_evals.suite.problems import Written, check, unknown
from ci_evals.suite.types import CaseFiles, CaseFunction, TaskFolders
from ci_evals.suite.yaml import MAX_BYTES, Lines, parse, read_text
from ci_evals.user_code import describe_crash, importable, load_target, missing_target, target_parts

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row

_PARSED_COLUMNS = frozenset(
    {
        *(
            "expect",
            "matrix",
            "runs",
            "min_pass_rate",
            "critical",
            "quarantine",
            "timeout_s",
            "threshold",
            "overrides",
        ),
        *("budget", "turns", "user"),
    }
)


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """A case as it is written, and as it was checked: None if it is wrong.

    If it `is_data`, values in it that look like a template or name a file are just that.
    """

    case: Case | None
    written: Written
    is_data: bool = False


_SOURCES = ("file", "tasks", "python")


def find_cases(written: Written, files: FileValues, problems: list[Problem]) -> Iterator[CaseEntry]:
    """Yield every case that `cases` names, in the order of the file; a file that is named twice is
    read once.

    Args:
        written: the value of `cases`.
        files: reads files that values name; its folder is where relative paths start.
        problems: gets every problem.
    """
    seen: set[Path] = set()
    if isinstance(written.value, Mapping):
        yield from _cases_of(written, files, problems, seen)
    elif isinstance(written.value, list | tuple):
        for entry in written.items():
            if isinstance(entry.value, Case):
                case = entry.value
                place = Written(case, Lines(case.line), case.file, entry.path, in_code=True)
                yield from _check_case(place, problems, is_data=True)
            elif any(source in entry for source in _SOURCES):
                yield from _cases_of(entry, files, problems, seen)
            else:
                yield from _check_case(entry, problems)
    else:
        example = f": write `{{file: {written.value}}}`" if isinstance(written.value, str) else ""
        problems.append(
            written.problem(f"expected a list of cases, or `file:` with a path or glob{example}")
        )


def _check_case(
    written: Written, problems: list[Problem], *, is_data: bool = False
) -> Iterator[CaseEntry]:
    if written.in_code and not isinstance(written.value, Mapping | Case):
        problems.append(
            written.problem(f"expected a Case, or the text of its input, got {written.value!r:.80}")
        )
        return
    case = check(Case, written, problems, found={"file": written.file, "line": written.line})
    if case is not None or isinstance(written.value, Mapping | Case):
        yield CaseEntry(case, written, is_data)


def _cases_of(
    written: Written, files: FileValues, problems: list[Problem], seen: set[Path]
) -> Iterator[CaseEntry]:
    """Yield the cases of `file:`, `tasks:` or `python:`."""
    if "tasks" in written:
        yield from _tasks(written, files.folder, problems)
    elif "python" in written:
        yield from _mapped(_items(written, files.folder, problems), written, files, problems)
    elif "file" in written:
        yield from _mapped(_rows(written, files.folder, problems, seen), written, files, problems)
    elif written.value:
        for key in written.value:
            text = unknown("key", str(key), _SOURCES)
            problems.append(written[key].problem(text)._replace(path=written.path))
    else:
        problems.append(
            written.problem("expected a list of cases, or `file:` or `tasks:` with a path or glob")
        )


def _mapped(
    rows: Iterable[Written], written: Written, files: FileValues, problems: list[Problem]
) -> Iterator[CaseEntry]:
    """Yield rows as cases: those of `map` where there is one."""
    if not isinstance(written["map"].value, Mapping):
        for row in rows:
            yield from _check_case(row, problems, is_data=row.in_code)
        return
    before = len(problems)
    columns = ColumnMap(written["map"], problems, files)
    for row in rows if len(problems) == before else ():
        if case := columns.fill(row):
            yield from _check_case(case, problems, is_data=True)
    problems += columns.problems()


def _rows(
    written: Written, folder: Path, problems: list[Problem], seen: set[Path]
) -> Iterator[Written]:
    files = check(CaseFiles, written, problems)
    for _, path in _matches(
        files.file if files else (), "no such file:", written["file"], folder, problems
    ):
        if path not in seen:
            seen.add(path)
            shown = _display_path(path, folder, written.file)
            yield from _read_rows(path, shown, problems, mapped="map" in written)


def _items(written: Written, folder: Path, problems: list[Problem]) -> Iterator[Written]:
    """Yield the cases or rows of `python:`."""
    options = check(CaseFunction, written, problems)
    place = written["python"]
    try:
        items = _call(options, place, folder) if options else []
    except ConfigError as error:
        problems += error.problems
        return
    for index, item in enumerate(items):
        path = f"{place.path}[{index}]"
        if isinstance(item, Case):
            yield Written(item, Lines(item.line), item.file, path, in_code=True)
        elif isinstance(item, Mapping):
            yield Written(item, place.lines, place.file, path, in_code=True)
        else:
            text = f"expected a Case or a mapping, got {item!r:.80}"
            problems.append(Problem(place.file, place.line, path, text))


def _call(options: CaseFunction, place: Written, folder: Path) -> list[Any]:
    """Return what a function of the team's own returns or yields. What it prints goes to stderr:
    stdout is ours.

    Raises:
        ConfigError: it isn't there, raised, or returned something else.
    """
    target = options.python
    if target_parts(target) is None:
        text = f"expected `module:function`, such as `cases:load`, got {quote(target)}"
        raise ConfigError([place.problem(text)])
    if lack := missing_target(target, folder):
        raise ConfigError([place.problem(lack)])
    try:
        with importable(folder), redirect_stdout(sys.stderr):
            found = load_target(target)(**options.params)
            if isinstance(found, Iterable) and not isinstance(found, Mapping | str | bytes):
                return list(found)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # the team's own code raises what it likes
        raise ConfigError([place.problem(f"{target} raised {describe_crash(error)}")]) from error
    if inspect.iscoroutine(found):
        found.close()  # else it warns that nobody awaited it
    kind = f"{target} returned a {type(found).__name__}"
    raise ConfigError([place.problem(f"{kind}: expected a list of cases, or a plain generator")])


def _tasks(written: Written, folder: Path, problems: list[Problem]) -> Iterator[CaseEntry]:
    tasks = check(TaskFolders, written, problems)
    patterns = tasks.tasks if tasks else ()
    for pattern, path in _matches(
        patterns, "no task.toml matches", written["tasks"], folder, problems
    ):
        shown = _display_path(path, folder, written.file)
        try:
            case = CASE_READERS["tasks"](path, shown, pattern, folder)
        except ConfigError as error:
            problems.extend(error.problems)
        else:
            yield CaseEntry(case, Written(case, Lines(None), shown))


def _matches(
    patterns: str | Sequence[str],
    lack: str,
    written: Written,
    folder: Path,
    problems: list[Problem],
) -> Iterator[tuple[str, Path]]:
    """Yield each file with the path or glob that means it; `lack` begins to say that there is
    none.
    """
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        path = folder / pattern
        try:
            start = Path(path.anchor) if Path(pattern).is_absolute() else folder
            globbed = [path] if path.is_file() else sorted(start.glob(str(path.relative_to(start))))
            matches = [match for match in globbed if match.is_file()]
        except (
            OSError,
            ValueError,
            IndexError,
            NotImplementedError,
        ):  # a glob of nothing is an IndexError
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


def _read_rows(
    path: Path, shown: str, problems: list[Problem], *, mapped: bool
) -> Iterator[Written]:
    try:
        match path.suffix.lower():
            case ".yaml" | ".yml" | ".json":
                yield from _read_yaml(read_text(path, shown), shown, problems)
            case ".jsonl" | ".ndjson":
                yield from _read_jsonl(path, shown, problems)
            case ".csv":
                yield from _read_csv(read_text(path, shown), shown, problems, mapped=mapped)
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
        problems.append(
            Problem(shown, 1, written.path, "expected a list of cases, as in `- id: …`")
        )


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


def _read_csv(text: str, shown: str, problems: list[Problem], *, mapped: bool) -> Iterator[Written]:
    """Yield each row of a CSV file: as a case, or as it is where it is `mapped`."""
    csv.field_size_limit(MAX_BYTES)
    rows = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(rows, [])]
        twice = [column for index, column in enumerate(columns) if column in columns[:index]]
        misspelt = [column for column in columns if column.lower() == "id" and "id" not in columns]
        if misspelt and not mapped:
            message = f"call the column {misspelt[0]!r} `id`, or say with `map: {{id: {misspelt[0]}, …}}` what is what"
            problems.append(Problem(shown, 1, "", message))
            return
        if twice:
            problems.append(
                Problem(shown, 1, "", f"the column {twice[0]!r} is there twice: rename one of them")
            )
            return
        line = rows.line_num + 1
        for cells in rows:
            place = Written(None, Lines(line), shown)
            if cells and len(cells) != len(columns):
                message = f"{len(cells)} cells under {len(columns)} columns"
                problems.append(
                    place.problem(f"{message}: put quotes round a cell that has a comma in it")
                )
            elif cells and mapped:
                yield place.having(dict(zip(columns, cells, strict=True)))
            elif cells and (
                case := _case_of_cells(dict(zip(columns, cells, strict=True)), place, problems)
            ):
                yield place.having(case)
            if len(problems) >= MAX_PROBLEMS:
                return
            line = rows.line_num + 1
    except csv.Error as error:
        problems.append(Problem(shown, rows.line_num, "", f"not valid CSV: {error}"))


def _case_of_cells(
    cells: Mapping[str, str], place: Written, problems: list[Problem]
) -> dict[str, Any] | None:
    """Return a row as a case: `id`, `input`, `tags`, `expect` and settings mean the same, other
    columns are vars.

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
            case[column] = as_tags(cell)
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
