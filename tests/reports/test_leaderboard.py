from factories import report_of

from ci_evals.model import Variant
from ci_evals.reports.leaderboard import leaderboard
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.gate import decide


def board(cases: int = 12, **outcomes: str) -> list[tuple[str, str]]:
    """Place and variant of each line, for variants whose runs of each case ended like that."""
    variants = [Variant(name) for name in outcomes]
    report = report_of({f"case {n}": list(outcomes.values()) for n in range(cases)}, variants=variants)
    summary = Summary(report, decide(report, None), None)
    return [(standing.place, standing.variant.variant.provider) for standing in leaderboard(variant_reports(summary))]


def test_what_the_intervals_tell_apart_is_ranked_best_first() -> None:
    assert board(bad="FFFFF", good="PPPPP", middling="PPPFF") == [("1", "good"), ("2", "middling"), ("3", "bad")]


def test_what_they_cannot_tell_apart_shares_a_place_with_the_better_rate_first() -> None:
    assert board(cases=3, a="PPPFF", b="PPPPF", c="FFFFF") == [("1=", "b"), ("1=", "a"), ("3", "c")]


def test_the_next_place_counts_everybody_above() -> None:
    assert board(low="FFFFF", a="PPPPP", b="PPPPP", c="PPPPP")[-1] == ("4", "low")


def test_a_variant_without_graded_runs_is_last_and_has_no_place() -> None:
    assert board(gone="EEEEE", a="PPPPP", b="FFFFF")[-1] == ("—", "gone")


def test_two_variants_need_no_order() -> None:
    assert board(a="PPPPP", b="FFFFF") == []
