"""Copies of the project with everything that docs/contributing.md adds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ci_evals.registry import is_installed

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|diff)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def additions() -> list[tuple[str, str, str]]:
    """Each block of the page that is a file or a change of one: its language, path and text.

    Those of a plug-in that is missing are left out.
    """
    page = (ROOT / "docs" / "contributing.md").read_text("utf-8")
    return [
        (language, name, text)
        for language, name, text in BLOCK.findall(page)
        if is_installed(name.replace("/", "."))
    ]


def extended_copy(copy: Path) -> Path:
    """Copy the project to a folder, with everything that the page adds."""
    shutil.copy(ROOT / "pyproject.toml", copy)
    for folder in ("ci_evals", "templates"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for language, name, text in additions():
        path = copy / name
        if language == "python":
            assert not path.exists()
            path.write_text(text, "utf-8")
        else:
            path.write_text(with_lines_added(path.read_text("utf-8"), text), "utf-8")
    return copy


def with_lines_added(source: str, diff: str) -> str:
    """The source with each `+` line after the line of context above it, and without each `-` line.

    A line of context is the one that follows there, else the only one of its kind; an empty line of
    the diff is one of context, too. `@@` stands for lines left out.
    """
    lines, at = source.splitlines(), 0
    for line in diff.splitlines():
        if line.startswith("+"):
            lines.insert(at, line[1:])
            at += 1
            continue
        if line == "@@":
            continue
        if not line:
            assert not lines[at], f"no empty line follows {lines[at - 1]!r}"
            at += 1
            continue
        if at and lines[at] == line[1:] and not line.startswith("-"):
            at += 1
            continue
        assert lines.count(line[1:]) == 1, f"there is no one line {line[1:]!r}"
        at = lines.index(line[1:])
        if line.startswith("-"):
            del lines[at]
        else:
            at += 1
    return "\n".join(lines) + "\n"


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the copy in its own folder, on no CI system."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI_EVALS_", "GITHUB_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "ci_evals", *arguments],
        cwd=checkout,
        env={**environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
