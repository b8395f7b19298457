"""The table of faults: what can happen to a run, whose fault it is, and what follows.

`docs/failed-or-errored.md` shows the same table. Providers, transcripts and executors name what
happened by an `ErrorKind`, often with `kind_of_status` or `kind_of_codes`. Whose fault that is, is
decided nowhere else.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

ErrorKind = Literal[
    "rate_limit",
    "no_credit",
    "auth",
    "not_found",
    "rejected",
    "server",
    "network",
    "timeout",
    "bad_answer",
    "empty",
    "crash",
    "upstream",
    "max_steps",
    "given_up",
    "outage",
    "environment",
    "setup",
    "not_recorded",
    "grader",
    "judge",
]

Party = Literal["change", "provider", "suite", "machine"]
"""Who may be at fault: the change under test; who answers, such as a model API; the suite, with its
keys, fixtures and graders; or the machine that runs it."""


class Fault(NamedTuple):
    """A row of the table.

    Args:
        happened: what happened, for readers of the docs.
        of_api: whose fault it is if a model API, or a service of others, was called.
        of_own_code: whose fault it is if the team's own code was called.
        short: the kind in a few words, for messages.
        is_retried: the call may be repeated within the run.
    """

    happened: str
    of_api: Party
    of_own_code: Party
    short: str
    is_retried: bool = False


FAULTS: Mapping[ErrorKind, Fault] = {
    "rate_limit": Fault("429", "provider", "provider", "rate-limited", is_retried=True),
    "no_credit": Fault("402; a 429 or 400 for want of credit", "provider", "provider", "no credit"),
    "auth": Fault("401, 403; no credentials", "provider", "provider", "no access"),
    "not_found": Fault("404, another 4xx; a redirect", "provider", "change", "not found"),
    "rejected": Fault(
        "400, 413, 415, 422; a blocked prompt; a request that cannot be made",
        "change",
        "change",
        "request refused",
    ),
    "server": Fault(
        "408, 409, 5xx; a 200 that reports an error",
        "provider",
        "change",
        "server error",
        is_retried=True,
    ),
    "network": Fault(
        "refused, reset, cut off", "provider", "change", "no connection", is_retried=True
    ),
    "timeout": Fault("no answer in time", "provider", "change", "timed out", is_retried=True),
    "bad_answer": Fault(
        "an answer of another shape, or too long", "provider", "change", "unreadable answer"
    ),
    "empty": Fault(
        "an answer without text and tool calls: it is graded if no attempt gives another, and"
        " failed if it has only thoughts",
        "change",
        "change",
        "empty answer",
        is_retried=True,
    ),
    "crash": Fault("an exception, an exit status", "provider", "change", "crashed"),
    "upstream": Fault(
        "a model API that the called code uses failed: 408, 409, 5xx, no connection",
        "provider",
        "provider",
        "model API failed",
        is_retried=True,
    ),
    "max_steps": Fault(
        "a model called tools and did not answer", "change", "change", "out of steps"
    ),
    "given_up": Fault(
        "the provider was given up; see its cause", "provider", "provider", "given up"
    ),
    "outage": Fault("a round failed as a whole", "provider", "provider", "outage"),
    "environment": Fault(
        "a sandbox or the server of a tool is not there", "machine", "machine", "environment"
    ),
    "setup": Fault(
        "a setup failed, or a verifier gave no reward", "suite", "suite", "setup failed"
    ),
    "not_recorded": Fault(
        "nothing may be called, and nothing is recorded", "suite", "suite", "not recorded"
    ),
    "grader": Fault("a grader could not judge the answer", "suite", "suite", "grader"),
    "judge": Fault(
        "a model that judges has no answer, or gave no verdict", "provider", "provider", "judge"
    ),
}

RETRYABLE = frozenset(kind for kind, fault in FAULTS.items() if fault.is_retried)


def party_at_fault(kind: ErrorKind, *, own_code: bool) -> Party:
    """Return whose fault an error is.

    Args:
        kind: what happened.
        own_code: True if the team's own code was called.
    """
    fault = FAULTS[kind]
    if own_code:
        return fault.of_own_code
    return fault.of_api


# What vendors report.

_BY_STATUS: Mapping[int, ErrorKind] = {
    # The request itself: too long, or a field that the API does not take.
    400: "rejected",
    413: "rejected",
    414: "rejected",
    415: "rejected",
    422: "rejected",
    431: "rejected",
    401: "auth",
    402: "no_credit",
    403: "auth",
    # These may succeed when repeated; the SDKs of OpenAI and Anthropic retry them, too.
    408: "server",
    409: "server",
    424: "server",  # Bedrock: the model failed
    425: "server",
    429: "rate_limit",
}

# Vendors report an empty account or a wrong key as 400 or 429, too. Only the beginning of a message
# counts: the rest may quote the request.
_BY_SENTENCE: Mapping[str, ErrorKind] = {
    "Your credit balance is too low": "no_credit",
    "You have reached your specified API usage limits": "no_credit",
    "insufficient_quota": "no_credit",
    "API key expired": "auth",
    "API key not valid": "auth",
    "Incorrect API key provided": "auth",
    "Invalid API key": "auth",
    "The api_key client option must be set": "auth",
    "This organization has been disabled": "auth",
    "User location is not supported": "auth",
}

_BY_CODE: Mapping[str, ErrorKind] = {
    **dict.fromkeys(
        (
            "api_error",
            "error",
            "internal",
            "internal_error",
            "internal_server_error",
            "internalserverexception",
            "insufficient_system_resource",
            "modelstreamerrorexception",
            "network_error",
            "overloaded",
            "overloaded_error",
            "server_error",
            "serviceunavailableexception",
            "timeout_error",
            "unavailable",
            "vector_store_timeout",
        ),
        "server",
    ),
    **dict.fromkeys(
        (
            "rate_limit",
            "rate_limit_error",
            "rate_limit_exceeded",
            "resource_exhausted",
            "throttlingexception",
        ),
        "rate_limit",
    ),
    **dict.fromkeys(
        (
            "arrearage",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_quota",
        ),
        "no_credit",
    ),
    **dict.fromkeys(
        (
            "api_key_invalid",
            "authentication_error",
            "authentication_failed",
            "invalid_api_key",
            "permission_denied",
            "permission_error",
            "unauthenticated",
            "unsupported_country_region_territory",
        ),
        "auth",
    ),
    **dict.fromkeys(("model_not_found", "not_found", "not_found_error"), "not_found"),
    **dict.fromkeys(
        (
            "bad_request",
            "content_filter",
            "context_length_exceeded",
            "invalid_argument",
            "invalid_request",
            "invalid_request_error",
            "model_context_window_exceeded",
            "request_too_large",
            "string_above_max_length",
            "validationexception",
        ),
        "rejected",
    ),
}
# OpenAI's responses name what is wrong with the request: `invalid_prompt`, `image_too_large`.
_OF_REQUEST = ("invalid_", "image_", "unsupported_")

LOST_FINISHES = frozenset({"error", "insufficient_system_resource", "network_error"})
"""Reasons to finish an answer, with a status of 200, that mean that the provider broke down."""


class Reported(NamedTuple):
    """What an error of a vendor says.

    Args:
        message: its message.
        codes: HTTP statuses, or names such as `rate_limit_exceeded` or `RESOURCE_EXHAUSTED`, the
            most telling one first.
    """

    message: str = ""
    codes: tuple[object, ...] = ()


def read_error(answer: object) -> Reported:
    """Read the error in the JSON of an answer, in the shape of any vendor."""
    if isinstance(answer, list) and answer:  # as Google wraps some errors
        answer = answer[0]
    if isinstance(answer, Mapping) and answer.get("error") is not None:
        answer = answer["error"]
    if isinstance(answer, str):
        return Reported(answer)
    if not isinstance(answer, Mapping):
        return Reported()
    codes = [answer.get(name) for name in ("code", "type", "status")]
    details = answer.get("details")
    if isinstance(details, list):
        codes += [each.get("reason") for each in details if isinstance(each, Mapping)]
    for name in ("message", "Message", "detail"):
        if isinstance(answer.get(name), str):
            return Reported(answer[name], tuple(codes))
    return Reported("", tuple(codes))


def kind_of_status(status: int, reported: Reported = Reported()) -> ErrorKind:  # noqa: B008  frozen
    """Return the kind of a refusal by HTTP.

    Args:
        status: a status outside 2xx.
        reported: the error in the answer: vendors say more by it than by the status.
    """
    if status in (400, 403, 429):
        for code in reported.codes:
            kind = _BY_CODE.get(str(code).lower())
            if kind in ("no_credit", "auth", "rate_limit"):
                return kind
        for sentence, kind in _BY_SENTENCE.items():
            if reported.message.startswith(sentence):
                return kind
    if status >= 500:
        return "server"
    return _BY_STATUS.get(status, "not_found")


def kind_of_codes(reported: Reported) -> ErrorKind | None:
    """Return the kind of an error by its codes; the first known one decides. None without one."""
    for code in reported.codes:
        name = str(code).lower()
        if re.fullmatch(r"[45]\d\d", name):
            return kind_of_status(int(name), reported)
        kind = _BY_CODE.get(name)
        if kind is None and name.startswith(_OF_REQUEST):
            kind = "rejected"
        if kind == "rejected":
            return kind_of_status(400, reported)
        if kind is not None:
            return kind
    return None


def kind_behind_own_code(kind: ErrorKind) -> ErrorKind:
    """Return what an error of a model API is to the team's own code that ended with it: `crash`
    where the request, and so the change, is at fault.
    """
    if kind == "server":  # that of the model API, not the one under test
        return "upstream"
    if party_at_fault(kind, own_code=True) == "change":
        return "crash"
    return kind
