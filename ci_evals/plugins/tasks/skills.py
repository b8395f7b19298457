"""Skills of agents: folders with a SKILL.md, put where the agent looks for them."""

import asyncio
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from ci_evals.errors import ProviderError
from ci_evals.plugins.tasks.sandboxes import Sandbox, additions
from ci_evals.registry import TRANSCRIPTS
from ci_evals.suite.configs import DEFAULT_NAMES
from ci_evals.suite.types import RESULTS

FILE = "SKILL.md"
_DEFAULT = ".agents/skills"
_FOLDERS = (".agents/skills", ".claude/skills", ".codex/skills", ".gemini/skills")
_ALL_FOLDERS = (*_FOLDERS, ".opencode/skill", ".opencode/skills")
"""Where agents look: some also read the folders of others."""

_NOT_OF_THE_SKILL = frozenset((".git", "evals", *DEFAULT_NAMES, RESULTS))
_REMOVE_S = 60.0


def skill_problems(skills: Iterable[str], folder: Path) -> list[str]:
    """Return the problems of a provider's `skills`, whose paths start at the suite's folder."""
    problems = []
    names: dict[str, str] = {}
    for skill in skills:
        path = (folder / skill).resolve()
        if not (path / FILE).is_file():
            text = f"there is no {FILE} in {path.as_posix()}"
            inside = sorted(found.parent.name for found in path.glob(f"*/{FILE}"))
            if inside:
                text = f"{text}: name a folder in it, such as {skill.rstrip('/')}/{inside[0]}"
            problems.append(f"skills: {text}")
        elif path.name in names:
            problems.append(f"skills: {names[path.name]} and {skill} have the same name")
        names[path.name] = skill
    return problems


async def install_skills(
    sandbox: Sandbox, skills: Sequence[Path], transcript: str | None, *, without: bool
) -> None:
    """Put skills into a working copy, in the place of those of the same name.

    Args:
        sandbox: has the working copy.
        skills: their folders.
        transcript: the format of the agent, which says where it looks.
        without: only remove those of the same name.

    Raises:
        ProviderError: they could not be removed or copied.
    """
    names = [path.resolve().name for path in skills]
    old = [f"./{folder}/{name}" for folder in _ALL_FOLDERS for name in names]
    removed = await sandbox.run(("rm", "-rf", "--", *old), stdin=b"", env={}, timeout_s=_REMOVE_S)
    if removed.why != "exit" or removed.status:
        text = "the skills of the working copy could not be removed"
        raise ProviderError("environment", text, detail=removed.stderr or None)
    if without:
        return
    target = _DEFAULT
    if transcript is not None:
        target = getattr(TRANSCRIPTS[transcript], "skills", _DEFAULT)
    async with additions(sandbox, "a provider with `skills`") as work:
        for path, name in zip(skills, names, strict=True):
            await asyncio.to_thread(_copy, path, work / target / name)


def _copy(skill: Path, target: Path) -> None:
    """Copy a skill without its evals, which tell what is expected, and what they leave."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        if Path(folder) != skill:
            return []
        return [name for name in names if name in _NOT_OF_THE_SKILL]

    shutil.copytree(skill, target, ignore=ignored)
