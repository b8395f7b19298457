"""GitHub's API as a job uses it: limits and failures waited for, and artifacts unpacked without trust.

The token is sent to the API's own host only, never to where a download is stored.
"""

import asyncio
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn, TypeVar

import aiohttp
import gidgethub.aiohttp
from gidgethub import GitHubException, HTTPException
from gidgethub.sansio import create_headers, decipher_response
from pydantic import TypeAdapter, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from yarl import URL

from ci_evals.errors import GitHubError, GitHubErrorKind, StorageError, first_problem
from ci_evals.github.context import Context, PullRequest, Repository
from ci_evals.model.fields import Secret
from ci_evals.providers.http_client import date_in, number_in, readable, retry_after_s, why_lost

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]

WRITE_SPACING_S: Final = 1.0
MAX_ATTEMPTS: Final = 5
MAX_ITEMS: Final = 10_000
MAX_LISTED: Final = 1_000
"""Artifacts that are looked at."""

_PER_PAGE = 100
_API_VERSION = "2022-11-28"
_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
_DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
_MAX_REDIRECTS = 3
_CHUNK_BYTES = 256 * 1024
_FIRST_RETRY_S = 1.0
_SECONDARY_LIMIT_S = 60.0


# Answers.


@dataclass(frozen=True, slots=True)
class User:
    login: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request. `user` is None when the account was deleted."""

    id: int
    html_url: str
    user: User | None = None
    body: str | None = None


@dataclass(frozen=True, slots=True)
class ArtifactOrigin:
    """The run that an artifact comes from, as a list of artifacts shows it."""

    id: int
    repository_id: int
    head_repository_id: int
    head_sha: str
    head_branch: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a run has uploaded. `size_in_bytes` is that of the zip."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    created_at: datetime | None = None
    workflow_run: ArtifactOrigin | None = None


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A workflow run. `name` is that of the workflow."""

    id: int
    event: str
    head_sha: str
    html_url: str
    status: str | None = None
    head_branch: str | None = None
    head_repository: Repository | None = None
    run_attempt: int = 1
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str


@dataclass(frozen=True, slots=True)
class CommitComparison:
    merge_base_commit: Commit


def decode(answer: Any, kind: TypeAdapter[T], what: str) -> T:
    """Return `answer` as `kind`, else raise `GitHubError("unexpected")`."""
    try:
        return kind.validate_python(answer)
    except ValidationError as error:
        raise GitHubError("unexpected", f"GitHub's answer is not a {what}: {first_problem(error)}") from error


# Waiting.


class RetryableError(GitHubError):
    """A call that may succeed a little later.

    Args:
        kind: what sort of failure.
        message: one line for a person.
        wait_s: how long GitHub asks to be left alone, in seconds; None backs off exponentially.
        undone: True if the call certainly had no effect.
    """

    def __init__(
        self, kind: GitHubErrorKind, message: str, *, wait_s: float | None = None, undone: bool = False
    ) -> None:
        super().__init__(kind, message)
        self.wait_s = wait_s
        self.undone = undone


