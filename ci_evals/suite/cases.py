"""Entries of `cases` into cases: inline, from YAML, JSON, JSONL and CSV files, from task folders, or Python objects."""

import csv
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import IO, Any

from pydantic_core import from_json

from ci_evals.errors import ConfigError, Problem
from ci_evals.graders.limits import GoalReached, Reward
from ci_evals.graders.scoring import TurnGrader
from ci_evals.model.case import Case, Cassette, Expectation, SimulatedUser, Task
from ci_evals.suite.expectations import read_expect, read_expectation
from ci_evals.suite.fingerprint import Templates
from ci_evals.suite.problems import Written, check, is_object, unknown
from ci_evals.suite.providers import ProviderReader
from ci_evals.suite.tasks import read_task, task_id
from ci_evals.suite.types import CaseFiles, TaskFolders
from ci_evals.suite.yaml import MAX_BYTES, MAX_DEPTH, Lines, parse, read_text

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row

_LONGEST_ID = 100
_PARSED_COLUMNS = frozenset(
    {"expect", "runs", "min_pass_rate", "critical", "timeout_s", "threshold", "overrides", "budget", "turns", "user"}
)


def with_ids(cases: Iterable[Any], place: tuple[str, int | None]) -> list[Any]:
    """Give every `Case` of a list an id: the first line of its input, numbered where taken. Texts become cases."""
    file, line = place
    given = [Case(input=each, file=file, line=line) if isinstance(each, str) else each for each in cases]
    taken = {str(each.id if isinstance(each, Case) else each.get("id")) for each in given if _has_id(each)}
    named = []
    for number, each in enumerate(given, 1):
        if isinstance(each, Case) and not each.id:
            lines = each.input.strip().splitlines() if isinstance(each.input, str) else []
            wanted = lines[0][:_LONGEST_ID].strip() if lines else f"case {number}"
            name, count = wanted, 1
            while name in taken:
                count += 1
                name = f"{wanted} ({count})"
            each = replace(each, id=name)  # noqa: PLW2901
            taken.add(name)
        named.append(each)
    return named


def _has_id(case: Any) -> bool:
    return bool(case.id if isinstance(case, Case) else isinstance(case, Mapping) and case.get("id"))


@dataclass(frozen=True, slots=True)
class Found:
    """A case as it is written, and as it was checked: None if it is wrong."""

    case: Case | None
    written: Written


