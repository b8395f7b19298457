"""Case entries, inline and from files. Rows of .jsonl and .csv are read one at a time."""

import csv
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from ci_evals.config.code import Case, entry_of
from ci_evals.config.decode import Decoder, unknown
from ci_evals.config.file_types import CaseEntry, CaseFiles, TaskFolders
from ci_evals.config.source import MAX_BYTES, MAX_DEPTH, line_of, parse, plain, read_text
from ci_evals.config.tasks import read_task, task_id
from ci_evals.errors import ConfigError, Problem
from ci_evals.model import Case as CheckedCase
from ci_evals.model import Task

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row

_ROW = msgspec.json.Decoder(CaseEntry)
_PARSED_COLUMNS = frozenset(
    {"expect", "runs", "min_pass_rate", "critical", "timeout_s", "threshold", "overrides", "budget", "turns", "user"}
)


class Found(NamedTuple):
    """A case entry, as decoded and as parsed, and where it was written; `entry` is None if it could not be decoded."""

    entry: CaseEntry | None
    raw: Any
    file: str
    path: str
    line: int | None
    task: Task | None = None


class EntryReader:
    """Reads the entries that `cases` names, in the order of the file; a file that is named twice is read once.

    Args:
        folder: where relative paths start.
        suite: decodes values of the suite's file, and gets all problems.
    """

    def __init__(self, folder: Path, suite: Decoder) -> None:
        self.folder = folder
        self.suite = suite
        self.seen: set[Path] = set()

    def read(self, entries: Any, line: int | None) -> Iterator[Found]:
        if isinstance(entries, dict):
            yield from self._named(entries, "cases", line)
        elif isinstance(entries, list):
            for index, entry in enumerate(entries):
                path, entry_line = f"cases[{index}]", line_of(entries, index) or line
                if isinstance(entry, Case):
                    yield self._written(entry, path)
                elif isinstance(entry, CheckedCase) and entry.task:
                    yield _discovered(entry, path)
                elif isinstance(entry, dict) and ("file" in entry or "tasks" in entry):
                    yield from self._named(entry, path, entry_line)
                else:
                    yield from _decoded(entry, self.suite, path, entry_line)
        else:
            self.suite.problem(line, "cases", "expected a list of cases, or `file:` with a path or glob")

    def _named(self, entry: Any, path: str, line: int | None) -> Iterator[Found]:
        if "tasks" in entry:
            yield from self._tasks(entry, path, line)
        elif "file" in entry:
            yield from self._files(entry, path, line)
        else:
            for key in entry:
                self.suite.problem(line_of(entry, key) or line, path, unknown("key", key, ("file", "tasks")))
            if not entry:
                self.suite.problem(line, path, "expected a list of cases, or `file:` or `tasks:` with a path or glob")

    def _tasks(self, entry: Any, path: str, line: int | None) -> Iterator[Found]:
        folders = self.suite.struct(entry, TaskFolders, path, line)
        line = line_of(entry, "tasks") or line
        for pattern in [] if folders is None else [folders.tasks] if isinstance(folders.tasks, str) else folders.tasks:
            matches = _expand(self.folder, pattern)
            if not matches:
                text = f"no task.toml matches {pattern!r} (looked in {self.folder})"
                self.suite.problem(line, f"{path}.tasks", text)
            for match in matches:
                shown = _shown(match, self.folder, self.suite.file)
                try:
                    case, task = read_task(match, shown, task_id(match, pattern, self.folder))
                except ConfigError as error:
                    self.suite.problems.extend(error.problems)
                else:
                    yield Found(case, case, shown, "", None, task)

    def _written(self, case: Case, path: str) -> Found:
        entry = entry_of(case, Decoder(case.file, self.suite.problems), path)
        return Found(entry, {"id": case.id} if entry is None else entry, case.file, path, case.line)

    def _files(self, entry: Any, path: str, line: int | None) -> Iterator[Found]:
        files = self.suite.struct(entry, CaseFiles, path, line)
        line = line_of(entry, "file") or line
        for pattern in [] if files is None else [files.file] if isinstance(files.file, str) else files.file:
            matches = _expand(self.folder, pattern)
            if not matches:
                self.suite.problem(line, f"{path}.file", f"no such file: {pattern!r} (looked in {self.folder})")
            for match in matches:
                if match not in self.seen:
                    self.seen.add(match)
                    yield from self._file(match)

    def _file(self, path: Path) -> Iterator[Found]:
        decoder = Decoder(_shown(path, self.folder, self.suite.file), self.suite.problems)
        try:
            match path.suffix.lower():
                case ".yaml" | ".yml" | ".json":
                    text = read_text(path, decoder.file)
                    yield from _whole_file(parse(text, decoder.file, decoder.problems), decoder)
                case ".jsonl" | ".ndjson":
                    yield from _jsonl(path, decoder)
                case ".csv":
                    yield from _csv(path, decoder)
                case suffix:
                    what = suffix or "a file without suffix"
                    decoder.problem(None, "", f"cannot read cases from {what}: use .yaml, .json, .jsonl or .csv")
        except ConfigError as error:
            decoder.problems.extend(error.problems)


def _decoded(raw: Any, decoder: Decoder, path: str, line: int | None) -> Iterator[Found]:
    try:
        entry: CaseEntry | None = msgspec.convert(plain(raw), CaseEntry)
    except msgspec.ValidationError:
        entry = decoder.struct(raw, CaseEntry, path, line)  # the slow way finds every problem and its line
    if entry is not None or isinstance(raw, dict):
        yield Found(entry, raw, decoder.file, path, line)


