"""A pull request without a report of main: main's code runs alongside, in the same job."""

import signal
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import jobs
import pytest
from fakes.github import TOKEN, FakeGitHub
from fakes.github_state import StoredRun
from processes import finished, start, until
from pulls import NUMBER, comments, open_pull
from repositories import (
    APPLE,
    BREAD,
    REAL,
    GitServer,
    Repository,
    agent_of,
    answers_in,
    curious_agent,
    results_in,
    running_in,
    serving_git,
)
from suites import AGENT, write_files, write_suite

CRITICAL = {**APPLE, "critical": True}
SHOP = {"name": "shop", "runs": 3, "providers": [AGENT]}
BASIC = b64encode(f"x-access-token:{TOKEN}".encode()).decode()
FORGETFUL = """
def answer(question):
    return "no idea" if question == "bread" else f"{question}, says the change"
"""
CURIOUS = curious_agent(
    (TOKEN, BASIC),
    ("GITHUB_TOKEN", "GITHUB_RUN_ID", "RUNNER_TEMP", "CI_EVALS_ARTIFACT", "GITHUB_SERVER_URL"),
    home="GITHUB_WORKSPACE",
)


class Checkout(jobs.Repository):
    """A real checkout, in which a job finds what its workflow has checked out."""

    def check_out(self, sha: str) -> None:
        """Leave what is checked out."""


class Story(NamedTuple):
    """A repository on the server in which main has moved on since a branch was made.

    Attributes:
        old: the commit of main that the branch was made from.
        main: the newest commit of main.
        head: the newest commit of the branch, which forgets bread.
        merge: the head merged into main, as GitHub makes it for a pull request.
        updated: main merged into the branch, by its author.
    """

    old: str
    main: str
    head: str
    merge: str
    updated: str


class Job:
    """A job of a workflow: its checkout is a shallow one of one commit."""

    def __init__(self, story: Story, folder: Path, fake: FakeGitHub, server: GitServer) -> None:
        self.story = story
        self.checkout = Checkout(folder, fake)
        self.fake = fake
        self.server = server
        self.state: Any = None

    def fetch(self, sha: str, depth: str = "1") -> None:
        """Check out a commit as `actions/checkout` does."""
        folder = self.checkout.folder
        bare = folder.parent / "server" / "acme" / "app.git"
        repository = Repository.new(folder)
        repository.git("fetch", "--quiet", f"--depth={depth}", f"file://{bare}", sha)
        repository.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
        ignored = ".runner-*\nci-evals-*\n__pycache__\n"
        (folder / ".git" / "info" / "exclude").write_text(ignored)
        self.state = repository.state

    async def leave_report_of_main(
        self, files: Mapping[str, str] = {}, code: int = 0, **changes: str
    ) -> None:
        """Run the evals of a push to main, with some files of the job's own."""
        self.fetch(self.story.main)
        write_files(self.checkout.folder, files)
        main = await self.checkout.push(self.story.main, before=self.story.old, **changes)
        assert main.ended.code == code, main.ended.err

    async def pull_request(
        self, head: str, *arguments: str, run: StoredRun | None = None, **changes: str
    ) -> jobs.Job:
        """Run the evals of a pull request."""
        changes = {"CI_EVALS_AGAINST": "", "GITHUB_SERVER_URL": self.server.url, **changes}
        job = await self.checkout.pull_request(head, *arguments, run=run, **changes)
        assert Repository(self.checkout.folder).state == self.state, "the checkout is untouched"
        assert "Traceback" not in job.ended.out + job.ended.err
        assert self.server.exposed == []
        return job


