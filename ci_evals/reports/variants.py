"""What a report says of each variant, as every format shows it."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from ci_evals.model import Variant
from ci_evals.report import Counts, Figures
from ci_evals.reports.figures import UNKNOWN, usd
from ci_evals.reports.summary import Summary
from ci_evals.rules import Gate
from ci_evals.stats.flips import pass_at_k, pass_hat_k
from ci_evals.stats.pass_rate import pass_rate
from ci_evals.verdict.sentences import rate_change, ratio_change


class VariantChange(Struct, frozen=True):
    """A variant beside its base, in words: pass rate, cost of a run, latency. Empty where a side does not know it.

    `compared_with` is the variant of another name that it was compared with, if so.
    """

    pass_rate: str
    cost: str
    latency: str
    compared_with: Variant | None = None


class VariantReport(Struct, frozen=True):
    """One column of the matrix. Rates and scores are fractions in [0, 1]; None where no run was graded.

    `pass_rate` is the mean over cells of their share of passed runs, as the gate sees it; `lower` and `upper` bound
    it, each at the gate's confidence. `unpriced_runs` are graded runs whose price is not known; `unknown_cost` is the
    word for a cost that nobody can tell. Of a run phase that was settled early, no rate or score is known: what had run
    by then is no fair sample. `draws` is the k of pass@k and pass^k: the fewest graded runs that a cell of the report
    has; all three are None where that is only one. `change` is None without a comparison.
    """

    variant: Variant
    counts: Counts
    pass_rate: float | None
    lower: float | None
    upper: float | None
    mean_score: float | None
    figures: Figures
    grader_means: Mapping[str, float]
    unpriced_runs: int
    unknown_cost: str
    draws: int | None
    pass_at_k: float | None
    pass_hat_k: float | None
    change: VariantChange | None = None

    @property
    def cost_usd(self) -> float | None:
        """What the runs with a known price cost together; None when there is none."""
        return self.figures.cost_usd if self.figures.priced_runs else None

    @property
    def cost_per_run_usd(self) -> float | None:
        return self.figures.cost_usd / self.figures.priced_runs if self.figures.priced_runs else None

    @property
    def cost_text(self) -> str:
        """`$0.012`, `$0.012 for 30 of 40 runs`, `unknown`, or `recorded` when nothing was called."""
        text, priced = usd(self.cost_usd, self.unknown_cost), self.figures.priced_runs
        if self.cost_usd is None or not self.unpriced_runs:
            return text
        return f"{text} for {priced:,} of {priced + self.unpriced_runs:,} runs"


def variant_reports(summary: Summary) -> tuple[VariantReport, ...]:
    """Every variant in the suite's order."""
    report = summary.report
    variants = report.matrix.variants
    kinds = [Counter(report.by_cell[cell] for cell in report.cells_of(variant)) for variant in variants]
    fewest = min((counts.graded for by_cell in kinds for counts in by_cell if counts.graded), default=0)
    draws = fewest if fewest > 1 and report.settled is None else None
    return tuple(
        _variant_report(summary, variant, by_cell, draws) for variant, by_cell in zip(variants, kinds, strict=True)
    )


def _variant_report(summary: Summary, variant: Variant, by_cell: Counter[Counts], draws: int | None) -> VariantReport:
    """One variant, from how many of its cells have the same counts."""
    report = summary.report
    cells = report.cells_of(variant)
    fair = report.settled is None
    rate = pass_rate((counts.passed, counts.graded) for counts in by_cell.elements()) if fair else None
    bounds = rate.bounds((summary.gate or Gate()).confidence) if rate else None
    return VariantReport(
        variant=variant,
        counts=report.counts(cells),
        pass_rate=float(rate.rate) if rate else None,
        lower=bounds.lower if bounds else None,
        upper=bounds.upper if bounds else None,
        mean_score=report.mean_score(cells),
        figures=report.figures(cells),
        grader_means=report.grader_means(variant) if fair else {},
        unpriced_runs=report.unpriced_runs(cells),
        unknown_cost="recorded" if 0 < report.totals.graded <= report.columns.recorded else "unknown",
        draws=draws,
        pass_at_k=_mean_over_cells(pass_at_k, by_cell, draws),
        pass_hat_k=_mean_over_cells(pass_hat_k, by_cell, draws),
        change=_change(summary, variant),
    )


def _change(summary: Summary, variant: Variant) -> VariantChange | None:
    if (comparison := summary.compared) is None:
        return None
    key = variant.provider, variant.prompt
    found = next((each for each in comparison.variants if (each.provider, each.prompt) == key), None)
    if found is None:
        return VariantChange(UNKNOWN, "", "")
    fair = summary.report.settled is None
    return VariantChange(
        pass_rate=rate_change(comparison, found) if fair else UNKNOWN,
        cost=ratio_change(found.differences.cost),
        latency=ratio_change(found.differences.latency),
        compared_with=Variant(found.base_provider, found.base_prompt) if found.renamed else None,
    )


def _mean_over_cells(
    chance: Callable[[int, int, int], float | None], by_cell: Mapping[Counts, int], draws: int | None
) -> float | None:
    """The mean over graded cells of a chance that follows from `draws` runs of each."""
    known: list[float] = []
    for counts, count in by_cell.items():
        if draws and counts.graded and (found := chance(counts.passed, counts.graded, draws)) is not None:
            known += [found] * count
    return statistics.fmean(known) if known else None
