"""Task folders into cases: `task.toml`, `instruction.md`, `tests/test.sh`, perhaps
`environment/Dockerfile`.
"""

import re
import tomllib
from collections.abc import Mapping
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
from ci_evals.model.fields import Above0, Many, Options, Seconds
from ci_evals.suite.keys import keys_of
from ci_evals.suite.problems import Written, check
from ci_evals.suite.yaml import Lines, read_text

PATTERN = "**/task.toml"
_CLOSE = 0.85  # `gpus` is no misspelt `cpus`, and `memory` is another tool's


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


@dataclass(frozen=True, slots=True)
class _TaskFile(Options):
    """The keys of a task.toml that are read; others are for other tools."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    agent: _Limits = _Limits()
    verifier: _Limits = _Limits()
    environment: _Environment = _Environment()


def discover_tasks(folder: Path | str, pattern: str = PATTERN) -> tuple[Case, ...]:
    """Find the tasks in a folder, each a case that is passed by a full reward.

    Args:
        folder: where to look.
        pattern: a glob for the task.toml files, relative to the folder.

    Raises:
        ConfigError: a task is not complete, or there is no such folder.
    """
    cases: list[Case] = []
    problems: list[Problem] = []
    root = Path(folder)
    if not root.is_dir():
        raise ConfigError(
            [Problem(root.as_posix(), None, "", "there is no such folder to look for tasks in")]
        )
    for path in sorted(root.glob(pattern)):
        try:
            cases.append(read_task(path, path.as_posix(), task_id(path, pattern, root)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tuple(cases)


def task_id(path: Path, pattern: str, root: Path) -> str:
    """Return the task's folder as seen from the plain part of the pattern: of `tasks/**/task.toml`,
    from `tasks`.
    """
    fixed = []
    for part in PurePosixPath(pattern).parts[:-1]:
        if any(char in part for char in "*?["):
            break
        fixed.append(part)
    inside = path.parent.relative_to(root.joinpath(*fixed)).as_posix()
    return path.parent.resolve().name if inside == "." else inside


def read_task(path: Path, shown: str, name: str) -> Case:
    """Read a task.toml with what lies beside it as a case, which its verifier judges.

    Args:
        path: the file.
        shown: its name in error messages.
        name: the id of the case.

    Raises:
        ConfigError: it is not valid, or its instruction or its verifier is missing.
    """
    folder = path.parent
    file = _decode(path, shown)
    missing = [
        name for name in ("instruction.md", "tests/test.sh") if not (folder / name).is_file()
    ]
    if missing:
        raise ConfigError(
            [Problem(shown, None, "", f"there is no {each} beside it") for each in missing]
        )
    environment = file.environment
    tags = file.metadata.get("tags")
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
    )
    return Case(
        id=name,
        input=read_text(folder / "instruction.md", (folder / "instruction.md").as_posix()).strip(),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        metadata=to_jsonable_python(file.metadata),
        task=task,
        file=shown,
    )


def _decode(path: Path, shown: str) -> _TaskFile:
    text = read_text(path, shown)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(shown, None, "", f"not valid TOML: {error}")]) from None
    problems: list[Problem] = []
    lines = _lines(text)
    own = {key: _own(values[key], kind) for key, kind in _SECTIONS.items() if key in values}
    file = check(_TaskFile, Written(own, lines, shown), problems)
    if file is None:
        raise ConfigError(problems)
    return file


_SECTIONS: Mapping[str, type | None] = {
    "metadata": None,
    "agent": _Limits,
    "verifier": _Limits,
    "environment": _Environment,
}


def _own(section: Any, kind: type | None) -> Any:
    """Return a section without the keys of other tools; one close to a key that is read stays, to
    be reported.
    """
    if not isinstance(section, dict) or kind is None:
        return section
    return {key: value for key, value in section.items() if closest(key, keys_of(kind), _CLOSE)}


def _lines(text: str) -> Lines:
    """Return the line of each section and of each key in it, as far as they are written in the
    usual way.
    """
    root = Lines(1)
    section = root
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            section = Lines(number)
            root.inside.setdefault(header[1], section)
        elif key := re.match(r"\s*(\w+)\s*=", line):
            section.inside.setdefault(key[1], number)
    return root


def _digest(folder: Path) -> str:
    digest = blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(
                f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content
            )
    return digest.hexdigest()
