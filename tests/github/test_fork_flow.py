"""A pull request from a fork, from the refused comment to the one that a `workflow_run` workflow posts."""

import json
from pathlib import Path

from archives import archive
from fakes.github import TOKEN, FakeGitHub
from fakes.github_state import FORK, Token
from pulls import HEAD, NUMBER, comments, context_of, open_pull, says, sections

from ci_evals.github.archive import FORK_LIMITS
from ci_evals.github.artifacts import NotFetched, fetch_from_run, pull_requests_of, run_of
from ci_evals.github.client import GitHub, connected
from ci_evals.github.comment import NotPosted, Posted, put_section
from ci_evals.github.context import read_context

READ_ONLY = "ghs_fork"


async def test_what_a_fork_may_not_post_is_posted_from_its_artifact(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    fake.state.tokens[READ_ONLY] = Token(may_comment=False)
    open_pull(fake, head_repository=FORK, head_ref="main")
    async with connected(context_of(fake, READ_ONLY), sleep=fake.time.sleep, clock=fake.time.clock) as fork:
        assert isinstance(await put_section(fork, NUMBER, says("Red.")), NotPosted)
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    fake.state.add_artifact(run, archive({"comment.md": b"Red, from the artifact.", "number.txt": b"1"}))

    context = read_context(workflow_run_environment(tmp_path, run.id))
    assert context.triggering_run is not None
    found = await fetch_from_run(client, context.triggering_run.id, "evals", tmp_path / "out", limits=FORK_LIMITS)
    assert not isinstance(found, NotFetched)
    text = found[0].files[0].read_text()
    (pull,) = await pull_requests_of(client, await run_of(client, context.triggering_run.id))
    outcome = await put_section(client, pull.number, says(text, run_id=run.id, sha=context.triggering_run.head_sha))

    assert isinstance(outcome, Posted)
    (comment,) = comments(fake)
    assert sections(comment)["capitals"].text == "Red, from the artifact."


def workflow_run_environment(folder: Path, run_id: int) -> dict[str, str]:
    head = {"id": run_id, "event": "pull_request", "head_sha": HEAD, "head_branch": "main"}
    event = {"workflow_run": head | {"head_repository": {"full_name": FORK}, "pull_requests": []}}
    path = folder / "event.json"
    path.write_text(json.dumps(event))
    return {
        "GITHUB_EVENT_NAME": "workflow_run",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REPOSITORY": "acme/app",
        "GITHUB_TOKEN": TOKEN,
    }
