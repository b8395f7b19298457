"""What follows from the comparison for merging: regressions, falls of a whole variant, ratchet, cost, latency."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

from msgspec import Struct

from ci_evals.matrix import CellKey
from ci_evals.percentage import percent
from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.verdict import ratchet
from ci_evals.verdict.comparison import Comparison, NoComparison, VariantComparison
from ci_evals.verdict.differences import Difference
from ci_evals.verdict.scopes import VerdictStatus
from ci_evals.verdict.sentences import cell_sentence, nothing_compared, variant_name, variant_sentence
from ci_evals.verdict.words import number_of

RuleName = Literal["baseline", "critical", "regressions", "variant", "ratchet", "cost", "latency"]


class RuleVerdict(Struct, frozen=True):
    """What one rule says. A `borderline` one is only to be told."""

    rule: RuleName
    status: VerdictStatus
    sentence: str


def rule_verdicts(report: Report, rules: Gate, comparison: Comparison | NoComparison | None) -> Iterator[RuleVerdict]:
    """Every rule that speaks against merging."""
    if not isinstance(comparison, Comparison) or not comparison.compared:
        if rules.require_baseline:
            yield RuleVerdict("baseline", "error", f"{lack(comparison)}, and the gate requires a comparison")
        return
    red: VerdictStatus = "fail" if rules.on_regression == "fail" else "borderline"
    # What had run when a verdict was settled early is no fair sample, and its failures are red already.
    falls = _falls(comparison, rules, red) if report.settled is None else ()
    yield from chain(
        _critical(comparison),
        _regressions(comparison, rules, red),
        falls,
        (RuleVerdict("ratchet", "fail", text) for text in ratchet.broken(report, rules, comparison)),
        _increases(comparison, rules),
    )


def blocking(comparison: Comparison | NoComparison | None, found: Iterable[RuleVerdict]) -> frozenset[CellKey]:
    """The regressed cells that make the gate red."""
    if not isinstance(comparison, Comparison):
        return frozenset()
    red = {each.rule for each in found if each.status == "fail"}
    return frozenset(
        cell.key for cell in comparison.of("regressed") if ("critical" if cell.critical else "regressions") in red
    )


def fall_behind(comparison: Comparison | NoComparison | None, rule: RuleVerdict) -> str | None:
    """What is said of the variant whose regression a rule names: its fall is no reason of its own. Else None."""
    if not isinstance(comparison, Comparison) or rule.rule not in ("critical", "regressions"):
        return None
    named = next(cell for cell in comparison.of("regressed") if cell.critical == (rule.rule == "critical"))
    found = (each for each in comparison.variants if (each.provider, each.prompt) == named.key[1:])
    return next((variant_sentence(comparison, each) for each in found), None)


def lack(comparison: Comparison | NoComparison | None) -> str:
    """Why there is nothing to go by."""
    match comparison:
        case None:
            return "no baseline: none was named with --baseline"
        case NoComparison(reason):
            return reason
    return nothing_compared(comparison)


def _critical(comparison: Comparison) -> Iterator[RuleVerdict]:
    for cell in comparison.of("regressed"):
        if cell.critical:
            yield RuleVerdict("critical", "fail", f"critical: {cell_sentence(comparison, cell)}")


def _regressions(comparison: Comparison, rules: Gate, red: VerdictStatus) -> Iterator[RuleVerdict]:
    regressed = [cell for cell in comparison.of("regressed") if not cell.critical]
    if len(regressed) > rules.max_regressions:
        first, *others = regressed
        more = [f"{number_of(len(others), 'more case')} regressed"] if others else []
        more += [f"the gate allows {rules.max_regressions}"] if rules.max_regressions else []
        text = cell_sentence(comparison, first) + (f" ({', and '.join(more)})" if more else "")
        yield RuleVerdict("regressions", red, text)


def _falls(comparison: Comparison, rules: Gate, red: VerdictStatus) -> Iterator[RuleVerdict]:
    """Variants that are worse as a whole; regressions that the gate allows are left out of that."""
    allowed = rules.max_regressions > 0
    for variant in comparison.fallen(beyond_regressions=allowed):
        yield RuleVerdict("variant", red, variant_sentence(comparison, variant))


def _increases(comparison: Comparison, rules: Gate) -> Iterator[RuleVerdict]:
    for variant in comparison.variants:
        yield from _increase("cost", variant.differences.cost, rules.max_cost_increase, comparison, variant)
        yield from _increase("latency", variant.differences.latency, rules.max_latency_increase, comparison, variant)


def _increase(
    rule: Literal["cost", "latency"],
    ratio: Difference | None,
    limit: float | None,
    comparison: Comparison,
    variant: VariantComparison,
) -> Iterator[RuleVerdict]:
    """Red only if even the lower bound of the ratio is above the limit."""
    if limit is None or ratio is None or ratio.lower is None or ratio.lower <= limit:
        return
    found = f"{rule} is {ratio.value:.2f} times that of {comparison.baseline.called} (at least {ratio.lower:.2f} times"
    sure = f", {percent(1 - comparison.alpha)} sure), and the gate allows {limit:g} times"
    yield RuleVerdict(rule, "fail", f"{variant_name(comparison, variant)}{found}{sure}")
