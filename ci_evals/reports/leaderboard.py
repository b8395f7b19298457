"""Variants in the order of how well they did, with ties where their intervals cannot tell them apart."""

from collections.abc import Sequence

from msgspec import Struct

from ci_evals.reports.variants import VariantReport

FEWEST = 3  # two variants are compared at a glance in the table of figures
TIES = "= tied: the intervals overlap, so these runs cannot tell them apart"


class Standing(Struct, frozen=True):
    """One line of the board; `rank` is None where nothing was graded."""

    rank: int | None
    tied: bool
    variant: VariantReport

    @property
    def place(self) -> str:
        """`1`, `2=` or a dash."""
        return "—" if self.rank is None else f"{self.rank}{'=' if self.tied else ''}"


def leaderboard(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
    """As `ranked`; empty for so few that nobody needs an order, or without any rate."""
    few = len(variants) < FEWEST or all(variant.pass_rate is None for variant in variants)
    return () if few else ranked(variants)


def ranked(variants: Sequence[VariantReport]) -> tuple[Standing, ...]:
    """Every variant, the best first.

    A variant's rank is one more than the number of variants whose interval is wholly above its own.
    """
    ranks = [_rank(variant, variants) for variant in variants]
    standings = [
        Standing(rank, rank is not None and ranks.count(rank) > 1, variant)
        for rank, variant in zip(ranks, variants, strict=True)
    ]
    return tuple(sorted(standings, key=_order))


def _rank(variant: VariantReport, others: Sequence[VariantReport]) -> int | None:
    upper = variant.upper
    if upper is None:
        return None
    return 1 + sum(other.lower is not None and other.lower > upper for other in others)


def _order(standing: Standing) -> tuple[float, float, float]:
    variant = standing.variant
    return (standing.rank or float("inf"), -(variant.pass_rate or 0.0), -(variant.mean_score or 0.0))
