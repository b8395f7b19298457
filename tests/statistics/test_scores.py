"""The test of scores agrees with its known answers, and with that of passes for scores 0 and 1."""

import json
import random
from itertools import combinations, pairwise
from math import fsum
from pathlib import Path
from statistics import NormalDist, fmean, pstdev, variance

import pytest
from statsmodels.stats.contingency_tables import StratifiedTable

from ci_evals.stats.differences import ScoreSums, lower_scores
from ci_evals.stats.overdispersion import score_overdispersion

DATA = Path(__file__).parents[1] / "data"
KNOWN = json.loads((DATA / "scores_known.json").read_text("utf-8"))["entries"]


def sums(scores: list[float]) -> ScoreSums:
    return ScoreSums(len(scores), fsum(scores), fsum(score * score for score in scores))


@pytest.mark.parametrize("known", KNOWN, ids=[entry["id"] for entry in KNOWN])
def test_known_answers(known: dict[str, list[list[float]]]) -> None:
    pairs = zip(map(sums, known["head"]), map(sums, known["base"]), strict=True)
    assert lower_scores(pairs) == pytest.approx(known["p"], abs=1e-9)


def test_of_scores_0_and_1_it_is_the_test_of_cochran_mantel_and_haenszel() -> None:
    rng = random.Random(0)
    for _ in range(50):
        tables, pairs = [], []
        for _ in range(rng.randint(2, 8)):
            head, base = rng.randint(2, 9), rng.randint(2, 20)
            of_head, of_base = rng.randint(0, head), rng.randint(0, base)
            tables.append([[of_head, head - of_head], [of_base, base - of_base]])
            pairs.append((ScoreSums(head, of_head, of_head), ScoreSums(base, of_base, of_base)))
        p = lower_scores(pairs)
        if p < 1:
            two_sided = StratifiedTable(tables).test_null_odds(correction=False).pvalue
            assert min(p, 1 - p) == pytest.approx(two_sided / 2, abs=1e-9)


def test_the_moments_are_those_of_all_permutations() -> None:
    rng = random.Random(1)
    scores = [round(rng.random(), 1) for _ in range(7)]
    totals = [fsum(chosen) for chosen in combinations(scores, 3)]
    head = sums(scores[:3])
    z = (head.total - fmean(totals)) / pstdev(totals)
    assert lower_scores([(head, sums(scores[3:]))]) == pytest.approx(NormalDist().cdf(z))


def test_scores_that_never_differ_say_nothing() -> None:
    same = sums([0.8, 0.8, 0.8])
    assert lower_scores([(same, same)] * 10) == 1
    assert lower_scores([]) == 1
    assert lower_scores([(ScoreSums(), same)]) == 1


def test_reports_that_swing_together_are_overdispersed() -> None:
    rng = random.Random(2)
    drawn = {
        wobble: [
            [
                [min(1.0, max(0.0, 0.7 + shift + rng.gauss(0, 0.1))) for _ in range(3)]
                for _ in range(20)
            ]
            for shift in [rng.gauss(0, wobble) for _ in range(10)]
        ]
        for wobble in (0.0, 0.05)
    }
    phi = {}
    for wobble, reports in drawn.items():
        phi[wobble] = score_overdispersion([[sums(cell) for cell in report] for report in reports])
        assert phi[wobble] == pytest.approx(direct(reports))
    assert phi[0.0] < 1.3 < phi[0.05]
    assert score_overdispersion([[sums(cell) for cell in drawn[0.05][0]]] * 4) == 1


def direct(reports: list[list[list[float]]]) -> float:
    """The same, from the scores themselves."""
    squares = 0.0
    for one, other in pairwise(reports):
        difference = error = 0.0
        for cell in range(len(one)):
            of_all = [score for report in reports for score in report[cell]]
            difference += fmean(one[cell]) - fmean(other[cell])
            error += variance(of_all) * (1 / len(one[cell]) + 1 / len(other[cell]))
        squares += min(10.0, difference**2 / error)
    return max(1.0, (squares + 5) / (len(reports) - 1 + 5))