def tell_story(folder: Path, main_agent: str = agent_of("main"), **settings: Any) -> Story:
    """Make the repository on the server."""
    origin = Repository.new(folder / "origin")
    write_suite(origin.folder, **{"cases": [APPLE, BREAD], **SHOP, **settings})
    old = origin.commit({"agent.py": agent_of("old main")})
    origin.git("checkout", "--quiet", "-b", "feature")
    head = origin.commit({"agent.py": f"{FORGETFUL}# new"})
    origin.git("checkout", "--quiet", "main")
    main = origin.commit({"agent.py": main_agent})
    origin.git("checkout", "--quiet", "--detach", "main")
    origin.git("merge", "--quiet", "--no-ff", "--strategy-option=theirs", "feature")
    merge = origin.git("rev-parse", "HEAD")
    origin.git("checkout", "--quiet", "feature")
    origin.git("merge", "--quiet", "--no-ff", "--strategy-option=ours", "main")
    updated = origin.git("rev-parse", "HEAD")
    bare = folder / "server" / "acme" / "app.git"
    bare.parent.mkdir(parents=True)
    origin.git("update-ref", f"refs/pull/{NUMBER}/merge", merge)
    origin.git("clone", "--quiet", "--mirror", str(origin.folder), str(bare))
    return Story(old, main, head, merge, updated)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    async with serving_git(tmp_path / "server", f"Basic {BASIC}") as server:
        server.secrets = (TOKEN, BASIC)
        yield server


def open_job(
    tmp_path: Path,
    fake: FakeGitHub,
    server: GitServer,
    agent: str = agent_of("main"),
    **settings: Any,
) -> Job:
    """Make the repository, a pull request of its branch, and a job without a checkout."""
    story = tell_story(tmp_path, agent, **settings)
    fake.state.add_history(story.old, story.main)
    fake.state.parents[story.head] = story.old
    fake.state.parents[story.updated] = story.main
    open_pull(fake, head_sha=story.head, base_sha=story.main)
    return Job(story, tmp_path / "checkout", fake, server)


def answers_of_main(job: jobs.Job) -> frozenset[str]:
    return answers_in(job.results / "merge-base" / "main.jsonl")


OF_MAIN = frozenset({"apple, says main", "bread, says main"})


