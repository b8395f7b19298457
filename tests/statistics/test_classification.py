"""Agreement and classification agree with statsmodels and with counting by hand."""

from itertools import product
from statistics import fmean

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ci_evals.stats.classification import (
    Confusion,
    accuracy,
    cohen_kappa,
    confusion,
    f1,
    macro_f1,
    precision,
    recall,
    roc_auc,
)
from ci_evals.stats.rates import Estimate

LABELS = ("a", "b", "c")
squares = st.lists(
    st.lists(st.integers(0, 40), min_size=3, max_size=3).map(tuple), min_size=3, max_size=3
)
tables = squares.map(lambda rows: Confusion(LABELS, tuple(rows)))


def test_pairs_are_counted_with_the_truth_in_rows() -> None:
    pairs = [("yes", "no"), ("yes", "yes"), ("yes", "no"), ("other", "yes")]
    table = confusion(pairs, labels=("yes", "no"))
    assert table == Confusion(("yes", "no", "other"), ((1, 2, 0), (0, 0, 0), (1, 0, 0)))
    assert (table.size, table.agreed) == (4, 1)
    assert (table.true_counts, table.predicted_counts) == ((3, 0, 1), (2, 2, 0))
    assert confusion([]) == Confusion((), ())


@given(tables)
def test_kappa_is_that_of_statsmodels(table: Confusion) -> None:
    from statsmodels.stats.inter_rater import cohens_kappa  # slow to import, and only an oracle

    assume(0 < table.agreed < table.size)
    assume(table.size not in {*table.true_counts, *table.predicted_counts})
    estimate = cohen_kappa(table)
    assert estimate is not None
    oracle = cohens_kappa(table.counts, return_results=True)
    bounds = (max(-1, oracle.kappa_low), min(1, oracle.kappa_upp))
    assert estimate.value == pytest.approx(oracle.kappa, abs=1e-12)
    assert estimate.interval == pytest.approx(bounds, abs=1e-6)


def test_few_labels_that_all_agree_prove_little() -> None:
    few = cohen_kappa(Confusion(("fail", "pass"), ((3, 0), (0, 3))))
    many = cohen_kappa(Confusion(("fail", "pass"), ((300, 0), (0, 300))))
    assert few is not None
    assert few.interval is not None
    assert many is not None
    assert many.interval is not None
    assert few.value == many.value == few.interval.upper == 1
    # The exact bound on 6 of 6.
    assert few.interval.lower == pytest.approx(2 * 0.025 ** (1 / 6) - 1)
    assert many.interval.lower > 0.97
    never = cohen_kappa(Confusion(("fail", "pass"), ((0, 3), (3, 0))))
    assert never is not None
    assert never.interval == pytest.approx((-1, 1 - 2 * 0.025 ** (1 / 6)))


def test_kappa_of_one_label_or_of_nothing_is_undefined() -> None:
    assert cohen_kappa(Confusion(("fail", "pass"), ((0, 0), (0, 9)))) is None
    assert cohen_kappa(Confusion((), ())) is None


def test_a_judge_that_always_says_the_same_shows_no_agreement() -> None:
    assert cohen_kappa(Confusion(("fail", "pass"), ((0, 20), (0, 80)))) == Estimate(0.0, None)


def test_measures_worked_by_hand() -> None:
    table = Confusion(LABELS, ((5, 1, 0), (2, 3, 0), (0, 1, 0)))
    assert accuracy(table) == pytest.approx(8 / 12)
    assert [precision(table, label) for label in LABELS] == [
        pytest.approx(5 / 7),
        pytest.approx(3 / 5),
        None,
    ]
    assert [recall(table, label) for label in LABELS] == [
        pytest.approx(5 / 6),
        pytest.approx(3 / 5),
        0,
    ]
    assert [f1(table, label) for label in LABELS] == pytest.approx([10 / 13, 3 / 5, 0])
    assert macro_f1(table) == pytest.approx((10 / 13 + 3 / 5) / 3)


@given(tables)
def test_f1_is_the_harmonic_mean(table: Confusion) -> None:
    for label in LABELS:
        p, r = precision(table, label), recall(table, label)
        if p and r:
            assert f1(table, label) == pytest.approx(2 / (1 / p + 1 / r))


def test_labels_that_never_occur_are_not_measured() -> None:
    table = confusion([("a", "a")], labels=("a", "b"))
    assert (precision(table, "b"), recall(table, "b"), f1(table, "b")) == (None, None, None)
    assert macro_f1(table) == 1
    assert (accuracy(confusion([])), macro_f1(confusion([]))) == (None, None)


@given(
    st.lists(
        st.tuples(st.sampled_from((0.0, 0.25, 0.5, 1.0)) | st.floats(0, 1), st.booleans()),
        max_size=25,
    )
)
def test_the_area_is_the_chance_that_a_positive_scores_higher(
    scored: list[tuple[float, bool]],
) -> None:
    positives = [score for score, positive in scored if positive]
    negatives = [score for score, positive in scored if not positive]
    if not (positives and negatives):
        assert roc_auc(scored) is None
    else:
        wins = [(p > n) + (p == n) / 2 for p, n in product(positives, negatives)]
        assert roc_auc(scored) == pytest.approx(fmean(wins))