class Patience:
    """Repeats calls after `RetryableError` and spaces writes, and waits a bounded time for all of them together.

    Args:
        sleep, clock: how to wait, and the time in seconds since the epoch.
        total_s: seconds of waiting for GitHub's limits and failures.
    """

    def __init__(self, sleep: Sleep, clock: Clock, total_s: float) -> None:
        self.sleep = sleep
        self.clock = clock
        self._left_s = total_s
        self._wrote_at: float | None = None
        self._writing = asyncio.Lock()

    async def retry(self, call: Callable[[int], Awaitable[T]], *, only_undone: bool = False) -> T:
        """Return what `call` returns, given the number of the attempt, from 1.

        Args:
            call: is repeated as long as it raises `RetryableError`.
            only_undone: True if a failed call may have had an effect that must not happen twice.

        Raises:
            GitHubError: it failed for good, too often, or waiting would take longer than is left.
        """

        def is_worth_it(error: BaseException) -> bool:
            return isinstance(error, RetryableError) and (error.undone or not only_undone)

        retrying = AsyncRetrying(
            sleep=self.sleep,
            retry=retry_if_exception(is_worth_it),
            wait=_wait_s,
            stop=lambda state: state.attempt_number >= MAX_ATTEMPTS or state.upcoming_sleep > self._left_s,
            before_sleep=self._spend,
            retry_error_callback=_give_up,
        )
        async for attempt in retrying:
            with attempt:
                return await call(attempt.retry_state.attempt_number)
        raise AssertionError("tenacity returns or raises")

    def _spend(self, state: RetryCallState) -> None:
        self._left_s -= state.upcoming_sleep

    async def space_writes(self) -> None:
        """Wait until a second has passed since the last write."""
        async with self._writing:
            if self._wrote_at is not None:
                since_s = self.clock() - self._wrote_at
                if 0 <= since_s < WRITE_SPACING_S:
                    await self.sleep(WRITE_SPACING_S - since_s)
            self._wrote_at = self.clock()


def _wait_s(state: RetryCallState) -> float:
    error = _error_of(state)
    return error.wait_s if error.wait_s is not None else _FIRST_RETRY_S * 2.0 ** (state.attempt_number - 1)


def _give_up(state: RetryCallState) -> NoReturn:
    error = _error_of(state)
    if state.attempt_number >= MAX_ATTEMPTS:
        raise error
    raise GitHubError(error.kind, f"{error}; not waiting {state.upcoming_sleep:,.0f} s for it") from error


def _error_of(state: RetryCallState) -> RetryableError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, RetryableError)
    return error


