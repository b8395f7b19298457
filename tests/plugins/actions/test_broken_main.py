"""A pull request into a main that is broken itself, on GitHub."""

from checkouts import CASES
from fakes.github import FakeGitHub
from jobs import Repository
from pulls import comments, open_pull

FIRST, SECOND, THIRD = "1a" * 20, "2b" * 20, "3c" * 20
BEFORE, HEAD = "0d" * 20, "4e" * 20


async def test_the_verdict_says_so_and_leads_to_the_run_that_shows_it(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.add_history(BEFORE, FIRST, SECOND, THIRD, HEAD)
    repository.suite(runs=10)
    await repository.push(FIRST, before=BEFORE)
    repository.suite(runs=10, wrong=CASES)
    await repository.push(SECOND, before=FIRST)
    await repository.push(THIRD, before=SECOND)

    open_pull(fake, head_sha=HEAD, base_sha=THIRD)
    repository.suite(runs=10)
    job = await repository.pull_request(HEAD)
    assert job.outputs["verdict"] == "borderline"
    why = "main itself passes 0 % since 2b2b2b2: not compared"
    assert job.report["verdict"]["reason"] == why
    (warning,) = [line for line in job.ended.out.splitlines() if line.startswith("::warning")]
    assert warning.endswith(f"::{why.replace('%', '%25')}")
    (comment,) = comments(fake)
    newest_run = max(run.id for run in fake.state.runs.values() if run.head_sha == THIRD)
    link = f"https://github.com/acme/app/actions/runs/{newest_run}"
    assert f"[newest run of main](<{link}>)" in comment.body
    assert f'<a href="{link}" rel="noreferrer">newest run of main</a>' in job.page
