"""Reads cases: inline, from files and task folders, or from Python code."""

import csv
import inspect
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from jinja2 import TemplateError
from pydantic_core import from_json

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import number_of, quote
from ci_evals.model.case import Case
from ci_evals.registry import CASE_READERS, is_installed, missing_clause
from ci_evals.suite.file_values import FileValues, file_named
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node, Reading, collect
from ci_evals.suite.problems import and_more, check, unknown
from ci_evals.suite.types import CaseFiles, CaseFunction, TaskFolders
from ci_evals.suite.yaml import MAX_BYTES, Lines, parse, read_text
from ci_evals.templating import Render, describe_error, is_template, json_renderer
from ci_evals.user_code.crashes import describe_crash
from ci_evals.user_code.folders import code_folders, importable
from ci_evals.user_code.targets import load_target, missing_target, target_parts

_SOURCES = ("file", "tasks", "python")
WRITTEN_BY_HAND = (".yaml", ".yml", ".json")
"""The endings of files whose cases are usually written by hand; other files have rows of data."""
TABLES = (".csv", ".tsv", ".xlsx")
"""The endings of files whose cases are rows below a header."""
EXPECTED = "expected"
"""The column of a table whose text the answer must contain if there are no other checks."""
_YAML_COLUMNS = frozenset(
    {
        "budget",
        "critical",
        "expect",
        "matrix",
        "min_pass_rate",
        "overrides",
        "quarantine",
        "runs",
        "threshold",
        "timeout_s",
        "turns",
        "user",
    }
)
"""The columns of a table whose cells are YAML."""


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """A case as written and as checked.

    Args:
        node: the case as it is written.
        case: the case; None if it is invalid.
        problems: its problems.
        is_data: True for data, where a text is never a template or a reference to a file.
    """

    node: Node
    case: Case | None
    problems: Sequence[Problem] = ()
    is_data: bool = False

    @property
    def is_in_table(self) -> bool:
        """True for a row of a table with a header."""
        return self.node.file.lower().endswith(TABLES)

    @property
    def is_row(self) -> bool:
        """True for a row of data, whose question is sent as it is."""
        return self.is_data or not self.node.file.lower().endswith(WRITTEN_BY_HAND)


def read_entries(node: Node, files: FileValues) -> Iterator[CaseEntry | Problem]:
    """Yield every case of `cases` in file order, and problems.

    A file that is named twice is read once.

    Args:
        node: the value of `cases`.
        files: reads files that values name; its folder is where relative paths start.
    """
    seen: set[Path] = set()
    if isinstance(node.value, Mapping):
        yield from _read_source(node, files, seen)
    elif isinstance(node.value, list | tuple):
        for entry in node.items():
            if isinstance(entry.value, Case):
                case = entry.value
                place = Node(case, Lines(case.line), case.file, entry.path, in_code=True)
                yield from _check_case(place, is_data=True)
            elif any(source in entry for source in _SOURCES):
                yield from _read_source(entry, files, seen)
            else:
                yield from _check_case(entry)
    else:
        example = ""
        if isinstance(node.value, str):
            example = f": write `{{file: {node.value}}}`"
        yield node.problem(f"expected a list of cases, or `file:` with a path or glob{example}")


def _check_case(node: Node, *, is_data: bool = False) -> Iterator[CaseEntry | Problem]:
    is_case = isinstance(node.value, dict | Mapping | Case)
    if node.in_code and not is_case:
        text = f"expected a Case, or the text of its input, got {node.value!r:.80}"
        yield node.problem(text)
        return
    case, problems = collect(check(Case, node, extra={"file": node.file, "line": node.line}))
    if is_case:
        yield CaseEntry(node, case, problems, is_data)
    else:
        yield from problems


def _read_source(node: Node, files: FileValues, seen: set[Path]) -> Iterator[CaseEntry | Problem]:
    """Yield the cases of `file:`, `tasks:` or `python:`."""
    if "tasks" in node:
        yield from _read_tasks(node, files.folder)
    elif "python" in node:
        yield from _read_mapped(_call_function(node, files.folder), node, files)
    elif "file" in node:
        yield from _read_mapped(_read_files(node, files.folder, seen), node, files)
    elif node.value:
        for key in node.value:
            text = unknown("key", str(key), _SOURCES)
            yield node[key].problem(text)._replace(path=node.path)
    else:
        yield node.problem("expected a list of cases, or `file:` or `tasks:` with a path or glob")


