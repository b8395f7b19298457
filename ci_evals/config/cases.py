"""Cases, inline and from files. Rows of .jsonl and .csv are read one at a time."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ci_evals.config.decode import Decoder
from ci_evals.config.expectations import decode_expect
from ci_evals.config.file_types import CaseEntry, CaseFiles
from ci_evals.config.source import MAX_BYTES, line_of, parse, plain, read_text
from ci_evals.errors import ConfigError, Problem
from ci_evals.model import Case, Expectation
from ci_evals.suite import Templates

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row

_ROW = msgspec.json.Decoder(CaseEntry)
_SETTING_COLUMNS = frozenset({"description", "runs", "min_pass_rate", "timeout_s", "threshold"})


class _Found(NamedTuple):
    """A case entry and where it was written."""

    entry: CaseEntry
    raw: Any
    file: str
    path: str
    line: int | None


class CaseReader:
    """Reads every case of a suite; problems go to the suite's list.

    Args:
        folder: where relative paths start.
        defaults: the suite's own `expect`, as parsed.
        default_threshold: the suite's own `threshold`.
        suite: decodes values of the suite's file.
    """

    def __init__(self, folder: Path, defaults: Any, default_threshold: float | None, suite: Decoder) -> None:
        self.folder = folder
        self.suite = suite
        self.problems = suite.problems
        self.threshold = default_threshold
        self.defaults = defaults or []
        self.templates = Templates()
        self.templated = _has_template(self.defaults)
        self.shared = () if self.templated else self._default_expectations(self.defaults)
        self.places: dict[str, tuple[str, int | None]] = {}

    def read(self, entries: Any, line: int | None) -> tuple[Case, ...]:
        """Every case that `cases:` names, in the order of the file."""
        cases = []
        for found in self._entries(entries, line):
            if case := self._case(found):
                cases.append(case)
            if len(self.problems) >= MAX_PROBLEMS:
                break
        if not cases and not self.problems:
            self.suite.problem(line, "cases", "there are no cases")
        return tuple(cases)

    # From entries to cases.

    def _case(self, found: _Found) -> Case | None:
        entry = found.entry
        decoder = Decoder(found.file, self.problems)
        first = self.places.setdefault(entry.id, (found.file, found.line))
        if first != (found.file, found.line):
            where = f"{first[0]}:{first[1]}" if first[1] else first[0]
            decoder.problem(
                found.line, _under(found.path, "id"), f"the id {entry.id!r} is taken by the case at {where}"
            )
            return None
        if entry.input is None and not entry.vars and not entry.messages:
            decoder.problem(found.line, found.path, "nothing is asked: give the case `input`, `vars` or `messages`")
            return None
        own = found.raw.get("expect") if isinstance(found.raw, dict) else entry.expect
        expect = self._defaults_for(entry, found, decoder) + decode_expect(
            own, decoder, _under(found.path, "expect"), line_of(found.raw, "expect") or found.line
        )
        if not expect and not own:
            text = "nothing is expected of the answer, so any would pass: add `expect`, such as `- not_empty: true`"
            decoder.problem(found.line, found.path, text)
        return Case(
            id=entry.id,
            vars=entry.vars,
            input=entry.input,
            messages=entry.messages,
            expect=expect,
            threshold=self.threshold if entry.threshold is None else entry.threshold,
            tags=entry.tags,
            runs=entry.runs,
            min_pass_rate=entry.min_pass_rate,
            timeout_s=entry.timeout_s,
            description=entry.description,
            metadata=entry.metadata,
            file=found.file,
            line=found.line,
        )

    def _defaults_for(self, entry: CaseEntry, found: _Found, decoder: Decoder) -> tuple[Expectation, ...]:
        if not self.templated:
            return self.shared
        values = {"input": entry.input, **entry.vars}
        try:
            filled = _fill(plain(self.defaults), values, self.templates)
        except Exception as error:  # noqa: BLE001  a user's template can raise anything
            decoder.problem(found.line, found.path, f"the suite's `expect` does not fit this case: {error}")
            return ()
        return self._default_expectations(filled)

    def _default_expectations(self, entries: Any) -> tuple[Expectation, ...]:
        return decode_expect(entries, self.suite, "expect", line_of(self.defaults, 0) if self.defaults else None)

    # From files to entries.

    def _entries(self, entries: Any, line: int | None) -> Iterator[_Found]:
        if isinstance(entries, dict):
            yield from self._files(entries, "cases", line)
        elif isinstance(entries, list):
            for index, entry in enumerate(entries):
                path, entry_line = f"cases[{index}]", line_of(entries, index) or line
                if isinstance(entry, dict) and "file" in entry:
                    yield from self._files(entry, path, entry_line)
                else:
                    yield from _decoded(entry, self.suite, path, entry_line)
        else:
            self.suite.problem(line, "cases", "expected a list of cases, or `file:` with a path or glob")

    def _files(self, entry: Any, path: str, line: int | None) -> Iterator[_Found]:
        files = self.suite.struct(entry, CaseFiles, path, line)
        for pattern in [] if files is None else [files.file] if isinstance(files.file, str) else files.file:
            matches = _expand(self.folder, pattern)
            if not matches:
                self.suite.problem(line, f"{path}.file", f"no such file: {pattern} (looked in {self.folder})")
            for match in matches:
                try:
                    yield from self._file(match)
                except ConfigError as error:
                    self.problems.extend(error.problems)

    def _file(self, path: Path) -> Iterator[_Found]:
        shown = _shown(path, self.folder, self.suite.file)
        decoder = Decoder(shown, self.problems)
        match path.suffix.lower():
            case ".yaml" | ".yml" | ".json":
                yield from _whole_file(parse(read_text(path, shown), shown), decoder)
            case ".jsonl" | ".ndjson":
                yield from _jsonl(path, decoder)
            case ".csv":
                yield from _csv(path, decoder)
            case other:
                decoder.problem(
                    None,
                    "",
                    f"cannot read cases from {other or 'a file without suffix'}: use .yaml, .json, .jsonl or .csv",
                )


def _decoded(raw: Any, decoder: Decoder, path: str, line: int | None) -> Iterator[_Found]:
    try:
        entry: CaseEntry | None = msgspec.convert(plain(raw), CaseEntry)
    except msgspec.ValidationError:
        entry = decoder.struct(raw, CaseEntry, path, line)  # the slow way finds every problem and its line
    if entry is not None:
        yield _Found(entry, raw, decoder.file, path, line)


def _whole_file(data: Any, decoder: Decoder) -> Iterator[_Found]:
    prefix = ""
    if isinstance(data, dict) and set(data) == {"cases"}:
        data, prefix = data["cases"], "cases"
    if not isinstance(data, list):
        decoder.problem(1, "", "expected a list of cases")
        return
    for index, raw in enumerate(data):
        yield from _decoded(raw, decoder, f"{prefix}[{index}]", line_of(data, index))


def _jsonl(path: Path, decoder: Decoder) -> Iterator[_Found]:
    with _opened(path, decoder.file, "rb") as file:
        for number, text in enumerate(file, 1):
            line = text.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else text.strip()
            if not line:
                continue
            try:
                yield _Found(entry := _ROW.decode(line), entry, decoder.file, "", number)
            except msgspec.ValidationError:
                yield from _decoded(msgspec.json.decode(line), decoder, "", number)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                decoder.problem(number, "", f"not a line of JSON: {error}")


def _csv(path: Path, decoder: Decoder) -> Iterator[_Found]:
    csv.field_size_limit(MAX_BYTES)
    with _opened(path, decoder.file, "r", encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        try:
            if "id" not in (rows.fieldnames or ()):
                decoder.problem(1, "", "a column `id` is missing: results are compared by it, so it must be stable")
                return
            line = rows.line_num + 1
            for row in rows:
                yield from _decoded(_from_columns(row, decoder, line), decoder, "", line)
                line = rows.line_num + 1
        except csv.Error as error:
            decoder.problem(rows.line_num, "", f"not valid CSV: {error}")
        except UnicodeDecodeError:
            decoder.problem(rows.line_num + 1, "", "not UTF-8: save the file as UTF-8")


def _from_columns(row: dict[str | Any, Any], decoder: Decoder, line: int) -> dict[str, Any]:
    """`id`, `input`, `tags`, `expect` and the settings have their meaning; every other column is a var."""
    case: dict[str, Any] = {"vars": {}}
    for column, cell in row.items():
        if column is None or cell is None:
            decoder.problem(
                line, "", f"{'more' if column is None else 'fewer'} cells than columns: quote cells with commas"
            )
        elif column in ("id", "input"):
            case[column] = cell
        elif column == "tags":
            case[column] = [tag.strip() for tag in cell.replace(";", ",").split(",") if tag.strip()]
        elif column == "expect" or column in _SETTING_COLUMNS:
            if cell.strip():
                case[column] = cell if column == "description" else plain(parse(cell, f"{decoder.file}:{line}"))
        else:
            case["vars"][column.removeprefix("vars.")] = cell
    return case


def _opened(path: Path, shown: str, mode: str, **options: Any) -> Any:
    try:
        return path.open(mode, **options)
    except OSError as error:
        raise ConfigError([Problem(shown, None, "", f"cannot be read: {error.strerror}")]) from None


def _expand(folder: Path, pattern: str) -> list[Path]:
    plain_path = folder / pattern
    if plain_path.is_file():
        return [plain_path]
    anchor = Path(plain_path.anchor) if Path(pattern).is_absolute() else folder
    relative = str(Path(pattern).relative_to(anchor)) if Path(pattern).is_absolute() else pattern
    try:
        return sorted(path for path in anchor.glob(relative) if path.is_file())
    except (ValueError, NotImplementedError):
        return []


def _shown(path: Path, folder: Path, suite_file: str) -> str:
    """The file's name as the user would type it where they named the suite."""
    try:
        return (Path(suite_file).parent / path.relative_to(folder)).as_posix()
    except ValueError:
        return path.as_posix()


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _has_template(value: Any) -> bool:
    return any("{{" in text or "{%" in text for text in _texts(value))


def _fill(value: Any, values: dict[str, Any], templates: Templates) -> Any:
    if isinstance(value, str):
        return templates.text(value, values) if _has_template(value) else value
    if isinstance(value, dict):
        return {key: _fill(item, values, templates) for key, item in value.items()}
    return [_fill(item, values, templates) for item in value] if isinstance(value, list) else value