class Reply(NamedTuple):
    """An answer as it arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def limit_wait_s(reply: Reply, attempt: int, now: float) -> float | None:
    """Return how long a rate limit asks to wait, in seconds; None if the reply is no rate limit.

    Args:
        reply: any answer.
        attempt: how often the call was made, from 1.
        now: seconds since the epoch, for answers without a date of their own.
    """
    body = reply.body.lower()
    if reply.status not in (403, 429) or b"resource not accessible" in body:
        return None
    date = date_in(reply.headers.get("Date")) or datetime.fromtimestamp(now, UTC)
    if (asked_s := retry_after_s(reply.headers, date)) is not None:
        return asked_s
    reset = number_in(reply.headers.get("x-ratelimit-reset"))
    if number_in(reply.headers.get("x-ratelimit-remaining")) == 0 and reset is not None:
        return max(0.0, reset - date.timestamp()) + 1  # the second itself still counts
    if reply.status == 429 or b"rate limit" in body or b"abuse detection" in body:
        return _SECONDARY_LIMIT_S * 2.0 ** (attempt - 1)
    return None


# Requests.


class _Requests(gidgethub.aiohttp.GitHubAPI):
    """gidgethub's requests. Reads and deletions are repeated here; of other writes, the caller decides."""

    def __init__(self, session: aiohttp.ClientSession, api_url: str, token: Secret, patience: Patience) -> None:
        super().__init__(session, "ci-evals", base_url=api_url)
        self._origin = URL(api_url).origin()
        self._token = token
        self._patience = patience

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        async def send(attempt: int) -> Reply:
            target = URL(url, encoded=True)
            for _ in range(_MAX_REDIRECTS + 1):
                reply = await self._exchange(method, target, headers, body)
                if reply.status not in (301, 307, 308) or "Location" not in reply.headers:
                    self._check(reply, attempt)
                    return reply
                target = target.join(URL(reply.headers["Location"]))  # a renamed repository
            raise GitHubError("unexpected", f"{self._origin.host} redirects more than {_MAX_REDIRECTS} times")

        return await (self._patience.retry(send) if method in ("GET", "DELETE") else send(1))

    async def location(self, url: str) -> str:
        """Return where `url` redirects to: an address that is valid for a minute only."""
        status, headers, body = await self._request("GET", url, create_headers(self.requester))
        if status != 302 or "Location" not in headers:
            decipher_response(status, headers, body)
            raise GitHubError("unexpected", f"GitHub answered {status} where a redirect was expected")
        return headers["Location"]

    async def _exchange(self, method: str, url: URL, headers: Mapping[str, str], body: bytes) -> Reply:
        if url.origin() != self._origin:
            raise GitHubError("unexpected", f"{self._origin.host} points to {url.host}: the token is not sent there")
        sent = {**headers, "authorization": f"Bearer {self._token.reveal()}", "x-github-api-version": _API_VERSION}
        try:
            async with self._session.request(
                method, url, headers=sent, data=body or None, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                content = bytearray()
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > _MAX_ANSWER_BYTES:
                        message = f"{url.host} answered with more than {_MAX_ANSWER_BYTES:,} bytes"
                        raise GitHubError("unexpected", message)
                return Reply(response.status, response.headers, bytes(content))
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            never_sent = isinstance(error, aiohttp.ClientConnectorError)
            message = f"no answer from {url.host}: {_why_lost(error)}"
            raise RetryableError("unreachable", message, undone=never_sent) from error

    def _check(self, reply: Reply, attempt: int) -> None:
        """Raise `RetryableError` for what may be different a little later."""
        if (wait_s := limit_wait_s(reply, attempt, self._patience.clock())) is not None:
            message = f"{self._origin.host} limits the rate of requests ({reply.status})"
            raise RetryableError("rate_limited", message, wait_s=wait_s, undone=True)
        if reply.status >= 500 or reply.status == 408:
            text = readable(reply.body[:4000].decode("utf-8", "replace"), 100) or "no message"
            raise RetryableError("unreachable", f"{self._origin.host} answered {reply.status}: {text}")


class GitHub:
    """Calls GitHub about one repository. Paths start behind `/repos/OWNER/NAME/`, or at the root with a slash.

    Every method raises `GitHubError`. Reads and deletions are repeated after failures, and everything after a rate
    limit, as long as patience lasts.
    """

    def __init__(
        self, session: aiohttp.ClientSession, api_url: str, repository: str, token: Secret, patience: Patience
    ) -> None:
        self.repository = repository
        self.sleep = patience.sleep
        self._patience = patience
        self._session = session
        self._token = token
        self._api_url = api_url.rstrip("/")
        self._requests = _Requests(session, api_url, token, patience)

    async def get(self, path: str, kind: type[T], what: str, **query: str | int) -> T:
        """Return one answer, decoded as `kind`; `what` names it in errors."""
        with self._errors():
            answer = await self._requests.getitem(self._url(path), {"query": query})
        return decode(answer, TypeAdapter(kind), what)

    async def list(
        self, path: str, kind: type[T], what: str, *, key: str | None = None, limit: int = MAX_ITEMS, **query: str | int
    ) -> tuple[T, ...]:
        """Return the items of a list, page by page as the `Link` headers lead.

        Args:
            path, kind, what: as for `get`.
            key: the field that holds the list, if it is not the answer itself.
            limit: no more items than this.
            query: parameters beside `per_page`.
        """
        parameters: dict[str, Any] = {"query": {"per_page": min(limit, _PER_PAGE), **query}}
        adapter = TypeAdapter(kind)
        found: list[T] = []
        with self._errors():
            async for item in self._requests.getiter(self._url(path), parameters, iterable_key=key):
                found.append(decode(item, adapter, what))
                if len(found) == limit:
                    break
        return tuple(found)

    async def create(self, path: str, data: Mapping[str, Any], kind: type[T], what: str) -> T:
        """Post `data`. After an `unreachable` it is not known whether it was created."""

        async def post(_attempt: int) -> T:
            await self._patience.space_writes()
            with self._errors():
                answer = await self._requests.post(self._url(path), data=data)
            return decode(answer, TypeAdapter(kind), what)

        return await self._patience.retry(post, only_undone=True)

    async def edit(
        self, path: str, make: Callable[[], Awaitable[Mapping[str, Any] | None]], kind: type[T], what: str
    ) -> T | None:
        """Patch with what `make` returns; if that is None, nothing is done.

        `make` is called anew directly before each attempt, so that what it has read is fresh.
        """

        async def patch(_attempt: int) -> T | None:
            await self._patience.space_writes()
            data = await make()
            if data is None:
                return None
            with self._errors():
                answer = await self._requests.patch(self._url(path), data=data)
            return decode(answer, TypeAdapter(kind), what)

        return await self._patience.retry(patch)

    async def delete(self, path: str) -> None:
        """Delete; what is gone already is no error."""
        await self._patience.space_writes()
        try:
            with self._errors():
                await self._requests.delete(self._url(path))
        except GitHubError as error:
            if error.kind != "missing":
                raise

    async def login(self) -> str | None:
        """Return whose token this is; None for an installation's (`GITHUB_TOKEN`), which GitHub does not tell."""
        try:
            return (await self.get("/user", User, "user")).login
        except GitHubError as error:
            if error.kind == "forbidden":
                return None
            raise

    async def download(self, path: str, file: BinaryIO, max_bytes: int) -> None:
        """Save what `path` redirects to, at most `max_bytes`, into an empty `file`. The token stays with the API."""

        async def save(_attempt: int) -> None:
            with self._errors():
                location = await self._requests.location(f"{self._api_url}/repos/{self.repository}/{path}")
            file.seek(0)
            file.truncate()
            schemes = ("https",) if self._api_url.startswith("https:") else ("https", "http")
            await _download(self._session, URL(location, encoded=True), file, max_bytes, schemes)

        await self._patience.retry(save)

    def _url(self, path: str) -> str:
        start = path if path.startswith("/") else f"/repos/{self.repository}/{path}"
        return f"{self._api_url}{start}{{?query*}}"  # whole: gidgethub would drop the path of an Enterprise Server

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn gidgethub's errors into ours."""
        try:
            yield
        except HTTPException as error:
            status = int(error.status_code)
            message = readable(str(error).replace(self._token.reveal(), "***"))
            hint = " (the token may not do this; see the job's `permissions`)" if status == 403 else ""
            raise GitHubError(_kind(status, message), f"GitHub answered {status}: {message}{hint}") from None
        except (GitHubException, ValueError, LookupError, TypeError, AttributeError) as error:
            # gidgethub reads an answer that is not what GitHub documents
            raise GitHubError("unexpected", f"GitHub's answer cannot be read: {type(error).__name__}") from None


def _kind(status: int, message: str) -> GitHubErrorKind:
    if status in (401, 403):
        return "forbidden"
    if status in (404, 410):
        return "missing"
    if status == 413 or (status == 422 and "too long" in message):
        return "too_large"
    return "rejected" if 400 <= status < 500 else "unexpected"


@asynccontextmanager
async def connect(
    context: Context, *, sleep: Sleep = asyncio.sleep, clock: Clock = time.time, patience_s: float = 300.0
) -> AsyncIterator[GitHub]:
    """Yield GitHub as the context's job sees it, with a session of its own.

    Args:
        context: says where the API is and has the token.
        sleep, clock: how to wait, and the time in seconds since the epoch.
        patience_s: how many seconds may be spent on waiting for limits and outages, all in all.

    Raises:
        GitHubError: the context has no token or no repository.
    """
    if context.repository is None or context.token is None:
        raise GitHubError("forbidden", str(context.unusable))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=True) as session:
        patience = Patience(sleep, clock, patience_s)
        yield GitHub(session, context.api_url, context.repository, context.token, patience)


