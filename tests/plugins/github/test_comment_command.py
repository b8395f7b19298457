"""`ci-evals comment` against a GitHub on loopback, in jobs of pull requests and `workflow_run`."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import comments
import pytest
from archives import archive
from checkouts import SETTLED
from fakes.github import TOKEN, FakeGitHub, github
from fakes.github_state import FORK, REPOSITORY, REPOSITORY_ID, Token
from forgeries import PRETENCES
from processes import Finished
from processes import ci_evals as command
from pulls import HEAD, NUMBER, open_pull, sections
from pulls import comments as posted
from suites import write_suite

from ci_evals.plugins.ci.archives import FORK_LIMITS
from ci_evals.plugins.github.comment import post_progress
from ci_evals.plugins.github.context import read_context
from ci_evals.reports import report_json as json_report
from ci_evals.reports.summary import Summary

READ_ONLY = "ghs_fork"

ci_evals = partial(command, constants=SETTLED)


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitHub]:
    async with github() as running:
        yield running


def saved(summary: Summary) -> bytes:
    return b"".join(json_report.render(summary))


def results(folder: Path, summary: Summary) -> Path:
    path = folder / "ci-evals-results"
    path.mkdir(exist_ok=True)
    (path / "report.json").write_bytes(saved(summary))
    return path


def job(fake: FakeGitHub, folder: Path, *, token: str = TOKEN, run_id: int = 100) -> dict[str, str]:
    """The environment of a job of pull request 7."""
    side = {"ref": "main", "sha": "b" * 40, "repo": {"id": REPOSITORY_ID, "full_name": REPOSITORY}}
    event = {
        "pull_request": {
            "number": NUMBER,
            "head": {**side, "ref": "fix", "sha": HEAD},
            "base": side,
        }
    }
    return _environment(fake, folder, "pull_request", event, token) | {"GITHUB_RUN_ID": str(run_id)}


def follower(fake: FakeGitHub, folder: Path) -> dict[str, str]:
    """That of a job which follows a run of a fork's pull request."""
    return _environment(fake, folder, "workflow_run", {}, TOKEN) | {"GITHUB_RUN_ID": "200"}


def _environment(
    fake: FakeGitHub, folder: Path, name: str, event: object, token: str
) -> dict[str, str]:
    path = folder / "event.json"
    path.write_text(json.dumps(event), "utf-8")
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": fake.api_url,
        "GITHUB_TOKEN": token,
        "GITHUB_WORKFLOW": "evals",
    }


async def test_the_variables_of_its_options_are_no_mistake_for_another_command(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path)
    environ = {"CI_EVALS_ARTIFACT": "results", "CI_EVALS_FROM_RUN": "7"}
    ended = await ci_evals(tmp_path, "validate", environ=environ)
    assert (ended.code, ended.err) == (0, "")


async def test_a_red_comment_turns_green_in_place(fake: FakeGitHub, tmp_path: Path) -> None:
    open_pull(fake)
    environ = job(fake, tmp_path)
    results(tmp_path, comments.regression())
    first = await ci_evals(tmp_path, "comment", environ=environ)
    (comment,) = posted(fake)
    assert first.code == 0, first.err
    assert (
        first.out
        == f"posted: https://github.com/{REPOSITORY}/pull/{NUMBER}#issuecomment-{comment.id}\n"
    )
    assert "### ❌ 1 case better, 1 worse: <code>refund</code> (critical)" in comment.body
    assert "actions/runs/100" in comment.body

    results(tmp_path, comments.passing())
    second = await ci_evals(tmp_path, "comment", environ={**environ, "GITHUB_RUN_ID": "101"})
    (again,) = posted(fake)
    assert second.out == first.out
    assert again.id == comment.id
    assert "### ✅ 105 of 105 runs passed" in again.body
    assert "❌" not in again.body


