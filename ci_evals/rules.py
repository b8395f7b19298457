"""The rules that a suite is held to: what must hold for merging, and what may be spent."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ci_evals.bounds import AtLeastOne, Fraction, Positive


class Allowance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run may take. A run that takes more is marked."""

    max_cost_usd: Positive | None = None
    max_tokens: Positive | None = None
    max_duration_s: Positive | None = None


NO_ALLOWANCE = Allowance()


class TagRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for the cases with a tag."""

    min_pass_rate: Annotated[Fraction | None, Meta(description="A bar for these cases together.")] = None
    critical: Annotated[
        bool, Meta(description="A regression of one of them, or a missed bar, is red whatever else the gate allows.")
    ] = False


class Gate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for merging. Rates are fractions in [0, 1]."""

    min_pass_rate: Annotated[Fraction | None, Meta(description="The bar: the share of runs that must pass.")] = None
    confidence: Annotated[float, Meta(gt=0.5, lt=1, description="How sure a red must be.")] = 0.95
    on_borderline: Annotated[
        Literal["warn", "fail"], Meta(description="What to do below the bar but within noise.")
    ] = "warn"
    prove: Annotated[bool, Meta(description="Pass only if the rate is above the bar beyond doubt.")] = False
    max_error_rate: Annotated[Fraction, Meta(description="More errored runs than this: no verdict.")] = 0.05
    per_variant: Annotated[bool, Meta(description="Hold every provider and prompt to min_pass_rate.")] = False
    tags: Annotated[
        Mapping[str, Fraction | TagRule], Meta(description="A bar per tag, or `min_pass_rate` and `critical`.")
    ] = {}
    providers: Annotated[Mapping[str, Fraction], Meta(description="A bar per provider.")] = {}
    metrics: Annotated[
        Mapping[str, Fraction], Meta(description="A bar per metric of `classify`: `macro_f1`, `recall.refund`.")
    ] = {}
    max_budget_violations: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="So many runs may exceed budget.per_run; left out: they are only shown."),
    ] = None
    max_regressions: Annotated[int, Meta(ge=0, description="So many cases may be worse than the baseline.")] = 0
    on_regression: Annotated[
        Literal["fail", "warn"], Meta(description="What to do when the comparison with the baseline is red.")
    ] = "fail"
    require_baseline: Annotated[bool, Meta(description="No verdict without a comparison.")] = False
    ratchet: Annotated[bool, Meta(description="Fail a variant below the best rate that it has held before.")] = False
    max_cost_increase: Annotated[
        AtLeastOne | None,
        Meta(description="Red if the cost of a run is surely more than so many times the baseline's."),
    ] = None
    max_latency_increase: Annotated[
        AtLeastOne | None, Meta(description="Red if the latency is surely more than so many times the baseline's.")
    ] = None

    @property
    def alpha(self) -> float:
        """The chance of a false alarm that `confidence` leaves."""
        return round(1 - self.confidence, 12)  # 1 - 0.95 is 0.050000000000000044

    def tag_bar(self, tag: str) -> float | None:
        """The bar of the cases with a tag, if it has one."""
        rule = self.tags.get(tag)
        return rule.min_pass_rate if isinstance(rule, TagRule) else rule

    @property
    def tag_bars(self) -> Mapping[str, float]:
        """The tags that have a bar."""
        return {tag: bar for tag in self.tags if (bar := self.tag_bar(tag)) is not None}

    @property
    def critical_tags(self) -> frozenset[str]:
        return frozenset(tag for tag, rule in self.tags.items() if isinstance(rule, TagRule) and rule.critical)


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one invocation may spend. When it is reached no new run starts."""

    max_cost_usd: Positive | None = None
    max_tokens: Positive | None = None
    max_duration_s: Positive | None = None
    per_run: Allowance = NO_ALLOWANCE

    @property
    def counts_cost(self) -> bool:
        """Whether anything here needs every answer's price to be known."""
        return self.max_cost_usd is not None or self.per_run.max_cost_usd is not None
