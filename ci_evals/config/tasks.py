"""Task folders into cases: `task.toml`, `instruction.md`, `tests/test.sh`, perhaps `environment/Dockerfile`."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ci_evals.config.decode import Decoder
from ci_evals.config.file_types import CaseEntry
from ci_evals.config.source import Map, read_text
from ci_evals.errors import ConfigError, Problem
from ci_evals.graders.reward import Reward
from ci_evals.model import Case, Expectation, Task

PATTERN = "**/task.toml"
_CLOSE = 0.85  # `gpus` is no misspelt `cpus`, and `memory` is another tool's
REWARD = Expectation("reward", Reward())

_Seconds = Annotated[float, Meta(gt=0)]


class _Limits(Struct, frozen=True):
    timeout_sec: _Seconds | None = None


class _Environment(Struct, frozen=True):
    docker_image: str | None = None
    cpus: Annotated[float, Meta(gt=0)] | None = None
    memory_mb: Annotated[int, Meta(gt=0)] | None = None
    build_timeout_sec: _Seconds | None = None
    setup_commands: tuple[str, ...] = ()


class _TaskFile(Struct, frozen=True):
    """What is read of a task.toml; other keys are for other tools."""

    metadata: dict[str, Any] = {}
    agent: _Limits = _Limits()
    verifier: _Limits = _Limits()
    environment: _Environment = _Environment()


def discover_tasks(folder: Path | str, pattern: str = PATTERN) -> tuple[Case, ...]:
    """The tasks in a folder, each a case that is passed by a full reward.

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
        raise ConfigError([Problem(root.as_posix(), None, "", "there is no such folder to look for tasks in")])
    for path in sorted(root.glob(pattern)):
        try:
            entry, task = read_task(path, path.as_posix(), task_id(path, pattern, root))
        except ConfigError as error:
            problems += error.problems
        else:
            cases.append(
                Case(
                    id=entry.id,
                    input=entry.input,
                    tags=entry.tags,
                    metadata=entry.metadata,
                    expect=(REWARD,),
                    task=task,
                    file=path.as_posix(),
                )
            )
    if problems:
        raise ConfigError(problems)
    return tuple(cases)


def task_id(path: Path, pattern: str, root: Path) -> str:
    """The task's folder as seen from the part of the pattern that is plain: of `tasks/**/task.toml` from `tasks`."""
    fixed = []
    for part in PurePosixPath(pattern).parts[:-1]:
        if any(char in part for char in "*?["):
            break
        fixed.append(part)
    inside = path.parent.relative_to(root.joinpath(*fixed)).as_posix()
    return path.parent.resolve().name if inside == "." else inside


def read_task(path: Path, shown: str, name: str) -> tuple[CaseEntry, Task]:
    """A task.toml with what lies beside it.

    Args:
        path: the file.
        shown: its name in error messages.
        name: the id of the case.

    Raises:
        ConfigError: it is not valid, or its instruction or its verifier is missing.
    """
    folder = path.parent
    file = _decoded(path, shown)
    missing = [name for name in ("instruction.md", "tests/test.sh") if not (folder / name).is_file()]
    if missing:
        raise ConfigError([Problem(shown, None, "", f"there is no {each} beside it") for each in missing])
    environment = file.environment
    tags = file.metadata.get("tags")
    entry = CaseEntry(
        id=name,
        input=read_text(folder / "instruction.md", (folder / "instruction.md").as_posix()).strip(),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        metadata=msgspec.to_builtins(file.metadata),
    )
    return entry, Task(
        folder=folder.resolve(),
        digest=_digest(folder),
        image=environment.docker_image,
        has_dockerfile=(folder / "environment" / "Dockerfile").is_file(),
        cpus=environment.cpus,
        memory_mb=environment.memory_mb,
        setup=environment.setup_commands,
        agent_timeout_s=file.agent.timeout_sec,
        verifier_timeout_s=file.verifier.timeout_sec,
        build_timeout_s=environment.build_timeout_sec,
    )


def _decoded(path: Path, shown: str) -> _TaskFile:
    text = read_text(path, shown)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(shown, None, "", f"not valid TOML: {error}")]) from None
    problems: list[Problem] = []
    lines = _lines(text)
    root = Map(1)
    for field in msgspec.structs.fields(_TaskFile):
        if field.name in values:
            root[field.name] = _own(values[field.name], field.name, field.type, lines)
            root.lines[field.name] = lines.get((field.name, ""), 1)
    file = Decoder(shown, problems).struct(root, _TaskFile, "", 1)
    if file is None:
        raise ConfigError(problems)
    return file


def _own(section: Any, name: str, kind: Any, lines: Mapping[tuple[str, str], int]) -> Any:
    """A section without the keys of other tools; what is close to a key that is read stays, to be told."""
    if not isinstance(section, dict) or kind not in (_Limits, _Environment):
        return section
    own = Map(lines.get((name, ""), 1))
    for key, value in section.items():
        if difflib.get_close_matches(key, kind.__struct_fields__, n=1, cutoff=_CLOSE):
            own[key] = value
            own.lines[key] = lines.get((name, key), own.line)
    return own


def _lines(text: str) -> Mapping[tuple[str, str], int]:
    """The line of each section and of each key in it, as far as they are written in the usual way."""
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            section = header[1]
            found.setdefault((section, ""), number)
        elif key := re.match(r"\s*(\w+)\s*=", line):
            found.setdefault((section, key[1]) if section else (key[1], ""), number)
    return found


def _digest(folder: Path) -> str:
    digest = blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
