"""Google Cloud's application default credentials, with google-auth."""

import asyncio
from collections.abc import Mapping
from typing import Any

import google.auth
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.auth.transport.requests import Request

from ci_evals.errors import ProviderError
from ci_evals.faults import ErrorKind
from ci_evals.providers.base import Resources
from ci_evals.providers.http_messages import Call, readable
from ci_evals.redaction import learn

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ADVICE = (
    "run `gcloud auth application-default login`, or name a key file in"
    " GOOGLE_APPLICATION_CREDENTIALS"
)


class GoogleCredentials:
    """The application default credentials. See `http_messages.HttpCredentials`.

    Tokens are fetched in a thread, because google-auth blocks: before the first call, when they
    expire, and when one is refused.
    """

    noun = "credentials"
    expired_status = 401

    def __init__(self, _: Resources) -> None:
        self._credentials: Any = None
        self._lock = asyncio.Lock()

    async def fetch(self) -> None:
        async with self._lock:
            if self._credentials is None:
                self._credentials = await asyncio.to_thread(_find)
            if not self._credentials.valid:
                await asyncio.to_thread(_refresh, self._credentials)

    async def authorize(self, call: Call) -> Mapping[str, str]:
        await self.fetch()
        return self._headers(call.headers)

    async def renew(self, refused: Mapping[str, str]) -> bool:
        async with self._lock:
            # Otherwise another call has refreshed the token meanwhile.
            if refused["authorization"] == self._headers({})["authorization"]:
                await asyncio.to_thread(_refresh, self._credentials)
        return True

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        authorized = dict(headers)
        self._credentials.apply(authorized)
        return authorized


def _find() -> Any:
    try:
        credentials, _project = google.auth.default(scopes=_SCOPES)
    except DefaultCredentialsError as error:
        why = readable(str(error.args[0])).rstrip(".")
        text = f"no Google credentials: {why}; {_ADVICE}"
        raise ProviderError("auth", text) from error
    return credentials


def _refresh(credentials: Any) -> None:
    try:
        credentials.refresh(Request())
    except GoogleAuthError as error:
        kind: ErrorKind = "auth"
        if isinstance(error, TransportError):
            kind = "network"
        text = f"no Google token: {readable(str(error))}; {_ADVICE}"
        raise ProviderError(kind, text) from error
    learn(credentials.token)


def google_credentials(resources: Resources) -> GoogleCredentials:
    """Return the credentials, which all providers share."""
    return resources.shared(GoogleCredentials)
