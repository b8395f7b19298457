"""The table of figures on the terminal: variants side by side as far as they fit, the others below."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from ci_evals.reports.figures import rate, rate_with_interval, score, seconds, usd
from ci_evals.reports.terminal_layout import Table, Text, plain, styled, width_of
from ci_evals.reports.text import named
from ci_evals.reports.variants import VariantChange, VariantReport

BEST, WORST = " ▲", " ▼"
LEGEND = "▲ best  ▼ worst"
_NO_MARK = "  "
_STYLES = {BEST: "green", WORST: "red"}

NAME_CHARACTERS = 100
_HEADER_WIDTH = 26  # longer names are folded
_LABEL_WIDTH = 20  # kept free for the labels even where variants have to fold; longer ones fold too
_GAP = 3
_MOST_PERFECT = 3  # graders that are listed although every answer was right for them

AsText = Callable[[VariantReport], str]
AsNumber = Callable[[VariantReport], float | None]


class Row(Struct, frozen=True):
    """One figure of every variant, and which of them are marked as best or worst."""

    label: str
    texts: tuple[str, ...]
    marks: tuple[str, ...]


def figure_tables(variants: Sequence[VariantReport], width: int) -> list[Table]:
    """One table with as many variants as fit into `width` columns, one for the next, and so on."""
    rows = _rows(variants)
    names = [named(variant.variant, NAME_CHARACTERS) for variant in variants]
    widths = [
        max(min(width_of(name), _HEADER_WIDTH), *(width_of(row.texts[index] + row.marks[index]) for row in rows))
        for index, name in enumerate(names)
    ]
    longest_label = max(width_of(row.label) for row in rows)
    return [
        _table(rows, names, chosen, _widths([widths[index] for index in chosen], longest_label, width))
        for chosen in _fitting(widths, width - longest_label)
    ]


def has_marks(variants: Sequence[VariantReport]) -> bool:
    """Whether the tables of these variants say which is best and which is worst."""
    return any(any(mark.strip() for mark in row.marks) for row in _rows(variants))


def _fitting(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """The columns by number, in groups that fit into `room`; a column wider than that is alone."""
    group: list[int] = []
    used = 0
    for index, width in enumerate(widths):
        if group and used + _GAP + width > room:
            yield group
            group, used = [], 0
        group.append(index)
        used += _GAP + width
    if group:
        yield group


def _widths(chosen: Sequence[int], longest_label: int, width: int) -> list[int]:
    """Of labels and variants. Where one variant alone is too wide, first the labels are folded, then its figures."""
    if longest_label + sum(_GAP + each for each in chosen) <= width:
        return [longest_label, *chosen]
    (wanted,) = chosen
    label = min(longest_label, max(_LABEL_WIDTH, width - _GAP - wanted))
    return [label, max(1, min(wanted, width - _GAP - label))]


def _table(rows: Sequence[Row], names: Sequence[str], chosen: Sequence[int], widths: Sequence[int]) -> Table:
    def figure(row: Row, index: int) -> Text:
        return styled(row.texts[index] + row.marks[index], _STYLES.get(row.marks[index], ""))

    return Table(
        [[plain(row.label), *(figure(row, index) for index in chosen)] for row in rows],
        header=[plain(""), *(styled(names[index], "bold") for index in chosen)],
        gap=_GAP,
        figures=True,
        widths=widths,
    )


def _rows(variants: Sequence[VariantReport]) -> list[Row]:
    def row(label: str, text: AsText, number: AsNumber | None = None, *, higher_is_better: bool = False) -> Row:
        texts = tuple(map(text, variants))
        numbers = [number(variant) if number else None for variant in variants]
        return Row(label, texts, _marks(texts, numbers, higher_is_better=higher_is_better, several=len(variants) > 1))

    def change(text: Callable[[VariantChange], str]) -> Iterator[Row]:
        """How the row above differs from the baseline, if that is known of any variant."""
        texts = [text(variant.change) if variant.change else "" for variant in variants]
        if any(texts):
            yield Row("  against base", tuple(texts), (_NO_MARK if len(variants) > 1 else "",) * len(texts))

    same_work = len({variant.counts.graded for variant in variants}) == 1  # else fewer runs would look cheaper
    return [
        row("pass rate", _pass_rate, lambda of: of.pass_rate, higher_is_better=True),
        *change(lambda of: of.pass_rate),
        row("passed runs", lambda of: f"{of.counts.passed:,} of {of.counts.graded:,}"),
        *_repeated(variants, row),
        row("errored runs", lambda of: f"{of.counts.errored:,}", lambda of: of.counts.errored),
        row("mean score", lambda of: score(of.mean_score), lambda of: of.mean_score, higher_is_better=True),
        *_graders(variants, row),
        row("cost", lambda of: of.cost_text, _priced(lambda of: of.cost_usd) if same_work else None),
        *_cost_per_run(variants, row),
        *change(lambda of: of.cost),
        row("tokens", _tokens, _token_sum if same_work else None),
        row("latency mean", lambda of: seconds(of.figures.latency_mean_s), lambda of: of.figures.latency_mean_s),
        row("latency p50", lambda of: seconds(of.figures.latency_p50_s), lambda of: of.figures.latency_p50_s),
        *change(lambda of: of.latency),
        row("latency p95", lambda of: seconds(of.figures.latency_p95_s), lambda of: of.figures.latency_p95_s),
    ]


def _graders(variants: Sequence[VariantReport], row: Callable[..., Row]) -> Iterator[Row]:
    """The mean of every grader, the worst first; those that never took anything off are counted where they are many."""
    lowest: dict[str, float] = {}
    for variant in variants:
        for grader, mean in variant.grader_means.items():
            lowest[grader] = min(mean, lowest.get(grader, mean))
    listed = sorted(lowest, key=lambda grader: lowest[grader])
    perfect = [grader for grader in listed if lowest[grader] == 1]
    if len(perfect) > _MOST_PERFECT:
        listed = listed[: -len(perfect)]
    for grader in listed:
        yield row(f"  {named(grader, 40)}", _mean_of(grader), _number_of(grader), higher_is_better=True)
    if len(perfect) > _MOST_PERFECT:
        label = f"  {len(perfect)} others" if listed else f"  {len(perfect)} graders"
        yield row(label, lambda of: score(None if of.grader_means.keys().isdisjoint(perfect) else 1.0))


def _cost_per_run(variants: Sequence[VariantReport], row: Callable[..., Row]) -> Iterator[Row]:
    """What a run costs, where the row above does not already say that nobody knows."""
    if any(variant.cost_per_run_usd is not None for variant in variants):
        yield row(
            "cost per run",
            lambda of: usd(of.cost_per_run_usd, of.unknown_cost),
            _priced(lambda of: of.cost_per_run_usd),
        )


def _repeated(variants: Sequence[VariantReport], row: Callable[..., Row]) -> Iterator[Row]:
    """How often one of k runs passes, and how often all do, where there are several."""
    draws = next((variant.draws for variant in variants if variant.draws), None)
    if draws is not None:
        yield row(f"pass@{draws} (any)", lambda of: rate(of.pass_at_k), lambda of: of.pass_at_k, higher_is_better=True)
        yield row(
            f"pass^{draws} (all)", lambda of: rate(of.pass_hat_k), lambda of: of.pass_hat_k, higher_is_better=True
        )


def _marks(
    texts: Sequence[str], numbers: Sequence[float | None], *, higher_is_better: bool, several: bool
) -> tuple[str, ...]:
    """A mark beside every text, of equal width.

    Figures that look the same are marked the same, and where all do, none is.
    """
    if not several:
        return ("",) * len(texts)
    known = {text: number for text, number in zip(texts, numbers, strict=True) if number is not None}
    if len(set(known.values())) < 2:
        return (_NO_MARK,) * len(texts)
    ordered = sorted(known, key=lambda text: known[text], reverse=higher_is_better)
    marks = {known[ordered[-1]]: WORST, known[ordered[0]]: BEST}
    return tuple(
        _NO_MARK if number is None else marks.get(known[text], _NO_MARK)
        for text, number in zip(texts, numbers, strict=True)
    )


def _pass_rate(variant: VariantReport) -> str:
    return rate_with_interval(variant.pass_rate, variant.lower, variant.upper)


def _mean_of(grader: str) -> AsText:
    return lambda variant: score(variant.grader_means.get(grader))


def _number_of(grader: str) -> AsNumber:
    return lambda variant: variant.grader_means.get(grader)


def _priced(number: AsNumber) -> AsNumber:
    """Costs that leave out runs are not compared."""
    return lambda variant: number(variant) if not variant.unpriced_runs else None


def _tokens(variant: VariantReport) -> str:
    figures = variant.figures
    return f"{figures.input_tokens:,} in, {figures.output_tokens:,} out" if _token_sum(variant) else "not reported"


def _token_sum(variant: VariantReport) -> int | None:
    return variant.figures.input_tokens + variant.figures.output_tokens or None
