"""The rules of a suite: the conditions for merging, and the limits of spending."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator, Field, Strict

from ci_evals.model.fields import FROM_VARIABLE, Above0, AtLeast1, Bool, Count, Options, Share

ConfirmRuns = Annotated[int, Strict(), Ge(0), Le(1000), FROM_VARIABLE]
"""The number of runs that name a case, after those that tell it from chance; 0: none at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget(Options):
    """The limits of one run. Runs that exceed them are marked."""

    max_cost_usd: Above0 | None = None
    max_tokens: Above0 | None = None
    max_duration_s: Above0 | None = None


NO_RUN_BUDGET = RunBudget()


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRule(Options):
    """The rules for the cases with a tag."""

    min_pass_rate: Annotated[Share | None, Field(description="A bar for these cases together.")] = (
        None
    )
    critical: Annotated[
        Bool,
        Field(
            description="A regression of one of them, or a missed bar, is red"
            " regardless of the rest of the gate."
        ),
    ] = False

    @property
    def set_rules(self) -> Iterator[tuple[str, object]]:
        """The rules that differ from their defaults, each with its key."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value != each.default:
                yield each.name, value


_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def _check_level(value: Any) -> str:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        if _COMMIT.fullmatch(value):
            return value
        with suppress(ValueError):
            return date.fromisoformat(value).isoformat()
    raise ValueError(
        "expected a day such as 2026-12-31, or at least 7 digits of a commit, in quotes if"
        f" it has no letters; got {value!r:.80}"
    )


Level = Annotated[str, BeforeValidator(_check_level)]
"""The day or commit from which a pass rate counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(Options):
    """The rules for merging. Rates are fractions in [0, 1]."""

    min_pass_rate: Annotated[
        Share | None, Field(description="The bar: the share of runs that must pass.")
    ] = None
    confidence: Annotated[
        float,
        Strict(),
        Gt(0.5),
        Lt(1),
        FROM_VARIABLE,
        Field(description="The certainty that a red verdict needs."),
    ] = 0.95
    on_borderline: Annotated[
        Literal["warn", "fail"], Field(description="What to do when the verdict is borderline.")
    ] = "warn"
    prove: Annotated[
        Bool, Field(description="Pass only if the rate is above the bar with that confidence.")
    ] = False
    max_error_rate: Annotated[
        Share,
        Field(
            description="With a larger share of errored runs, there is no verdict unless it is red."
        ),
    ] = 0.05
    min_case_pass_rate: Annotated[
        Share | None,
        Field(description="A bar for each case, unless it has its own `min_pass_rate`."),
    ] = None
    per_variant: Annotated[
        Bool, Field(description="Apply min_pass_rate to every provider and prompt.")
    ] = False
    tags: Annotated[
        Mapping[str, Share | TagRule],
        Field(description="A bar per tag, or `min_pass_rate` and `critical`."),
    ] = field(default_factory=dict)
    providers: Annotated[Mapping[str, Share], Field(description="A bar per provider.")] = field(
        default_factory=dict
    )
    metrics: Annotated[
        Mapping[str, Share],
        Field(
            description="A bar per `metric` of graders, or per metric of `classify`: `macro_f1`,"
            " `recall.refund`."
        ),
    ] = field(default_factory=dict)
    max_budget_violations: Annotated[
        Count | None,
        Field(
            description="This many runs may exceed budget.per_run;"
            " when left out, they are only shown."
        ),
    ] = None
    require_usage: Annotated[
        Bool,
        Field(
            description="No verdict if answers don't report the cost or tokens that"
            " budget.per_run bounds."
        ),
    ] = False
    max_regressions: Annotated[
        Count, Field(description="This many cases may be worse than the baseline.")
    ] = 0
    on_regression: Annotated[
        Literal["fail", "net", "warn"],
        Field(
            description="What to do when the comparison with the baseline is red. `net`: a variant"
            " that is better as a whole waives what is worse on it, except for critical cases."
        ),
    ] = "fail"
    require_baseline: Annotated[
        Bool | Literal["expected"],
        Field(
            description="No verdict without a comparison; `expected`: only if one was expected,"
            " not on a first run or without anything to compare."
        ),
    ] = False
    on_unchecked: Annotated[
        Literal["error", "warn"],
        Field(
            description="What to do if your own code was not run: without secrets, as on forks,"
            " or in a replay."
        ),
    ] = "error"
    drift_since: Annotated[
        Level | None,
        Field(
            description="Accept the base branch's losses since this day or commit: they cause no"
            " warning of drift."
        ),
    ] = None
    ratchet: Annotated[
        Bool, Field(description="Fail a variant below the best rate that it has held before.")
    ] = False
    max_cost_increase: Annotated[
        AtLeast1 | None,
        Field(
            description="Red if the cost of a run is surely more than this many times the"
            " baseline's."
        ),
    ] = None
    max_latency_increase: Annotated[
        AtLeast1 | None,
        Field(
            description="Red if the latency is surely more than this many times the baseline's, and"
            " beyond the spread of the base branch's last reports."
        ),
    ] = None

    @property
    def alpha(self) -> float:
        """The probability of a false alarm that `confidence` allows."""
        return round(1 - self.confidence, 12)  # 1 - 0.95 is 0.050000000000000044

    @property
    def rules(self) -> Mapping[str, object]:
        """The rules that are set, by their keys in the suite: `tags.safety.critical`.

        A bar of a tag is the same rule in its short form and in its long one.
        """
        rules: dict[str, object] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "tags":
                for tag, rule in self.tag_rules.items():
                    rules |= {f"tags.{tag}.{name}": found for name, found in rule.set_rules}
            elif isinstance(value, Mapping):
                rules |= {f"{each.name}.{key}": bar for key, bar in value.items()}
            elif value is not None:
                rules[each.name] = value
        return rules

    @property
    def tag_rules(self) -> Mapping[str, TagRule]:
        """The rules by tag; a bar alone is one, too."""
        rules = {}
        for tag, rule in self.tags.items():
            if not isinstance(rule, TagRule):
                rule = TagRule(min_pass_rate=rule)  # noqa: PLW2901
            rules[tag] = rule
        return rules

    def case_bar(self, own: float | None) -> float | None:
        """Return the bar of a single case, if there is one; its own wins."""
        if own is None:
            return self.min_case_pass_rate
        return own

    def tag_bar(self, tag: str) -> float | None:
        """Return the bar of the cases with a tag, if there is one."""
        rule = self.tag_rules.get(tag)
        return rule.min_pass_rate if rule is not None else None

    @property
    def tag_bars(self) -> Mapping[str, float]:
        """The bars by tag."""
        bars = {tag: self.tag_bar(tag) for tag in self.tags}
        return {tag: bar for tag, bar in bars.items() if bar is not None}

    def allows(self, cases: Collection[str], critical: Collection[str] = ()) -> bool:
        """Return True if these cases may regress.

        Args:
            cases: all that regressed, by their ids.
            critical: those of them that are critical, of which none may.
        """
        return not critical and len(set(cases)) <= self.max_regressions

    def marks_critical(self, tags: Iterable[str]) -> bool:
        """Return True if cases with one of these tags are critical."""
        return any(tag in self.tag_rules and self.tag_rules[tag].critical for tag in tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Options):
    """The limits of one invocation. When one is reached, no new run starts."""

    max_cost_usd: Above0 | None = None
    max_tokens: Above0 | None = None
    max_duration_s: Above0 | None = None
    per_run: RunBudget = NO_RUN_BUDGET

    @property
    def counts_cost(self) -> bool:
        """True if a limit needs every answer's price to be known."""
        return self.max_cost_usd is not None or self.per_run.max_cost_usd is not None


# The metrics of classifications.

WHOLE = ("accuracy", "macro_f1")
BY_LABEL = ("precision", "recall", "f1", "roc_auc")
USUAL_TASK = "classify"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of one task: `macro_f1`, `recall.refund`, `language/accuracy`."""

    name: str
    label: str | None = None
    task: str = USUAL_TASK


def read_metric(text: str) -> Metric | None:
    """Parse the name of a metric, such as `recall.refund` or `language/accuracy`.

    Return None if the metric does not exist.
    """
    task = USUAL_TASK
    if "/" in text:
        task, _, text = text.partition("/")
    name, dot, label = text.partition(".")
    if name in WHOLE and not dot:
        return Metric(name, task=task)
    if name in BY_LABEL and label:
        return Metric(name, label, task)
    return None