def _read_mapped(
    rows: Iterable[Node | Problem], node: Node, files: FileValues
) -> Iterator[CaseEntry | Problem]:
    """Yield rows as cases, with the `map` of their source if it has one."""
    columns = None
    if isinstance(node["map"].value, Mapping):
        columns, problems = collect(read_map(node["map"], files))
        if problems:
            yield from problems
            return
    for row in rows:
        if isinstance(row, Problem):
            yield row
        elif columns is None:
            yield from _check_case(row, is_data=row.in_code)
        else:
            case = columns.fill(row)
            if case is not None:
                yield from _check_case(case, is_data=True)
    if columns is not None:
        yield from columns.problems()


def _read_files(node: Node, folder: Path, seen: set[Path]) -> Iterator[Node | Problem]:
    """Yield the rows of `file:`."""
    source = yield from check(CaseFiles, node)
    if source is None:
        return
    files = yield from _find_files(source.file, "no such file:", node["file"], folder)
    for _, path in files:
        if path not in seen:
            seen.add(path)
            shown = _display_path(path, folder, node.file)
            yield from _read_rows(path, shown, source)


def _call_function(node: Node, folder: Path) -> Iterator[Node | Problem]:
    """Yield the cases or rows of `python:`."""
    source = yield from check(CaseFunction, node)
    if source is None:
        return
    place = node["python"]
    try:
        items = _call(source, place, folder)
    except ConfigError as error:
        yield from error.problems
        return
    for index, item in enumerate(items):
        path = f"{place.path}[{index}]"
        if isinstance(item, Case):
            yield Node(item, Lines(item.line), item.file, path, in_code=True)
        elif isinstance(item, Mapping):
            yield Node(item, place.lines, place.file, path, in_code=True)
        else:
            text = f"expected a Case or a mapping, got {item!r:.80}"
            yield Problem(place.file, place.line, path, text)


def _call(source: CaseFunction, place: Node, folder: Path) -> list[Any]:
    """Return the items that a function of the team's own returns or yields.

    Its output goes to stderr, because stdout is for the results of ci-evals.

    Raises:
        ConfigError: the function does not exist, raised, or returned something else.
    """
    target = source.python
    if target_parts(target) is None:
        text = f"expected `module:function`, such as `cases:load`, got {quote(target)}"
        raise ConfigError([place.problem(text)])
    lack = missing_target(target, folder)
    if lack:
        raise ConfigError([place.problem(lack)])
    try:
        with importable(folder, code_folders()), redirect_stdout(sys.stderr):
            items = load_target(target)(**source.params)
            if isinstance(items, Iterable) and not isinstance(items, Mapping | str | bytes):
                return list(items)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # the team's own code may raise anything
        raise ConfigError([place.problem(f"{target} raised {describe_crash(error)}")]) from error
    if inspect.iscoroutine(items):
        items.close()  # avoids the warning that it was never awaited
    text = f"{target} returned a {type(items).__name__}"
    raise ConfigError([place.problem(f"{text}: expected a list of cases, or a plain generator")])


def _read_tasks(node: Node, folder: Path) -> Iterator[CaseEntry | Problem]:
    source = yield from check(TaskFolders, node)
    if source is None:
        return
    if not is_installed(CASE_READERS["tasks"]):
        yield node["tasks"].problem(missing_clause(CASE_READERS["tasks"]))
        return
    files = yield from _find_files(source.tasks, "no task.toml matches", node["tasks"], folder)
    read_task = resolve_name(CASE_READERS["tasks"])
    for pattern, path in files:
        shown = _display_path(path, folder, node.file)
        try:
            case = read_task(path, shown, pattern, folder)
        except ConfigError as error:
            yield from error.problems
        else:
            yield CaseEntry(Node(case, Lines(None), shown), case)


