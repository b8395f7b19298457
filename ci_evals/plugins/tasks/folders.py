"""Reads task folders as cases: `task.toml`, `instruction.md`, `tests/test.sh`, and the files of
`environment`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from annotated_types import Gt
from pydantic import Strict
from pydantic_core import to_jsonable_python

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import closest
from ci_evals.model.case import Case, Task
from ci_evals.model.fields import Above0, Many, NonEmpty, Options, Seconds
from ci_evals.plugins.tasks.repositories import is_repository, is_url
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node, collect
from ci_evals.suite.problems import check
from ci_evals.suite.yaml import Lines, read_text

PATTERN = "**/task.toml"
_CLOSE = 0.85  # `gpus` is not a misspelt `cpus`, and `memory` is a key of another tool


@dataclass(frozen=True, slots=True)
class _Limits(Options):
    timeout_sec: Seconds | None = None


@dataclass(frozen=True, slots=True)
class _Environment(Options):
    docker_image: str | None = None
    cpus: Above0 | None = None
    memory_mb: Annotated[int, Strict(), Gt(0)] | None = None
    build_timeout_sec: Seconds | None = None
    setup_commands: Many[str] = ()
    repository: NonEmpty | None = None
    revision: NonEmpty | None = None


@dataclass(frozen=True, slots=True)
class _TaskFile(Options):
    """The keys of a task.toml that ci-evals reads; others are for other tools."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    agent: _Limits = _Limits()
    verifier: _Limits = _Limits()
    environment: _Environment = _Environment()


_SECTIONS = {
    "agent": _Limits,
    "verifier": _Limits,
    "environment": _Environment,
}


def discover_tasks(folder: Path | str, pattern: str = PATTERN) -> tuple[Case, ...]:
    """Find the tasks in a folder, each a case that passes with a full reward.

    Args:
        folder: the folder to search.
        pattern: a glob for the task.toml files, relative to the folder.

    Raises:
        ConfigError: a task is not complete, or there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        text = "there is no such folder to look for tasks in"
        raise ConfigError([Problem(root.as_posix(), None, "", text)])
    cases: list[Case] = []
    problems: list[Problem] = []
    for path in sorted(root.glob(pattern)):
        try:
            cases.append(read_task(path, path.as_posix(), pattern, root))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tuple(cases)


def read_task(path: Path, shown: str, pattern: str, root: Path) -> Case:
    """Read a task folder as a case, which the task's verifier judges.

    Args:
        path: the task.toml.
        shown: its name in error messages.
        pattern: the path or glob that it was found with.
        root: where the pattern starts.

    Raises:
        ConfigError: the file is not valid, or its instruction or its verifier is missing.
    """
    folder = path.parent
    file = _read_toml(path, shown)
    required = ("instruction.md", "tests/test.sh")
    missing = [name for name in required if not (folder / name).is_file()]
    if missing:
        texts = [f"there is no {name} next to it" for name in missing]
        raise ConfigError([Problem(shown, None, "", text) for text in texts])
    environment = file.environment
    repository = environment.repository
    if repository is not None and not is_url(repository):
        repository = str((folder / repository).resolve())
    task = Task(
        folder=folder.resolve(),
        digest=_digest(folder),
        image=environment.docker_image,
        has_dockerfile=(folder / "environment" / "Dockerfile").is_file(),
        cpus=environment.cpus,
        memory_mb=environment.memory_mb,
        setup=tuple(environment.setup_commands),
        agent_timeout_s=file.agent.timeout_sec,
        verifier_timeout_s=file.verifier.timeout_sec,
        build_timeout_s=environment.build_timeout_sec,
        repository=repository,
        revision=environment.revision,
    )
    instruction = folder / "instruction.md"
    tags = file.metadata.get("tags")
    if not isinstance(tags, list):
        tags = []
    return Case(
        id=_task_id(path, pattern, root),
        input=read_text(instruction, instruction.as_posix()).strip(),
        tags=tuple(map(str, tags)),
        metadata=to_jsonable_python(file.metadata),
        task=task,
        file=shown,
    )


def _task_id(path: Path, pattern: str, root: Path) -> str:
    """Return the task's folder, relative to the fixed part of the pattern.

    The fixed part of `tasks/**/task.toml` is `tasks`.
    """
    for part in PurePosixPath(pattern).parts[:-1]:
        if any(char in part for char in "*?["):
            break
        root = root / part
    inside = path.parent.relative_to(root).as_posix()
    if inside == ".":
        return path.parent.resolve().name
    return inside


def _read_toml(path: Path, shown: str) -> _TaskFile:
    text = read_text(path, shown)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = Problem(shown, None, "", f"not valid TOML: {error}")
        raise ConfigError([problem]) from None
    known: dict[str, Any] = {}
    if "metadata" in values:
        known["metadata"] = values["metadata"]
    for key, kind in _SECTIONS.items():
        if key in values:
            known[key] = _without_other_keys(values[key], kind)
    node = Node(known, _lines(text), shown)
    file, problems = collect(check(_TaskFile, node))
    if file is not None:
        problems += _check_repository(file.environment, node["environment"], path.parent)
    if file is None or problems:
        raise ConfigError(problems)
    return file


def _check_repository(environment: _Environment, node: Node, folder: Path) -> Iterator[Problem]:
    """Yield the problems of a task's repository, without fetching anything."""
    revision = environment.revision
    if revision is not None and environment.repository is None:
        yield node["revision"].problem("there is no repository for this revision: add `repository`")
    # Git would read it as an option.
    if revision is not None and revision.startswith("-"):
        yield node["revision"].problem("expected a commit, a tag or a branch")
    if environment.repository is None or is_url(environment.repository):
        return
    repository = folder / environment.repository
    if not repository.is_dir():
        yield node["repository"].problem(f"there is no folder {repository.as_posix()}")
    elif not is_repository(repository):
        advice = "put files that are not in a repository of their own into environment/"
        yield node["repository"].problem(f"is not a git repository: {advice}")


def _without_other_keys(section: Any, kind: type) -> Any:
    """Return a section without the keys of other tools.

    A key that is close to one of ours stays, to be reported.
    """
    if not isinstance(section, dict):
        return section
    known = keys_of(kind)
    return {key: value for key, value in section.items() if closest(key, known, _CLOSE)}


def _lines(text: str) -> Lines:
    """Return the lines of sections and keys in the usual notation: `tomllib` reports none."""
    root = Lines(1)
    section = root
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*(\w+)\s*\]", line)
        key = re.match(r"\s*(\w+)\s*=", line)
        if header:
            section = Lines(number)
            root.inside.setdefault(header[1], section)
        elif key:
            section.inside.setdefault(key[1], number)
    return root


def _digest(folder: Path) -> str:
    """Return a digest of all files in a folder."""
    digest = blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
