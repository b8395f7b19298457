"""A comparison as a table of text: variants first, then every cell."""

from collections.abc import Iterator, Sequence

from ci_evals.model import Variant
from ci_evals.reports.figures import UNKNOWN, rate
from ci_evals.reports.terminal_layout import padded, width_of
from ci_evals.reports.text import named
from ci_evals.verdict.comparison import Comparison, VariantComparison
from ci_evals.verdict.differences import Difference
from ci_evals.verdict.pairing import KINDS, CellComparison
from ci_evals.verdict.sentences import of_runs

_NAME_CHARACTERS = 60
_HEADINGS = ("", "baseline", "here", "change", "p")


def render(comparison: Comparison) -> str:
    """One line for each figure of a variant and for each cell; those that changed come first."""
    several = comparison.several_variants
    cells = sorted(comparison.cells, key=lambda cell: _ORDER.index(cell.kind))
    rows = [_HEADINGS, *(row for each in comparison.variants for row in _variant_rows(each, several=several))]
    rows += [_cell_row(cell, several=several) for cell in cells]
    widths = [max(width_of(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = ("  ".join(map(padded, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


_ORDER = ("regressed", "suspect", "fixed", *(kind for kind in KINDS if kind not in ("regressed", "suspect", "fixed")))


def _variant_rows(variant: VariantComparison, *, several: bool) -> Iterator[Sequence[str]]:
    name = f"{_shown(variant.provider, variant.prompt)}: " if several else ""
    base, here = rate(variant.base_rate, variant.head_rate), rate(variant.head_rate, variant.base_rate)
    yield f"{name}pass rate", base, here, _points(variant.differences.pass_rate), _p(variant.p)
    figures = variant.differences
    if figures.score is not None:
        yield f"{name}mean score", "", "", f"{figures.score.value:+.2f}{_interval(figures.score, '+.2f')}", ""
    for label, ratio in (("cost", figures.cost), ("tokens", figures.tokens), ("latency", figures.latency)):
        if ratio is not None:
            yield f"{name}{label}", "", "", f"× {ratio.value:.2f}{_interval(ratio, '.2f')}", ""


def _cell_row(cell: CellComparison, *, several: bool) -> Sequence[str]:
    name = named(cell.case, _NAME_CHARACTERS) + (f" on {_shown(cell.provider, cell.prompt)}" if several else "")
    base, here = ("" if side.graded == 0 else of_runs(side) for side in (cell.base, cell.head))
    return name, base or UNKNOWN, here or UNKNOWN, cell.kind, "" if cell.p is None else _p(cell.p)


def _shown(provider: str, prompt: str | None) -> str:
    return named(Variant(provider, prompt), _NAME_CHARACTERS)


def _points(difference: Difference | None) -> str:
    if difference is None:
        return UNKNOWN
    return f"{100 * difference.value:+.1f} points"


def _interval(figure: Difference, form: str) -> str:
    if figure.lower is None or figure.upper is None:
        return ""
    return f" ({figure.lower:{form}} to {figure.upper:{form}})"


def _p(value: float) -> str:
    return f"{value:.2g}"
