"""What the fake GitHub answers, route by route."""

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from aiohttp import web

from fakes.github_contract import example
from fakes.github_state import REPOSITORY, Token

if TYPE_CHECKING:
    from fakes.github import FakeGitHub

RAW = "application/vnd.github.raw+json"
MAX_COMMENT_BYTES = 262_144

T = TypeVar("T")


class Asked(NamedTuple):
    request: web.Request
    token: Token
    found: re.Match[str]
    sent: bytes

    def number(self, name: str) -> int:
        return int(self.found[name])


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] = {}) -> web.Response:
    return web.Response(
        body=json.dumps(value).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="utf-8",
    )


def error_answer(status: int, message: str, headers: Mapping[str, str] = {}) -> web.Response:
    answer = {
        "message": message,
        "documentation_url": "https://docs.github.com/rest",
        "status": str(status),
    }
    return json_answer(answer, status, headers)


class RefusedError(Exception):
    """GitHub answers with an error."""

    def __init__(self, answer: web.Response) -> None:
        super().__init__(answer)
        self.answer = answer


def _there(found: T | None) -> T:
    if not found:
        raise RefusedError(error_answer(404, "Not Found"))
    return found


def _check_access(*, allowed: bool) -> None:
    if not allowed:
        raise RefusedError(error_answer(403, "Resource not accessible by integration"))


def _user(fake: "FakeGitHub", asked: Asked) -> web.Response:
    _check_access(allowed=asked.token.login is not None)
    return json_answer(example("private-user") | {"login": asked.token.login})


def _list_comments(fake: "FakeGitHub", asked: Asked) -> web.Response:
    number = asked.number("number")
    _there(number in fake.state.pulls)
    listed = fake.state.comments_of(number)
    if fake.lagging_lists:
        fake.lagging_lists -= 1
        listed = [each for each in listed if each.at < fake.time.now - 60]
    return fake.page(asked, [fake.state.comment_answer(each) for each in listed])


def _create_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    _there(asked.number("number") in fake.state.pulls)
    body = _body(asked)
    author = asked.token.login or asked.token.bot
    answer = fake.state.comment_answer(fake.state.add_comment(asked.number("number"), author, body))
    return json_answer(answer, 201, {"Location": answer["url"]})


def _body(asked: Asked) -> str:
    _check_access(allowed=asked.token.may_comment)
    body = str(json.loads(asked.sent).get("body", ""))
    if len(body.encode()) > MAX_COMMENT_BYTES:
        problem = {
            "resource": "IssueComment",
            "code": "unprocessable",
            "field": "data",
            "message": "Body is too long (maximum is 65536 characters)",
        }
        answer = {
            "message": "Validation Failed",
            "errors": [problem],
            "documentation_url": "https://docs.github.com",
        }
        raise RefusedError(json_answer(answer, 422))
    return body


def _get_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    return json_answer(
        fake.state.comment_answer(_there(fake.state.comments.get(asked.number("id"))))
    )


def _edit_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    comment = _there(fake.state.comments.get(asked.number("id")))
    comment.body, comment.at = _body(asked), fake.time.now
    comment.versions.append(comment.body)
    return json_answer(fake.state.comment_answer(comment))


def _delete_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    _check_access(allowed=asked.token.may_comment)
    fake.state.deleted.append(_there(fake.state.comments.pop(asked.number("id"), None)))
    return web.Response(status=204)


def _get_pull(fake: "FakeGitHub", asked: Asked) -> web.Response:
    return json_answer(fake.state.pull_answer(_there(fake.state.pulls.get(asked.number("number")))))


def _list_pulls(fake: "FakeGitHub", asked: Asked) -> web.Response:
    query = asked.request.query
    head, state = query.get("head"), query.get("state", "open")
    matching = [
        pull
        for pull in fake.state.pulls.values()
        if state in ("all", pull.state)
        and (
            head is None
            or head == f"{(pull.head_repository or '').partition('/')[0]}:{pull.head_ref}"
        )
    ]
    return fake.page(
        asked, [fake.state.pull_answer(pull, "pull-request-simple-items") for pull in matching]
    )


