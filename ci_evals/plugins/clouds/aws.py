"""AWS credentials and signatures with botocore, and AWS's event streams."""

import asyncio
import json
import os
import time
from collections.abc import Mapping

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.eventstream import EventStreamBuffer, ParserError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.session import Session
from botocore.utils import get_token_from_environment

from ci_evals.errors import ConfigError, Problem, ProviderError
from ci_evals.faults import ErrorKind
from ci_evals.format import one_line
from ci_evals.providers.base import Resources
from ci_evals.providers.http_messages import Call, Event, readable
from ci_evals.redaction import learn

_SERVICE = "bedrock"
_NONE_FOUND = (
    "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, sign in with"
    " `aws sso login`, or name a `profile`"
)


class AwsCredentials:
    """The credentials of one profile, which sign calls to Bedrock with Signature Version 4.

    botocore finds them where AWS's own tools do. A bearer token in AWS_BEARER_TOKEN_BEDROCK wins.
    Requests for credentials run in a thread, because botocore blocks.

    Args:
        profile: a profile of AWS's configuration; None for the usual one.
        region: the region of the calls.
    """

    noun = "credentials"
    expired_status = 403

    def __init__(self, profile: str | None, region: str | None) -> None:
        self._profile = profile
        self._region = region
        self._credentials: Credentials | None = None
        self._bearer_token: str | None = None
        self._lock = asyncio.Lock()

    async def fetch(self) -> None:
        async with self._lock:
            if self._credentials is None and self._bearer_token is None:
                await asyncio.to_thread(self._find)

    async def authorize(self, call: Call) -> Mapping[str, str]:
        await self.fetch()
        if self._bearer_token is not None:
            return {**call.headers, "Authorization": f"Bearer {self._bearer_token}"}
        assert self._credentials is not None
        if (
            isinstance(self._credentials, RefreshableCredentials)
            and self._credentials.refresh_needed()
        ):
            async with self._lock:
                await asyncio.to_thread(self._freeze, self._credentials)
        request = AWSRequest(call.method, str(call.url), dict(call.headers), call.data)
        SigV4Auth(self._freeze(self._credentials), _SERVICE, self._region).add_auth(request)
        return dict(request.headers.items())

    async def renew(self, refused: Mapping[str, str]) -> bool:
        async with self._lock:
            if self._signs(refused):
                await asyncio.to_thread(self._find)
            return not self._signs(refused)

    def _signs(self, headers: Mapping[str, str]) -> bool:
        """Return True if the headers of a call are signed with the current credentials."""
        if self._credentials is None:  # a bearer token, which never changes
            return True
        return (
            f" Credential={self._freeze(self._credentials).access_key}/" in headers["Authorization"]
        )

    def _find(self) -> None:
        if self._profile is None:
            token = get_token_from_environment(_SERVICE)
            if token:
                learn(token)
                self._bearer_token = token
                return
        try:
            credentials = Session(profile=self._profile).get_credentials()
        except (BotoCoreError, ClientError) as error:
            raise self._failure(error) from error
        if credentials is None:
            raise ProviderError("auth", _NONE_FOUND)
        self._freeze(credentials)
        self._credentials = credentials

    def _freeze(self, credentials: Credentials) -> Credentials:
        """Return the current credentials, renewed if they are about to expire."""
        try:
            frozen = credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise self._failure(error) from error
        learn(frozen.secret_key)
        if frozen.token:
            learn(frozen.token)
        return frozen

    def _failure(self, error: Exception) -> ProviderError:
        kind: ErrorKind = "auth"
        text = f"no AWS credentials: {readable(str(error))}"
        match error:
            case HTTPClientError():
                kind = "network"
            case ProfileNotFound():
                known = ", ".join(Session().available_profiles) or "none"
                text = f"{text}; known: {one_line(known)}"
            case SSOError() | TokenRetrievalError():
                sign_in = "aws sso login"
                if self._profile is not None:
                    sign_in = f"{sign_in} --profile {self._profile}"
                text = f"{text}; run `{sign_in}`"
        return ProviderError(kind, text)


def aws_credentials(
    profile: str | None, region: str | None, resources: Resources
) -> AwsCredentials:
    """Return the credentials of a profile, which providers with the same profile share."""
    known = resources.shared(_credentials)
    key = (profile, region)
    if key not in known:
        known[key] = AwsCredentials(profile, region)
    return known[key]


def _credentials(_: Resources) -> dict[tuple[str | None, str | None], AwsCredentials]:
    return {}


def aws_region(profile: str | None) -> str:
    """Return the region of the environment, or of a profile.

    Raises:
        ConfigError: no region is set.
    """
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        return region
    try:
        region = Session(profile=profile).get_config_variable("region")
    except BotoCoreError as error:
        raise ConfigError([Problem("", None, "", f"region: {readable(str(error))}")]) from error
    if not region:
        text = "region: name the AWS region, as in `region: us-east-1`, or set AWS_REGION"
        raise ConfigError([Problem("", None, "", text)])
    return str(region)


class AmazonEventReader:
    """Reads events in AWS's binary framing as they arrive. The data of each is a JSON object with
    one key: the event's type.

    Args:
        start: the time of the request by `time.perf_counter`.
    """

    def __init__(self, start: float) -> None:
        self.events: list[Event] = []
        self._start = start
        self._buffer = EventStreamBuffer()

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk.

        Raises:
            ProviderError: the data is not a stream of events.
        """
        self._buffer.add_data(chunk)
        try:
            messages = list(self._buffer)
        except ParserError as error:
            text = f"the stream is damaged: {readable(str(error))}"
            raise ProviderError("bad_answer", text) from error
        after_s = round(time.perf_counter() - self._start, 6)
        for message in messages:
            kind = message.headers.get(":event-type") or message.headers.get(":exception-type")
            payload = message.payload.decode("utf-8", "replace") or "{}"
            data = f"{{{json.dumps(str(kind))}: {payload}}}"
            self.events.append(Event(data, str(kind), after_s))
