"""`cost`: the answer was cheap enough."""

from typing import Annotated

from msgspec import Meta

from ci_evals.graders.base import GraderOptions, all_or_nothing
from ci_evals.graders.findings import fails
from ci_evals.graders.quoting import quote
from ci_evals.model import Answer, Finding


class Cost(GraderOptions, frozen=True):
    """The answer cost at most `value` US dollars. A cost that is not known does not pass."""

    value: Annotated[float, Meta(ge=0)]

    def grade(self, answer: Answer) -> Finding:
        cost_usd = answer.cost_usd
        if cost_usd is None:
            return fails(_explain_unknown(answer))
        passed = cost_usd <= self.value
        relation = "within" if passed else "more than"
        return all_or_nothing(passed, f"cost ${cost_usd:.4g}, {relation} the ${self.value:.4g} allowed")


def _explain_unknown(answer: Answer) -> str:
    if answer.response.usage is None:
        return "the cost is not known: the provider reported no `usage`, so there are no tokens to put a price to"
    model = f" of model {quote(answer.response.model, 80)}" if answer.response.model else ""
    return (
        f"the cost is not known: no price{model} is listed; "
        "set the provider's `price: {input_per_mtok: …, output_per_mtok: …}`, in USD per million tokens"
    )
