"""What is preferred, as a function: the shorter one of two answers."""

from ci_evals import Response


def prefer(_case: object, first: Response, second: Response) -> str:
    """`first`, `second` or `tie`."""
    lengths = len(first.output), len(second.output)
    return "tie" if lengths[0] == lengths[1] else "first" if lengths[0] < lengths[1] else "second"
