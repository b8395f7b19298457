"""What the fake GitHub answers, route by route."""

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from fakes.github_contract import example
from fakes.github_state import REPOSITORY, Token

if TYPE_CHECKING:
    from fakes.github import FakeGitHub

MAX_COMMENT_BYTES = 262_144


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
    answer = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return json_answer(answer, status, headers)


_NOT_ACCESSIBLE = "Resource not accessible by integration"


def _user(fake: "FakeGitHub", asked: Asked) -> web.Response:
    if asked.token.login is None:
        return error_answer(403, _NOT_ACCESSIBLE)
    return json_answer(example("private-user") | {"login": asked.token.login})


def _list_comments(fake: "FakeGitHub", asked: Asked) -> web.Response:
    number = asked.number("number")
    if number not in fake.state.pulls:
        return error_answer(404, "Not Found")
    listed = fake.state.comments_of(number)
    if fake.lagging_lists:
        fake.lagging_lists -= 1
        listed = [each for each in listed if each.at < fake.time.now - 60]
    return fake.page(asked, [fake.state.comment_answer(each) for each in listed])


def _body_or_error(asked: Asked) -> str | web.Response:
    if not asked.token.may_comment:
        return error_answer(403, _NOT_ACCESSIBLE)
    body = json.loads(asked.sent).get("body", "")
    if len(body.encode()) > MAX_COMMENT_BYTES:
        problem = {
            "resource": "IssueComment",
            "code": "unprocessable",
            "field": "data",
            "message": "Body is too long (maximum is 65536 characters)",
        }
        answer = {"message": "Validation Failed", "errors": [problem], "documentation_url": "https://docs.github.com"}
        return json_answer(answer, 422)
    return str(body)


def _create_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    if asked.number("number") not in fake.state.pulls:
        return error_answer(404, "Not Found")
    body = _body_or_error(asked)
    if isinstance(body, web.Response):
        return body
    author = asked.token.login or asked.token.bot
    answer = fake.state.comment_answer(fake.state.add_comment(asked.number("number"), author, body))
    return json_answer(answer, 201, {"Location": answer["url"]})


def _get_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    comment = fake.state.comments.get(asked.number("id"))
    return json_answer(fake.state.comment_answer(comment)) if comment else error_answer(404, "Not Found")


def _edit_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    comment = fake.state.comments.get(asked.number("id"))
    if comment is None:
        return error_answer(404, "Not Found")
    body = _body_or_error(asked)
    if isinstance(body, web.Response):
        return body
    comment.body, comment.at = body, fake.time.now
    comment.versions.append(body)
    return json_answer(fake.state.comment_answer(comment))


def _delete_comment(fake: "FakeGitHub", asked: Asked) -> web.Response:
    if not asked.token.may_comment:
        return error_answer(403, _NOT_ACCESSIBLE)
    comment = fake.state.comments.pop(asked.number("id"), None)
    if comment is None:
        return error_answer(404, "Not Found")
    fake.state.deleted.append(comment)
    return web.Response(status=204)


def _get_pull(fake: "FakeGitHub", asked: Asked) -> web.Response:
    pull = fake.state.pulls.get(asked.number("number"))
    return json_answer(fake.state.pull_answer(pull)) if pull else error_answer(404, "Not Found")


def _list_pulls(fake: "FakeGitHub", asked: Asked) -> web.Response:
    query = asked.request.query
    head, state = query.get("head"), query.get("state", "open")
    matching = [
        pull
        for pull in fake.state.pulls.values()
        if state in ("all", pull.state)
        and (head is None or head == f"{(pull.head_repository or '').partition('/')[0]}:{pull.head_ref}")
    ]
    return fake.page(asked, [fake.state.pull_answer(pull, "pull-request-simple-items") for pull in matching])


def _compare(fake: "FakeGitHub", asked: Asked) -> web.Response:
    base, _, head = asked.found["basehead"].partition("...")
    answer = fake.state.comparison_answer(base, head)
    return json_answer(answer) if answer else error_answer(404, "Not Found")


def _commits(fake: "FakeGitHub", asked: Asked) -> web.Response:
    ancestry = fake.state.ancestry(asked.request.query.get("sha", ""))
    return (
        fake.page(asked, [fake.state.commit_answer(sha) for sha in ancestry])
        if ancestry
        else error_answer(404, "Not Found")
    )


def _run(fake: "FakeGitHub", asked: Asked) -> web.Response:
    run = fake.state.runs.get(asked.number("id"))
    return json_answer(fake.state.run_answer(run)) if run else error_answer(404, "Not Found")


def _artifacts(fake: "FakeGitHub", asked: Asked) -> web.Response:
    if not asked.token.may_read_actions:
        return error_answer(403, _NOT_ACCESSIBLE)
    name = asked.request.query.get("name")
    run = asked.found.groupdict().get("id")
    matching = [
        artifact
        for artifact in sorted(fake.state.artifacts.values(), key=lambda artifact: -artifact.id)
        if name in (None, artifact.name) and run in (None, str(artifact.run.id))
    ]
    return fake.page(asked, [fake.state.artifact_answer(artifact) for artifact in matching], "artifacts")


def _zip(fake: "FakeGitHub", asked: Asked) -> web.Response:
    if not asked.token.may_read_actions:
        return error_answer(403, _NOT_ACCESSIBLE)
    artifact = fake.state.artifacts.get(asked.number("id"))
    if artifact is None:
        return error_answer(404, "Not Found")
    return error_answer(410, "Artifact has expired") if artifact.expired else fake.redirect_to_storage(artifact.id)


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
    ("GET", rf"{_REPO}/compare/(?P<basehead>[^/]+)", _compare),
    ("GET", rf"{_REPO}/commits", _commits),
    ("GET", rf"{_REPO}/actions/runs/(?P<id>\d+)", _run),
    ("GET", rf"{_REPO}/actions/runs/(?P<id>\d+)/artifacts", _artifacts),
    ("GET", rf"{_REPO}/actions/artifacts", _artifacts),
    ("GET", rf"{_REPO}/actions/artifacts/(?P<id>\d+)/zip", _zip),
)
