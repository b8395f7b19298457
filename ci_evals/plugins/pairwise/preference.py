"""The variant that a judge prefers: a share with its interval, from preferences in both orders."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ci_evals.stats.rates import Interval, wilson
from ci_evals.stats.thresholds import CONFIDENCE

Side = Literal["a", "b", "tie"]


Preferred = Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Pair:
    """One run of each variant, shown in both orders; None if no preference could be had."""

    case: str
    run: int
    a_first: Preferred | None
    b_first: Preferred | None
    reason: str = ""

    @property
    def is_judged(self) -> bool:
        return self.a_first is not None and self.b_first is not None

    @property
    def is_flip(self) -> bool:
        """Return True if the order decided: the first, or the second, was preferred both times."""
        return self.a_first == self.b_first != "tie" and self.is_judged

    @property
    def side(self) -> Side:
        """The side that is preferred in either order; a tie if neither is."""
        match self.a_first, self.b_first:
            case "first", "second":
                return "a"
            case "second", "first":
                return "b"
        return "tie"


MAX_UNJUDGED_SHARE = 0.05
"""If a larger share of pairs has no judgement, nothing is concluded from the others."""


@dataclass(frozen=True, slots=True)
class CasePreference:
    """The pairs of one case; who is preferred in more of them."""

    case: str
    pairs: tuple[Pair, ...]

    @property
    def side(self) -> Side:
        lead = sum((pair.side == "b") - (pair.side == "a") for pair in self.pairs)
        if lead == 0:
            return "tie"
        return "b" if lead > 0 else "a"


@dataclass(frozen=True, slots=True)
class Preference:
    """The cases in which A, B or neither is preferred, and the pairs that say nothing.

    `flips` are pairs whose order decided, `unjudged` those without a judgement. `share` is that of
    B among the cases that prefer one, `interval` Wilson's for it; None without such a case.
    """

    cases: tuple[CasePreference, ...]
    a: int
    b: int
    ties: int
    pairs: int
    flips: int
    unjudged: int
    first_unjudged: Pair | None
    share: float | None
    interval: Interval | None

    @property
    def has_verdict(self) -> bool:
        """Return True if enough pairs were judged to conclude anything, be it a tie."""
        return self.unjudged < self.pairs and self.unjudged <= MAX_UNJUDGED_SHARE * self.pairs

    @property
    def side(self) -> Side:
        """The side that is preferred beyond chance, else a tie."""
        if self.interval is None:
            return "tie"
        if self.interval.lower > 0.5:
            return "b"
        if self.interval.upper < 0.5:
            return "a"
        return "tie"


def preference(pairs: Iterable[Pair], confidence: float = CONFIDENCE) -> Preference:
    """Count pairs by case; every case has one vote, however many runs it has."""
    every = tuple(pairs)
    unjudged = [pair for pair in every if not pair.is_judged]
    by_case: dict[str, list[Pair]] = defaultdict(list)
    for pair in every:
        if pair.is_judged:
            by_case[pair.case].append(pair)
    cases = tuple(CasePreference(case, tuple(found)) for case, found in by_case.items())
    votes = Counter(case.side for case in cases)
    estimate = wilson(votes["b"], votes["a"] + votes["b"], confidence)
    return Preference(
        cases=cases,
        a=votes["a"],
        b=votes["b"],
        ties=votes["tie"],
        pairs=len(every),
        flips=sum(pair.is_flip for pair in every),
        unjudged=len(unjudged),
        first_unjudged=unjudged[0] if unjudged else None,
        share=estimate.value if estimate else None,
        interval=estimate.interval if estimate else None,
    )