def _find_files(
    patterns: str | Sequence[str], lack: str, node: Node, folder: Path
) -> Reading[list[tuple[str, Path]]]:
    """Return pairs of a path or glob, and a file that it matches.

    Args:
        patterns: paths and globs.
        lack: how the problem of a pattern without a file begins.
        node: the patterns as they are written.
        folder: where relative paths start.
    """
    if isinstance(patterns, str):
        patterns = (patterns,)
    pairs: list[tuple[str, Path]] = []
    for pattern in patterns:
        files = _match(pattern, folder)
        if not files:
            yield node.problem(f"{lack} {pattern!r} (looked in {folder})")
        pairs += ((pattern, file) for file in files)
    return pairs


def _match(pattern: str, folder: Path) -> list[Path]:
    path = folder / pattern
    start = folder
    if Path(pattern).is_absolute():
        start = Path(path.anchor)
    try:
        if path.is_file():
            return [path]
        return [
            match for match in sorted(start.glob(str(path.relative_to(start)))) if match.is_file()
        ]
    except (OSError, ValueError, IndexError, NotImplementedError):  # `glob` raises all of these
        return []


def _display_path(path: Path, folder: Path, suite_file: str) -> str:
    """Return the file's path as relative as the suite's, so that it can be clicked and typed."""
    try:
        return (Path(suite_file).parent / path.relative_to(folder)).as_posix()
    except ValueError:
        return path.as_posix()


def _read_rows(path: Path, shown: str, source: CaseFiles) -> Iterator[Node | Problem]:
    mapped = source.map is not None
    try:
        match path.suffix.lower():
            case ".yaml" | ".yml" | ".json":
                yield from _read_yaml(read_text(path, shown), shown)
            case ".jsonl" | ".ndjson":
                yield from _read_jsonl(path, shown)
            case ".csv" | ".tsv":
                text = read_text(path, shown)
                delimiter = source.delimiter or _find_delimiter(path, text)
                yield from _read_csv(text, shown, delimiter, mapped=mapped)
            case ".xlsx":
                try:
                    read_workbook = resolve_name(CASE_READERS[".xlsx"])
                except ModuleNotFoundError:
                    text = "reading .xlsx needs openpyxl: `pip install 'ci-evals[xlsx]'`"
                    yield Problem(shown, None, "", text)
                else:
                    yield from _read_table(read_workbook(path, shown), shown, mapped=mapped)
            case suffix:
                what = suffix or "a file without suffix"
                text = f"cannot read cases from {what}: use .yaml, .json, .jsonl, .csv or .xlsx"
                yield Problem(shown, None, "", text)
    except ConfigError as error:
        yield from error.problems


def _read_yaml(text: str, shown: str) -> Iterator[Node | Problem]:
    value, lines, problems = parse(text, shown)
    yield from problems
    node = Node(value, lines, shown)
    if isinstance(value, dict) and value.keys() == {"cases"}:
        node = node["cases"]
    if isinstance(node.value, list):
        yield from node.items()
    else:
        yield Problem(shown, 1, node.path, "expected a list of cases, as in `- id: …`")


def _read_jsonl(path: Path, shown: str) -> Iterator[Node | Problem]:
    try:
        file = path.open("rb")
    except OSError as error:
        yield Problem(shown, None, "", f"cannot be read: {error.strerror}")
        return
    with file:
        # Line by line: a file of millions of cases need not fit into memory.
        for number, line in enumerate(file, 1):
            text = line.strip()
            if number == 1:
                text = text.removeprefix(BOM_UTF8).strip()
            if not text:
                continue
            try:
                value = from_json(text, allow_inf_nan=False)
            except ValueError as error:
                yield Problem(shown, number, "", f"not a line of JSON: {error}")
            else:
                yield Node(value, Lines(number), shown)


