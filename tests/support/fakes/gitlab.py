"""A GitLab on loopback that keeps state, scopes and the description of its API."""

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import unquote

from aiohttp import web
from loopback import on_loopback
from yarl import URL

from fakes.github_contract import Exchange
from fakes.gitlab_contract import violations

PROJECT_ID = 7
FORK_ID = 8
PROJECT_URL = "https://gitlab.example.com/acme/app"
JOB_TOKEN = "glcbt-64_0123456789abcdefghijklmn"
TOKEN = "glpat-0123456789abcdefghij"
READER = "glpat-reader6789abcdefghij"
BOT = "project_7_bot_ci-evals"
MAX_NOTE_CHARACTERS = 1_000_000
_TIME = "2026-11-01T12:00:00.000Z"


class Fault(NamedTuple):
    """An answer in place of the real one; with `after`, the request takes effect all the same."""

    method: str
    pattern: str
    status: int
    headers: Mapping[str, str] = {}
    message: str = "500 Internal Server Error"
    after: bool = False


@dataclass
class StoredNote:
    id: int
    iid: int
    author: str
    body: str
    system: bool = False
    versions: list[str] = field(default_factory=list)


@dataclass
class StoredMergeRequest:
    iid: int
    sha: str
    source_project_id: int = PROJECT_ID
    changed: tuple[tuple[str, str], ...] = ()
    target_branch: str = "main"
    base_sha: str | None = None


@dataclass
class StoredPipeline:
    id: int
    sha: str
    ref: str = "main"
    source: str = "push"
    status: str = "success"
    parent: int | None = None


@dataclass
class StoredJob:
    id: int
    pipeline: StoredPipeline
    name: str = "evals"
    content: bytes | None = None
    status: str = "success"
    tag: bool = False
    expire_at: str | None = None
    retried: bool = False