async def test_a_regression_is_named_though_main_has_left_no_report(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    ended = await job.pull_request(job.story.head, GITHUB_SHA=job.story.merge)
    assert ended.ended.code == 1, ended.ended.err
    assert (ended.outputs["verdict"], ended.outputs["regressions"]) == ("fail", "1")
    assert f"with main at {job.story.main[:7]}, which ran alongside" in ended.ended.out
    assert answers_of_main(ended) == OF_MAIN
    assert server.paths[0] == "/acme/app/info/refs"
    (comment,) = comments(fake)
    assert "bread" in comment.body
    assert "which ran alongside" in comment.body


async def test_mains_code_has_neither_the_token_nor_the_jobs_variables(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server, CURIOUS)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    ended = await job.pull_request(job.story.head, GITHUB_SHA=job.story.merge)
    assert answers_of_main(ended) == {
        "apple, finds [], is at home: True",
        "bread, finds [], is at home: True",
    }
    texts = [path.read_bytes() for path in job.checkout.folder.rglob(".git/*") if path.is_file()]
    texts += [path.read_bytes() for path in ended.results.rglob("*") if path.is_file()]
    assert not any(secret.encode() in text for secret in (TOKEN, BASIC) for text in texts)


async def test_an_authors_own_merge_of_main_does_not_choose_the_base(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    """The job has checked out the head, a merge whose first parent is the branch itself."""
    job = open_job(tmp_path, fake, server)
    fake.state.pulls[NUMBER].head_sha = job.story.updated
    job.fetch("feature")
    ended = await job.pull_request(job.story.updated)
    assert ended.ended.code == 1, ended.ended.err
    assert f"with main at {job.story.main[:7]}, which ran alongside" in ended.ended.out
    assert fake.asked("GET", f"compare/{job.story.main}...{job.story.updated}")
    assert answers_of_main(ended) == OF_MAIN


async def test_a_head_that_is_checked_out_with_its_history_has_a_merge_base(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server)
    job.fetch(job.story.head, depth="50")
    fake.state.pulls[NUMBER].base_sha = job.story.old
    ended = await job.pull_request(job.story.head)
    assert ended.ended.code == 1, ended.ended.err
    assert answers_of_main(ended) == {"apple, says old main", "bread, says old main"}
    assert server.paths == [], "the checkout has the commit"


async def test_a_merge_group_is_compared_with_its_base(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server)
    story = job.story
    job.fetch(f"refs/pull/{NUMBER}/merge")
    run = fake.state.add_run(
        story.merge, head_branch="gh-readonly-queue/main/pr-7", event="merge_group"
    )
    group = {"head_sha": story.merge, "base_sha": story.main, "base_ref": "refs/heads/main"}
    ended = await job.checkout.job(
        "merge_group",
        {"merge_group": group},
        run,
        CI_EVALS_AGAINST="",
        GITHUB_SERVER_URL=server.url,
    )
    assert (ended.ended.code, ended.outputs["regressions"]) == (1, "1")
    assert f"with main at {story.main[:7]}, which ran alongside" in ended.ended.out
    assert answers_of_main(ended) == OF_MAIN
    assert comments(fake) == []


@pytest.mark.parametrize("way", ["the option", "the variable", "no baseline", "main's file"])
async def test_it_can_be_switched_off(
    tmp_path: Path, fake: FakeGitHub, server: GitServer, way: str
) -> None:
    settings = {"against": "off"} if way == "main's file" else {}
    job = open_job(tmp_path, fake, server, **settings)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    options = {"the option": ("--against", "off"), "no baseline": ("--baseline", "none")}
    arguments = options.get(way, ())
    against = "off" if way == "the variable" else ""
    ended = await job.pull_request(job.story.head, *arguments, CI_EVALS_AGAINST=against)
    assert ended.ended.code == 1, "the bars are the suite's own"
    assert "ran alongside" not in ended.ended.out
    assert answers_of_main(ended) == frozenset()
    weaker = "weaker than on main: main's code is switched off outside of the suite"
    assert (weaker in " ".join(ended.ended.out.split())) == (way != "main's file")


@pytest.mark.parametrize("option", [("--against", "off"), ("--baseline", "none")])
@pytest.mark.parametrize("has_report", [True, False], ids=["a report", "no report"])
async def test_a_change_that_switches_main_off_is_no_pass(
    tmp_path: Path,
    fake: FakeGitHub,
    server: GitServer,
    has_report: bool,
    option: tuple[str, str],
) -> None:
    """Its workflow does, and its check passes everything."""
    job = open_job(tmp_path, fake, server)
    if has_report:
        await job.leave_report_of_main()
    job.fetch(f"refs/pull/{NUMBER}/merge")
    cases = [{**case, "expect": [{"not_empty": True}]} for case in (APPLE, BREAD)]
    write_suite(job.checkout.folder, cases, **SHOP)
    job.state = Repository(job.checkout.folder).state
    ended = await job.pull_request(job.story.head, *option)
    assert ended.outputs["verdict"] == "borderline"
    (comment,) = comments(fake)
    assert "main's code is switched off outside of the suite" in unescape(comment.body)


@pytest.mark.parametrize(
    ("jobs_fail_on", "code", "shown"),
    [
        (("", "never"), 1, "fail_on never (fail)"),
        (("never", "never"), 0, ""),
        (("never", ""), 1, "fail_on fail (never)"),
    ],
    ids=["weaker", "the same", "stricter"],
)
async def test_what_a_job_fails_on_counts_as_main_has_it(
    tmp_path: Path,
    fake: FakeGitHub,
    server: GitServer,
    jobs_fail_on: tuple[str, str],
    code: int,
    shown: str,
) -> None:
    of_main, here = jobs_fail_on
    job = open_job(tmp_path, fake, server)
    await job.leave_report_of_main(CI_EVALS_FAIL_ON=of_main)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    ended = await job.pull_request(job.story.head, CI_EVALS_FAIL_ON=here)
    assert (ended.ended.code, ended.outputs["verdict"]) == (code, "fail")
    (comment,) = comments(fake)
    text = unescape(comment.body)
    assert shown in text
    assert ("fail_on" in text) == bool(shown)


async def test_what_no_verdict_comes_to_counts_as_main_has_it(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server, gate={"require_baseline": True})
    await job.leave_report_of_main(code=3)  # the first report has nothing to be compared with
    job.fetch(f"refs/pull/{NUMBER}/merge")
    cases = [{"id": "pear", "input": "pear", "expect": [{"not_empty": True}]}]
    write_suite(job.checkout.folder, cases, **SHOP)
    job.state = Repository(job.checkout.folder).state
    ended = await job.pull_request(job.story.head)
    assert (ended.ended.code, ended.outputs["verdict"]) == (3, "error")


@pytest.mark.parametrize("of_main", ["auto", "off"])
async def test_mains_file_decides_not_the_changes(
    tmp_path: Path, fake: FakeGitHub, server: GitServer, of_main: str
) -> None:
    job = open_job(tmp_path, fake, server, against=of_main)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    other = {"auto": "off", "off": "auto"}[of_main]
    write_suite(job.checkout.folder, [APPLE, BREAD], **SHOP, against=other)
    job.state = Repository(job.checkout.folder).state
    ended = await job.pull_request(job.story.head, GITHUB_SHA=job.story.merge)
    assert answers_of_main(ended) == (OF_MAIN if of_main == "auto" else frozenset())


async def test_a_report_that_main_has_left_is_taken_instead(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server)
    story = job.story
    await job.leave_report_of_main()
    job.fetch(f"refs/pull/{NUMBER}/merge")
    ended = await job.pull_request(story.head, GITHUB_SHA=story.merge)
    assert ended.ended.code == 1
    assert ended.outputs["regressions"] == "1"
    assert f"compared with main at {story.main[:7]} " in ended.ended.out
    assert "ran alongside" not in ended.ended.out
    assert answers_of_main(ended) == {"bread, says main"}, "what would be red, and no more"


VENDOR = """
import os

def answer(question):
    if question == "bread" and os.environ.get("VENDOR") == "changed" or question in FORGOTTEN:
        return "no idea"
    return f"{question}, says WHO"
"""


def asking_the_vendor(who: str, *forgotten: str) -> str:
    return VENDOR.replace("WHO", who).replace("FORGOTTEN", repr(forgotten))


@pytest.mark.parametrize("forgotten", [(), ("apple",)], ids=["no fault", "a fault of its own"])
async def test_what_the_vendor_changed_since_the_report_is_not_put_down_to_the_change(
    tmp_path: Path,
    fake: FakeGitHub,
    server: GitServer,
    monkeypatch: pytest.MonkeyPatch,
    forgotten: tuple[str, ...],
) -> None:
    settings = {"gate": {"min_pass_rate": 0.1}}
    job = open_job(tmp_path, fake, server, asking_the_vendor("main"), **settings)
    story = job.story
    await job.leave_report_of_main()
    job.fetch(f"refs/pull/{NUMBER}/merge")
    (job.checkout.folder / "agent.py").write_text(asking_the_vendor("the change", *forgotten))
    job.state = Repository(job.checkout.folder).state
    monkeypatch.setenv("VENDOR", "changed")
    ended = await job.pull_request(story.head, GITHUB_SHA=story.merge, VENDOR="changed")
    printed = " ".join(ended.ended.out.split())
    cleared = f"main ({story.main[:7]}) fails it now, too (0 of 10): not this change"
    sentences = {cell["case"]: cell["comparison"]["sentence"] for cell in ended.report["cells"]}
    assert cleared in sentences["bread"], ended.ended.err
    assert forgotten or cleared in printed
    assert ended.outputs["regressions"] == str(len(forgotten))
    assert ended.ended.code == bool(forgotten)
    if forgotten:
        (comment,) = comments(fake)
        assert "| main now |" in comment.body
        body = comment.body.replace("\u200b", "")
        assert f"Answer on main ({story.main[:7]}) now (-) and of run 1 here (+):" in body
        assert "-apple, says main\n+no idea\n" in body
        assert f"It failed on main ({story.main[:7]}), too: " in body, "bread, which is cleared"
        assert f"main ({story.main[:7]}) made 20 runs in the same minutes" in printed
        assert "apple: fails now: 0 of 10 here, 10 of 10 on main" in printed


async def test_a_second_attempt_goes_on_with_the_runs_of_both_sides(
    tmp_path: Path, fake: FakeGitHub, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"gate": {"min_pass_rate": 0.1}}
    job = open_job(tmp_path, fake, server, asking_the_vendor("main"), **settings)
    story = job.story
    await job.leave_report_of_main()
    job.fetch(f"refs/pull/{NUMBER}/merge")
    (job.checkout.folder / "agent.py").write_text(asking_the_vendor("the change", "apple"))
    job.state = Repository(job.checkout.folder).state
    monkeypatch.setenv("VENDOR", "changed")
    run = fake.state.add_run(story.head, head_branch="feature", event="pull_request")
    first = await job.pull_request(story.head, run=run, GITHUB_SHA=story.merge)
    job.checkout.upload(first, run)
    second = await job.pull_request(
        story.head, run=run, GITHUB_SHA=story.merge, GITHUB_RUN_ATTEMPT="2"
    )
    assert (first.ended.code, second.ended.code) == (1, 1), second.ended.err
    assert second.report["results"] == first.report["results"]
    assert second.report["cells"] == first.report["cells"]
    journals = [each.results / "merge-base" / "main.jsonl" for each in (first, second)]
    before, after = (results_in(journal) for journal in journals)
    assert {each["started_at"] for each in before} == {each["started_at"] for each in after}


async def test_answers_are_compared_by_mains_checks_with_a_report_of_main(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    """The change forgets bread, and no longer expects it."""
    job = open_job(tmp_path, fake, server)
    story = job.story
    await job.leave_report_of_main()
    job.fetch(f"refs/pull/{NUMBER}/merge")
    lenient = {**BREAD, "expect": [{"not_empty": True}]}
    write_suite(job.checkout.folder, [APPLE, lenient], **SHOP)
    job.state = Repository(job.checkout.folder).state
    ended = await job.pull_request(story.head, GITHUB_SHA=story.merge)
    assert ended.ended.code == 0, ended.ended.err
    assert ended.outputs["verdict"] == "borderline"
    assert "0 of 3 answers pass; by this branch's, 3 of 3" in ended.ended.out
    assert answers_of_main(ended) == {"bread, says main"}, "what would be red, beside the change"
    (comment,) = comments(fake)
    assert "0 of 3 answers pass" in comment.body
    assert "bread" in comment.body


async def change_after_report(job: Job, files: Mapping[str, str] = {}, **settings: Any) -> jobs.Job:
    """The job of a pull request that writes another suite, after main has left a report of its own.

    The change answers as main does.
    """
    story = job.story
    await job.leave_report_of_main(files)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    write_files(job.checkout.folder, {"agent.py": agent_of("the change"), **files})
    write_suite(job.checkout.folder, **{"cases": [APPLE, BREAD], **SHOP, **settings})
    job.state = Repository(job.checkout.folder).state
    return await job.pull_request(story.head, GITHUB_SHA=story.merge)


MOCK = {"name": "agent", "type": "mock"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"providers": [MOCK]}, "agent is a mock (python)"),
        ({"confirm_runs": 0}, "confirm_runs 0 (10)"),
        ({"runs": 1}, "runs 1 (3)"),
    ],
    ids=["a mock", "no confirm runs", "fewer runs"],
)
async def test_weaker_settings_than_mains_are_borderline_with_a_report_of_main(
    tmp_path: Path, fake: FakeGitHub, server: GitServer, settings: Mapping[str, Any], told: str
) -> None:
    job = open_job(tmp_path, fake, server)
    ended = await change_after_report(job, **settings)
    assert ended.ended.code == 0, ended.ended.err
    assert ended.outputs["verdict"] == "borderline"
    assert f"weaker than on main ({job.story.main[:7]}): {told}" in ended.ended.out
    assert ended.report["totals"]["planned"] == 6, "main's number of runs is run"
    assert answers_of_main(ended) == frozenset(), "no provider is called on main"
    (comment,) = comments(fake)
    assert told in unescape(comment.body)
    assert "**Changed here**" in comment.body


