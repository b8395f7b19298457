"""What an invocation has spent, and when that is enough."""

from ci_evals.engine.outcome import Outcome
from ci_evals.model import Result
from ci_evals.rules import Allowance, Budget


class Spending:
    """Adds up what results cost, and says when a budget is used up; tokens are counted where there is one."""

    def __init__(self, budget: Budget) -> None:
        self.cost_usd = 0.0
        self.tokens = 0
        self._budget = budget
        self._counts_tokens = budget.max_tokens is not None or budget.per_run.max_tokens is not None
        self._is_bounded = budget.counts_cost or self._counts_tokens

    def add(self, result: Result) -> str | None:
        """Count one finished run; returns why no further run may start, or None."""
        if (judging := result.judging) is not None:
            self.cost_usd += judging.cost_usd
            self.tokens += judging.input_tokens + judging.output_tokens
        if result.recorded:
            return None
        if result.cost_usd is not None:
            self.cost_usd += result.cost_usd
        if not self._is_bounded:
            return None
        usage = result.response.usage if result.response else None
        if usage is not None:
            self.tokens += usage.total_tokens
        return self._reached(result)

    def _reached(self, result: Result) -> str | None:
        budget = self._budget
        if (unknown := self._unknown(result)) is not None:
            return unknown
        if budget.max_cost_usd is not None and self.cost_usd >= budget.max_cost_usd:
            return f"the budget of ${budget.max_cost_usd:g} is used up (${self.cost_usd:.4g})"
        if budget.max_tokens is not None and self.tokens >= budget.max_tokens:
            return f"the budget of {budget.max_tokens:,.0f} tokens is used up ({self.tokens:,})"
        return None

    def _unknown(self, result: Result) -> str | None:
        """Why the budget cannot be held: an answer that does not say what it took would count as 0."""
        if result.response is None:
            return None
        if self._budget.counts_cost and result.cost_usd is None:
            what = "does not say what its answers cost: return `cost_usd`, or `usage` and set a `price`"
            return f"the budget counts USD, and {result.provider} {what}"
        if self._counts_tokens and result.response.usage is None:
            return f"the budget counts tokens, and {result.provider} does not say how many it used: return `usage`"
        return None


def violations(allowed: Allowance, outcome: Outcome, duration_s: float) -> tuple[str, ...]:
    """Which bounds a run exceeded, each with its figure and the bound."""
    found = []
    cost_usd = outcome.cost_usd
    usage = outcome.response.usage if outcome.response else None
    tokens = usage.total_tokens if usage else 0
    if allowed.max_cost_usd is not None and cost_usd is not None and cost_usd > allowed.max_cost_usd:
        found.append(f"cost ${cost_usd:.6g} of ${allowed.max_cost_usd:g}")
    if allowed.max_tokens is not None and tokens > allowed.max_tokens:
        found.append(f"{tokens:,} tokens of {allowed.max_tokens:,.0f}")
    if allowed.max_duration_s is not None and duration_s > allowed.max_duration_s:
        found.append(f"{duration_s:.3g} s of {allowed.max_duration_s:g} s")
    return tuple(found)
