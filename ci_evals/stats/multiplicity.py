"""Many tests at once: p-values adjusted so that all of them may be held against one level."""

from collections.abc import Sequence


def holm(p_values: Sequence[float], family_size: int | None = None) -> tuple[float, ...]:
    """Adjusted p-values in input order: at most `a` exactly where Holm's procedure rejects with family-wise error `a`.

    `family_size` tests were made in all, as many as listed unless said; those not listed had p = 1.
    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6 (1979).

    Raises:
        ValueError: where the family is smaller than the list.
    """
    size = _checked_size(p_values, family_size)
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (size - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float], family_size: int | None = None) -> tuple[float, ...]:
    """Adjusted p-values in input order: at most `q` exactly where the procedure rejects at false discovery rate `q`.

    `family_size` tests were made in all, as many as listed unless said; those not listed had p = 1.
    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B 57 (1995).

    Raises:
        ValueError: where the family is smaller than the list.
    """
    size = _checked_size(p_values, family_size)
    adjusted = [1.0] * len(p_values)
    lowest = 1.0
    chosen = [i for i, p in enumerate(p_values) if p < 1]
    for rank, i in zip(range(len(chosen), 0, -1), sorted(chosen, key=p_values.__getitem__, reverse=True), strict=True):
        lowest = min(lowest, p_values[i] * size / rank)
        adjusted[i] = lowest
    return tuple(adjusted)


def _checked_size(p_values: Sequence[float], family_size: int | None) -> int:
    if family_size is None:
        return len(p_values)
    if family_size < len(p_values):
        raise ValueError(f"a family of {family_size} tests cannot have {len(p_values)} p-values")
    return family_size
