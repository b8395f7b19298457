"""Suites on disk, for tests that start where a user starts."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ONE_CASE = {"id": "greeting", "input": "hello", "expect": [{"equals": "hello"}]}
ECHO = {"name": "echo", "type": "mock"}


def write_suite(
    folder: Path,
    cases: Iterable[Mapping[str, Any]] | Mapping[str, Any] = (ONE_CASE,),
    **settings: Any,
) -> Path:
    """Write `evals.yaml` (as JSON, which is YAML); the default provider is a mock that echoes."""
    path = folder / "evals.yaml"
    entries = cases if isinstance(cases, Mapping) else list(cases)
    path.write_text(
        json.dumps({"name": "test", "providers": [ECHO], "cases": entries, **settings}), "utf-8"
    )
    return path


def write_cases(folder: Path, cases: Iterable[Mapping[str, Any]]) -> Path:
    """Write `cases.jsonl`."""
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")
    return path


def chat(url: str, name: str = "chat", **options: Any) -> dict[str, Any]:
    """An `openai` provider at some URL."""
    return {"name": name, "type": "openai", "model": "echo", "base_url": url, **options}