class FakeGitLab:
    """GitLab at `api_url` with one project, `acme/app`.

    `quick_actions` has the commands that notes were taken to hold. Artifacts are downloaded from
    another host. `git` answers what does not ask the API.
    """

    def __init__(self) -> None:
        self.api_url = ""
        self.git: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.storage_url = ""
        self.calls: list[tuple[str, str, Mapping[str, str]]] = []
        self.broken: list[str] = []
        self.quick_actions: list[str] = []
        self.storage_headers: list[Mapping[str, str]] = []
        self.tokens: dict[str, tuple[str, str]] = {
            TOKEN: (BOT, "api"),
            READER: ("reader", "read_api"),
        }
        self.job_token_reads_artifacts = True
        self.searches_recent_pipelines = True  # before 18.7, GitLab ignores the parameter
        self.shows_pipelines = False  # to everybody, as a public project does
        self.merge_requests: dict[int, StoredMergeRequest] = {}
        self.notes: dict[int, StoredNote] = {}
        self.pipelines: dict[int, StoredPipeline] = {}
        self.jobs: dict[int, StoredJob] = {}
        self.parents: dict[str, str | None] = {}
        self.branches: dict[str, str] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self._faults: deque[Fault] = deque()
        self._ids = count(1_001)

    def next_id(self) -> int:
        return next(self._ids)

    def fails(self, *faults: Fault) -> None:
        """Answer the next requests that match with these, each once."""
        self._faults.extend(faults)

    def asked(self, method: str, pattern: str = "") -> list[str]:
        """The paths of requests of a method that match."""
        return [path for used, path, _ in self.calls if used == method and re.search(pattern, path)]

    def add_history(self, *shas: str) -> None:
        """Commits of main upon each other, the oldest first."""
        self.branches["main"] = shas[-1]
        for parent, sha in zip((None, *shas), shas, strict=False):
            self.parents[sha] = parent

    def ancestry(self, ref: str) -> list[str]:
        found = []
        at: str | None = self.branches.get(ref, ref)
        while at is not None and at in self.parents:
            found.append(at)
            at = self.parents[at]
        return found

    def add_pipeline(self, sha: str, **changes: Any) -> StoredPipeline:
        pipeline = StoredPipeline(self.next_id(), sha, **changes)
        self.pipelines[pipeline.id] = pipeline
        return pipeline

    def children_of(self, pipeline: StoredPipeline) -> list[StoredPipeline]:
        """The pipelines that jobs of a pipeline have started."""
        return [each for each in self.pipelines.values() if each.parent == pipeline.id]

    def family_of(self, pipeline: StoredPipeline) -> list[StoredPipeline]:
        """A pipeline and its descendants, in the order in which GitLab searches them."""
        family = [pipeline]
        for member in family:
            family += self.children_of(member)
        return family

    def add_job(self, pipeline: StoredPipeline, **changes: Any) -> StoredJob:
        job = StoredJob(self.next_id(), pipeline, **changes)
        self.jobs[job.id] = job
        return job

    def add_note(self, iid: int, author: str, body: str, *, system: bool = False) -> StoredNote:
        note = StoredNote(self.next_id(), iid, author, body, system, [body])
        self.notes[note.id] = note
        return note

    def notes_of(self, iid: int) -> list[StoredNote]:
        return [note for note in self.notes.values() if note.iid == iid and not note.system]

    # Requests.

    async def respond(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if self.git is not None and not path.startswith("/api/"):
            return await self.git(request)
        sent = await request.read()
        self.calls.append((request.method, request.path_qs, request.headers.copy()))
        fault = self._fault_for(request.method, request.path_qs)
        if fault is None or fault.after:
            answer = self._routed(request, path.removeprefix("/api/v4"), sent)
        if fault:
            answer = _error(fault.status, fault.message, fault.headers)
        body = answer.body if isinstance(answer.body, bytes) else b""
        exchange = Exchange(
            request.method, path, {}, sent, answer.status, dict(answer.headers), body
        )
        self.broken.extend(violations(exchange, list(request.query.items())))
        return answer

    async def store(self, request: web.Request) -> web.StreamResponse:
        self.storage_headers.append(request.headers.copy())
        if {"PRIVATE-TOKEN", "JOB-TOKEN"} & set(request.headers):
            self.broken.append("a token was sent to the storage")
        content = self.jobs[int(request.match_info["id"])].content
        return web.Response(body=content, content_type="application/zip")

    def _fault_for(self, method: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.method == method and re.search(fault.pattern, path):
                self._faults.remove(fault)
                return fault
        return None

    def _routed(self, request: web.Request, path: str, sent: bytes) -> web.Response:
        token = self.tokens.get(request.headers.get("PRIVATE-TOKEN", ""))
        is_job = request.headers.get("JOB-TOKEN") == JOB_TOKEN
        if token is None and not is_job:
            return _error(401, "401 Unauthorized")
        for method, pattern, handler in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found is None or method != request.method:
                continue
            # Elsewhere, a job's token counts for nothing: the request is anybody's.
            allowed = handler in (_download, _download_latest)
            shown = handler is _list_pipelines and self.shows_pipelines
            if token is None and not allowed and not shown:
                return _error(404, "404 Project Not Found")
            if token is None and not self.job_token_reads_artifacts:
                return _error(404, "404 Project Not Found")
            if token is not None and token[1] != "api" and method != "GET":
                return _insufficient_scope()
            parts = {name: unquote(value) for name, value in found.groupdict().items()}
            if "project" in parts and parts["project"] != str(PROJECT_ID):
                return _error(404, "404 Project Not Found")
            author = token[0] if token else ""
            return handler(self, Asked(request, parts, sent, author))
        return _error(404, "404 Not Found")

    def redirect(self, job: StoredJob | None) -> web.Response:
        if job is None or job.content is None:
            return _error(404, "404 Not Found")
        return web.Response(
            status=302, headers={"Location": f"{self.storage_url}/signed/{job.id}?sig=a%2Fb"}
        )

    def page(self, asked: "Asked", items: list[Any]) -> web.Response:
        query = asked.request.query
        per_page = int(query.get("per_page", "20"))
        number = int(query.get("page", "1"))
        shown = items[(number - 1) * per_page : number * per_page]
        headers = {}
        if number * per_page < len(items):
            url = URL(self.api_url).join(URL(asked.request.path_qs, encoded=True))
            headers["Link"] = f'<{url.update_query(page=number + 1)}>; rel="next"'
        return _json(shown, headers=headers)

    def run_quick_actions(self, body: str) -> None:
        """Take every line that starts with a command for one, as some versions do in fences."""
        self.quick_actions += re.findall(r"^/[a-z]\w*", body, re.MULTILINE)


class Asked(NamedTuple):
    request: web.Request
    parts: Mapping[str, str]
    sent: bytes
    author: str

    def number(self, name: str) -> int:
        return int(self.parts[name])


def _json(value: Any, status: int = 200, headers: Mapping[str, str] = {}) -> web.Response:
    return web.Response(
        body=json.dumps(value).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
    )


def _error(status: int, message: str, headers: Mapping[str, str] = {}) -> web.Response:
    return _json({"message": message}, status, headers)


def _insufficient_scope() -> web.Response:
    text = "The request requires higher privileges than provided by the access token."
    return _json(
        {"error": "insufficient_scope", "error_description": text, "scope": "api"}, status=403
    )


def _user_answer(name: str) -> dict[str, Any]:
    url = f"https://gitlab.example.com/{name}"
    return {"id": 1, "username": name, "name": name, "state": "active", "web_url": url}


def _note_answer(note: StoredNote) -> dict[str, Any]:
    return {
        "id": note.id,
        "type": None,
        "body": note.body,
        "author": _user_answer(note.author),
        "created_at": _TIME,
        "updated_at": _TIME,
        "system": note.system,
        "noteable_id": 100 + note.iid,
        "noteable_type": "MergeRequest",
        "project_id": PROJECT_ID,
        "noteable_iid": note.iid,
        "resolvable": False,
        "confidential": False,
        "internal": False,
    }


def _commit_answer(sha: str, parent: str | None) -> dict[str, Any]:
    return {
        "id": sha,
        "short_id": sha[:8],
        "title": "a commit",
        "message": "a commit",
        "parent_ids": [parent] if parent else [],
        "web_url": f"{PROJECT_URL}/-/commit/{sha}",
    }


def _pipeline_answer(pipeline: StoredPipeline) -> dict[str, Any]:
    return {
        "id": pipeline.id,
        "iid": pipeline.id,
        "project_id": PROJECT_ID,
        "sha": pipeline.sha,
        "ref": pipeline.ref,
        "status": pipeline.status,
        "source": pipeline.source,
        "created_at": _TIME,
        "updated_at": _TIME,
        "web_url": f"{PROJECT_URL}/-/pipelines/{pipeline.id}",
    }


def _job_answer(fake: FakeGitLab, job: StoredJob) -> dict[str, Any]:
    pipeline = _pipeline_answer(job.pipeline)
    answer = {
        "id": job.id,
        "name": job.name,
        "stage": "test",
        "status": job.status,
        "ref": job.pipeline.ref,
        "tag": job.tag,
        "created_at": _TIME,
        "web_url": f"{PROJECT_URL}/-/jobs/{job.id}",
        "pipeline": pipeline,
        "commit": _commit_answer(job.pipeline.sha, fake.parents.get(job.pipeline.sha)),
        "artifacts": [],
        "artifacts_expire_at": job.expire_at,
    }
    if job.content is not None:
        answer["artifacts_file"] = {"filename": "artifacts.zip", "size": len(job.content)}
    return answer


def _user(fake: FakeGitLab, asked: Asked) -> web.Response:
    return _json(_user_answer(asked.author))


def _merge_request(fake: FakeGitLab, asked: Asked) -> web.Response:
    found = fake.merge_requests.get(asked.number("iid"))
    if found is None:
        return _error(404, "404 Not found")
    return _json(
        {
            "id": 100 + found.iid,
            "iid": found.iid,
            "project_id": PROJECT_ID,
            "state": "opened",
            "sha": found.sha,
            "source_branch": "feature",
            "target_branch": found.target_branch,
            "diff_refs": {
                "base_sha": found.base_sha,
                "head_sha": found.sha,
                "start_sha": found.base_sha,
            },
            "source_project_id": found.source_project_id,
            "target_project_id": PROJECT_ID,
            "web_url": f"{PROJECT_URL}/-/merge_requests/{found.iid}",
        }
    )


def _diffs(fake: FakeGitLab, asked: Asked) -> web.Response:
    changed = fake.merge_requests[asked.number("iid")].changed
    rest = {"a_mode": "100644", "b_mode": "100644", "diff": ""}
    flags = {"new_file": False, "renamed_file": False, "deleted_file": False}
    return fake.page(
        asked, [{"old_path": old, "new_path": new, **rest, **flags} for old, new in changed]
    )


def _list_notes(fake: FakeGitLab, asked: Asked) -> web.Response:
    if asked.number("iid") not in fake.merge_requests:
        return _error(404, "404 Not found")
    notes = [note for note in fake.notes.values() if note.iid == asked.number("iid")]
    notes.sort(key=lambda note: note.id, reverse=asked.request.query.get("sort") != "asc")
    return fake.page(asked, [_note_answer(note) for note in notes])


def _create_note(fake: FakeGitLab, asked: Asked) -> web.Response:
    if asked.number("iid") not in fake.merge_requests:
        return _error(404, "404 Not found")
    body = json.loads(asked.sent)["body"]
    if len(body) > MAX_NOTE_CHARACTERS:
        return _error(400, "400 Bad request - Note is too long (maximum is 1000000 characters)")
    fake.run_quick_actions(body)
    return _json(_note_answer(fake.add_note(asked.number("iid"), asked.author, body)), 201)


def _get_note(fake: FakeGitLab, asked: Asked) -> web.Response:
    note = fake.notes.get(asked.number("note"))
    if note is None:
        return _error(404, "404 Note Not Found")
    return _json(_note_answer(note))


def _edit_note(fake: FakeGitLab, asked: Asked) -> web.Response:
    note = fake.notes.get(asked.number("note"))
    if note is None:
        return _error(404, "404 Note Not Found")
    if note.author != asked.author:
        return _error(403, "403 Forbidden")
    note.body = json.loads(asked.sent)["body"]
    note.versions.append(note.body)
    fake.run_quick_actions(note.body)
    return _json(_note_answer(note))


def _delete_note(fake: FakeGitLab, asked: Asked) -> web.Response:
    if fake.notes.pop(asked.number("note"), None) is None:
        return _error(404, "404 Note Not Found")
    return web.Response(status=204)


def _list_pipelines(fake: FakeGitLab, asked: Asked) -> web.Response:
    finished = ("success", "failed", "canceled", "skipped")
    matching = [
        pipeline
        for pipeline in sorted(fake.pipelines.values(), key=lambda each: -each.id)
        if pipeline.ref == asked.request.query["ref"]
        and pipeline.status in finished
        and pipeline.source != "parent_pipeline"
    ]
    return fake.page(asked, [_pipeline_answer(pipeline) for pipeline in matching])


def _list_jobs(fake: FakeGitLab, asked: Asked) -> web.Response:
    with_retried = asked.request.query.get("include_retried") == "true"
    matching = [
        job
        for job in fake.jobs.values()
        if job.pipeline.id == asked.number("pipeline") and (with_retried or not job.retried)
    ]
    return fake.page(asked, [_job_answer(fake, job) for job in matching])


def _list_bridges(fake: FakeGitLab, asked: Asked) -> web.Response:
    parent = fake.pipelines[asked.number("pipeline")]
    bridges = []
    for child in fake.children_of(parent):
        job = StoredJob(fake.next_id(), parent, "a child")
        downstream = _pipeline_answer(child)
        bridges.append(_job_answer(fake, job) | {"downstream_pipeline": downstream})
    return fake.page(asked, bridges)


def _download(fake: FakeGitLab, asked: Asked) -> web.Response:
    return fake.redirect(fake.jobs.get(asked.number("job")))


def _download_latest(fake: FakeGitLab, asked: Asked) -> web.Response:
    """Look into the newest green pipeline only, unless GitLab is asked for more and can do it."""
    query = asked.request.query
    green = [
        pipeline
        for pipeline in sorted(fake.pipelines.values(), key=lambda each: -each.id)
        if pipeline.ref == asked.parts["ref"]
        and pipeline.status == "success"
        and pipeline.source != "parent_pipeline"
    ]
    searched = green[:1]
    if fake.searches_recent_pipelines and query.get("search_recent_successful_pipelines") == "true":
        searched = green[:100]
    for pipeline in searched:
        for member in fake.family_of(pipeline):
            for job in sorted(fake.jobs.values(), key=lambda each: -each.id):
                named = job.pipeline.id == member.id and job.name == query["job"]
                if named and job.status == "success" and job.content is not None:
                    return fake.redirect(job)
    return _error(404, "404 Not found")


def _commits(fake: FakeGitLab, asked: Asked) -> web.Response:
    ancestry = fake.ancestry(asked.request.query.get("ref_name", "main"))
    if not ancestry:
        return _error(404, "404 Commit Not Found")
    return fake.page(asked, [_commit_answer(sha, fake.parents[sha]) for sha in ancestry])


def _merge_base(fake: FakeGitLab, asked: Asked) -> web.Response:
    one, other = asked.request.query.getall("refs[]")
    of_other = set(fake.ancestry(other))
    for sha in fake.ancestry(one):
        if sha in of_other:
            return _json(_commit_answer(sha, fake.parents[sha]))
    return _error(404, "404 Merge Base Not Found")


def _file(fake: FakeGitLab, asked: Asked) -> web.Response:
    content = fake.files.get((asked.request.query["ref"], asked.parts["path"]))
    if content is None:
        return _error(404, "404 File Not Found")
    return web.Response(body=content, content_type="application/octet-stream")


_PROJECT = "/projects/(?P<project>[^/]+)"
_CHANGE = rf"{_PROJECT}/merge_requests/(?P<iid>\d+)"
_ROUTES: tuple[tuple[str, str, Callable[[FakeGitLab, Asked], web.Response]], ...] = (
    ("GET", "/user", _user),
    ("GET", _CHANGE, _merge_request),
    ("GET", rf"{_CHANGE}/diffs", _diffs),
    ("GET", rf"{_CHANGE}/notes", _list_notes),
    ("POST", rf"{_CHANGE}/notes", _create_note),
    ("GET", rf"{_CHANGE}/notes/(?P<note>\d+)", _get_note),
    ("PUT", rf"{_CHANGE}/notes/(?P<note>\d+)", _edit_note),
    ("DELETE", rf"{_CHANGE}/notes/(?P<note>\d+)", _delete_note),
    ("GET", rf"{_PROJECT}/pipelines", _list_pipelines),
    ("GET", rf"{_PROJECT}/pipelines/(?P<pipeline>\d+)/jobs", _list_jobs),
    ("GET", rf"{_PROJECT}/pipelines/(?P<pipeline>\d+)/bridges", _list_bridges),
    ("GET", rf"{_PROJECT}/jobs/(?P<job>\d+)/artifacts", _download),
    ("GET", rf"{_PROJECT}/jobs/artifacts/(?P<ref>[^/]+)/download", _download_latest),
    ("GET", rf"{_PROJECT}/repository/commits", _commits),
    ("GET", rf"{_PROJECT}/repository/merge_base", _merge_base),
    ("GET", rf"{_PROJECT}/repository/files/(?P<path>[^/]+)/raw", _file),
)


@asynccontextmanager
async def gitlab() -> AsyncIterator[FakeGitLab]:
    """A fake GitLab on loopback. Leaving fails if a request or answer breaks its description."""
    fake = FakeGitLab()
    async with AsyncExitStack() as stack:
        server = await _serve(stack, "/{path:.*}", fake.respond)
        fake.api_url = f"{server}/api/v4"
        fake.storage_url = await _serve(stack, "/signed/{id}", fake.store)
        yield fake
    assert not fake.broken, "\n".join(fake.broken)


async def _serve(stack: AsyncExitStack, path: str, handler: Callable[[web.Request], Any]) -> str:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", path, handler)
    return await stack.enter_async_context(on_loopback(app))


def expired() -> str:
    """A time that is over."""
    return datetime(2020, 1, 1, tzinfo=UTC).isoformat()