def _find_delimiter(path: Path, text: str) -> str:
    """Return the delimiter that splits the header into several columns; a comma if none does."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    for delimiter in (",", ";", "\t"):
        with suppress(csv.Error):
            header = next(csv.reader(StringIO(text, newline=""), delimiter=delimiter), [])
            if len(header) > 1:
                return delimiter
    return ","


def _read_csv(text: str, shown: str, delimiter: str, *, mapped: bool) -> Iterator[Node | Problem]:
    """Yield each row of a CSV file: as a case, or unchanged if it is `mapped`."""
    # The default of 128 KB is too little for documents, and `read_text` has a limit of its own.
    csv.field_size_limit(MAX_BYTES)
    rows = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)

    def number_rows() -> Iterator[tuple[int, list[str]]]:
        line = 1
        for cells in rows:
            yield line, cells
            line = rows.line_num + 1

    try:
        yield from _read_table(number_rows(), shown, delimiter, mapped=mapped)
    except csv.Error as error:
        yield Problem(shown, rows.line_num, "", f"not valid CSV: {error}")


_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


def _read_table(
    rows: Iterator[tuple[int, list[str]]], shown: str, delimiter: str = "", *, mapped: bool
) -> Iterator[Node | Problem]:
    """Yield each row below the header of a table: as a case, or unchanged if it is `mapped`.

    Args:
        rows: line numbers, and the cells that start there; no cells for a blank line.
        shown: the file.
        delimiter: what separates cells, if they are text.
        mapped: True if the source has a `map`, so that column names are free.
    """
    _, header = next(rows, (1, []))
    columns = [column.strip() for column in header]
    wrong = _check_columns(columns, mapped=mapped)
    if wrong is not None:
        yield Problem(shown, 1, "", wrong)
        return
    for line, cells in rows:
        place = Node(None, Lines(line), shown)
        if not cells:
            continue
        # Not padded: the usual cause is a delimiter without quotes, which shifts other cells.
        if len(cells) != len(columns):
            text = f"{number_of(len(cells), 'cell')} under {number_of(len(columns), 'column')}"
            if delimiter:
                between = _DELIMITERS[delimiter]
                text += f": put quotes round a cell that has {between} in it"
                if len(columns) == 1:
                    text += f", or set `delimiter` if {between} is not what separates cells"
            yield place.problem(text)
            continue
        row: dict[str, Any] | None = dict(zip(columns, cells, strict=True))
        if row and not mapped:
            row = yield from _read_cells(row, place)
        if row is not None:
            yield place.with_value(row)


def _check_columns(columns: Sequence[str], *, mapped: bool) -> str | None:
    """Return the problem of a table's header."""
    if not mapped and "id" not in columns:
        for column in columns:
            if column.lower() == "id":
                remedy = f"map it with `map: {{id: {column}, …}}`"
                return f"rename the column {column!r} to `id`, or {remedy}"
    for column in columns:
        if columns.count(column) > 1:
            return f"the column {column!r} appears twice: rename one of them"
    return None


def _read_cells(cells: Mapping[str, str], place: Node) -> Reading[dict[str, Any] | None]:
    """Return a row as a case; None if one of its cells is invalid.

    `id`, `input`, `tags`, `expect` and settings mean the same as in YAML; other columns are vars.
    """
    case: dict[str, Any] = {"vars": {}}
    is_right = True
    for column, cell in cells.items():
        if column in ("id", "input"):
            case[column] = cell
        elif column == "description":
            case[column] = cell or None
        elif column == "tags":
            case[column] = _split_tags(cell)
        elif column not in _YAML_COLUMNS:
            case["vars"][column.removeprefix("vars.")] = cell
        elif cell.strip():
            try:
                case[column], _, problems = parse(cell, place.file)
            except ConfigError as error:
                problems = list(error.problems)
            for problem in problems:
                is_right = False
                yield place[column].problem(problem.message)
    if is_right:
        return case
    return None


# `map`: how the columns of a data set become cases.

_COLUMN_FIELDS = frozenset({"id", "description", "input", "vars", "tags", "metadata"})
"""The fields in which plain text is the name of a column. In others it is the value."""
_FILE_FIELDS = frozenset({"vars", "matrix"})
"""The fields in which `{file: …}` stands for the content of a file."""


class _MisfitError(Exception):
    """A row lacks a column or a file that the map asks for."""

    def __init__(self, message: str, place: Node) -> None:
        super().__init__(message)
        self.place = place