async def _download(
    session: aiohttp.ClientSession, url: URL, file: BinaryIO, max_bytes: int, schemes: Collection[str]
) -> None:
    """Fetch a signed `url`, without any credentials, into `file`."""
    for _ in range(_MAX_REDIRECTS + 1):
        if url.scheme not in schemes or url.host is None:
            raise GitHubError("unexpected", f"a download is at {url.scheme}://{url.host}, which is not trusted")
        try:
            async with session.get(url, timeout=_DOWNLOAD_TIMEOUT, allow_redirects=False) as response:
                status, host = response.status, url.host
                if status in (301, 302, 303, 307, 308) and "Location" in response.headers:
                    url = url.join(URL(response.headers["Location"], encoded=True))
                    continue
                if status >= 500 or status in (408, 429):
                    raise RetryableError("unreachable", f"{host} answered {status}", undone=True)
                if status != 200:
                    raise GitHubError("missing", f"{host} answered {status} to a download")
                size = 0
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    size += len(chunk)
                    if size > max_bytes:
                        raise GitHubError("too_large", f"the download has more than {max_bytes:,} bytes")
                    file.write(chunk)
                return
        except (aiohttp.ClientError, OSError) as error:
            message = f"no download from {url.host}: {_why_lost(error)}"
            raise RetryableError("unreachable", message, undone=True) from error
    raise GitHubError("unexpected", f"{url.host} redirects more than {_MAX_REDIRECTS} times")