def _discovered(case: CheckedCase, path: str) -> Found:
    """A task that `discover_tasks` found."""
    entry = CaseEntry(
        id=case.id,
        description=case.description,
        input=case.input,
        tags=case.tags,
        runs=case.runs,
        min_pass_rate=case.min_pass_rate,
        threshold=case.threshold,
        overrides=case.overrides,
        metadata=dict(case.metadata),
    )
    return Found(entry, entry, case.file, path, None, case.task)


def _whole_file(data: Any, decoder: Decoder) -> Iterator[Found]:
    prefix = ""
    if isinstance(data, dict) and set(data) == {"cases"}:
        data, prefix = data["cases"], "cases"
    if not isinstance(data, list):
        decoder.problem(1, prefix, "expected a list of cases, as in `- id: …`")
        return
    for index, raw in enumerate(data):
        yield from _decoded(raw, decoder, f"{prefix}[{index}]", line_of(data, index))


# Rows.


def _jsonl(path: Path, decoder: Decoder) -> Iterator[Found]:
    with _opened(path, decoder.file, "rb") as file:
        for number, text in enumerate(file, 1):
            line = text.removeprefix(BOM_UTF8).strip() if number == 1 else text.strip()
            if line:
                yield from _row(line, decoder, number)
            if len(decoder.problems) >= MAX_PROBLEMS:
                return


def _row(text: bytes, decoder: Decoder, number: int) -> Iterator[Found]:
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        try:
            entry = _ROW.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # the slow way finds every problem
        else:
            yield Found(entry, entry, decoder.file, "", number)
            return
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        decoder.problem(number, "", f"not a line of JSON: {error}")
        return
    if _is_too_deep(raw):
        decoder.problem(number, "", f"nested more than {MAX_DEPTH} levels deep")
        return
    yield from _decoded(raw, decoder, "", number)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def _csv(path: Path, decoder: Decoder) -> Iterator[Found]:
    csv.field_size_limit(MAX_BYTES)
    with _opened(path, decoder.file, "r", encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            columns = [column.strip() for column in next(rows, [])]
            if message := _wrong_header(columns):
                decoder.problem(1, "", message)
                return
            line = rows.line_num + 1
            for cells in rows:
                case = _from_cells(columns, cells, decoder, line)
                if case is not None:
                    yield from _decoded(case, decoder, "", line)
                if len(decoder.problems) >= MAX_PROBLEMS:
                    return
                line = rows.line_num + 1
        except csv.Error as error:
            decoder.problem(rows.line_num, "", f"not valid CSV: {error}")
        except UnicodeDecodeError:
            decoder.problem(_first_line_not_utf8(path), "", "not UTF-8: save the file as UTF-8")


def _wrong_header(columns: Sequence[str]) -> str | None:
    if "id" not in columns:
        return "a column `id` is missing: results are compared by it, so it must be stable"
    twice = [column for index, column in enumerate(columns) if column in columns[:index]]
    return f"the column {twice[0]!r} is there twice: rename one of them" if twice else None


def _from_cells(columns: Sequence[str], cells: Sequence[str], decoder: Decoder, line: int) -> dict[str, Any] | None:
    """`id`, `input`, `tags`, `expect` and the settings have their meaning; every other column is a var."""
    if not cells:
        return None  # a blank line
    if len(cells) != len(columns):
        text = f"{len(cells)} cells under {len(columns)} columns: put quotes round a cell that has a comma in it"
        decoder.problem(line, "", text)
        return None
    before = len(decoder.problems)
    case: dict[str, Any] = {"vars": {}}
    for column, cell in zip(columns, cells, strict=True):
        if column in ("id", "input"):
            case[column] = cell
        elif column == "tags":
            case[column] = [tag.strip() for tag in cell.replace(";", ",").split(",") if tag.strip()]
        elif column in _PARSED_COLUMNS:
            if cell.strip():
                case[column] = _parsed(cell, decoder, column, line)
        elif column == "description":
            case[column] = cell or None
        else:
            case["vars"][column.removeprefix("vars.")] = cell
    return case if len(decoder.problems) == before else None


def _parsed(cell: str, decoder: Decoder, column: str, line: int) -> Any:
    """A cell that holds YAML or JSON."""
    problems: list[Problem] = []
    value = None
    try:
        value = parse(cell, decoder.file, problems)
    except ConfigError as error:
        problems.extend(error.problems)
    for problem in problems:
        decoder.problem(line, column, problem.message)
    return plain(value)


# Files.


def _opened(path: Path, shown: str, mode: str, **options: Any) -> IO[Any]:
    try:
        return path.open(mode, **options)
    except OSError as error:
        raise ConfigError([Problem(shown, None, "", f"cannot be read: {error.strerror}")]) from None


def _first_line_not_utf8(path: Path) -> int | None:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.decode(errors="replace").encode() != line:
                return number
    return None


def _expand(folder: Path, pattern: str) -> list[Path]:
    """The files that a path or glob means, sorted; none if it cannot mean any."""
    path = folder / pattern
    try:
        if path.is_file():
            return [path]
        start = Path(path.anchor) if Path(pattern).is_absolute() else folder
        return sorted(match for match in start.glob(str(path.relative_to(start))) if match.is_file())
    except (OSError, ValueError, IndexError, NotImplementedError):  # a glob of nothing is an IndexError
        return []


def _shown(path: Path, folder: Path, suite_file: str) -> str:
    """The file's name as the user would type it where they named the suite."""
    try:
        return (Path(suite_file).parent / path.relative_to(folder)).as_posix()
    except ValueError:
        return path.as_posix()
