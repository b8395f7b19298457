"""An agent whose style is a setting, as a model's temperature is."""

from ci_evals import Request

FACTS = {"France": "Paris", "Italy": "Rome"}


def answer(question: str, request: Request) -> str:
    """Name a capital, in a word or in a sentence as `params.style` of the case has it."""
    country = next((name for name in FACTS if name in question), "")
    if request.case.overrides.params.get("style") == "brief":
        return FACTS[country]
    return f"The capital of {country} is {FACTS[country]}."
