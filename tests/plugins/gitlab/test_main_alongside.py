"""A merge request without a report of main: main's code runs alongside, in the same job."""

from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes.gitlab import JOB_TOKEN, PROJECT_ID, TOKEN, FakeGitLab
from pipelines import IID, Job, Project, open_merge_request
from repositories import (
    APPLE,
    BREAD,
    GitServer,
    Repository,
    agent_of,
    answers_in,
    curious_agent,
)
from suites import AGENT, write_suite

BASIC = b64encode(f"gitlab-ci-token:{JOB_TOKEN}".encode()).decode()
CURIOUS = curious_agent(
    (JOB_TOKEN, BASIC, TOKEN),
    ("CI_JOB_TOKEN", "CI_REPOSITORY_URL", "GITLAB_CI", "GITLAB_TOKEN", "CI_EVALS_AGAINST"),
    home="CI_PROJECT_DIR",
)
FORGETFUL = """
def answer(question):
    return "no idea" if question == "bread" else f"{question}, says the change"
"""


class Ran(NamedTuple):
    """A job that has ended.

    Attributes:
        job: the job.
        base: the commit that the branch was made from.
        newest: the newest commit of main.
        was_fetched: a commit was fetched from the server.
    """

    job: Job
    base: str
    newest: str
    was_fetched: bool

    @property
    def answers(self) -> frozenset[str]:
        """What main's code has answered."""
        return answers_in(self.job.results / "merge-base" / "main.jsonl")


async def merge_request(
    folder: Path, fake: FakeGitLab, agent: str, *, merged: bool = False, depth: str = "50"
) -> Ran:
    """Run the evals of a merge request whose branch forgets bread, in a real checkout.

    Args:
        folder: for the repositories.
        fake: GitLab.
        agent: main's.
        merged: the pipeline is one for merged results.
        depth: how many commits the runner has fetched.
    """
    origin = Repository.new(folder / "origin")
    write_suite(origin.folder, [APPLE, BREAD], name="shop", runs=3, providers=[AGENT])
    base = origin.commit({"agent.py": agent})
    origin.git("checkout", "--quiet", "-b", "feature")
    head = origin.commit({"agent.py": FORGETFUL})
    origin.git("checkout", "--quiet", "main")
    newest = origin.commit({"README.md": "newer"})
    origin.git("checkout", "--quiet", "-b", "merged-results")
    origin.git("merge", "--quiet", "--no-ff", "feature")
    result = origin.git("rev-parse", "HEAD")
    bare = folder / "server" / "acme" / "app.git"
    bare.parent.mkdir(parents=True)
    origin.git("clone", "--quiet", "--mirror", str(origin.folder), str(bare))

    checkout = Repository.new(folder / "checkout")
    branch = "merged-results" if merged else "feature"
    checkout.git("fetch", "--quiet", f"--depth={depth}", f"file://{bare}", branch)
    checkout.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    excluded = checkout.folder / ".git" / "info" / "exclude"
    excluded.write_text("ci-evals-*\n__pycache__\n")
    before = checkout.state

    open_merge_request(fake, head)
    pipeline = fake.add_pipeline(head, source="merge_request_event")
    variables = {
        "CI_EVALS_AGAINST": "",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "CI_MERGE_REQUEST_IID": str(IID),
        "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT_ID),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }
    if merged:
        variables |= {
            "CI_COMMIT_SHA": result,
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": head,
            "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": newest,
        }
    server = GitServer(folder / "server", f"Basic {BASIC}")
    server.secrets = (JOB_TOKEN, BASIC)
    fake.git = server.respond
    url = f"{fake.api_url.removesuffix('/api/v4')}/acme/app"
    variables["CI_MERGE_REQUEST_PROJECT_URL"] = url
    variables["CI_REPOSITORY_URL"] = url.replace("//", f"//gitlab-ci-token:{JOB_TOKEN}@")
    job = await Project(checkout.folder, fake).job(pipeline, command=("run",), **variables)
    assert checkout.state == before, "the checkout is untouched"
    assert server.exposed == []
    return Ran(job, base, newest, bool(server.paths))


@pytest.mark.parametrize("merged", [False, True], ids=["detached", "merged results"])
@pytest.mark.parametrize("depth", ["50", "1"], ids=["with history", "shallow"])
async def test_a_regression_is_named_though_main_has_left_no_report(
    tmp_path: Path, fake: FakeGitLab, merged: bool, depth: str
) -> None:
    ran = await merge_request(tmp_path, fake, agent_of("main"), merged=merged, depth=depth)
    assert ran.job.ended.code == 1, ran.job.ended.err
    of_main = ran.newest if merged else ran.base
    assert f"with main at {of_main[:7]}, which ran alongside" in ran.job.ended.out
    assert ran.answers == {"apple, says main", "bread, says main"}
    (note,) = fake.notes_of(IID)
    assert "bread" in note.body
    assert "which ran alongside" in note.body
    assert ran.was_fetched == (depth == "1")


async def test_mains_code_has_no_token_and_a_folder_of_its_own(
    tmp_path: Path, fake: FakeGitLab
) -> None:
    ran = await merge_request(tmp_path, fake, CURIOUS, depth="1")
    assert ran.was_fetched
    assert ran.answers == {
        "apple, finds [], is at home: True",
        "bread, finds [], is at home: True",
    }
