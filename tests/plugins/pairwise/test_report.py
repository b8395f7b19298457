"""The output of `pairwise`."""

import pytest
from rich.cells import cell_len

from ci_evals.plugins.pairwise.preference import Pair, preference
from ci_evals.plugins.pairwise.report import PairwiseReport, render_pairwise

EVIL = "##[error]owned"


@pytest.mark.parametrize("name", ["gpt", "\u6771\u4eac", "\u05d0\u05d1"])
def test_counts_of_preferences_stand_below_each_other_in_every_script(name: str) -> None:
    found = preference([Pair("refund", 1, "first", "second")])
    lines = render_pairwise(PairwiseReport(name, "other", found), "table").split("\n")[:3]
    assert len({cell_len(line[: line.index(" case")]) for line in lines}) == 1


def test_a_name_that_is_read_from_right_to_left_reorders_nothing_on_github() -> None:
    name = "\u05d0\u05d1"
    kept = f"\u200e{name}\u200e"
    text = render_pairwise(
        PairwiseReport("other", name, preference([Pair("refund", 1, "second", "first")] * 2)),
        "markdown",
    )
    assert text.startswith(f"## {kept} is preferred in 100 % ")
    assert f"| prefer {kept} | 1 case |" in text


def test_reasons_of_judges_command_no_runner_either() -> None:
    pairs = [Pair(EVIL, run, "first", "second", EVIL) for run in (1, 2)]
    assert "##[" not in render_pairwise(PairwiseReport("a", "b", preference(pairs)), "json")