class ColumnMap:
    """Turns rows into cases.

    Args:
        node: the value of `map`: a case with columns, or templates over `row`, as values.
        renderers: makes the value of each field from the names of a template.
    """

    def __init__(self, node: Node, renderers: Mapping[str, Render]) -> None:
        self._node = node
        self._renderers = renderers
        self._misfits: dict[Problem, list[str]] = {}

    def fill(self, row: Node) -> Node | None:
        """Return a row as a case; None if it is not a mapping, or lacks a value for a field."""
        if not isinstance(row.value, Mapping):
            self._note(self._node, "expected rows with columns: a mapping for each", row)
            return None
        case: dict[str, Any] = {}
        for key, render in self._renderers.items():
            try:
                value = render({"row": row.value})
            except _MisfitError as error:
                self._note(error.place, str(error), row)
            except Exception as error:  # noqa: BLE001  a user's template can raise anything
                names = [f"row.{column}" for column in row.value]
                self._note(self._node[key], describe_error(error, names), row)
            else:
                case[key] = _as_field(key, value)
        if len(case) < len(self._renderers):
            return None
        return row.with_value(case)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of rows, each once, with the place of its first row."""
        for problem, (first, *others) in self._misfits.items():
            where = f"{first}{and_more(len(others))}"
            yield problem._replace(message=f"{problem.message} ({where})")

    def _note(self, place: Node, message: str, row: Node) -> None:
        where = row.file
        if row.line is not None:
            where = f"{row.file}:{row.line}"
        self._misfits.setdefault(place.problem(message), []).append(where)


def read_map(node: Node, files: FileValues) -> Reading[ColumnMap]:
    """Read the value of `map`; `files` reads the files that values name."""
    renderers: dict[str, Render] = {}
    for key in node.value:
        if key not in keys_of(Case):
            text = unknown("key", str(key), keys_of(Case))
            yield node[key].problem(text)._replace(path=node.path)
            continue
        try:
            renderers[key] = _renderer(node[key], key, files)
        except TemplateError as error:
            yield node[key].problem(f"not a valid template: {error}")
    return ColumnMap(node, renderers)


def _renderer(node: Node, field: str, files: FileValues) -> Render:
    """Return a function that makes a value of a field from the names of a template.

    Raises:
        TemplateError: a text is not a valid template.
    """
    value = node.value
    if isinstance(value, str):
        if field in _COLUMN_FIELDS and not is_template(value):
            return partial(_take_column, node)
        return json_renderer(value)
    if field in _FILE_FIELDS and file_named(value):
        return partial(_read_file, json_renderer(value), node, files)
    if isinstance(value, Mapping):
        fields = {key: _renderer(node[key], field, files) for key in value}
        return lambda names: {key: render(names) for key, render in fields.items()}
    if isinstance(value, list | tuple):
        items = [_renderer(item, field, files) for item in node.items()]
        return lambda names: [render(names) for render in items]
    return lambda _: value


def _take_column(node: Node, names: Mapping[str, Any]) -> Any:
    name = node.value
    row = names["row"]
    if name not in row:
        raise _MisfitError(unknown("column", name, map(str, row)), node)
    return row[name]


def _read_file(render: Render, node: Node, files: FileValues, names: Mapping[str, Any]) -> Any:
    value, problems = collect(files.fill(node.with_value(render(names))))
    if problems:
        raise _MisfitError("; ".join(problem.message for problem in problems), node)
    return value


def _as_field(key: str, value: Any) -> Any:
    """Return the value of a field with the type of a case: ids and tags of a data set are text."""
    match key:
        case "id" if value is None:
            return ""
        case "description" if value is None:
            return None
        case "id" | "description":
            return str(value)
        case "tags":
            return _split_tags(value)
    return value


def _split_tags(value: Any) -> list[str]:
    """Return tags as a list; in a text, commas or semicolons separate them."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [tag for item in value for tag in _split_tags(item)]
    tags = (tag.strip() for tag in str(value).replace(";", ",").split(","))
    return [tag for tag in tags if tag]