def _why_lost(error: Exception) -> str:
    """Return what went wrong, in a line, without URLs: a signed one is a secret."""
    return "it took too long" if isinstance(error, TimeoutError) else why_lost(error)


# Workflow runs and what they have uploaded.

_UNSOUND = (  # what zipfile raises for bytes that nobody has zipped
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    ValueError,
)


async def workflow_run(github: GitHub, run_id: int) -> WorkflowRun:
    """Return a workflow run of this repository."""
    return await github.get(f"actions/runs/{run_id}", WorkflowRun, "workflow run")


async def pull_requests_of(github: GitHub, run: WorkflowRun) -> tuple[PullRequest, ...]:
    """Return the open pull requests that a run was for, the lowest number first; none when their head has moved on.

    They are looked up by the branch that GitHub says the run had. What an artifact says does not count: code of a fork
    may have written it.
    """
    head = run.head_repository
    if head is None or not run.head_branch:
        return ()
    branch = f"{head.full_name.partition('/')[0]}:{run.head_branch}"
    found = await github.list("pulls", PullRequest, "pull request", limit=MAX_LISTED, state="open", head=branch)
    own = [pull for pull in found if pull.head.repo and pull.head.repo.id == head.id and pull.head.sha == run.head_sha]
    return tuple(sorted(own, key=lambda pull: pull.number))


@dataclass(frozen=True, slots=True)
class NoArtifacts:
    """A run has left nothing that is still there. `reason` is a sentence."""

    reason: str


async def artifacts_named(github: GitHub, name: str) -> tuple[Artifact, ...]:
    """Return the repository's artifacts of exactly this name, expired ones too; at most `MAX_LISTED`."""
    return await github.list("actions/artifacts", Artifact, "artifact", key="artifacts", limit=MAX_LISTED, name=name)


async def artifacts_of_run(
    github: GitHub, run_id: int, name: str, *, exact: bool = False
) -> tuple[Artifact, ...] | NoArtifacts:
    """Return what a run has uploaded under such names, in all its attempts; of each name the newest, the newest first.

    Args:
        github: with a token that has `actions: read`.
        run_id: the workflow run, of this repository.
        name: a pattern as `fnmatch` has it, or just what it says if it is `exact`.
    """
    path = f"actions/runs/{run_id}/artifacts"
    uploaded = await github.list(path, Artifact, "artifact", key="artifacts", limit=MAX_LISTED)
    matching = [each for each in uploaded if (each.name == name if exact else fnmatchcase(each.name, name))]
    newest: dict[str, Artifact] = {}
    for artifact in sorted(matching, key=lambda artifact: -artifact.id):
        if not artifact.expired:
            newest.setdefault(artifact.name, artifact)
    if newest:
        return tuple(newest.values())
    return NoArtifacts(f"the artifact {name!r} of run {run_id} {'has expired' if matching else 'is not there'}")


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """The most that is downloaded, written, and counted."""

    max_archive_bytes: int
    max_unpacked_bytes: int
    max_files: int


