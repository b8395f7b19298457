"""Which earlier report an event is compared with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import archive, symlink
from factories import report_of
from fakes.github import TOKEN, FakeGitHub, Fault
from fakes.github_state import FORK, StoredArtifact, Token
from pulls import HEAD

from ci_evals.errors import HostError
from ci_evals.hosts import NotFound
from ci_evals.plugins.ci.baseline import MAX_TRIED, BaseReport, find_base_report
from ci_evals.plugins.github.api import GitHub
from ci_evals.plugins.github.baseline import GitHubBranch, Search, search_for
from ci_evals.plugins.github.context import Context
from ci_evals.reports.report_json import render
from ci_evals.reports.summary import summarize

# What an event is compared with.


ON_MAIN = {"branch": "main", "default_branch": "main", "sha": "c" * 40}


def searched(**facts: Any) -> Search | None:
    return search_for(Context(**facts), "evals")


def test_a_pull_request_is_compared_with_its_merge_base() -> None:
    found = searched(event="pull_request", base_ref="release", base_sha="a" * 40, sha="b" * 40)
    assert found == Search("evals", "release", "a" * 40, "b" * 40)


def test_a_merge_group_is_compared_with_its_base_itself() -> None:
    found = searched(event="merge_group", base_ref="main", base_sha="a" * 40, sha="b" * 40)
    assert found == Search("evals", "main", "a" * 40)


def test_a_push_to_the_default_branch_is_compared_with_what_was_there_before() -> None:
    assert searched(event="push", base_sha="a" * 40, **ON_MAIN) == Search("evals", "main", "a" * 40)


def test_a_scheduled_run_is_compared_with_the_newest_report_whatever_its_event_says() -> None:
    assert searched(event="schedule", branch="main") == Search("evals", "main", None)
    assert searched(event="workflow_dispatch", **ON_MAIN) == Search("evals", "main", None)


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_another_branch_runs_plainly(event: str) -> None:
    assert searched(event=event, branch="feature", default_branch="main", base_sha="a" * 40) is None


def test_other_events_run_plainly() -> None:
    assert searched(event="other", **ON_MAIN) is None


# Which earlier report a pull request is compared with.


MAIN = [f"{number:040x}" for number in range(1, 81)]  # the oldest first
BASE = MAIN[70]
SEARCH = Search("evals", "main", MAIN[-1], HEAD)


SHA = "5" * 40
SAVED = b"".join(
    render(summarize(report_of({"a": "P"}, suite={"name": "capitals", "revision": SHA}), None))
)
INCOMPLETE = b'{"schema_version": 1}'


def report(sha: str) -> bytes:
    """An artifact with a report of a commit."""
    return archive({"report.json": SAVED.replace(SHA.encode(), sha.encode())})


@pytest.fixture
def history(fake: FakeGitHub) -> None:
    """main with 80 commits; the pull request branched off ten commits ago."""
    fake.state.add_history(*MAIN)
    fake.state.parents[HEAD] = BASE


def ran_on(
    fake: FakeGitHub, sha: str, content: bytes | None = None, **changes: str
) -> StoredArtifact:
    run = fake.state.add_run(sha, **changes)
    return fake.state.add_artifact(run, content or report(sha))


async def found(client: GitHub, folder: Path, search: Search = SEARCH) -> tuple[str | None, str]:
    """The commit that was taken, and its place."""
    baseline = await find_base_report(GitHubBranch(client, search), "capitals", folder)
    assert isinstance(baseline, BaseReport), baseline
    return baseline.report.suite.revision, baseline.place


async def none(client: GitHub, folder: Path, search: Search = SEARCH) -> str:
    baseline = await find_base_report(GitHubBranch(client, search), "capitals", folder)
    assert isinstance(baseline, NotFound), baseline
    assert not baseline.failed
    return baseline.reason


@pytest.mark.usefixtures("history")
class TestOfAPullRequest:
    async def test_the_merge_bases_report_is_preferred(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        for sha in (MAIN[69], BASE, MAIN[75]):
            ran_on(fake, sha)
        assert await found(client, tmp_path) == (BASE, "the merge base")

    async def test_else_the_nearest_before_it(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        for sha in (MAIN[60], MAIN[67], MAIN[75]):
            ran_on(fake, sha)
        assert await found(client, tmp_path) == (
            MAIN[67],
            "3 commits before the one it is based on",
        )

    async def test_else_the_newest_of_the_branch(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        for sha in (MAIN[74], MAIN[75], MAIN[2]):
            ran_on(fake, sha)
        assert await found(client, tmp_path) == (MAIN[2], "the newest there is")

    async def test_of_one_commit_the_newest_report_counts(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, BASE, archive({"report.json": INCOMPLETE}))
        ran_on(fake, BASE)
        assert await found(client, tmp_path) == (BASE, "the merge base")

    async def test_a_forks_branch_of_the_same_name_poisons_nothing(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, BASE, head_repository=FORK, event="pull_request")
        assert "no run of main itself" in await none(client, tmp_path)
        ran_on(fake, MAIN[60])
        assert (await found(client, tmp_path / "again"))[0] == MAIN[60]

    @pytest.mark.parametrize(
        "event",
        [
            "pull_request",
            "pull_request_target",
            "workflow_run",
            "merge_group",
            "issue_comment",
            "repository_dispatch",
        ],
    )
    async def test_runs_that_bring_code_from_elsewhere_are_passed_over(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path, event: str
    ) -> None:
        ran_on(fake, BASE, event=event)
        assert event in await none(client, tmp_path)

    async def test_later_commits_of_other_branches_and_other_names_do_not_count(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, MAIN[75], head_branch="feature")
        fake.state.add_artifact(fake.state.add_run(BASE), archive(), "evals-2")
        assert "no run of main itself" in await none(client, tmp_path)

    async def test_a_run_that_has_not_ended_is_passed_over(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, BASE, status="in_progress")
        ran_on(fake, MAIN[69])
        assert (await found(client, tmp_path))[0] == MAIN[69]

    async def test_what_is_expired_incomplete_or_hostile_is_passed_over(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, BASE).expired = True
        ran_on(fake, BASE, report(MAIN[69]))
        ran_on(fake, MAIN[69], archive({"report.json": INCOMPLETE}))
        ran_on(fake, MAIN[68], symlink("report.json", b"/etc/passwd"))
        ran_on(fake, MAIN[67], b"no zip")
        ran_on(fake, MAIN[66])
        assert (await found(client, tmp_path))[0] == MAIN[66]

    async def test_a_report_in_which_nothing_ever_passed_is_passed_over(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        broken = summarize(
            report_of({"a": "F"}, suite={"name": "capitals", "revision": BASE}), None
        )
        ran_on(fake, BASE, archive({"report.json": b"".join(render(broken))}))
        assert "0 of 1 run on the baseline at 0000000 passed: likely an outage" in await none(
            client, tmp_path
        )
        ran_on(fake, MAIN[69])
        assert (await found(client, tmp_path / "again"))[0] == MAIN[69]

    async def test_after_a_few_that_cannot_be_used_it_says_why_and_stops(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        for sha in MAIN[60:70]:
            ran_on(fake, sha, archive({"report.json": INCOMPLETE}))
        reason = await none(client, tmp_path)
        assert reason.count("is not a complete report") == MAX_TRIED
        assert len(fake.storage_requests) == MAX_TRIED

    async def test_a_branch_whose_history_is_unknown_still_has_its_newest(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, MAIN[3])
        _, place = await found(client, tmp_path, replace(SEARCH, head_sha="f" * 40))
        assert place == "the newest there is"

    async def test_a_push_is_compared_with_its_base(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, MAIN[40])
        assert await found(client, tmp_path, Search("evals", "main", MAIN[40])) == (
            MAIN[40],
            "its base",
        )

    async def test_no_more_than_fifty_commits_are_looked_at(
        self, fake: FakeGitHub, client: GitHub, tmp_path: Path
    ) -> None:
        ran_on(fake, MAIN[70 - 50])
        assert (await found(client, tmp_path))[1] == "the newest there is"
        assert len(fake.asked("GET", "/commits")) == 1


async def test_a_repository_without_any_run_is_told_how_to_get_one(
    client: GitHub, tmp_path: Path
) -> None:
    assert "the first run on main makes one" in await none(client, tmp_path)


async def test_that_all_have_expired_is_said(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    ran_on(fake, BASE).expired = True
    assert "expired" in await none(client, tmp_path)


async def test_a_missing_permission_is_an_error(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    fake.state.tokens[TOKEN] = Token(may_read_actions=False)
    with pytest.raises(HostError) as caught:
        await find_base_report(GitHubBranch(client, SEARCH), "capitals", tmp_path)
    assert caught.value.kind == "forbidden"


async def test_a_github_that_is_down_is_an_error(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    fake.fails(*[Fault(lambda _method, _path: True, 502)] * 20)
    with pytest.raises(HostError, match="502"):
        await find_base_report(GitHubBranch(client, SEARCH), "capitals", tmp_path)
