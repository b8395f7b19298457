"""What a suite can detect: as planned, as its history shows, and as a comparison did."""

import re
from dataclasses import replace

import pytest
from sides import Counts, base_of, compared, head_of

from ci_evals.gate.power import detectable_sentence, power_of, size_sentence
from ci_evals.stats.thresholds import ASSUMED_FAILURES, ASSUMED_PASSES

USUAL = [
    ASSUMED_PASSES / (ASSUMED_PASSES + ASSUMED_FAILURES),
    1 / (1 + ASSUMED_PASSES + ASSUMED_FAILURES),
]
"""The mean of the beta distribution that is assumed, and its intra-class correlation."""
FORTY = [f"case {n}" for n in range(40)]


def cells(*runs: Counts) -> dict[str, Counts]:
    return {case: runs[n % len(runs)] for n, case in enumerate(FORTY)}


def test_without_history_it_takes_what_is_usual() -> None:
    found = power_of("s", [40, 40], 3, None, "nothing")
    assert [found.rate, found.correlation] == pytest.approx(USUAL)
    assert found.known_from is None
    assert (found.now.cases, found.now.runs, found.now.calls) == (40, 3, 240)
    assert len({(each.cases, each.runs) for each in found.sizes}) == len(found.sizes) == 7


def test_more_history_more_runs_and_more_cases_detect_less() -> None:
    now, *others = power_of("s", [40], 3, None).sizes
    assert now.pooled is not None
    assert now.one_report is not None
    assert now.pooled < now.one_report
    (ten,) = (each for each in others if each.runs == 10)
    (fourfold,) = (each for each in others if each.cases == 160)
    for more in (ten, fourfold):
        assert more.pooled is not None
        assert more.pooled < now.pooled
        assert more.gate < now.gate


def test_history_shows_the_rate_and_how_far_cases_differ() -> None:
    alike = power_of("s", [40], 3, base_of(cells((5, 10))), "main.json")
    apart = power_of("s", [40], 3, base_of(cells((10, 10), (0, 10))), "main.json")
    assert (alike.rate, apart.rate) == (0.5, 0.5)
    assert (alike.correlation, apart.correlation) == (0.0, 0.99)
    assert alike.known_from == "main.json"
    assert alike.now.pooled is not None
    assert apart.now.pooled is not None
    assert apart.now.pooled < alike.now.pooled, "steady answers hide less"


@pytest.mark.parametrize("history", [{}, {"a": (0, 0)}])
def test_history_without_graded_runs_shows_nothing(history: dict[str, Counts]) -> None:
    found = power_of("s", [40], 3, base_of(dict(history)), "main.json")
    assert [found.rate, found.correlation] == pytest.approx(USUAL)


@pytest.mark.parametrize(
    ("drop", "words"),
    [
        (0.08, "40 cases × 1 run: this comparison detects drops of 8 points or more"),
        (0.0801, "40 cases × 1 run: this comparison detects drops of 9 points or more"),
        (0.001, "40 cases × 1 run: this comparison detects drops of 1 point or more"),
        (None, "40 cases × 1 run: too few for this comparison to detect a drop of the whole"),
    ],
)
def test_a_drop_is_told_in_whole_points_rounded_up(drop: float | None, words: str) -> None:
    assert size_sentence(40, 1, drop) == words


def test_a_comparison_says_what_it_could_have_seen() -> None:
    base = base_of(cells((30, 30), (27, 30)))
    sentence = detectable_sentence(compared(head_of(cells((3, 3))), base))
    assert sentence is not None
    assert sentence.startswith("40 cases × 3 runs: this comparison detects drops of ")


def test_repeats_of_a_case_do_not_sharpen_it_and_further_rounds_do() -> None:
    base, head = base_of(cells((30, 30))), cells((3, 3)) | {"case 0": (0, 3)}
    usual = detectable_sentence(compared(head_of(head), base))
    assert detectable_sentence(compared(head_of(head, {"case 0": (0, 7)}), base)) == usual
    without = detectable_sentence(compared(head_of(head), base, confirm_runs=0))
    assert points_in(usual) < points_in(without)


def points_in(sentence: str | None) -> int:
    found = re.search(r"drops of (\d+) points", sentence or "")
    assert found is not None
    return int(found[1])


def test_of_several_variants_it_speaks_of_the_one_that_shows_least() -> None:
    few = dict.fromkeys(FORTY[:5], (3, 3))
    base = base_of(cells((28, 30)))
    other = base_of(dict.fromkeys(few, (28, 30)), provider="other")
    both = replace(base, cells={**base.cells, **other.cells})
    sentence = detectable_sentence(
        compared([*head_of(cells((3, 3))), *head_of(few, provider="other")], both)
    )
    assert sentence is not None
    assert sentence.startswith("5 cases × 3 runs: ")


def test_nothing_compared_says_nothing() -> None:
    assert detectable_sentence(compared(head_of({"a": (3, 3)}), base_of({"b": (3, 3)}))) is None