OWN_LIMITS: Final = ArchiveLimits(512 * 1024 * 1024, 2 * 1024 * 1024 * 1024, 100_000)
"""For artifacts of the repository's own branches."""

FORK_LIMITS: Final = ArchiveLimits(32 * 1024 * 1024, 128 * 1024 * 1024, 10_000)
"""For artifacts that code of a fork has written."""


async def fetch(
    github: GitHub, artifact: Artifact, folder: Path, names: Collection[str], limits: ArchiveLimits = OWN_LIMITS
) -> tuple[Path, ...]:
    """Download an artifact and unpack its files of these names into `folder`; see `unpack`.

    Raises:
        GitHubError: it has expired, is too large, or is not what an artifact should be.
        StorageError: `folder` cannot be written.
    """
    if artifact.size_in_bytes > limits.max_archive_bytes:
        raise GitHubError("too_large", f"the artifact has more than {limits.max_archive_bytes:,} bytes")
    try:
        with tempfile.TemporaryFile() as file:
            await github.download(f"actions/artifacts/{artifact.id}/zip", file, limits.max_archive_bytes)
            return unpack(file, folder, names, limits)
    except OSError as error:
        raise StorageError(f"{folder}: the artifact cannot be unpacked: {error.strerror}") from error


_MAX_DEPTH = 4  # deeper files were left behind by agents and verifiers of tasks, whatever they are called
_ENCRYPTED = 0x1


def unpack(file: BinaryIO, folder: Path, names: Collection[str], limits: ArchiveLimits) -> tuple[Path, ...]:
    """Write the archive's files with one of these names to `FOLDER/NUMBER/NAME`, one number for each of its folders.

    Nothing that the archive says of its paths and sizes is believed; files of other names are passed over.

    Args:
        file: the zip, seekable.
        folder: an empty folder, or one to be made.
        names: bare file names, `report.json`.
        limits: what it may hold.

    Returns:
        The files that were written, in the archive's order.

    Raises:
        GitHubError: `unexpected` when it is no sound zip of plain files, `too_large` when it exceeds a limit.
    """
    written: dict[PurePosixPath, Path] = {}
    numbers: dict[PurePosixPath, int] = {}
    left_bytes = limits.max_unpacked_bytes
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if len(entries) > limits.max_files:
                raise GitHubError("too_large", f"the artifact has more than {limits.max_files:,} files")
            for entry in entries:
                source = PurePosixPath(entry.orig_filename)
                if source.name not in names or len(source.parts) > _MAX_DEPTH:
                    continue
                _check_entry(entry, twice=source in written)
                number = numbers.setdefault(source.parent, len(numbers) + 1)
                path = written[source] = folder / str(number) / source.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, path.open("wb") as out:
                    while chunk := packed.read(_CHUNK_BYTES):
                        left_bytes -= len(chunk)
                        if left_bytes < 0:
                            most = limits.max_unpacked_bytes
                            raise GitHubError("too_large", f"the artifact unpacks to more than {most:,} bytes")
                        out.write(chunk)
    except _UNSOUND as error:
        raise GitHubError("unexpected", f"the artifact is not a sound zip file: {error}") from error
    return tuple(written.values())


def _check_entry(entry: zipfile.ZipInfo, *, twice: bool) -> None:
    """Refuse what no upload of an artifact makes."""
    problem = None
    if twice:
        problem = "is there twice"
    elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        problem = "is no plain file"
    elif entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = "is packed in a way that artifacts are not"
    if problem:
        raise GitHubError("unexpected", f"the artifact was not unpacked: {entry.orig_filename[:100]!a} {problem}")
