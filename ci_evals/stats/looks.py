"""Looking at results more than once."""


def look_confidence(confidence: float, looks: int) -> float:
    """The confidence to ask of each of `looks` looks, for `confidence` in all of them together: Bonferroni's bound."""
    return 1 - (1 - confidence) / looks
