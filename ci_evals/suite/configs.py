"""Finds the configs of a project."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_evals.errors import UsageError

DEFAULT_NAMES = ("evals.yaml", "evals.yml", "evals.json")
FOREIGN_NAMES = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")

_SUFFIXES = (".yaml", ".yml", ".json")
_SUITE_KEYS = ("providers", "cases")
_REPORT_START = '{"schema_version": '  # of a report.json, which may be large


def find_config(folder: Path) -> Path:
    """Return the config of a project: `evals.yaml` in the folder or its `.github/`.

    Raises:
        UsageError: there is no config, or more than one in the same folder.
    """
    for place in (folder, folder / ".github"):
        names = [name for name in DEFAULT_NAMES if (place / name).is_file()]
        if len(names) > 1:
            raise UsageError(
                f"{place} has both {' and '.join(names)}: remove one, or name the suite"
            )
        if names:
            return place / names[0]
    start = "start with `ci-evals init`"
    for name in FOREIGN_NAMES:
        if (folder / name).is_file():
            start = f"import another tool's config with `ci-evals import {name} --to evals.yaml`"
            break
    raise UsageError(f"no evals.yaml in {folder} or its .github folder: name a suite, or {start}")


def default_name(path: Path) -> str:
    """Return the name of a config's suite if it gives none.

    It depends on nothing but the path, because a suite with another name has no baseline. That of a
    project is called by its folder; others, which may be several in a folder, by their files.
    """
    if path.name not in (*DEFAULT_NAMES, *FOREIGN_NAMES):
        return path.stem
    folder = path.resolve().parent
    if folder.name == ".github":
        folder = folder.parent
    return folder.name


def find_configs(paths: Sequence[Path]) -> list[Path]:
    """Return the configs that paths name or, if they are folders, contain.

    Without paths, return the config of the project.

    A file in a folder is a config if it has the top-level keys `providers` and `cases`, even if it
    cannot be parsed. Hidden folders except `.github`, virtual environments and `node_modules`
    are skipped.

    Raises:
        UsageError: a folder has no config, or the project has none.
    """
    if not paths:
        return [find_config(Path())]
    configs: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            below = sorted(_configs_below(path))
            if not below:
                raise UsageError(_describe_lack(path))
        else:
            below = [path]
        for config in below:
            configs.setdefault(config.resolve(), config)
    return list(configs.values())


def is_suite_path(path: Path) -> bool:
    """Return True for a config, or a folder that contains one at any depth."""
    if path.is_dir():
        return any(True for _ in _configs_below(path))
    if path.suffix in (".yaml", ".yml"):
        return True
    return path.suffix == ".json" and path.is_file() and _is_config(path)


def _describe_lack(folder: Path) -> str:
    """Return the error for a folder without a config."""
    lack = f"{folder}: there is no suite in this folder or below it"
    for path in sorted(folder.rglob("*")):
        if path.name in FOREIGN_NAMES:
            return f"{lack}, only a config of another tool: name {path.as_posix()} itself"
    return f"{lack}: a .yaml, .yml or .json file with `providers` and `cases`"


def _configs_below(folder: Path) -> Iterator[Path]:
    # Unlike `rglob`, `os.walk` skips folders that cannot be read, and need not enter others.
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_searched(parent, name)]
        for name in files:
            path = Path(parent, name)
            if path.suffix in _SUFFIXES and _is_config(path):
                yield path


def _is_searched(parent: str, name: str) -> bool:
    if name.startswith("."):
        return name == ".github"
    if name == "node_modules":
        return False
    return not os.path.exists(Path(parent, name, "pyvenv.cfg"))  # noqa: PTH110  Path.exists raises


def _is_config(path: Path) -> bool:
    """Return True if a file looks like a config, even one that cannot be parsed."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return True  # reading it as one reports the cause
    if text.startswith(_REPORT_START):
        return False
    if text.lstrip().startswith("{"):
        try:
            return bool(json.loads(text).keys() >= set(_SUITE_KEYS))
        except (ValueError, RecursionError):
            return all(f'"{key}"' in text for key in _SUITE_KEYS)
    return all(re.search(rf"""(?m)^["']?{key}["']?\s*:""", text) for key in _SUITE_KEYS)
