"""The entries that `cases` names: inline, from files, from task folders."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ci_evals.config.decode import Decoder, is_written_in_code, unknown
from ci_evals.config.file_types import CaseEntry, CaseFiles, TaskFolders
from ci_evals.config.rows import Found, decoded, read_csv, read_jsonl
from ci_evals.config.source import line_of, parse, read_text
from ci_evals.errors import ConfigError
from ci_evals.model import Case


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
                if is_written_in_code(entry):
                    yield from self._written(entry, path, entry_line)
                elif isinstance(entry, dict) and ("file" in entry or "tasks" in entry):
                    yield from self._named(entry, path, entry_line)
                else:
                    yield from decoded(entry, self.suite, path, entry_line)
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
        from ci_evals.config.tasks import read_task, task_id

        patterns = folders.tasks if folders else ()
        for pattern, match in self._matches(patterns, "no task.toml matches", f"{path}.tasks", line):
            shown = _shown(match, self.folder, self.suite.file)
            try:
                case, task = read_task(match, shown, task_id(match, pattern, self.folder))
            except ConfigError as error:
                self.suite.problems.extend(error.problems)
            else:
                yield Found(case, case, shown, "", None, task)

    def _matches(
        self, patterns: str | Iterable[str], lack: str, path: str, line: int | None
    ) -> Iterator[tuple[str, Path]]:
        """Each file with the path or glob that means it; `lack` begins to say that there is none."""
        for pattern in (patterns,) if isinstance(patterns, str) else patterns:
            matches = _expand(self.folder, pattern)
            if not matches:
                self.suite.problem(line, path, f"{lack} {pattern!r} (looked in {self.folder})")
            for match in matches:
                yield pattern, match

    def _written(self, case: Any, path: str, line: int | None) -> Iterator[Found]:
        """A case that is an object: one that was written, or a task that `discover_tasks` found."""
        from ci_evals.config import code

        if isinstance(case, code.Case):
            entry = code.entry_of(case, Decoder(case.file, self.suite.problems), path)
            yield Found(entry, {"id": case.id} if entry is None else entry, case.file, path, case.line)
        elif isinstance(case, Case) and case.task:
            yield _discovered(case, path)
        else:
            yield from decoded(case, self.suite, path, line)

    def _files(self, entry: Any, path: str, line: int | None) -> Iterator[Found]:
        files = self.suite.struct(entry, CaseFiles, path, line)
        line = line_of(entry, "file") or line
        for _, match in self._matches(files.file if files else (), "no such file:", f"{path}.file", line):
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
                    yield from read_jsonl(path, decoder)
                case ".csv":
                    yield from read_csv(path, decoder)
                case suffix:
                    what = suffix or "a file without suffix"
                    decoder.problem(None, "", f"cannot read cases from {what}: use .yaml, .json, .jsonl or .csv")
        except ConfigError as error:
            decoder.problems.extend(error.problems)


def _discovered(case: Case, path: str) -> Found:
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
        yield from decoded(raw, decoder, f"{prefix}[{index}]", line_of(data, index))


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