class CaseReader:
    """Reads every case of a suite.

    Afterwards `tags` has the tags of all cases, and `knows_tags` is whether there can be no others.

    Args:
        folder: where relative paths start.
        defaults: the suite's own `expect`.
        problems: gets every problem.
        players: reads the providers that play users.
    """

    def __init__(self, folder: Path, defaults: Written, problems: list[Problem], players: ProviderReader) -> None:
        self.folder = folder
        self.problems = problems
        self.players = players
        self.tags: set[str] = set()
        self.knows_tags = False
        self._templates = Templates()
        self._expects_nothing = not defaults.value
        self._defaults = self._read_defaults(defaults)
        self._expected: dict[str, tuple[Expectation, ...]] = {}
        self._recordings: dict[Path, str] = {}
        self._places: dict[str, str] = {}

    def read(self, written: Written, threshold: float | None) -> tuple[Case, ...]:
        """Return every case, in the order of the file; `threshold` is for those without one."""
        before = told = len(self.problems)
        self.knows_tags = True
        cases: list[Case] = []
        for found in _entries(written, self.folder, self.problems):
            if found.case is None:
                self._check_broken(found.written)
            else:
                self.knows_tags &= len(self.problems) == told
                case = self._complete(found.case, found.written, threshold)
                cases += [case] if case else []
            told = len(self.problems)
            if told >= MAX_PROBLEMS:
                self.knows_tags = False
                break
        self.knows_tags &= len(self.problems) == told  # else there are files or rows that nobody could read
        if not cases and len(self.problems) == before:
            self.problems.append(written.problem("there are no cases"))
        return tuple(cases)

    def _complete(self, case: Case, written: Written, threshold: float | None) -> Case | None:
        """The case with all that is expected of it, and with what it names: a recording, a simulated user."""
        self._take_id(case.id, written)
        self.tags.update(case.tags)
        expect = self._expect(case, written)
        user = self._user(case, written)
        if case.user and user is None:
            return None
        if case.input is None and not (case.vars or case.messages or case.turns or user):
            text = "nothing is asked: give the case `input`, `vars`, `messages`, `turns` or a `user`"
            self.problems.append(written.problem(text))
            return None
        overrides = case.overrides
        return replace(
            case,
            expect=expect,
            threshold=threshold if case.threshold is None else case.threshold,
            timeout_s=overrides.timeout_s or case.timeout_s,
            cassette=self._recording(written["overrides"]["recorded"]) if overrides.recorded else None,
            user=user,
        )

    def _check_broken(self, written: Written) -> None:
        """Check what can be read of a case that is wrong elsewhere, so that mending it brings up nothing new."""
        if isinstance(id_ := written["id"].value, str) and id_:
            self._take_id(id_, written)
        if isinstance(written["expect"].value, list):
            read_expect(written["expect"], self.problems, self.folder)
        tags = written["tags"].value
        if isinstance(tags, list):
            self.tags.update(tag for tag in tags if isinstance(tag, str))
        else:
            self.knows_tags = False

    def _take_id(self, id_: str, written: Written) -> None:
        if id_ in self._places:
            text = f"the id {id_!r} is taken by the case at {self._places[id_]}"
            self.problems.append(written["id"].problem(text))
        else:
            self._places[id_] = f"{written.file}:{written.line}" if written.line else written.file

    def _recording(self, written: Written) -> Cassette | None:
        """The file that answers a case, with its digest, which is taken once."""
        path = self.folder / str(written.value)
        path = path / "results.jsonl" if path.is_dir() else path
        try:
            if path not in self._recordings:
                with path.open("rb") as file:
                    self._recordings[path] = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
            reason = getattr(error, "strerror", None) or str(error)
            text = f"the recording {written.value!r} cannot be read: {reason} (looked in {self.folder})"
            self.problems.append(written.problem(text))
            return None
        return Cassette(path, self._recordings[path])

    def _user(self, case: Case, written: Written) -> SimulatedUser | None:
        if case.user is None:
            return None
        if case.turns:
            text = "a conversation has `turns` or a simulated `user`, not both"
            self.problems.append(written.problem(text))
        options = self.players.player(written["user"]["provider"])
        return None if options is None else replace(case.user, provider=options)

    # What is expected.

    def _expect(self, case: Case, written: Written) -> tuple[Expectation, ...]:
        """What the suite expects of the case, then what the case itself does."""
        turns: list[Expectation] = []
        for number, turn in enumerate(case.turns, 1):
            entries = written["turns"][number - 1]["expect"] if turn.expect else None
            expected = read_expect(entries, self.problems, self.folder) if entries else ()
            turns += [replace(each, grader=TurnGrader(number, each.grader)) for each in expected]
        if not (case.expect or turns or case.task or case.user) and self._expects_nothing:
            text = "nothing is expected of the answer, so any would pass: add `expect`, such as `- not_empty: true`"
            self.problems.append(written.problem(text))
        defaults = [
            each if isinstance(each, Expectation) else self._filled(each, case, written) for each in self._defaults
        ]
        whole = [*(each for each in defaults if each), *turns, *self._own(written["expect"])]
        if case.task and not any(isinstance(each.grader, Reward) for each in whole):
            whole.insert(0, Expectation("reward", Reward()))
        if case.user and not any(isinstance(each.grader, GoalReached) for each in whole):
            whole.insert(0, Expectation("goal_reached", GoalReached()))
        return tuple(whole)

    def _own(self, written: Written) -> tuple[Expectation, ...]:
        """The same objects for all cases that expect the same, of which there may be thousands."""
        key = repr(written.value) if _is_plain(written.value) else None
        if key is not None and key in self._expected:
            return self._expected[key]
        before = len(self.problems)
        expected = read_expect(written, self.problems, self.folder)
        if key is not None and len(self.problems) == before and not any(each.place for each in expected):
            self._expected[key] = expected
        return expected

    def _read_defaults(self, written: Written) -> list[Expectation | Written]:
        """The suite's own expectations; those with templates as they are written, to be filled in for each case."""
        if not isinstance(written.value, list | tuple):
            return list(read_expect(written, self.problems, self.folder))
        defaults: list[Expectation | Written] = []
        for entry in written.items():
            if _has_template(entry.value):
                defaults.append(entry)
            elif expectation := read_expectation(entry, self.problems, self.folder):
                defaults.append(expectation)
        return defaults

    def _filled(self, template: Written, case: Case, written: Written) -> Expectation | None:
        problems: list[Problem] = []
        expectation = None
        try:
            value = _fill(template.value, {"input": case.input, **case.vars}, self._templates)
            expectation = read_expectation(template.having(value), problems, self.folder)
        except Exception as error:  # noqa: BLE001  a user's template can raise anything
            problems.append(template.problem(str(error)))
        for problem in problems:
            text = f"the suite's {problem.path} does not fit this case: {problem.message}"
            self.problems.append(written.problem(text))
        return expectation


