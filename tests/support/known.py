"""Reference values, each with the scipy or statsmodels call that produced it."""

import json
from pathlib import Path
from typing import Any

_KNOWN = json.loads((Path(__file__).parents[1] / "data" / "known_answers.json").read_text("utf-8"))


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
