"""The description of GitLab's API, held against every request and every answer of the fake."""

import json
import warnings
from functools import cache
from pathlib import Path

from werkzeug.datastructures import MultiDict

from fakes.github_contract import Exchange

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what openapi-core imports
    from openapi_core import OpenAPI
    from openapi_core.exceptions import OpenAPIError
    from openapi_core.testing import MockRequest, MockResponse

DESCRIPTION = Path(__file__).parents[2] / "data" / "gitlab-openapi.json"
HOST = "https://gitlab.com"


def violations(exchange: Exchange, query: list[tuple[str, str]]) -> list[str]:
    """What GitLab would neither send nor take."""
    request = MockRequest(
        HOST,
        exchange.method.lower(),
        exchange.path,
        args=MultiDict(query),
        data=exchange.sent or None,
        content_type="application/json",
    )
    found = []
    try:
        _api().validate_request(request)
    except OpenAPIError as error:
        found.append(f"request {exchange.method} {exchange.path}: {_reason(error)}")
    if exchange.status >= 400:
        return found
    headers = dict(exchange.headers)
    response = MockResponse(
        exchange.body,
        status_code=exchange.status,
        headers=headers,
        content_type=headers.get("Content-Type", ""),
    )
    try:
        _api().validate_response(request, response)
    except OpenAPIError as error:
        route = f"{exchange.method} {exchange.path}"
        found.append(f"answer {exchange.status} to {route}: {_reason(error)}")
    return found


def _reason(error: OpenAPIError) -> str:
    reasons = [
        f"{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}"
        for each in getattr(error.__cause__, "schema_errors", ())
    ]
    return "; ".join(reasons) or f"{type(error).__name__}: {error!s:.200}"


@cache
def _api() -> OpenAPI:
    return OpenAPI.from_dict(json.loads(DESCRIPTION.read_bytes()))
