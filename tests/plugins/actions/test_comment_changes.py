"""`comment: changes`: no comment while nothing changes, and none that is outdated."""

import pytest
from checkouts import CASES, SETTLED
from fakes.github import FakeGitHub
from fakes.github_state import FORK, Token
from jobs import Job, Repository
from processes import ci_evals
from pulls import comments, open_pull

BASE, OLDER, RED, GREEN = "b" * 40, "a" * 40, "c" * 40, "d" * 40


@pytest.fixture
async def pushed(repository: Repository, fake: FakeGitHub) -> Repository:
    """Main has a report, and a pull request is open."""
    fake.state.add_history(OLDER, BASE)
    repository.suite(wrong=("river",), gate={"min_pass_rate": 0.5})
    job = await repository.push(BASE, before=OLDER)
    assert job.ended.code == 0, job.ended.err
    open_pull(fake, head_sha=RED, base_sha=BASE)
    return repository


async def quietly(repository: Repository, sha: str = RED) -> Job:
    repository.fake.state.pulls[7].head_sha = sha
    return await repository.pull_request(sha, CI_EVALS_COMMENT="changes")


async def test_a_pull_request_that_changes_nothing_gets_no_comment(
    pushed: Repository, fake: FakeGitHub
) -> None:
    pushed.suite(wrong=("river",), cases=(*CASES, "lake"), gate={"min_pass_rate": 0.5})
    job = await quietly(pushed)
    assert job.ended.code == 0, job.ended.err
    assert "comment: nothing changed: no comment was posted" in job.ended.out
    assert "comment-url" not in job.outputs
    assert comments(fake) == []


@pytest.mark.parametrize(
    ("wrong", "cases"),
    [(("river", "poem"), CASES), ((), CASES), (("river",), CASES[:-1])],
    ids=["worse", "fixed", "removed"],
)
async def test_a_change_is_commented_on(
    pushed: Repository, fake: FakeGitHub, wrong: tuple[str, ...], cases: tuple[str, ...]
) -> None:
    pushed.suite(wrong=wrong, cases=cases, gate={"min_pass_rate": 0.5})
    await quietly(pushed)
    assert len(comments(fake)) == 1


async def test_a_gate_that_is_changed_is_commented_on(pushed: Repository, fake: FakeGitHub) -> None:
    pushed.suite(wrong=("river",), gate={"min_pass_rate": 0.4})
    job = await quietly(pushed)
    assert job.outputs["verdict"] == "pass"
    (comment,) = comments(fake)
    assert "**Gate changed**" in comment.body


async def test_a_comparison_that_is_missing_is_commented_on(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite()
    await quietly(repository)
    assert len(comments(fake)) == 1


async def test_a_comment_is_brought_up_to_date_when_the_change_is_gone(
    pushed: Repository, fake: FakeGitHub
) -> None:
    pushed.suite(wrong=("river", "poem"), gate={"min_pass_rate": 0.5})
    red = await quietly(pushed)
    assert red.ended.code == 1
    (comment,) = comments(fake)
    assert "### ❌" in comment.body
    pushed.suite(wrong=("river",), gate={"min_pass_rate": 0.5})
    green = await quietly(pushed, GREEN)
    (edited,) = comments(fake)
    assert edited.id == comment.id
    assert "❌ 1 case regressed" not in edited.body
    assert "### ✅" in edited.body
    assert green.outputs["comment-url"].endswith(f"#issuecomment-{comment.id}")


async def test_a_suite_that_is_not_run_is_no_change(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(OLDER, BASE)
    repository.suite(skip_unchanged=True)
    await repository.push(BASE, before=OLDER)
    fake.state.add_history(OLDER, BASE, RED)
    fake.state.changed[RED] = ("README.md",)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await quietly(repository)
    assert "not run: nothing that the suite depends on has changed" in job.ended.out
    assert comments(fake) == []


async def test_a_broken_suite_is_commented_on(pushed: Repository, fake: FakeGitHub) -> None:
    (pushed.folder / "evals.yaml").write_text("cases: 7\n")
    job = await quietly(pushed)
    assert job.ended.code == 2
    assert len(comments(fake)) == 1


async def test_of_a_fork_only_a_change_is_commented_on(
    pushed: Repository, fake: FakeGitHub
) -> None:
    fake.state.tokens["ghs_fork"] = Token(may_comment=False)
    open_pull(fake, head_sha=RED, base_sha=BASE, head_repository=FORK)
    posted = []
    for wrong in (("river",), ("river", "poem"), ("river",)):
        pushed.suite(wrong=wrong, gate={"min_pass_rate": 0.5})
        run = fake.state.add_run(
            RED, head_branch="feature", head_repository=FORK, event="pull_request"
        )
        job = await pushed.pull_request(RED, run=run, GITHUB_TOKEN="ghs_fork")
        pushed.upload(job, run)
        environ = pushed.environment("workflow_run", {}, run, pushed.folder)
        options = ("--from-run", str(run.id), "--mode", "changes")
        ended = await ci_evals(
            pushed.folder, "comment", *options, environ=environ, constants=SETTLED
        )
        assert ended.code == 0, ended.err
        posted.append([comment.body for comment in comments(fake)])
    assert posted[0] == []
    assert "### ❌" in posted[1][0]
    # Nobody has checked what its own job says.
    headline, _, claim, *_ = posted[2][0].split("### ")[1].splitlines()
    assert headline.startswith("❔ 15 of 20 runs passed")
    assert claim.startswith("*Claimed by the fork's own job, whose code could have written this")
    assert f"/actions/runs/{run.id}" in claim
    assert "✅" not in posted[2][0]