async def test_a_section_in_progress_gives_way_to_what_was_found(
    fake: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in SETTLED.items():
        monkeypatch.setattr(name, seconds)
    open_pull(fake)
    environ = job(fake, tmp_path)
    begun = await asyncio.to_thread(post_progress, "flight agent", read_context(environ))
    (comment,) = posted(fake)
    assert begun.url == f"https://github.com/{REPOSITORY}/pull/{NUMBER}#issuecomment-{comment.id}"
    run = f"https://github.com/{REPOSITORY}/actions/runs/100"
    assert sections(comment)["flight agent"].text == (
        f"### ⏳ Running · <code>flight agent</code>: [see the run](<{run}>)"
    )
    results(tmp_path, comments.passing())
    assert (await ci_evals(tmp_path, "comment", environ=environ)).code == 0
    (again,) = posted(fake)
    assert again.id == comment.id
    assert "Running" not in again.body


async def test_a_run_that_was_overtaken_leaves_the_comment_alone(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    open_pull(fake, head_sha="c" * 40)
    results(tmp_path, comments.passing())
    ended = await ci_evals(tmp_path, "comment", environ=job(fake, tmp_path))
    assert ended.code == 0
    assert f"pull request {NUMBER} has moved on" in ended.out
    assert posted(fake) == []


async def test_a_dry_run_asks_nobody(fake: FakeGitHub, tmp_path: Path) -> None:
    results(tmp_path, comments.regression())
    ended = await ci_evals(tmp_path, "comment", "--dry-run", environ=job(fake, tmp_path, token=""))
    assert ended.code == 0, ended.err
    assert ended.out.startswith("<!-- ci-evals:comment ")
    assert "### ❌ 1 case better, 1 worse: <code>refund</code> (critical)" in ended.out
    assert fake.calls == []


async def test_what_a_model_wrote_is_no_command_in_the_log(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    results(tmp_path, comments.said("::error::owned\n##[error]owned"))
    ended = await ci_evals(tmp_path, "comment", "--dry-run", environ=job(fake, tmp_path))
    assert "owned" in ended.out
    assert "##[" not in ended.out
    assert not [line for line in ended.out.splitlines() if line.lstrip().startswith("::")]


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "GITHUB_TOKEN is not set"),
        ("ghs_wrong", "Bad credentials"),
        (READ_ONLY, "the token may not comment"),
    ],
)
async def test_a_comment_that_cannot_be_posted_says_why(
    fake: FakeGitHub, tmp_path: Path, token: str, reason: str
) -> None:
    fake.state.tokens[READ_ONLY] = Token(may_comment=False)
    open_pull(fake)
    results(tmp_path, comments.passing())
    ended = await ci_evals(tmp_path, "comment", environ=job(fake, tmp_path, token=token))
    assert ended.code == 1
    assert ended.err.startswith("warning: no comment was posted: ")
    assert reason in ended.err
    assert "Traceback" not in ended.err


