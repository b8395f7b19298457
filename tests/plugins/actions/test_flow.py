"""A repository's life with the gate: main, pull requests, forks, merge queues, later attempts."""

import asyncio
import html
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from aiohttp import web
from checkouts import SETTLED
from fakes.chat import completion
from fakes.github import TOKEN, FakeGitHub, Fault
from fakes.github_state import FORK, Token
from fakes.http_server import FakeServer, Scripted, serving
from jobs import MERGE_COMMIT, Job, Repository
from processes import ci_evals
from pulls import NUMBER, comments, open_pull
from suites import AGENT, chat, write_suite
from yarl import URL

BASE, OLDER, RED, GREEN = "b" * 40, "a" * 40, "c" * 40, "d" * 40
FEATURE = "f" * 40


async def main_run(repository: Repository) -> Job:
    repository.fake.state.add_history(OLDER, BASE, RED, GREEN)
    repository.suite()
    job = await repository.push(BASE, before=OLDER)
    assert job.ended.code == 0, job.ended.err
    return job


async def test_a_regression_is_named_in_one_comment_which_turns_green_when_it_is_fixed(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    pull = open_pull(fake, head_sha=RED, base_sha=BASE)

    repository.suite(wrong=("river",))
    red = await repository.pull_request(RED)
    assert red.ended.code == 1
    assert (red.outputs["verdict"], red.outputs["regressions"]) == ("fail", "1")
    assert red.report["suite"]["revision"] == MERGE_COMMIT, "it is what was checked out"
    lines = red.ended.out.splitlines()
    assert lines[-1].startswith("FAIL: ")
    assert "river" in lines[-1]
    said = next(
        line for line in lines if line.startswith("compared with main at bbbbbbb (the merge base)")
    )
    assert said.endswith("(5 runs per case)")
    (error,) = (line for line in lines if line.startswith("::error "))
    assert "file=evals.yaml,line=1,title=Regressed%3A river::" in error
    (notice,) = (line for line in lines if line.startswith("::notice "))
    assert notice.startswith(
        "::notice title=ci-evals%3A 1 case regressed%3A river::geography · 15 of 20 runs passed"
    )
    assert "river" in red.summary
    assert f'/pull/{NUMBER}" rel="noreferrer">pull request #{NUMBER}</a>' in red.page
    (comment,) = comments(fake)
    assert red.outputs["comment-url"].endswith(f"#issuecomment-{comment.id}")
    assert "river" in comment.body
    assert "❌" in comment.body

    pull.head_sha = GREEN
    repository.suite()
    green = await repository.pull_request(GREEN)
    assert (green.ended.code, green.outputs["verdict"]) == (0, "pass")
    (edited,) = comments(fake)
    assert edited.id == comment.id
    assert "✅" in edited.body
    assert "❌" not in edited.body


async def test_every_report_names_a_case_from_the_repositorys_root_in_whatever_folder_the_job_runs(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    folder = tmp_path / "apps" / "bot"
    folder.mkdir(parents=True)
    repository = Repository(folder, fake)
    entries = [{"id": "river", "input": "river", "expect": [{"equals": "lake"}]}]
    (folder / "cases.jsonl").write_text(json.dumps(entries[0]))
    write_suite(folder, {"file": "cases.jsonl"})
    open_pull(fake, head_sha=RED, base_sha=BASE)
    red = await repository.pull_request(RED, GITHUB_WORKSPACE=str(tmp_path))
    assert red.ended.code == 1, red.ended.err
    place = "apps/bot/cases.jsonl"
    assert f"::error file={place},line=1,title=Failing%3A river::" in red.ended.out
    (case,) = ET.parse(red.results / "junit.xml").iter("testcase")
    assert (case.get("file"), case.get("line")) == (place, "1")
    (comment,) = comments(fake)
    assert f"{place}:1" in comment.body
    assert f"{place}:1" in red.summary
    assert [cell["file"] for cell in red.report["cells"]] == [place]


async def test_a_push_to_main_carries_the_history_of_the_reports_before(
    repository: Repository,
) -> None:
    await main_run(repository)
    second = await repository.push(RED, before=BASE)
    assert second.ended.out.count("compared with main at bbbbbbb (its base)") == 1
    assert len(second.report["comparison"]["baseline"]) == 1
    third = await repository.push(GREEN, before=RED)
    assert len(third.report["comparison"]["baseline"]) == 2
    assert ", and 1 report before it (10 runs per case)" in third.ended.out


async def test_a_redirect_to_a_link_local_address_is_refused(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    fake.storage_url = "http://169.254.169.254"
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED)
    assert "a redirect to the link-local address 169.254.169.254 is refused" in job.ended.out
    assert job.report["verdict"]["status"] == "borderline"


async def test_what_a_removed_workflow_said_names_its_commit_and_goes_with_the_next_push(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite()
    pull = open_pull(fake, head_sha=RED, base_sha=BASE)
    await repository.pull_request(RED, GITHUB_WORKFLOW="removed")
    await repository.pull_request(RED)
    (comment,) = comments(fake)
    assert "of commit" not in comment.body

    pull.head_sha = GREEN
    await repository.pull_request(GREEN)
    (comment,) = comments(fake)
    assert "job=removed" in comment.body
    said = "is of commit <code>ccccccc</code>: its job has not reported on <code>ddddddd</code>"
    assert comment.body.count(said) == 1

    pull.head_sha = FEATURE
    await repository.pull_request(FEATURE)
    (comment,) = comments(fake)
    assert "job=removed" not in comment.body
    assert "of commit" not in comment.body


async def test_each_of_many_workflows_is_compared_with_itself(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE)
    fake.state.parents[RED] = BASE
    names = [f"suite-{number}" for number in range(7)]
    for name in names:
        repository.suite(name=name)
        repository.check_out(BASE)
        run = fake.state.add_run(BASE, workflow=f"{name}.yml")
        job = await repository.job("push", {"before": OLDER}, run, GITHUB_REF="refs/heads/main")
        repository.upload(job, run)  # all under the default name
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(name=names[0], wrong=("river",))
    run = fake.state.add_run(RED, event="pull_request", workflow=f"{names[0]}.yml")
    job = await repository.pull_request(RED, run=run)
    assert "compared with main at bbbbbbb (the merge base)" in job.ended.out
    assert job.ended.code == 1


async def test_a_suite_that_moved_to_another_workflow_is_found(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong=("river",))
    run = fake.state.add_run(RED, event="pull_request", workflow="other.yml")
    job = await repository.pull_request(RED, run=run)
    assert "compared with main at bbbbbbb" in job.ended.out


async def test_a_stacked_pull_request_is_compared_with_the_commit_that_both_have(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    fake.state.parents[FEATURE] = BASE  # of the pull request below, which runs as one itself
    fake.state.parents[RED] = FEATURE
    open_pull(fake, head_sha=RED, base_sha=FEATURE, base_ref="feature-1")
    repository.suite(wrong=("river",))
    job = await repository.pull_request(RED)
    said = "compared with feature-1 at bbbbbbb (1 commit before the one it is based on)"
    assert said in job.ended.out
    assert job.ended.code == 1


async def test_a_report_of_another_commit_is_no_baseline(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    own = fake.state.artifact_named("ci-evals-results")
    fake.state.add_artifact(fake.state.add_run(RED), own.content, own.name)
    job = await repository.push(GREEN, before=RED)
    assert "compared with main at bbbbbbb (1 commit before the one it is based on)" in job.ended.out


async def test_a_dispatched_run_that_checked_out_a_pull_request_is_no_baseline(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    fake.state.parents[FEATURE] = BASE  # a commit that main doesn't have
    repository.suite(wrong=("river",))
    repository.check_out(FEATURE)
    run = fake.state.add_run(GREEN, event="workflow_dispatch")
    dispatched = await repository.job("workflow_dispatch", {}, run, GITHUB_REF="refs/heads/main")
    assert dispatched.report["suite"]["revision"] == FEATURE
    repository.upload(dispatched, run)

    open_pull(fake, head_sha=FEATURE, base_sha=GREEN)
    job = await repository.pull_request(FEATURE)
    assert "compared with main at bbbbbbb" in job.ended.out
    assert job.ended.code == 1


async def test_a_dispatched_run_of_an_older_commit_of_main_is_a_baseline_of_last_resort(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE, RED, GREEN)
    repository.suite()
    repository.check_out(OLDER)
    run = fake.state.add_run(BASE, event="workflow_dispatch")
    dispatched = await repository.job("workflow_dispatch", {}, run, GITHUB_REF="refs/heads/main")
    repository.upload(dispatched, run)
    job = await repository.push(RED, before=BASE)
    assert "compared with main at aaaaaaa (another commit than its run's)" in job.ended.out


async def test_a_run_of_changed_files_is_no_baseline(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE, RED, GREEN)
    repository.suite()
    repository.check_out(BASE)
    (repository.folder / "made-by-the-workflow.txt").write_text("git does not track it")
    repository.suite(wrong=("river",))
    run = fake.state.add_run(BASE)
    job = await repository.job("push", {"before": OLDER}, run, GITHUB_REF="refs/heads/main")
    assert (job.report["suite"]["revision"], job.report["suite"]["dirty"]) == (BASE, True)
    assert "::warning title=ci-evals::this run cannot be a baseline: files that" in job.ended.out
    repository.upload(job, run)
    after = await repository.push(RED, before=BASE)
    assert "files that git tracks were changed before it ran" in after.ended.out

    (repository.folder / "another.txt").write_text("git does not track it, either")
    run = fake.state.add_run(GREEN)
    repository.check_out(GREEN)
    (repository.folder / "a-third.txt").write_text("written after the checkout")
    job = await repository.job("push", {"before": RED}, run, GITHUB_REF="refs/heads/main")
    assert job.report["suite"]["dirty"] is False


async def test_a_run_without_git_is_no_baseline(repository: Repository, fake: FakeGitHub) -> None:
    fake.state.add_history(OLDER, BASE, RED, GREEN)
    repository.suite()
    run = fake.state.add_run(BASE)
    job = await repository.job("push", {"before": OLDER}, run, GITHUB_REF="refs/heads/main")
    assert job.report["suite"]["revision"] is None
    repository.upload(job, run)
    after = await repository.push(RED, before=BASE)
    assert "git did not tell which commit was checked out" in after.ended.out


async def test_the_commit_is_that_of_the_suites_own_checkout(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    """A job may check the repository out into a folder of its workspace."""
    inner = Repository(tmp_path / "app", fake)
    inner.folder.mkdir()
    inner.suite()
    inner.check_out(BASE)
    outer = Repository(tmp_path, fake)
    run = fake.state.add_run(BASE)
    job = await outer.job("push", {}, run, "app/evals.yaml", GITHUB_REF="refs/heads/main")
    assert job.ended.code == 0, job.ended.err
    assert (job.report["suite"]["revision"], job.report["suite"]["dirty"]) == (BASE, False)


async def test_two_jobs_at_once_end_in_one_comment_with_both_sections(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    names = ("ci-evals-search", "ci-evals-support")
    repository.constants = {"ci_evals.plugins.ci.comment.SETTLE_S": 1.0}
    jobs = await asyncio.gather(
        *(repository.pull_request(RED, run=run, CI_EVALS_ARTIFACT=name) for name in names)
    )
    assert [job.ended.code for job in jobs] == [0, 0]
    (comment,) = comments(fake)
    assert {job.outputs["comment-url"].rpartition("-")[2] for job in jobs} == {str(comment.id)}
    assert comment.body.count("✅") >= 2


async def test_several_suites_of_one_job_have_a_section_each_and_the_outputs_of_all(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE, RED, GREEN)
    evals = repository.folder / "evals"

    def suites(wrong: tuple[str, ...] = ()) -> None:
        for name in ("rivers", "poems"):
            repository.suite(wrong=wrong if name == "rivers" else (), name=name)
            (evals / name).mkdir(parents=True, exist_ok=True)
            (repository.folder / "evals.yaml").replace(evals / name / "evals.yaml")

    suites()
    main = await repository.push(BASE, "evals", before=OLDER)
    assert main.ended.code == 0, main.ended.err
    assert main.outputs["results-path"] == main.outputs["report-path"] == str(main.results)

    open_pull(fake, head_sha=RED, base_sha=BASE)
    suites(wrong=("river",))
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    red = await repository.pull_request(RED, run=run, CI_EVALS_CONFIG="evals\n")
    assert red.ended.code == 1, red.ended.err
    assert {name: red.outputs[name] for name in ("verdict", "pass-rate", "regressions")} == {
        "verdict": "fail",
        "pass-rate": "",
        "regressions": "1",
    }
    assert red.ended.out.count("compared with main at bbbbbbb (the merge base)") == 2
    assert red.summary.count("\nSuite <code>") == 2
    (comment,) = comments(fake)
    assert comment.body.count("<!-- ci-evals:section ") == 2
    assert (comment.body.count("### ❌"), comment.body.count("### ✅")) == (1, 1)

    repository.upload(red, run)
    again = await repository.pull_request(RED, "evals", run=run, GITHUB_RUN_ATTEMPT="2")
    assert again.ended.out.count("Resumed: 20 of 20 runs kept") == 2
    assert len(comments(fake)) == 1


async def test_a_pull_request_takes_unchanged_answers_from_the_base_branch(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(runs=6)
    job = await repository.pull_request(RED, "--reuse")
    assert job.ended.code == 0, job.ended.err
    assert job.report["totals"]["reused"] == 20
    (comment,) = comments(fake)
    assert "20 of 24 runs were not made again" in comment.body
    evidence = {tuple(cell["comparison"]["head"]) for cell in job.report["cells"]}
    assert evidence == {(1, 1)}, "only what was asked anew is compared"


async def test_a_stale_run_leaves_the_newer_comment_alone(
    repository: Repository, fake: FakeGitHub
) -> None:
    pull = open_pull(fake, head_sha=GREEN, base_sha=BASE)
    repository.suite()
    await repository.pull_request(GREEN)
    (before,) = comments(fake)
    body = before.body
    repository.suite(wrong=("river",))
    stale = await repository.pull_request(RED)
    assert stale.ended.code == 1
    assert (
        f"comment: pull request 7 has moved on to {GREEN[:7]}; the comment is left to the run"
        in stale.ended.out
    )
    assert "comment-url" not in stale.outputs
    assert [each.body for each in comments(fake)] == [body]
    assert pull.head_sha == GREEN


async def test_a_merge_group_gates_against_its_base_and_does_not_comment(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    repository.suite(wrong=("river",))
    run = fake.state.add_run(RED, head_branch="gh-readonly-queue/main/pr-7", event="merge_group")
    event = {"merge_group": {"head_sha": RED, "base_sha": BASE, "base_ref": "refs/heads/main"}}
    job = await repository.job("merge_group", event, run)
    assert (job.ended.code, job.outputs["regressions"]) == (1, "1")
    assert fake.asked("POST") == []
    assert "comment-url" not in job.outputs


async def test_a_second_attempt_goes_on_with_what_the_first_one_finished(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong=("river",))
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    first = await repository.pull_request(RED, "--comment", "off", run=run)
    repository.upload(first, run)
    again = await repository.pull_request(RED, "--comment", "off", run=run, GITHUB_RUN_ATTEMPT="2")
    assert again.ended.code == 1
    assert again.report["resumption"]["kept"] == 20
    assert again.report["results"] == first.report["results"]  # confirm runs, too


async def test_a_second_attempt_that_finds_nothing_starts_anew_and_says_why(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    job = await repository.pull_request(
        RED, "--comment", "off", "--artifact", "evals [gpt]", GITHUB_RUN_ATTEMPT="2"
    )
    assert job.ended.code == 0
    assert (
        "::warning title=ci-evals::attempt 2 starts from scratch: the artifact 'evals [gpt]' of run"
        in job.ended.out
    )


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        (("README.md", "docs/evals.yaml", ".github/workflows/lint.yml"), False),
        ((".github/workflows/evals.yml",), True),
        (("evals.yaml",), True),
        (("README.md", "cases/more/new.jsonl"), True),
        (("prompts/deleted.txt",), True),
        (("src/agent/tools.py",), True),
        (("agent.py",), True),
        ((), False),
    ],
)
async def test_a_pull_request_that_touches_nothing_of_the_suite_ends_green_at_once(
    repository: Repository, fake: FakeGitHub, changed: tuple[str, ...], runs: bool
) -> None:
    fake.state.add_history(BASE, RED)
    fake.state.changed[RED] = changed
    open_pull(fake, head_sha=RED, base_sha=BASE)
    (repository.folder / "cases").mkdir()
    (repository.folder / "cases" / "some.jsonl").write_text('{"id": "river", "input": "river"}')
    (repository.folder / "prompts").mkdir()
    (repository.folder / "prompts" / "polite.txt").write_text("{{ input }}, please")
    (repository.folder / "src").mkdir()
    (repository.folder / "src" / "app.py").touch()
    (repository.folder / "agent.py").write_text("def answer(text):\n    return 'the river'\n")
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    settings = {
        "expect": [{"contains": "the lake"}],
        "prompts": [{"file": "prompts/polite.txt"}],
        "skip_unchanged": ["src/**"],
    }
    write_suite(
        repository.folder,
        {"file": "cases/*.jsonl"},
        providers=[provider],
        **settings,
    )
    job = await repository.pull_request(RED)
    assert (job.ended.code, job.outputs["verdict"]) == ((1, "fail") if runs else (0, "pass")), (
        job.ended.err
    )
    (comment,) = comments(fake)
    said = (
        f"Not run: nothing that the suite depends on has changed ({len(changed)} other files did)"
    )
    assert (
        (said in comment.body)
        == (said in job.summary)
        == (said.lower() in job.ended.out.lower())
        == (not runs)
    )
    assert job.results.exists() == runs


async def test_what_is_not_known_to_be_unchanged_is_run(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong=("river",), skip_unchanged=True)
    unknown = await repository.pull_request(RED, "--comment", "off")
    assert unknown.ended.code == 1
    assert (
        "::warning title=ci-evals::geography runs although it has `skip_unchanged`: the changed"
        in unknown.ended.out
    )
    fake.state.add_history(BASE, RED)
    fake.state.changed[RED] = tuple(f"docs/{number}.md" for number in range(300))
    many = await repository.pull_request(RED, "--comment", "off")
    assert many.ended.code == 1
    assert "GitHub lists no more than 300 changed files" in many.ended.out
    fake.state.changed[RED] = ()
    push = await repository.push(RED, before=BASE)
    assert (push.ended.code, push.report["totals"]["planned"]) == (1, 20), (
        "a push makes the next baseline"
    )


async def test_shards_and_their_merge_are_skipped_alike(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    fake.state.changed[RED] = ("README.md",)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(skip_unchanged=True)
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    shard = await repository.pull_request(RED, "--shard", "1/2", run=run)
    assert (shard.ended.code, comments(fake)) == (0, [])
    merged = await repository.pull_request(RED, "merge", run=run)
    assert (merged.ended.code, merged.outputs["verdict"]) == (0, "pass"), merged.ended.err
    (comment,) = comments(fake)
    assert "### ✅ Not run: nothing that the suite depends on has changed" in comment.body
    event = {"merge_group": {"head_sha": RED, "base_sha": BASE, "base_ref": "refs/heads/main"}}
    queued = await repository.job("merge_group", event, run)
    assert (queued.ended.code, queued.results.exists()) == (0, False)


async def test_the_comment_can_say_that_a_run_is_under_way(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    job = await repository.pull_request(RED, "--comment-progress")
    assert job.ended.code == 0
    (comment,) = comments(fake)
    assert len(comment.versions) > 1
    assert "✅" in comment.body


# Forks.

READ_ONLY = "ghs_readonly0123456789abcdefghijklmnop"


def needs_a_key(repository: Repository, url: str = "http://127.0.0.1:9", *more: str) -> None:
    """A suite of a model that cannot be called without a secret, with further cases."""
    provider = chat(url, "model", api_key="${AGENT_KEY}")
    repository.suite(cases=("capital", "river", *more), providers=[provider])


async def answer(request: web.Request) -> web.StreamResponse:
    question = (await request.json())["messages"][-1]["content"]
    return web.Response(body=completion(f"the {question}"), content_type="application/json")


async def fork_run(repository: Repository, *arguments: str, **changes: str) -> Job:
    repository.fake.state.tokens[READ_ONLY] = Token(may_comment=False)
    open_pull(
        repository.fake, head_sha=RED, base_sha=BASE, head_repository=FORK, head_ref="feature"
    )
    run = repository.fake.state.add_run(
        RED, head_branch="feature", head_repository=FORK, event="pull_request"
    )
    environ = {"GITHUB_TOKEN": READ_ONLY, "AGENT_KEY": "", **changes}
    job = await repository.pull_request(RED, *arguments, run=run, **environ)
    if job.results.exists():
        repository.upload(job, run)
    return job


async def test_a_fork_is_answered_from_the_base_branch_and_commented_on_from_its_artifact(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    async with serving() as server:
        server.answers(answer)
        needs_a_key(repository, server.url)
        recorded = await repository.push(BASE, AGENT_KEY="a-key-of-the-agent")
        assert recorded.ended.code == 0, recorded.ended.out
        asked = len(server.seen)
        needs_a_key(repository, server.url, "poem")
        job = await fork_run(repository)
        assert len(server.seen) == asked
    totals = job.report["totals"]
    assert (totals["passed"], totals["errored"]) == (10, 5)  # the new case could not be checked
    assert job.ended.code == 3
    assert "not in the recording" in job.summary
    assert "::warning title=ci-evals::no comment was posted" in job.ended.out
    assert (job.results / "comment.md").read_text()
    assert comments(fake) == []

    run = max(fake.state.runs)
    environ = repository.environment("workflow_run", {}, fake.state.runs[run], repository.folder)
    posted = await ci_evals(
        repository.folder, "comment", "--from-run", str(run), environ=environ, constants=SETTLED
    )
    assert posted.code == 0, posted.err
    (comment,) = comments(fake)
    assert "### ⚠️ " in comment.body


@pytest.mark.parametrize(
    ("event", "code"), [("issue_comment", 0), ("repository_dispatch", 0), ("workflow_dispatch", 1)]
)
async def test_a_run_by_slash_command_is_neither_baseline_nor_recording(
    repository: Repository, fake: FakeGitHub, event: str, code: int
) -> None:
    """It runs under main's name and commit but evaluates a pull request; main's own runs count."""
    fake.state.add_history(BASE, RED)
    async with serving() as server:
        server.answers(answer)
        needs_a_key(repository, server.url)
        recorded = await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
        assert recorded.ended.code == 0, recorded.ended.err

        async def wrong(request: web.Request) -> web.StreamResponse:
            river = "river" in (await request.json())["messages"][-1]["content"]
            return web.Response(body=completion("no idea")) if river else await answer(request)

        server.answers(wrong)
        run = fake.state.add_run(BASE, event=event)
        changes = {"GITHUB_REF": "refs/heads/main", "AGENT_KEY": "secret-of-the-agent"}
        other = await repository.job(event, {}, run, "--baseline", "none", **changes)
        assert (other.ended.code, other.report["suite"]["revision"]) == (1, BASE)
        repository.upload(other, run)
        asked = len(server.seen)

        job = await fork_run(repository, "--comment", "off")
        assert len(server.seen) == asked
    (baseline,) = job.report["comparison"]["baseline"]
    assert baseline["id"] == (other if code else recorded).report["id"]
    assert (job.report["totals"]["passed"], job.ended.code) == (5 if code else 10, code)


async def test_a_forks_shard_is_answered_from_what_the_base_branchs_merge_has_uploaded(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    async with serving() as server:
        server.answers(answer)
        needs_a_key(repository, server.url)
        await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
        asked = len(server.seen)
        job = await fork_run(repository, "--shard", "1/2", CI_EVALS_ARTIFACT="ci-evals-shard-1")
        assert len(server.seen) == asked
    assert job.ended.code == 0
    assert "recorded: 5 of 5 runs were recorded" in job.ended.err
    assert "::warning" not in job.ended.out


async def test_a_fork_without_any_recording_gets_no_verdict(repository: Repository) -> None:
    needs_a_key(repository)
    job = await fork_run(repository, "--comment", "off")
    assert job.ended.code == 3
    assert job.outputs["verdict"] == "error"
    assert "::warning title=ci-evals::no recording: " in job.ended.out
    assert "no answer is recorded" in job.summary
    assert "is new or has changed" not in job.summary


async def test_a_named_recording_that_is_not_there_is_a_warning(repository: Repository) -> None:
    needs_a_key(repository)
    job = await fork_run(repository, "--comment", "off", "--record", "gone.jsonl")
    assert (
        "::warning title=ci-evals::no recording is at gone.jsonl, which --record names; nothing"
        in job.ended.out
    )


async def test_a_missing_key_is_an_error_where_secrets_are_given(
    repository: Repository, fake: FakeGitHub
) -> None:
    needs_a_key(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED)
    assert job.ended.code == 2
    assert "AGENT_KEY is not set" in job.ended.err
    assert re.search(
        r"^::error file=evals.yaml,line=1,title=ci-evals::.*AGENT_KEY is not set",
        job.ended.err,
        re.MULTILINE,
    )
    assert job.outputs["verdict"] == "error"


async def test_an_error_that_ends_the_job_is_shown_and_handed_on(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    fake.state.files[BASE] = {"evals.baseline.json": b"{"}
    job = await repository.pull_request(RED)
    assert job.ended.code == 3
    (error,) = re.findall(r"^::error title=ci-evals::(.*)$", job.ended.err, re.MULTILINE)
    assert "is not a complete report of ci-evals" in error
    assert job.outputs["verdict"] == "error"


async def test_an_agent_that_ends_the_process_leaves_no_green_comment(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, GREEN, RED)
    pull = open_pull(fake, head_sha=GREEN, base_sha=BASE)
    repository.suite()
    await repository.pull_request(GREEN)
    (comment,) = comments(fake)
    assert "✅" in comment.body

    pull.head_sha = RED
    agent = "import os\ndef leave(question): os._exit(0)\n"
    (repository.folder / "agent.py").write_text(agent)
    repository.suite(providers=[{"name": "agent", "type": "python", "target": "agent:leave"}])
    job = await repository.pull_request(RED)
    assert job.ended.code == 3
    assert job.outputs["verdict"] == "error"
    (edited,) = comments(fake)
    assert edited.id == comment.id
    assert "✅" not in edited.body
    for text in (edited.body, job.summary):
        assert "before it gave a verdict" in text


async def test_a_command_line_that_is_wrong_is_shown_and_handed_on(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED, "--fail-on", "100%")
    assert job.ended.code == 2
    assert (
        len(
            re.findall(
                r"^::error title=ci-evals::Invalid value.*'100%25'", job.ended.err, re.MULTILINE
            )
        )
        == 1
    )
    assert job.outputs["verdict"] == "error"


RIGHT_AGENT = """
import json, sys

def answer(text):
    return f"the {text}"

if __name__ == "__main__":
    print(answer(json.load(sys.stdin)["input"]))
"""
BROKEN_AGENT = """
import sys

def answer(text):
    raise SystemExit(1)

if __name__ == "__main__":
    sys.exit(1)
"""
NOT_CHECKED = "not checked: this pull request's agent was not run, for lack of secrets"
HEADLINE = NOT_CHECKED.capitalize()
COMMAND = {"name": "agent", "type": "command", "command": [sys.executable, "agent.py"]}
WITH_KEY = {"env": {"AGENT_KEY": "${AGENT_KEY}"}}


def shown(markdown: str) -> str:
    """Markdown as it is read."""
    return html.unescape(markdown).replace("\u00a0", " ")


def agent_suite(
    repository: Repository, agent: str, *providers: dict[str, Any], **settings: Any
) -> None:
    """A suite that runs the repository's own agent."""
    (repository.folder / "agent.py").write_text(agent)
    repository.suite(cases=("capital", "river"), providers=list(providers), **settings)


@pytest.fixture
async def model() -> AsyncIterator[FakeServer]:
    """A model API that answers rightly."""
    async with serving() as server:
        server.answers(answer)
        yield server


def model_api(server: FakeServer, **options: Any) -> dict[str, Any]:
    return chat(server.url, "model", api_key="${AGENT_KEY}", **options)


async def test_a_changed_agent_in_a_fork_has_no_verdict(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    agent_suite(repository, RIGHT_AGENT, COMMAND | WITH_KEY)
    recorded = await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    assert (recorded.ended.code, recorded.outputs["verdict"]) == (0, "pass"), recorded.ended.err

    agent_suite(repository, BROKEN_AGENT, COMMAND | WITH_KEY)
    job = await fork_run(repository)
    assert (job.ended.code, job.outputs["verdict"]) == (3, "error")
    assert shown(job.summary).startswith(f"## ⚠️ {HEADLINE}\n")
    assert "push it to a branch of this repository" in job.summary
    assert f"::error title=Not checked::{NOT_CHECKED}%0ATo check it, a maintainer" in job.ended.out
    assert job.ended.out.splitlines()[-1] == f"NO VERDICT: {NOT_CHECKED}"
    assert "✅" not in job.summary + job.ended.out

    run = fake.state.runs[max(fake.state.runs)]
    environ = repository.environment("workflow_run", {}, run, repository.folder)
    posted = await ci_evals(
        repository.folder, "comment", "--from-run", str(run.id), environ=environ, constants=SETTLED
    )
    assert posted.code == 0, posted.err
    (comment,) = comments(fake)
    assert f"⚠️ {HEADLINE}" in shown(comment.body)
    assert "push it to a branch of this repository" in comment.body


async def test_a_comparison_of_an_unchecked_report_has_no_verdict(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    agent_suite(repository, RIGHT_AGENT, COMMAND | WITH_KEY)
    recorded = await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    job = await fork_run(repository, "--comment", "off")
    compared = await ci_evals(repository.folder, "compare", str(recorded.results), str(job.results))
    assert compared.code == 3
    assert NOT_CHECKED in compared.out


async def test_a_suite_may_ask_only_to_be_told_that_nothing_was_checked(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    gate = {"on_unchecked": "warn"}
    agent_suite(repository, RIGHT_AGENT, COMMAND | WITH_KEY, gate=gate)
    await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    job = await fork_run(repository, "--comment", "off")
    assert (job.ended.code, job.outputs["verdict"]) == (0, "error")
    assert f"::warning title=Not checked::{NOT_CHECKED}" in job.ended.out
    assert HEADLINE in shown(job.summary)

    agent_suite(repository, BROKEN_AGENT, COMMAND, gate=gate)
    checked = await fork_run(repository, "--comment", "off")
    assert (checked.ended.code, checked.outputs["verdict"]) == (1, "fail")


@pytest.mark.parametrize("agent", [RIGHT_AGENT, BROKEN_AGENT])
async def test_an_agent_that_needs_no_key_is_run_and_judged_in_a_fork(
    agent: str, repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    agent_suite(repository, RIGHT_AGENT, COMMAND)
    await repository.push(BASE)
    agent_suite(repository, agent, COMMAND)
    job = await fork_run(repository, "--comment", "off")
    code, verdict, headline = (
        (0, "pass", "## ✅ ") if agent == RIGHT_AGENT else (1, "fail", "## ❌ ")
    )
    assert (job.ended.code, job.outputs["verdict"]) == (code, verdict)
    assert job.summary.startswith(headline)
    assert job.report["totals"]["recorded"] == 0


async def test_a_recording_of_a_model_proves_that_prompts_and_cases_are_unchanged(
    repository: Repository, fake: FakeGitHub, model: FakeServer
) -> None:
    fake.state.add_history(BASE, RED)
    agent_suite(repository, RIGHT_AGENT, model_api(model))
    await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    asked = len(model.seen)
    job = await fork_run(repository, "--comment", "off")
    assert (job.ended.code, job.outputs["verdict"], len(model.seen)) == (0, "pass", asked)
    first, _, rest = shown(job.summary).partition("\n\n")
    assert first.endswith("✅ Prompts and cases are unchanged, and no model was called")
    assert rest.startswith("Their recorded answers: 10 of 10 runs passed\n")


@pytest.mark.parametrize("part", ["python", "stage"])
async def test_own_code_beside_a_model_that_needs_a_key_is_unchecked_too(
    part: str, repository: Repository, fake: FakeGitHub, model: FakeServer
) -> None:
    fake.state.add_history(BASE, RED)
    plain = model_api(model)
    own = {"name": "agent", "type": "python", "target": "agent:answer"}
    providers = (
        [plain, own]
        if part == "python"
        else [plain, {**plain, "name": "agent", "after": ["agent:answer"]}]
    )
    agent_suite(repository, RIGHT_AGENT, *providers)
    recorded = await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    assert recorded.ended.code == 0, recorded.ended.out
    agent_suite(repository, BROKEN_AGENT, *providers)
    job = await fork_run(repository, "--comment", "off")
    assert (job.ended.code, job.outputs["verdict"]) == (3, "error")
    assert HEADLINE.replace("agent was", "agent (agent) was") in shown(job.summary)


async def test_a_recording_that_a_workflow_names_itself_checks_no_own_code_either(
    repository: Repository,
) -> None:
    agent_suite(repository, RIGHT_AGENT, COMMAND | WITH_KEY)
    recorded = await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    journal = str(recorded.results / "results.jsonl")
    job = await fork_run(repository, "--comment", "off", "--replay", journal, "--replay-only")
    assert (job.ended.code, job.outputs["verdict"]) == (3, "error")
    assert (
        "not checked: your own code was not run, only a recording of it was graded" in job.ended.out
    )


async def test_a_later_attempt_with_secrets_runs_what_only_a_recording_had_answered(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    agent_suite(repository, RIGHT_AGENT, COMMAND | WITH_KEY)
    await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    agent_suite(repository, BROKEN_AGENT, COMMAND | WITH_KEY)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    of_bot = {"GITHUB_ACTOR": "dependabot[bot]", "CI_EVALS_COMMENT": "off"}
    first = await repository.pull_request(RED, run=run, **of_bot)
    assert (first.ended.code, first.outputs["verdict"]) == (3, "error")
    repository.upload(first, run)
    later = {**of_bot, "GITHUB_RUN_ATTEMPT": "2", "AGENT_KEY": "secret-of-the-agent"}
    second = await repository.pull_request(RED, run=run, **later)
    assert (second.ended.code, second.outputs["verdict"]) == (1, "fail")
    assert second.report["totals"]["recorded"] == 0


@pytest.mark.parametrize("arguments", [(), ("--run-missing",)])
async def test_the_merge_of_a_forks_shards_has_no_verdict_either(
    arguments: tuple[str, ...], repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BASE, RED)
    agent_suite(repository, RIGHT_AGENT, COMMAND | WITH_KEY)
    await repository.push(BASE, AGENT_KEY="secret-of-the-agent")
    agent_suite(repository, BROKEN_AGENT, COMMAND | WITH_KEY)
    shards = [
        await fork_run(repository, "--shard", f"{number}/2", CI_EVALS_ARTIFACT=f"shard-{number}")
        for number in (1, 2)
    ]
    assert [job.ended.code for job in shards] == [0, 0]
    merged = await fork_run(
        repository,
        "merge",
        *(str(job.results) for job in shards),
        *arguments,
        CI_EVALS_COMMENT="off",
    )
    assert (merged.ended.code, merged.outputs["verdict"]) == (3, "error")
    assert HEADLINE in shown(merged.summary)


# Suites that are broken.

TYPO = {"id": "typo", "input": "x", "expect": [{"contians": "x"}]}


def broken_suite(repository: Repository, number: int = 1) -> None:
    """A suite with so many problems, one case to the line from line 4 on."""
    cases = "".join(f"  - {json.dumps({**TYPO, 'id': f'typo-{each}'})}\n" for each in range(number))
    text = f"name: geography\nproviders: [{{type: mock}}]\ncases:\n{cases}"
    (repository.folder / "evals.yaml").write_text(text)


async def test_a_suite_that_breaks_replaces_what_the_comment_said_and_is_replaced_when_it_is_mended(
    repository: Repository, fake: FakeGitHub
) -> None:
    pull = open_pull(fake, head_sha=OLDER, base_sha=BASE)
    repository.suite()
    run = fake.state.add_run(OLDER, head_branch="feature", event="pull_request")
    other = await repository.pull_request(OLDER, run=run, CI_EVALS_ARTIFACT="ci-evals-other")
    green = await repository.pull_request(OLDER, run=run)
    assert [job.outputs["verdict"] for job in (other, green)] == ["pass", "pass"]

    pull.head_sha = RED
    broken_suite(repository)
    red = await repository.pull_request(RED)
    assert (red.ended.code, red.outputs["verdict"]) == (2, "error")
    headline, problem = (
        "⚠️ The suite is broken (1 problem), and nothing was run",
        "unknown grader 'contians'",
    )
    (comment,) = comments(fake)
    assert comment.body.count("### ✅") == 1, "the section of the other job"
    for text in (comment.body, red.summary):
        assert headline in text
        assert "- <code>evals.yaml:4</code>" in text
        assert problem in shown(text)
    assert red.outputs["comment-url"].endswith(f"#issuecomment-{comment.id}")
    (error,) = re.findall(
        r"^::error file=evals.yaml,line=4,title=ci-evals::(.*)$", red.ended.err, re.MULTILINE
    )
    assert problem in error

    pull.head_sha = GREEN
    repository.suite()
    mended = await repository.pull_request(GREEN)
    assert mended.ended.code == 0
    (comment,) = comments(fake)
    assert "⚠️" not in comment.body
    assert "✅" in comment.body


async def test_the_comment_lists_ten_problems_and_counts_the_others(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    broken_suite(repository, 14)
    job = await repository.pull_request(RED)
    (comment,) = comments(fake)
    for text in (comment.body, job.summary):
        assert "The suite is broken (14 problems)" in text
        assert re.findall(r"^- <code>evals.yaml:(\d+)</code>", text, re.MULTILINE) == [
            str(n) for n in range(4, 14)
        ]
        assert "- … and 4 more problems, see the log" in text
    errors = re.findall(r"^::error.*", job.ended.err, re.MULTILINE)
    assert (len(errors), errors[-1]) == (10, "::error::5 more are not shown here; the log has them")


async def test_an_agent_that_cannot_be_imported_leaves_no_comment_that_says_running(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    (repository.folder / "agent.py").write_text(
        "import os\nraise ValueError(os.environ['AGENT_TOKEN'])\ndef answer(text): ..."
    )
    repository.suite(providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    job = await repository.pull_request(RED, "--comment-progress", AGENT_TOKEN="one-two-three-four")
    assert (job.ended.code, job.outputs["verdict"]) == (2, "error")
    (comment,) = comments(fake)
    assert "Running" not in comment.body
    assert "ValueError: ***" in shown(comment.body)
    assert "one-two-three-four" not in comment.body + job.summary + job.ended.err


async def test_a_shard_with_a_broken_suite_leaves_the_comment_to_the_merge(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    broken_suite(repository)
    shard = await repository.pull_request(
        RED, "--shard", "1/2", CI_EVALS_ARTIFACT="ci-evals-shard-1"
    )
    assert shard.ended.code == 2
    assert "The suite is broken" in shard.summary
    assert comments(fake) == []
    merge = await repository.pull_request(RED, "merge")
    assert merge.ended.code == 2
    (comment,) = comments(fake)
    assert "The suite is broken" in comment.body


async def test_a_merge_without_shards_says_so_in_the_comment(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    merge = await repository.pull_request(RED, "merge")
    assert (merge.ended.code, merge.outputs["verdict"]) == (3, "error")
    (comment,) = comments(fake)
    assert "⚠️ There is nothing to merge" in comment.body
    assert "There is nothing to merge" in merge.summary


@pytest.mark.parametrize(
    ("arguments", "changes", "said"),
    [
        (["--runs", "abc"], {}, "'--runs': 'abc' is not"),
        (["--no-such-option"], {}, "No such option"),
        (["--baseline", "missing.json"], {}, "there is no file missing.json"),
        ([], {"CI_EVALS_RUNS": "abc"}, "CI_EVALS_RUNS"),
        (["nowhere.yaml"], {}, "nowhere.yaml"),
    ],
)
async def test_a_wrong_command_line_replaces_the_verdict_of_the_last_push(
    repository: Repository,
    fake: FakeGitHub,
    arguments: list[str],
    changes: dict[str, str],
    said: str,
) -> None:
    open_pull(fake, head_sha=GREEN, base_sha=BASE)
    repository.suite()
    green = await repository.pull_request(GREEN)
    assert green.ended.code == 0
    open_pull(fake, head_sha=RED, base_sha=BASE)
    shard = await repository.pull_request(RED, "--shard", "1/2", *arguments, run=None, **changes)
    assert shard.ended.code == 2
    assert "✅" in comments(fake)[0].body, "its verdict is left to the merge"
    job = await repository.pull_request(RED, *arguments, run=None, **changes)
    assert (job.ended.code, job.outputs["verdict"]) == (2, "error")
    (comment,) = comments(fake)
    assert "✅" not in comment.body
    assert "⚠️" in comment.body
    text = html.unescape(re.sub(r"</?code>|`", "", comment.body))
    assert said.replace("'", "") in text.replace("'", "")
    assert "⚠️" in job.summary


async def test_a_results_folder_that_is_removed_replaces_the_verdict_of_the_last_push(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=GREEN, base_sha=BASE)
    repository.suite()
    assert (await repository.pull_request(GREEN)).ended.code == 0
    open_pull(fake, head_sha=RED, base_sha=BASE)
    (repository.folder / "agent.py").write_text(
        "import pathlib, shutil\n"
        "def answer(question):\n"
        "    for out in pathlib.Path().glob('ci-evals-results-*'):\n"
        "        shutil.rmtree(out)\n"
        "    return question\n"
    )
    case = {"id": "hello", "input": "hello", "expect": [{"contains": "hello"}]}
    write_suite(repository.folder, [case], providers=[AGENT], name="geography")
    job = await repository.pull_request(RED)
    assert (job.ended.code, job.outputs["verdict"]) == (3, "error"), job.ended.err
    assert "This is a bug" not in job.ended.err
    assert "results.jsonl: something removed it while the suite ran" in job.ended.err
    (comment,) = comments(fake)
    assert "✅" not in comment.body
    assert "removed it while the suite ran" in comment.body


async def test_a_token_that_may_not_comment_on_a_broken_suite_is_a_warning(
    repository: Repository, fake: FakeGitHub
) -> None:
    broken_suite(repository)
    job = await fork_run(repository)
    assert job.ended.code == 2
    assert "The suite is broken" in job.summary
    assert (
        "::warning title=ci-evals::no comment was posted: the token may not comment"
        in job.ended.err
    )


# The code under test.

OF_THE_JOB = {
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "id-token",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "http://127.0.0.1:9",
    "ACTIONS_RUNTIME_TOKEN": "runtime-token",
    "GH_TOKEN": "another-token",
    "GITHUB_ENV": "env",
    "GITHUB_PATH": "path",
    "GITHUB_STATE": "state",
}
"""What a runner and a step's `env` may set, apart from what every job of these tests has."""

SPY = """
import json, os, pathlib, sys

def note(part):
    with pathlib.Path(__file__).with_name(f"seen-by-{part}").open("a") as file:
        print(json.dumps(dict(os.environ)), file=file)

def answer(text):
    note("call")
    return text

def stage(text):
    note("stage")
    return text

def grade(answer):
    note("grader")
    return True

note("import")
if __name__ == "__main__":
    note("program")
    print("hello")
"""


def spying_suite(repository: Repository, **env: str) -> None:
    """A suite all of whose parts write down what is in their environment."""
    (repository.folder / "spy.py").write_text(SPY)
    providers = [
        {"name": "agent", "type": "python", "target": "spy:answer", "before": ["spy:stage"]},
        {"name": "program", "type": "command", "command": [sys.executable, "spy.py"], "env": env},
    ]
    cases = [
        {
            "id": "greeting",
            "input": "hello",
            "expect": [{"contains": "hello"}, {"python": "spy:grade"}],
        }
    ]
    write_suite(repository.folder, cases, providers=providers)


def seen_by(repository: Repository) -> dict[str, list[dict[str, str]]]:
    """The environments that each part of the code under test had."""
    found = repository.folder.glob("seen-by-*")
    return {
        path.name.removeprefix("seen-by-"): [
            json.loads(line) for line in path.read_text().splitlines()
        ]
        for path in found
    }


async def test_code_under_test_sees_neither_the_jobs_tokens_nor_the_files_that_steer_it(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    spying_suite(repository)
    job = await repository.pull_request(RED, run=None, **OF_THE_JOB)
    assert job.ended.code == 0, job.ended.err
    seen = seen_by(repository)
    assert seen.keys() == {"import", "call", "stage", "grader", "program"}
    withheld = {*OF_THE_JOB, "GITHUB_TOKEN", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}
    for part, environments in seen.items():
        assert [
            withheld & environ.keys() for environ in environments if withheld & environ.keys()
        ] == [], part
        assert all(environ["GITHUB_REPOSITORY"] for environ in environments)
    # ci-evals itself has them all the same.
    assert (job.outputs["verdict"], len(comments(fake))) == ("pass", 1)
    assert "## ✅ " in job.summary


async def test_a_suite_that_names_the_token_gets_it(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    spying_suite(repository, GITHUB_TOKEN="${GITHUB_TOKEN}")
    job = await repository.pull_request(RED, "--providers", "program", "--comment", "off")
    assert job.ended.code == 0, job.ended.err
    (program,) = seen_by(repository)["program"]
    assert program["GITHUB_TOKEN"] == TOKEN


async def test_a_model_api_that_takes_the_jobs_token_gets_it(repository: Repository) -> None:
    async with serving() as server:
        server.answers(Scripted(completion("hello")))
        write_suite(repository.folder, providers=[chat(server.url, api_key="${GITHUB_TOKEN}")])
        job = await repository.push(BASE)
        assert job.ended.code == 0, job.ended.err
        assert server.seen[0].headers["Authorization"] == f"Bearer {TOKEN}"


async def test_outside_of_github_actions_the_environment_stays_as_it_is(
    repository: Repository,
) -> None:
    spying_suite(repository)
    job = await repository.push(BASE, "--providers", "program", GITHUB_ACTIONS="", **OF_THE_JOB)
    assert job.ended.code == 0, job.ended.err
    (program,) = seen_by(repository)["program"]
    assert OF_THE_JOB.items() <= program.items()


# Shards.


async def test_shards_are_merged_into_one_verdict_and_one_comment(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong=("river",))
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    shards = [
        await repository.pull_request(
            RED, "--shard", f"{number}/2", run=run, CI_EVALS_ARTIFACT=f"shard-{number}"
        )
        for number in (1, 2)
    ]
    assert [(job.ended.code, job.outputs.get("verdict")) for job in shards] == [
        (0, None),
        (0, None),
    ]
    assert all("compared with main at bbbbbbb (the merge base)" in job.ended.out for job in shards)
    assert (
        sum("confirming 1 suspect with 4 more runs each: river" in job.ended.err for job in shards)
        == 1
    )
    assert fake.asked("POST") == []
    folders = [str(job.results) for job in shards]
    merged = await repository.pull_request(RED, "merge", *folders, run=run)
    assert (merged.ended.code, merged.outputs["regressions"]) == (1, "1")
    (comment,) = comments(fake)
    assert "river" in comment.body


# Where GitHub is of no help.


@pytest.mark.parametrize("wrong", [(), ("river",)])
async def test_without_a_token_the_evals_decide(
    wrong: tuple[str, ...], repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong)
    job = await repository.pull_request(RED, GITHUB_TOKEN="")
    assert job.ended.code == len(wrong)
    assert "::warning title=ci-evals::no baseline: GITHUB_TOKEN is not set" in job.ended.out
    assert (
        "::warning title=ci-evals::no comment was posted: GITHUB_TOKEN is not set" in job.ended.out
    )
    assert fake.calls == []


@pytest.mark.slow  # waits for GitHub to come back, twice
@pytest.mark.parametrize(
    ("wrong", "url", "reason"),
    [
        ((), "http://127.0.0.1:9", "no answer from 127.0.0.1"),
        (("river",), "", '127.0.0.1 answered 503: {"message": "Unicorn!"'),
    ],
)
async def test_while_github_is_down_the_evals_decide(
    wrong: tuple[str, ...], url: str, reason: str, repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong)
    fake.fails(*[Fault(lambda _method, _path: True, 503, message="Unicorn!")] * 100)
    job = await repository.pull_request(RED, GITHUB_API_URL=url or fake.api_url)
    assert job.ended.code == len(wrong)
    for what in ("no baseline", "no comment was posted"):
        assert f"::warning title=ci-evals::{what}: {reason}" in job.ended.out
    assert (job.results / "comment.md").exists()


async def test_github_is_called_through_the_proxy_of_the_environment(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite()
    open_pull(fake, head_sha=RED, base_sha=BASE)
    async with serving() as proxy:
        proxy.answers(Scripted({"message": "Not Found"}, 404))
        job = await repository.pull_request(
            RED, GITHUB_API_URL="http://github.example", ALL_PROXY=proxy.url
        )
        assert "GitHub answered 404: Not Found" in job.ended.out
        asked = len(proxy.seen)
        assert asked
        assert {URL(each.path).host for each in proxy.seen} == {"github.example"}
        job = await repository.pull_request(RED, ALL_PROXY=proxy.url, NO_PROXY="127.0.0.1")
        assert (job.ended.code, len(proxy.seen)) == (0, asked)
    job = await repository.pull_request(RED, ALL_PROXY="socks5://team:sk-12345@127.0.0.1:1080")
    assert "no baseline: ALL_PROXY is not the URL of an HTTP proxy" in job.ended.out
    assert job.outputs["verdict"] == "borderline"
    assert "sk-12345" not in job.ended.out + job.ended.err


async def test_a_locked_pull_request_is_a_warning_that_says_so(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    locked = "Unable to create comment because issue is locked."
    fake.fails(Fault(lambda method, _path: method == "POST", 403, message=locked))
    job = await repository.pull_request(RED)
    assert job.ended.code == 0
    warning = "no comment was posted: pull request 7 is locked: unlock its conversation"
    assert f"::warning title=ci-evals::{warning}\n" in job.ended.out


async def test_a_token_that_may_not_read_artifacts_is_a_warning(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    fake.state.tokens[READ_ONLY] = Token(may_read_actions=False)
    job = await repository.pull_request(RED, "--comment", "off", GITHUB_TOKEN=READ_ONLY)
    assert job.ended.code == 0
    (refused,) = re.findall(
        r"^::warning title=ci-evals::(no baseline: .*)$", job.ended.out, re.MULTILINE
    )
    assert "actions: read" in refused


async def test_that_there_is_no_artifact_yet_is_no_warning(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    job = await repository.pull_request(RED, "--comment", "off")
    assert "the first run on main makes one" in job.ended.out
    assert "::warning" not in job.ended.out


async def test_a_token_that_is_refused_leaves_the_verdict_alone(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong=("river",))
    job = await repository.pull_request(RED, GITHUB_TOKEN="ghs_wrong0123456789abcdefghijklmnopqr")
    assert job.ended.code == 1
    (refused,) = re.findall(
        r"^::warning title=ci-evals::(no baseline: .*)$", job.ended.out, re.MULTILINE
    )
    assert "Bad credentials" in refused
    lines = (job.ended.out + job.ended.err).splitlines()
    shown = [line for line in lines if not line.startswith("::add-mask::")]  # the runner's own
    assert "ghs_wrong" not in "\n".join(shown)


# What the gate and the baseline can be told.


async def test_a_committed_baseline_is_taken_where_there_is_no_other(
    repository: Repository, fake: FakeGitHub
) -> None:
    report = await main_run(repository)
    fake.state.artifacts.clear()
    fake.state.files[BASE] = {"evals.baseline.json": json.dumps(report.report).encode()}
    repository.suite(wrong=("river",))
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED, "--comment", "off")
    assert job.outputs["regressions"] == "1"
    assert "compared with evals.baseline.json at bbbbbbb" in job.ended.out


async def test_a_pull_requests_own_committed_baseline_is_not_believed(
    repository: Repository, fake: FakeGitHub
) -> None:
    report = await main_run(repository)
    fake.state.artifacts.clear()
    (repository.folder / "evals.baseline.json").write_text(json.dumps(report.report))
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED, "--comment", "off")
    assert job.outputs["regressions"] == ""
    assert "no baseline: there is no artifact 'ci-evals-results' yet" in job.ended.out


async def test_a_committed_baseline_that_github_does_not_give_out_is_a_warning(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite()
    open_pull(fake, head_sha=RED, base_sha=BASE)
    fake.fails(Fault(lambda _method, path: "/contents/" in path, 403))
    job = await repository.pull_request(RED, "--comment", "off")
    assert (job.ended.code, job.outputs["verdict"]) == (0, "borderline")
    assert "evals.baseline.json of the base branch cannot be read" in job.ended.out


@pytest.mark.parametrize(("arguments", "code"), [(("--fail-on", "never"), 0), ((), 1)])
async def test_what_fails_is_up_to_fail_on(
    arguments: tuple[str, ...], code: int, repository: Repository
) -> None:
    repository.suite(wrong=("river",))
    job = await repository.push(BASE, *arguments)
    assert (job.ended.code, job.outputs["verdict"]) == (code, "fail")


async def test_a_report_of_another_suite_is_no_baseline(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    repository.suite(name="history")
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED, "--comment", "off")
    assert job.outputs["regressions"] == ""
    assert job.outputs["verdict"] == "borderline"
    (headline,) = re.findall("^BORDERLINE: (.*)$", job.ended.out, re.MULTILINE)
    assert headline == (
        "no baseline: main has no report of this suite, only of geography, which was not run here"
    )


@pytest.mark.parametrize(
    ("required", "code", "verdict"), [(False, 0, "borderline"), ("expected", 3, "error")]
)
@pytest.mark.parametrize("event", ["not there", "damaged"])
async def test_a_pull_request_whose_event_cannot_be_read_is_not_green(
    event: str, required: bool | str, code: int, verdict: str, repository: Repository
) -> None:
    report = await main_run(repository)
    repository.suite(gate={"require_baseline": required})
    # The change could bring a baseline of its own.
    (repository.folder / "evals.baseline.json").write_text(json.dumps(report.report))
    open_pull(repository.fake, head_sha=RED, base_sha=BASE)
    path = repository.folder / "event.json"
    if event == "damaged":
        path.write_text('{"pull_request": {"number": ')
    job = await repository.pull_request(RED, GITHUB_EVENT_PATH=str(path))
    assert (job.ended.code, job.outputs["verdict"]) == (code, verdict), job.ended
    (headline,) = re.findall("^(?:BORDERLINE|NO VERDICT): (.*)$", job.ended.out, re.MULTILINE)
    assert headline.startswith("no baseline: the event file ")
    assert "::warning title=ci-evals::no comment was posted: the event file " in job.ended.out


async def test_a_renamed_suite_with_an_easier_bar_is_not_green(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE)
    repository.suite(gate={"min_pass_rate": 0.9})
    await repository.push(BASE, before=OLDER)
    repository.suite(wrong=("river",), name="earth", gate={"min_pass_rate": 0.5})
    open_pull(fake, head_sha=RED, base_sha=BASE)
    await repository.pull_request(RED)
    (comment,) = comments(fake)
    assert "### 🟡 No baseline: main has no report of this suite, only of" in comment.body
    assert "✅" not in comment.body


@pytest.mark.parametrize("status", [403, 404, 429, 502])
async def test_a_baseline_that_cannot_be_looked_up_stands_in_the_headline(
    repository: Repository, fake: FakeGitHub, status: int
) -> None:
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.constants = {**SETTLED, "ci_evals.plugins.github.baseline.PATIENCE_S": 0.0}
    fake.fails(Fault(lambda _method, path: path.endswith("/actions/artifacts"), status))
    job = await repository.pull_request(RED)
    assert (job.ended.code, job.outputs["verdict"]) == (0, "borderline")
    (comment,) = comments(fake)
    assert "### 🟡 No baseline: " in comment.body


async def test_an_expired_baseline_stands_in_the_headline_and_may_be_required(
    repository: Repository, fake: FakeGitHub
) -> None:
    await main_run(repository)
    for artifact in fake.state.artifacts.values():
        artifact.expired = True
    pull = open_pull(fake, head_sha=RED, base_sha=BASE)
    await repository.pull_request(RED)
    (comment,) = comments(fake)
    assert "### 🟡 No baseline: every artifact" in comment.body

    pull.head_sha = GREEN
    repository.suite(gate={"require_baseline": "expected"})
    required = await repository.pull_request(GREEN)
    assert (required.ended.code, required.outputs["verdict"]) == (3, "error")


async def test_a_pull_request_that_is_not_the_first_expects_a_baseline(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite(gate={"require_baseline": "expected"})
    pull = open_pull(fake, head_sha=RED, base_sha=BASE)
    run = fake.state.add_run(RED, head_branch=pull.head_ref, event="pull_request")
    first = await repository.pull_request(RED, "--comment", "off", run=run)
    repository.upload(first, run)
    pull.head_sha = GREEN
    again = await repository.pull_request(GREEN, "--comment", "off")
    assert (first.outputs["verdict"], again.outputs["verdict"]) == ("pass", "pass")

    open_pull(fake, head_sha=RED, base_sha=BASE, head_ref="another")
    second = await repository.pull_request(RED, "--comment", "off")
    assert (second.ended.code, second.outputs["verdict"]) == (3, "error")
    assert "no run of main itself has left an artifact" in second.ended.out


async def test_a_suite_that_main_has_and_the_change_has_not_is_named(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE)
    evals = repository.folder / "evals"
    evals.mkdir()
    for name in ("rivers", "towns", "lakes"):
        repository.suite(name=name)
        (repository.folder / "evals.yaml").rename(evals / f"{name}.yaml")
    main = await repository.push(BASE, "evals", before=OLDER)
    assert main.ended.code == 0, main.ended.err
    open_pull(fake, head_sha=RED, base_sha=BASE)
    (evals / "towns.yaml").unlink()
    job = await repository.pull_request(RED, "evals/lakes.yaml", "evals/rivers.yaml")
    (comment,) = comments(fake)
    said = "The suite towns of main is gone, so nothing is compared with it"
    assert comment.body.count(said) == 1, "in the section of one suite"
    assert job.outputs["verdict"] == "borderline"
    part = await repository.pull_request(RED, "evals/lakes.yaml")
    assert "rivers" not in part.ended.out, "its file is there: it was only not asked for"


async def test_a_named_folder_without_a_baseline_is_a_warning(repository: Repository) -> None:
    repository.suite()
    job = await repository.push(BASE, "--baseline", "nowhere")
    assert job.ended.code == 0
    assert "::warning title=ci-evals::no baseline: there is no report at nowhere\n" in job.ended.out


async def test_none_of_this_happens_elsewhere(repository: Repository, fake: FakeGitHub) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    job = await repository.pull_request(RED, GITHUB_ACTIONS="")
    assert job.ended.code == 0
    assert fake.calls == []
    assert (job.outputs, job.summary) == ({}, "")
    assert "::" not in job.ended.out + job.ended.err
