"""The one line that says how many runs passed: its numbers must go together."""

from typing import Any

import pytest
from factories import many, report_of

from ci_evals.model.case import Variant

TWO = (Variant("a"), Variant("b"))


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        pytest.param(many((20, "PPPPP"), (2, "PFFFF")), "102 of 110 runs passed (92.7 %), 8 failed", id="all graded"),
        pytest.param(
            {"a": "PPEEEEE", "b": "FFEEEEE"},
            "2 of 4 graded runs passed, pass rate 50 % (mean over cases), 2 failed, 10 errored",
            id="errored runs are not among those that passed",
        ),
        pytest.param(
            {"a": "PP..", "b": "FF"},
            "2 of 4 graded runs passed, pass rate 50 % (mean over cases), 2 failed, 2 not run",
            id="nor are those that never ran",
        ),
        pytest.param(
            {"a": "P", "b": "PFFF"},
            "2 of 5 runs passed, pass rate 62.5 % (mean over cases), 3 failed",
            id="cases with more runs count no more",
        ),
        pytest.param({"a": "P"}, "1 of 1 run passed (100 %)", id="one run"),
        pytest.param({"a": "F"}, "0 of 1 run passed (0 %), 1 failed", id="one failed run"),
        pytest.param({"a": "PE"}, "1 of 1 graded run passed, pass rate 100 % (mean over cases), 1 errored", id="one"),
        pytest.param({"a": "EE."}, "no run was graded, 2 errored, 1 not run", id="nothing was graded"),
        pytest.param({"a": (9_999, 10_000)}, "9,999 of 10,000 runs passed (99.99 %), 1 failed", id="not quite 100 %"),
        pytest.param({"a": (1, 10_000)}, "1 of 10,000 runs passed (0.01 %), 9,999 failed", id="not quite 0 %"),
    ],
)
def test_the_headline_says_what_its_rate_is_of(cells: dict[str, Any], line: str) -> None:
    assert report_of(cells).summary() == line


def test_with_several_variants_the_mean_is_over_these_too() -> None:
    report = report_of({"a": ["PP", "PE"], "b": ["PF", "FF"]}, variants=TWO)
    assert report.summary() == (
        "4 of 7 graded runs passed, pass rate 62.5 % (mean over cases and variants), 3 failed, 1 errored"
    )
