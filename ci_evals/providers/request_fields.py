"""Requests for the team's own code, as plain JSON values."""

from typing import Any

from ci_evals.model.case import NO_OVERRIDES, Case
from ci_evals.model.request import Request
from ci_evals.providers.parts import message_fields


def request_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a request that all kinds of the team's own code get."""
    fields = {
        "id": request.case.id,
        "messages": message_fields(request.messages),
        "vars": request.case.vars,
        "run": request.run,
        "timeout_s": request.timeout_s,
    }
    if request.case.overrides != NO_OVERRIDES:
        fields["overrides"] = override_fields(request.case)
    return fields


def override_fields(case: Case) -> dict[str, Any]:
    """Return a case's overrides of the provider's settings."""
    return {"model": case.overrides.model, "params": case.overrides.params}
