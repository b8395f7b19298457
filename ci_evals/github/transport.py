"""One exchange with GitHub over aiohttp, beneath gidgethub: time-outs, limits, repeats, and where the token may go."""

from collections.abc import Mapping
from typing import BinaryIO, Final

import aiohttp
from gidgethub.abc import GitHubAPI
from yarl import URL

from ci_evals.errors import GitHubError
from ci_evals.github.patience import Patience, Refusal, Reply, limit_wait_s
from ci_evals.providers.base import Secret
from ci_evals.providers.wire import readable, why_lost

API_VERSION: Final = "2022-11-28"
TIMEOUT: Final = aiohttp.ClientTimeout(total=30, connect=10)
DOWNLOAD_TIMEOUT: Final = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
MAX_REDIRECTS: Final = 3
_CHUNK_BYTES = 256 * 1024
_REPEATABLE = frozenset(("GET", "DELETE"))
_MOVED = frozenset((301, 307, 308))  # a renamed repository


class Transport(GitHubAPI):
    """gidgethub's requests. Reads and deletions are repeated here; other writes raise `Refusal` for who made them."""

    def __init__(self, session: aiohttp.ClientSession, api_url: str, token: Secret, patience: Patience) -> None:
        super().__init__("ci-evals", base_url=api_url)
        self._session = session
        self._origin = URL(api_url).origin()
        self._token = token
        self._patience = patience

    async def sleep(self, seconds: float) -> None:
        await self._patience.sleep(seconds)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        async def ask(attempt: int) -> Reply:
            return await self._followed(method, URL(url, encoded=True), headers, body, attempt)

        return await (self._patience.insist(ask) if method in _REPEATABLE else ask(1))

    async def _followed(self, method: str, url: URL, headers: Mapping[str, str], body: bytes, attempt: int) -> Reply:
        """One attempt; a moved resource is followed, but never to another host."""
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._exchange(method, url, headers, body)
            if reply.status not in _MOVED or "Location" not in reply.headers:
                self._check(reply, attempt)
                return reply
            url = url.join(URL(reply.headers["Location"]))
        raise GitHubError("unexpected", f"{self._origin.host} redirects more than {MAX_REDIRECTS} times")

    async def _exchange(self, method: str, url: URL, headers: Mapping[str, str], body: bytes) -> Reply:
        if url.origin() != self._origin:
            raise GitHubError("unexpected", f"{self._origin.host} points to {url.host}: the token is not sent there")
        sent = {
            **headers,
            "authorization": f"Bearer {self._token.reveal()}",
            "x-github-api-version": API_VERSION,
        }
        try:
            async with self._session.request(
                method, url, headers=sent, data=body or None, timeout=TIMEOUT, allow_redirects=False
            ) as response:
                content = bytearray()
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise GitHubError(
                            "unexpected", f"{url.host} answered with more than {MAX_ANSWER_BYTES:,} bytes"
                        )
                return Reply(response.status, response.headers, bytes(content))
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            never_sent = isinstance(error, aiohttp.ClientConnectorError)
            raise Refusal("unreachable", f"no answer from {url.host}: {why(error)}", undone=never_sent) from error

    def _check(self, reply: Reply, attempt: int) -> None:
        """Raise `Refusal` for what may be different a little later."""
        if (wait_s := limit_wait_s(reply, attempt, self._patience.clock())) is not None:
            message = f"{self._origin.host} limits the rate of requests ({reply.status})"
            raise Refusal("rate_limited", message, wait_s=wait_s, undone=True)
        if reply.status >= 500 or reply.status == 408:
            text = readable(reply.body[:4000].decode("utf-8", "replace"), 100)
            raise Refusal("unreachable", f"{self._origin.host} answered {reply.status}: {text or 'no message'}")


async def download(session: aiohttp.ClientSession, url: str, file: BinaryIO, max_bytes: int, *, https: bool) -> None:
    """Fetch `url`, without any credentials, into `file`.

    Args:
        session: without default headers of its own.
        url: a signed address.
        file: is written from where it stands.
        max_bytes: more than that is an error.
        https: whether nothing else is spoken to.

    Raises:
        Refusal: the connection broke, or the storage is out of order.
        GitHubError: it is gone, too large, or somewhere it should not be.
    """
    target = URL(url, encoded=True)
    for _ in range(MAX_REDIRECTS + 1):
        if target.scheme not in (("https",) if https else ("https", "http")) or target.host is None:
            raise GitHubError("unexpected", f"a download is at {target.scheme}://{target.host}, which is not trusted")
        try:
            async with session.get(target, timeout=DOWNLOAD_TIMEOUT, allow_redirects=False) as response:
                if response.status in (301, 302, 303, 307, 308) and "Location" in response.headers:
                    target = target.join(URL(response.headers["Location"], encoded=True))
                    continue
                _check_download(response)
                await _save(response, file, max_bytes)
                return
        except (aiohttp.ClientError, OSError) as error:
            raise Refusal("unreachable", f"no download from {target.host}: {why(error)}", undone=True) from error
    raise GitHubError("unexpected", f"{target.host} redirects more than {MAX_REDIRECTS} times")


def _check_download(response: aiohttp.ClientResponse) -> None:
    status, host = response.status, response.url.host
    if status >= 500 or status in (408, 429):
        raise Refusal("unreachable", f"{host} answered {status}", undone=True)
    if status != 200:
        raise GitHubError("missing", f"{host} answered {status} to a download")


async def _save(response: aiohttp.ClientResponse, file: BinaryIO, max_bytes: int) -> None:
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        size += len(chunk)
        if size > max_bytes:
            raise GitHubError("too_large", f"the download has more than {max_bytes:,} bytes")
        file.write(chunk)


def why(error: Exception) -> str:
    """What went wrong, in a line, without URLs: a signed one is a secret."""
    return "it took too long" if isinstance(error, TimeoutError) else why_lost(error)