async def test_without_a_pull_request_there_is_nothing_to_do(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    results(tmp_path, comments.passing())
    environ = _environment(fake, tmp_path, "push", {"before": "b" * 40}, TOKEN) | {
        "GITHUB_RUN_ID": "1"
    }
    ended = await ci_evals(tmp_path, "comment", environ=environ)
    assert ended == Finished(0, b"no pull request: nothing was posted\n", b"")
    assert fake.calls == []


async def test_a_missing_report_is_an_error(tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, "comment", "nowhere")
    assert (ended.code, ended.out) == (3, "")
    assert (
        ended.err
        == "error: nowhere: there is no report: pass one written by `ci-evals run`, or its folder\n"
    )


async def test_a_forks_comment_is_made_from_its_data_and_not_from_its_markdown(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    open_pull(fake, head_repository=FORK, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    files = {"report.json": saved(comments.fork()), "comment.md": b"# Owned", "pr": b"1"}
    fake.state.add_artifact(run, archive(files), "ci-evals-results")
    fake.state.add_artifact(run, archive({"report.json": b'{"cells": 7}'}), "ci-evals-broken")
    fake.state.add_artifact(run, archive({"report.json": saved(comments.passing())}), "coverage")
    ended = await ci_evals(
        tmp_path, "comment", "--from-run", str(run.id), environ=follower(fake, tmp_path)
    )

    (comment,) = posted(fake)
    assert "Owned" not in comment.body
    section = sections(comment)["flight agent"]
    assert (section.stamp.run_id, section.stamp.sha, section.id.part) == (
        run.id,
        HEAD,
        "ci-evals-results",
    )
    assert "Not checked: no recorded answer (2)" in section.text
    assert list(sections(comment)) == ["flight agent"]
    assert ended.code == 1
    assert ended.err.startswith(
        "warning: artifact 'ci-evals-broken' was left out: report.json is not a complete"
    )


async def test_of_a_matrix_only_the_merged_report_is_posted(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    open_pull(fake, head_repository=FORK, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    fake.state.add_artifact(run, archive({"results.jsonl": b"{}"}), "ci-evals-shard-1")
    ended = await ci_evals(
        tmp_path, "comment", "--from-run", str(run.id), environ=follower(fake, tmp_path)
    )
    assert (
        ended.code,
        f"no artifact 'ci-evals*' of run {run.id} has a report.json" in ended.err,
    ) == (1, True)
    fake.state.add_artifact(
        run, archive({"report.json": saved(comments.passing())}), "ci-evals-results"
    )
    ended = await ci_evals(
        tmp_path, "comment", "--from-run", str(run.id), environ=follower(fake, tmp_path)
    )
    assert (ended.code, ended.err) == (0, "")
    (comment,) = posted(fake)
    assert sections(comment)["flight agent"].id.part == "ci-evals-results"


async def test_an_artifact_that_is_too_large_keeps_no_other_from_being_posted(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    open_pull(fake, head_repository=FORK, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    fake.state.add_artifact(
        run, archive({"report.json": saved(comments.passing())}), "ci-evals-results"
    )
    fake.state.add_artifact(run, b"\0" * (FORK_LIMITS.max_archive_bytes + 1), "ci-evals-large")
    ended = await ci_evals(
        tmp_path, "comment", "--from-run", str(run.id), environ=follower(fake, tmp_path)
    )
    assert ended.code == 1
    assert ended.err.startswith(
        "warning: artifact 'ci-evals-large' was left out: the artifact has more than "
    )
    assert len(posted(fake)) == 1


async def test_many_artifacts_of_a_run_are_posted_at_once(fake: FakeGitHub, tmp_path: Path) -> None:
    """Each write has to settle: twenty of them took more than a minute."""
    open_pull(fake, head_repository=FORK, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    content = archive({"report.json": saved(comments.passing())})
    for number in range(20):
        fake.state.add_artifact(run, content, f"ci-evals-{number}")
    ended = await ci_evals(
        tmp_path, "comment", "--from-run", str(run.id), environ=follower(fake, tmp_path)
    )
    assert ended.code == 0, ended.err
    (comment,) = posted(fake)
    assert len(comment.versions) == 1
    assert comment.body.count("ci-evals:section") == 20


async def test_one_artifact_may_be_named(fake: FakeGitHub, tmp_path: Path) -> None:
    open_pull(fake, head_repository=FORK, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    fake.state.add_artifact(run, archive({"report.json": saved(comments.passing())}), "flights")
    options = ("--from-run", str(run.id), "--artifact", "fl*", "--dry-run")
    ended = await ci_evals(tmp_path, "comment", *options, environ=follower(fake, tmp_path))
    assert ended.code == 0, ended.err
    assert "### 🟡 No baseline: no run of main itself has left an artifact" in ended.out
    assert "105 of 105 runs passed" in ended.out
    assert posted(fake) == []


async def test_a_run_without_a_pull_request_or_results_says_so(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    at = {"head_branch": "main", "head_repository": FORK, "event": "pull_request"}
    run = fake.state.add_run(HEAD, conclusion="failure", **at)
    environ = follower(fake, tmp_path)
    ended = await ci_evals(tmp_path, "comment", "--from-run", str(run.id), environ=environ)
    assert (ended.code, "no open pull request" in ended.err) == (1, True)
    open_pull(fake, head_repository=FORK, head_ref="main")
    ended = await ci_evals(tmp_path, "comment", "--from-run", str(run.id), environ=environ)
    assert (ended.code, "is not there" in ended.err) == (1, True)


async def test_a_folder_and_a_run_exclude_each_other(tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, "comment", "results", "--from-run", "1")
    assert (ended.code, "cannot be combined" in ended.err) == (2, True)


@pytest.mark.parametrize("pretend", PRETENCES)
async def test_what_follows_from_results_is_derived_and_never_taken_over(
    pretend: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    async def told() -> str:
        (tmp_path / "report.json").write_text(json.dumps(document))
        ended = await ci_evals(tmp_path, "comment", "--dry-run", ".")
        assert ended.code == 0, ended.err
        return re.sub(r"write=\w+", "", ended.out)

    document = json.loads(saved(comments.small_regression()))
    honest = await told()
    assert "### ❌ " in honest
    pretend(document)
    assert await told() == honest