async def test_main_is_not_asked_about_a_suite_that_is_its_own(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    ended = await change_after_report(open_job(tmp_path, fake, server))
    assert ended.outputs["verdict"] == "pass", ended.ended.out + ended.ended.err
    assert not (ended.results / "merge-base").exists()
    assert "Changed here" not in ended.ended.out


async def test_another_model_is_an_ordinary_change(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    job = open_job(tmp_path, fake, server, providers=[MOCK])
    ended = await change_after_report(job, providers=[{**MOCK, "seed": 7}])
    assert ended.outputs["verdict"] == "pass", ended.ended.out + ended.ended.err
    assert "other settings of agent" in ended.ended.out
    assert "weaker" not in ended.ended.out


@pytest.mark.parametrize("what", ["its suite does not load", "it cannot be checked out"])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"providers": [MOCK]}, "agent is a mock (python)"),
        ({"cases": [BREAD]}, "without the critical case apple"),
        (
            {
                "cases": [
                    {**case, "overrides": {"recorded": "ci-evals-answer.json"}}
                    for case in (CRITICAL, BREAD)
                ]
            },
            "recordings answer apple, bread",
        ),
    ],
    ids=["a mock", "a critical case", "recordings"],
)
async def test_its_report_tells_what_is_weaker_where_main_cannot_be_run(
    tmp_path: Path, fake: FakeGitHub, settings: Mapping[str, Any], told: str, what: str
) -> None:
    """A file is ignored by git, and made by an earlier step of the job."""
    made = {
        "ci-evals-prompt.txt": "{{ input }}",
        "ci-evals-answer.json": '{"output": "apple bread"}',
    }
    refused = what == "it cannot be checked out"
    async with serving_git(
        tmp_path / "server", "of nobody" if refused else f"Basic {BASIC}"
    ) as server:
        server.secrets = (TOKEN, BASIC)
        prompts = [{"name": "plain", "file": "ci-evals-prompt.txt"}]
        suite: dict[str, Any] = {"cases": [CRITICAL, BREAD], "prompts": prompts}
        job = open_job(tmp_path, fake, server, **suite)
        ended = await change_after_report(job, made, **{**suite, **settings})
    assert ended.ended.code == 0, ended.ended.out + ended.ended.err
    assert "could not be" in ended.ended.err + ended.ended.out
    assert ended.outputs["verdict"] == "borderline"
    assert f"weaker than on main ({job.story.main[:7]}): {told}" in ended.ended.out


