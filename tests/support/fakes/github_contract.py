"""GitHub's own description of its API, held against every request and every answer of the fake."""

import json
import warnings
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what openapi-core imports
    from openapi_core import OpenAPI
    from openapi_core.exceptions import OpenAPIError
    from openapi_core.testing import MockRequest, MockResponse

DESCRIPTION = Path(__file__).parents[2] / "data" / "github-openapi.json"
HOST = "https://api.github.com"
# GitHub's description leaves these out of most routes, although any route answers with them.
RAW = "application/vnd.github.raw"
ANYWHERE = frozenset((401, 403, 404, 429, 500, 502, 503))


class Exchange(NamedTuple):
    """One request with its answer; `path` is without the server's base path and query."""

    method: str
    path: str
    query: Mapping[str, str]
    sent: bytes
    status: int
    headers: Mapping[str, str]
    body: bytes


_looked_at: dict[Exchange, list[str]] = {}


def violations(exchange: Exchange) -> list[str]:
    """What GitHub would neither send nor take. Nothing is checked twice."""
    shown = ("Link", "Location", "Content-Type")
    headers = {name: exchange.headers[name] for name in shown if name in exchange.headers}
    key = exchange._replace(query=tuple(exchange.query.items()), headers=tuple(headers.items()))  # type: ignore[arg-type]
    if key not in _looked_at:
        _looked_at[key] = _violations(exchange._replace(headers=headers))
    return _looked_at[key]


def _violations(exchange: Exchange) -> list[str]:
    request = MockRequest(
        HOST,
        exchange.method.lower(),
        exchange.path,
        args=dict(exchange.query),
        data=exchange.sent or None,
        content_type="application/json",
    )
    found = []
    try:
        _api().validate_request(request)
    except OpenAPIError as error:
        found.append(f"request {exchange.method} {exchange.path}: {_told(error)}")
    if exchange.status in ANYWHERE:
        return found + _error_violations(exchange)
    if exchange.headers.get("Content-Type", "").startswith(RAW):
        return found  # any file
    try:
        _api().validate_response(
            request,
            MockResponse(
                exchange.body,
                status_code=exchange.status,
                headers=dict(exchange.headers),
                content_type="application/json; charset=utf-8",
            ),
        )
    except OpenAPIError as error:
        found.append(
            f"answer {exchange.status} to {exchange.method} {exchange.path}: {_told(error)}"
        )
    return found


def example(name: str) -> Any:
    """GitHub's example of an answer, mended where it falls short of GitHub's own description."""
    value = deepcopy(_description()["components"]["examples"][name]["value"])
    if "requested_teams" in value:
        value["requested_teams"] = []  # lack their `type`
    if name == "private-user":
        value["user_view_type"] = "private"
    return value


def _error_violations(exchange: Exchange) -> list[str]:
    if exchange.status >= 500:
        return []  # whatever stands before the API answers
    answer = json.loads(exchange.body)
    return (
        []
        if isinstance(answer.get("message"), str)
        else [f"error {exchange.status} without a message"]
    )


def _told(error: OpenAPIError) -> str:
    reasons = [
        f"{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}"
        for each in getattr(error.__cause__, "schema_errors", ())
    ]
    return "; ".join(reasons) or f"{type(error).__name__}: {str(error)[:200]}"


@cache
def _description() -> dict[str, Any]:
    description = json.loads(DESCRIPTION.read_bytes())
    assert isinstance(description, dict)
    return description


@cache
def _api() -> OpenAPI:
    return OpenAPI.from_dict(_description())