def _is_plain(value: Any) -> bool:
    """Return True for what JSON can say, which is the same wherever its `repr` is."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return all(map(_is_plain, value.values())) if isinstance(value, dict) else not is_object(value)


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, dict):
        return any(map(_has_template, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_template, value))


def _fill(value: Any, values: dict[str, Any], templates: Templates) -> Any:
    if isinstance(value, str):
        return templates.text(value, values) if _has_template(value) else value
    if isinstance(value, dict):
        return {key: _fill(item, values, templates) for key, item in value.items()}
    return [_fill(item, values, templates) for item in value] if isinstance(value, list | tuple) else value


# Where cases are written.


def _entries(written: Written, folder: Path, problems: list[Problem]) -> Iterator[Found]:
    """Every case that `cases` names, in the order of the file; a file that is named twice is read once."""
    seen: set[Path] = set()
    if isinstance(written.value, Mapping):
        yield from _named(written, folder, problems, seen)
    elif isinstance(written.value, list | tuple):
        for entry in written.items():
            if isinstance(entry.value, Case):
                case = entry.value
                yield from _checked(Written(case, Lines(case.line), case.file, entry.path), problems)
            elif "file" in entry or "tasks" in entry:
                yield from _named(entry, folder, problems, seen)
            else:
                yield from _checked(entry, problems)
    else:
        problems.append(written.problem("expected a list of cases, or `file:` with a path or glob"))


def _checked(written: Written, problems: list[Problem], task: Task | None = None) -> Iterator[Found]:
    case = check(Case, written, problems, found={"file": written.file, "line": written.line, "task": task})
    if isinstance(written.value, Mapping) and "id" not in written:
        problems.append(written.problem("the key 'id' is missing"))
        case = None
    if case is not None or isinstance(written.value, Mapping | Case):
        yield Found(case, written)


def _named(written: Written, folder: Path, problems: list[Problem], seen: set[Path]) -> Iterator[Found]:
    """The cases of `file:` or `tasks:`."""
    if "tasks" in written:
        yield from _tasks(written, folder, problems)
    elif "file" in written:
        files = check(CaseFiles, written, problems)
        for _, path in _matches(files.file if files else (), "no such file:", written["file"], folder, problems):
            if path not in seen:
                seen.add(path)
                yield from _read_file(path, _shown(path, folder, written.file), problems)
    else:
        for key in written.value:
            text = unknown("key", str(key), ("file", "tasks"))
            problems.append(written[key].problem(text)._replace(path=written.path))
        if not written.value:
            text = "expected a list of cases, or `file:` or `tasks:` with a path or glob"
            problems.append(written.problem(text))


def _tasks(written: Written, folder: Path, problems: list[Problem]) -> Iterator[Found]:
    folders = check(TaskFolders, written, problems)
    patterns = folders.tasks if folders else ()
    for pattern, path in _matches(patterns, "no task.toml matches", written["tasks"], folder, problems):
        shown = _shown(path, folder, written.file)
        try:
            case = read_task(path, shown, task_id(path, pattern, folder))
        except ConfigError as error:
            problems.extend(error.problems)
        else:
            yield Found(case, Written(case, Lines(None), shown))


def _matches(
    patterns: str | Sequence[str], lack: str, written: Written, folder: Path, problems: list[Problem]
) -> Iterator[tuple[str, Path]]:
    """Each file with the path or glob that means it; `lack` begins to say that there is none."""
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        matches = _expand(folder, pattern)
        if not matches:
            problems.append(written.problem(f"{lack} {pattern!r} (looked in {folder})"))
        for match in matches:
            yield pattern, match


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


# Case files.


def _read_file(path: Path, shown: str, problems: list[Problem]) -> Iterator[Found]:
    try:
        match path.suffix.lower():
            case ".yaml" | ".yml" | ".json":
                written = Written(*parse(read_text(path, shown), shown, problems), shown)
                if isinstance(written.value, dict) and set(written.value) == {"cases"}:
                    written = written["cases"]
                if not isinstance(written.value, list):
                    problems.append(Problem(shown, 1, written.path, "expected a list of cases, as in `- id: …`"))
                    return
                for entry in written.items():
                    yield from _checked(entry, problems)
            case ".jsonl" | ".ndjson":
                yield from _read_jsonl(path, shown, problems)
            case ".csv":
                yield from _read_csv(path, shown, problems)
            case suffix:
                what = suffix or "a file without suffix"
                text = f"cannot read cases from {what}: use .yaml, .json, .jsonl or .csv"
                problems.append(Problem(shown, None, "", text))
    except ConfigError as error:
        problems.extend(error.problems)


def _read_jsonl(path: Path, shown: str, problems: list[Problem]) -> Iterator[Found]:
    with _open(path, shown, "rb") as file:
        for number, text in enumerate(file, 1):
            row = (text.removeprefix(BOM_UTF8) if number == 1 else text).strip()
            if not row:
                continue
            try:
                value = from_json(row, allow_inf_nan=False)
            except ValueError as error:
                problems.append(Problem(shown, number, "", f"not a line of JSON: {error}"))
            else:
                if row.count(b"{") + row.count(b"[") > MAX_DEPTH and _is_too_deep(value):
                    problems.append(Problem(shown, number, "", f"nested more than {MAX_DEPTH} levels deep"))
                else:
                    yield from _checked(Written(value, Lines(number), shown), problems)
            if len(problems) >= MAX_PROBLEMS:
                return


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


def _read_csv(path: Path, shown: str, problems: list[Problem]) -> Iterator[Found]:
    csv.field_size_limit(MAX_BYTES)
    with _open(path, shown, "r", encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            columns = [column.strip() for column in next(rows, [])]
            if message := _wrong_header(columns):
                problems.append(Problem(shown, 1, "", message))
                return
            line = rows.line_num + 1
            for cells in rows:
                if cells:  # else the line is blank
                    row = _case_of_cells(columns, cells, Written(None, Lines(line), shown), problems)
                    if row is not None:
                        yield from _checked(row, problems)
                if len(problems) >= MAX_PROBLEMS:
                    return
                line = rows.line_num + 1
        except csv.Error as error:
            problems.append(Problem(shown, rows.line_num, "", f"not valid CSV: {error}"))
        except UnicodeDecodeError:
            text = "not UTF-8: save the file as UTF-8"
            problems.append(Problem(shown, _first_line_not_utf8(path), "", text))


def _wrong_header(columns: Sequence[str]) -> str | None:
    if "id" not in columns:
        return "a column `id` is missing: results are compared by it, so it must be stable"
    twice = [column for index, column in enumerate(columns) if column in columns[:index]]
    return f"the column {twice[0]!r} is there twice: rename one of them" if twice else None


def _case_of_cells(
    columns: Sequence[str], cells: Sequence[str], row: Written, problems: list[Problem]
) -> Written | None:
    """`id`, `input`, `tags`, `expect` and the settings have their meaning; every other column is a var."""
    if len(cells) != len(columns):
        text = f"{len(cells)} cells under {len(columns)} columns: put quotes round a cell that has a comma in it"
        problems.append(row.problem(text))
        return None
    before = len(problems)
    case: dict[str, Any] = {"vars": {}}
    for column, cell in zip(columns, cells, strict=True):
        if column in ("id", "input"):
            case[column] = cell
        elif column == "tags":
            case[column] = [tag.strip() for tag in cell.replace(";", ",").split(",") if tag.strip()]
        elif column in _PARSED_COLUMNS:
            if cell.strip():
                case[column] = _parse_cell(cell, row[column], problems)
        elif column == "description":
            case[column] = cell or None
        else:
            case["vars"][column.removeprefix("vars.")] = cell
    return row.having(case) if len(problems) == before else None


def _parse_cell(cell: str, place: Written, problems: list[Problem]) -> Any:
    """A cell that holds YAML or JSON."""
    told: list[Problem] = []
    value = None
    try:
        value, _ = parse(cell, place.file, told)
    except ConfigError as error:
        told.extend(error.problems)
    problems += [place.problem(problem.message) for problem in told]
    return value


def _open(path: Path, shown: str, mode: str, **options: Any) -> IO[Any]:
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
