"""Reference values, each with the scipy or statsmodels call that produced it."""

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parents[1] / "data"
_KNOWN = json.loads((_DATA / "known_answers.json").read_text("utf-8"))


def known(name: str) -> Any:
    """The value of one entry."""
    return next(entry["value"] for entry in _KNOWN["entries"] if entry["id"] == name)


def fixture(name: str) -> Any:
    """The input that several entries share."""
    return _KNOWN["fixtures"][name]


def suite(name: str) -> list[tuple[int, int]]:
    """The (passed, graded) of each cell of a worked example."""
    return [
        (kind["passed"], kind["graded"])
        for kind in _KNOWN["suites"][name]
        for _ in range(kind["cells"])
    ]


def weighted_strata() -> list[tuple[str, list[tuple[int, int, int, int]], float]]:
    """The name, the cells and the p-value of each worked example of the weighted test."""
    entries = json.loads((_DATA / "weighted_known.json").read_text("utf-8"))
    return [
        (entry["id"], [tuple(cell) for cell in entry["strata"]], entry["p"]) for entry in entries
    ]
