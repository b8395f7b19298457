"""Case entries as they are decoded, and the rows of .jsonl and .csv, which are read one at a time."""

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from ci_evals.config.decode import Decoder
from ci_evals.config.file_types import CaseEntry
from ci_evals.config.source import MAX_BYTES, MAX_DEPTH, parse, plain
from ci_evals.errors import ConfigError, Problem
from ci_evals.model import Task

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row

_ROW = msgspec.json.Decoder(CaseEntry)
_PARSED_COLUMNS = frozenset(
    {"expect", "runs", "min_pass_rate", "critical", "timeout_s", "threshold", "overrides", "budget", "turns", "user"}
)


class Found(Struct, frozen=True):
    """A case entry, as decoded and as parsed, and where it was written; `entry` is None if it could not be decoded."""

    entry: CaseEntry | None
    raw: Any
    file: str
    path: str
    line: int | None
    task: Task | None = None

    def given(self, key: str) -> Any:
        """What the entry has under a key, as it is written there."""
        return self.raw.get(key) if isinstance(self.raw, dict) else getattr(self.raw, key)


def decoded(raw: Any, decoder: Decoder, path: str, line: int | None) -> Iterator[Found]:
    try:
        entry: CaseEntry | None = msgspec.convert(plain(raw), CaseEntry)
    except msgspec.ValidationError:
        entry = decoder.struct(raw, CaseEntry, path, line)  # the slow way finds every problem and its line
    if entry is not None or isinstance(raw, dict):
        yield Found(entry, raw, decoder.file, path, line)


def read_jsonl(path: Path, decoder: Decoder) -> Iterator[Found]:
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
    yield from decoded(raw, decoder, "", number)


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


def read_csv(path: Path, decoder: Decoder) -> Iterator[Found]:
    import csv

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
                    yield from decoded(case, decoder, "", line)
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
