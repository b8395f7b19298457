"""The two ways a grader ends. A reason states a fact, since `not_` turns the verdict around and keeps the reason."""

from ci_evals.model import Finding

_TOLERANCE = 1e-9


def holds(reason: str, score: float = 1.0) -> Finding:
    """The expectation is met."""
    return Finding(passed=True, score=score, reason=reason)


def fails(reason: str, score: float = 0.0) -> Finding:
    """The expectation is not met."""
    return Finding(passed=False, score=score, reason=reason)


def reaches(score: float, threshold: float) -> bool:
    """Whether a score is at least the threshold, which adding up must not make it miss."""
    return score >= threshold - _TOLERANCE