async def test_a_server_that_refuses_is_told_in_a_sentence(
    tmp_path: Path, fake: FakeGitHub
) -> None:
    async with serving_git(tmp_path / "server", "Basic of-somebody-else") as server:
        server.secrets = (TOKEN, BASIC)
        job = open_job(tmp_path, fake, server)
        job.fetch(f"refs/pull/{NUMBER}/merge")
        ended = await job.pull_request(job.story.head, GITHUB_SHA=job.story.merge)
    assert ended.ended.code == 1, "the bars are the suite's own"
    assert f"main ({job.story.main[:7]}) could not be checked out: " in ended.ended.out
    assert ended.report["totals"]["planned"] == 6
    assert (server.paths, server.refused > 0) == ([], True)
    log = ended.ended.err + ended.ended.out.replace(f"::add-mask::{TOKEN}", "")
    assert not any(secret in log for secret in (TOKEN, BASIC))


async def test_a_server_that_stops_answering_does_not_hold_up_the_job(
    tmp_path: Path, fake: FakeGitHub, server: GitServer
) -> None:
    server.is_silent = True
    job = open_job(tmp_path, fake, server)
    job.checkout.constants = {
        **job.checkout.constants,
        "ci_evals.merge_base.checkout._STALLED_S": 1,
    }
    job.fetch(f"refs/pull/{NUMBER}/merge")
    ended = await job.pull_request(job.story.head, GITHUB_SHA=job.story.merge)
    assert f"main ({job.story.main[:7]}) could not be checked out: " in ended.ended.out
    assert ended.report["totals"]["planned"] == 6


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM", "SIGKILL"])
async def test_a_job_that_ends_while_it_fetches_leaves_no_git_behind(
    tmp_path: Path, fake: FakeGitHub, server: GitServer, which: str
) -> None:
    server.is_silent = True
    temp = tmp_path / "temp"
    temp.mkdir()
    job = open_job(tmp_path, fake, server)
    job.fetch(f"refs/pull/{NUMBER}/merge")
    folder, pull = job.checkout.folder, fake.state.pulls[NUMBER]
    run = fake.state.add_run(job.story.head, head_branch=pull.head_ref, event="pull_request")
    event = {"pull_request": fake.state.pull_answer(pull)}
    environ = job.checkout.environment("pull_request", event, run, tmp_path)
    environ |= {"CI_EVALS_AGAINST": "", "GITHUB_SHA": job.story.merge, "TMPDIR": str(temp)}
    environ["GITHUB_SERVER_URL"] = server.url
    process = await start(folder, "run", command=REAL, environ=environ)
    await server.was_reached.wait()
    assert any("fetch" in git.cmdline() for git in running_in(temp))
    process.send_signal(getattr(signal, which))
    await finished(process)
    await until(lambda: running_in(temp) == [])
    assert Repository(folder).state == job.state
