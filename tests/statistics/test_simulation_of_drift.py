"""How often the warning of drift is false or late, by simulation.

The rows are those of `make simulate` at a size that takes a few seconds; the bounds leave room for
sampling errors.
"""

import pytest

from benchmarks.drift import LOSSES, QUIET, delay, false_alarms


@pytest.mark.parametrize("row", ["beta(8, 1)", "ICC 0.5"])
def test_a_quiet_year_hardly_ever_ends_in_a_warning(row: str) -> None:
    share, _ = false_alarms(QUIET[row], 20)
    assert share <= 0.15


@pytest.mark.parametrize(
    ("row", "most"),
    [("2 points a week", 17), ("5 points at once, ICC 0.5", 7), ("10 points at once", 4)],
)
def test_a_loss_is_seen_within_days_or_weeks(row: str, most: float) -> None:
    assert delay(LOSSES[row], 20).mean <= most