def _compare(fake: "FakeGitHub", asked: Asked) -> web.Response:
    base, _, head = asked.found["basehead"].partition("...")
    return json_answer(_there(fake.state.comparison_answer(base, head)))


def _commits(fake: "FakeGitHub", asked: Asked) -> web.Response:
    ancestry = _there(fake.state.ancestry(asked.request.query.get("sha", "")))
    return fake.page(asked, [fake.state.commit_answer(sha) for sha in ancestry])


def _contents(fake: "FakeGitHub", asked: Asked) -> web.Response:
    files = _there(fake.state.files.get(asked.request.query.get("ref", "")))
    content = _there(files.get(asked.found["path"]))
    assert asked.request.headers["Accept"] == RAW
    return web.Response(body=content, content_type=RAW, charset="utf-8")


def _run(fake: "FakeGitHub", asked: Asked) -> web.Response:
    return json_answer(fake.state.run_answer(_there(fake.state.runs.get(asked.number("id")))))


def _runs_of_workflow(fake: "FakeGitHub", asked: Asked) -> web.Response:
    _check_access(allowed=asked.token.may_read_actions)
    runs = sorted(fake.state.runs.values(), key=lambda run: -run.id)
    of_workflow = _there([run for run in runs if run.workflow == asked.found["file"]])
    branch = asked.request.query["branch"]
    matching = [run for run in of_workflow if run.head_branch == branch]
    return fake.page(asked, [fake.state.run_answer(run) for run in matching], "workflow_runs")


def _artifacts(fake: "FakeGitHub", asked: Asked) -> web.Response:
    _check_access(allowed=asked.token.may_read_actions)
    name = asked.request.query.get("name")
    run = asked.found.groupdict().get("id")
    matching = [
        artifact
        for artifact in sorted(fake.state.artifacts.values(), key=lambda artifact: -artifact.id)
        if name in (None, artifact.name) and run in (None, str(artifact.run.id))
    ]
    return fake.page(
        asked, [fake.state.artifact_answer(artifact) for artifact in matching], "artifacts"
    )


def _zip(fake: "FakeGitHub", asked: Asked) -> web.Response:
    _check_access(allowed=asked.token.may_read_actions)
    artifact = _there(fake.state.artifacts.get(asked.number("id")))
    if artifact.expired:
        raise RefusedError(error_answer(410, "Artifact has expired"))
    return fake.redirect_to_storage(artifact.id)


_REPO = f"/repos/{REPOSITORY}"
_Handler = Callable[["FakeGitHub", Asked], web.Response]
ROUTES: tuple[tuple[str, str, _Handler], ...] = (
    ("GET", "/user", _user),
    ("GET", rf"{_REPO}/issues/(?P<number>\d+)/comments", _list_comments),
    ("POST", rf"{_REPO}/issues/(?P<number>\d+)/comments", _create_comment),
    ("GET", rf"{_REPO}/issues/comments/(?P<id>\d+)", _get_comment),
    ("PATCH", rf"{_REPO}/issues/comments/(?P<id>\d+)", _edit_comment),
    ("DELETE", rf"{_REPO}/issues/comments/(?P<id>\d+)", _delete_comment),
    ("GET", rf"{_REPO}/pulls/(?P<number>\d+)", _get_pull),
    ("GET", rf"{_REPO}/pulls", _list_pulls),
    ("GET", rf"{_REPO}/compare/(?P<basehead>.+)", _compare),
    ("GET", rf"{_REPO}/commits", _commits),
    ("GET", rf"{_REPO}/contents/(?P<path>.+)", _contents),
    ("GET", rf"{_REPO}/actions/runs/(?P<id>\d+)", _run),
    ("GET", rf"{_REPO}/actions/runs/(?P<id>\d+)/artifacts", _artifacts),
    ("GET", rf"{_REPO}/actions/workflows/(?P<file>[^/]+)/runs", _runs_of_workflow),
    ("GET", rf"{_REPO}/actions/artifacts", _artifacts),
    ("GET", rf"{_REPO}/actions/artifacts/(?P<id>\d+)/zip", _zip),
)
