"""One click from a pull request to the page: artifacts that open in the browser, and links."""

import json
import re
from pathlib import Path

import pytest
from browser import browser, browsing
from checkouts import SETTLED
from fakes.github import FakeGitHub
from fakes.github_state import FORK, Token
from jobs import Job, Repository
from processes import ci_evals
from pulls import comments, open_pull

from ci_evals.plugins.ci.comment_body import parse

BASE, OLDER, RED = "b" * 40, "a" * 40, "c" * 40
PAGE = "ci-evals-results.geography.html"
SITE = "https://github.com/acme/app"


async def main_run(repository: Repository, *arguments: str) -> None:
    repository.fake.state.add_history(OLDER, BASE, RED)
    job = await repository.push(BASE, *arguments, before=OLDER)
    assert job.ended.code == 0, job.ended.err


def summary_of(job: Job) -> str:
    """The summary of all steps so far."""
    return Path(job.environ["GITHUB_STEP_SUMMARY"]).read_text("utf-8")


async def test_comment_and_summary_lead_to_the_page_and_to_each_case(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite()
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE)
    repository.suite(wrong=("river",))
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    red = await repository.pull_request(RED, run=run)
    assert "compared with main at bbbbbbb (the merge base)" in red.ended.out
    (comment,) = comments(fake)
    run_url = f"{SITE}/actions/runs/{run.id}"
    assert f"[results (unzip, then open report.html)](<{run_url}#artifacts>)" in comment.body
    assert "<code>report.html#case=river</code>" in comment.body
    before = comment.body

    repository.upload(red, run)
    linked = await repository.link_pages(red)
    assert linked.code == 0, linked.err
    (comment,) = comments(fake)
    page = f"{run_url}/artifacts/{fake.state.artifact_named(PAGE).id}"
    assert f"\n**<code>geography</code>** · [open the report](<{page}>) · 15 of 20 " in comment.body
    assert f"[open in the report](<{page}#case=river>)" in comment.body
    assert "unzip" not in comment.body
    summary = summary_of(red)
    links = f"[open the report](<{page}>) · [river](<{page}#case=river>)"
    assert summary.endswith(f"\n**<code>geography</code>**: {links}\n\n")

    assert without_links(comment.body) == without_links(before), "nothing else differs"


def without_links(body: str) -> list[str]:
    body = body.replace("results (unzip, then open report.html)", "results")
    lines = re.sub(r" · \[open the report\]\(<.*?>\)", "", body).splitlines()
    places = ("write=", "report.html", "open in the report")
    return [line for line in lines if not any(place in line for place in places)]


async def test_each_of_several_suites_has_a_page_and_a_link_of_its_own(
    repository: Repository, fake: FakeGitHub
) -> None:
    for name in ("rivers", "poems"):
        repository.suite(name=name)
        (repository.folder / "evals" / name).mkdir(parents=True)
        (repository.folder / "evals.yaml").replace(
            repository.folder / "evals" / name / "evals.yaml"
        )
    open_pull(fake, head_sha=RED, base_sha=BASE)
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    job = await repository.pull_request(RED, "evals", "--baseline", "none", run=run)
    names = ["ci-evals-results.poems.html", "ci-evals-results.rivers.html"]
    assert json.loads(job.outputs["pages"]) == names
    repository.upload(job, run)
    linked = await repository.link_pages(job)
    assert linked.code == 0, linked.err
    (comment,) = comments(fake)
    body = parse(comment.body)
    assert body is not None
    assert [section.id.suite for section in body.sections] == ["poems", "rivers"]
    for section, name in zip(body.sections, names, strict=True):
        address = f"{SITE}/actions/runs/{run.id}/artifacts/{fake.state.artifact_named(name).id}"
        assert f"[open the report](<{address}>)" in section.text


@pytest.mark.parametrize("mode", ["new", "changes"])
async def test_the_link_is_put_into_the_comment_that_the_run_has_posted(
    repository: Repository, fake: FakeGitHub, mode: str
) -> None:
    repository.suite()
    open_pull(fake, head_sha=RED, base_sha=BASE)
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    job = await repository.pull_request(RED, run=run, CI_EVALS_COMMENT=mode)
    repository.upload(job, run)
    linked = await repository.link_pages(job, CI_EVALS_COMMENT_MODE=mode)
    assert linked.code == 0, linked.err
    (comment,) = comments(fake)
    assert job.outputs["comment-url"].endswith(f"-{comment.id}")
    assert f"/artifacts/{fake.state.artifact_named(PAGE).id}>)" in comment.body


async def test_a_later_attempt_links_its_own_page(repository: Repository, fake: FakeGitHub) -> None:
    repository.suite()
    open_pull(fake, head_sha=RED, base_sha=BASE)
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    links = []
    for attempt in ("1", "2"):
        job = await repository.pull_request(RED, run=run, GITHUB_RUN_ATTEMPT=attempt)
        repository.upload(job, run)
        assert (await repository.link_pages(job)).code == 0
        (comment,) = comments(fake)
        newest = fake.state.artifact_named(PAGE).id
        assert f"/artifacts/{newest}>)" in comment.body
        links.append(newest)
    assert links[0] < links[1]


async def test_without_a_comment_the_summary_alone_links_the_page(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite()
    run = fake.state.add_run(BASE)
    job = await repository.push(BASE)
    repository.upload(job, run)
    linked = await repository.link_pages(
        job, CI_EVALS_COMMENT_MODE="off", GITHUB_RUN_ID=str(run.id)
    )
    assert (linked.code, linked.out, linked.err) == (0, "", "")
    summary = summary_of(job)
    assert f"[open the report](<{SITE}/actions/runs/{run.id}/artifacts/" in summary


async def test_a_token_that_may_not_read_artifacts_costs_the_link_alone(
    repository: Repository, fake: FakeGitHub
) -> None:
    fake.state.tokens["ghs_writes"] = Token(may_read_actions=False)
    repository.suite()
    open_pull(fake, head_sha=RED, base_sha=BASE)
    job = await repository.pull_request(RED)
    linked = await repository.link_pages(job, GITHUB_TOKEN="ghs_writes")
    assert linked.code == 0
    assert linked.err.startswith("warning: no link to report.html: ")
    assert len(comments(fake)) == 1


async def test_the_page_of_a_fork_is_linked_as_its_own_jobs(
    repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite()
    await main_run(repository)
    open_pull(fake, head_sha=RED, base_sha=BASE, head_repository=FORK)
    fake.state.tokens["ghs_fork"] = Token(may_comment=False)
    run = fake.state.add_run(RED, head_branch="feature", head_repository=FORK, event="pull_request")
    job = await repository.pull_request(RED, run=run, GITHUB_TOKEN="ghs_fork")
    repository.upload(job, run)
    environ = repository.environment("workflow_run", {}, run, repository.folder)
    posted = await ci_evals(
        repository.folder, "comment", "--from-run", str(run.id), environ=environ, constants=SETTLED
    )
    assert (posted.code, posted.err) == (0, "")
    (comment,) = comments(fake)
    address = f"{SITE}/actions/runs/{run.id}/artifacts/{fake.state.artifact_named(PAGE).id}"
    text = "open the report that the pull request&#39;s own job wrote"
    assert f"[{text}](<{address}>)" in comment.body


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
@pytest.mark.parametrize("policy", ["", "sandbox"])
async def test_the_link_of_a_case_opens_the_page_at_the_case(
    repository: Repository, fake: FakeGitHub, policy: str
) -> None:
    """It survives the redirect to the storage, which may forbid scripts."""
    if policy:
        fake.storage_headers = {"Content-Security-Policy": policy}
    repository.suite(wrong=("river", "poem"))
    open_pull(fake, head_sha=RED, base_sha=BASE)
    run = fake.state.add_run(RED, head_branch="feature", event="pull_request")
    site = {"GITHUB_SERVER_URL": fake.site_url}
    job = await repository.pull_request(RED, run=run, **site)
    repository.upload(job, run)
    assert (await repository.link_pages(job)).code == 0
    (comment,) = comments(fake)
    link = comment.body.partition("[open in the report](<")[2].partition(">)")[0]
    assert link.startswith(fake.site_url)
    assert link.endswith("#case=river")
    async with browsing() as tab:
        await tab.open(link)
        assert await tab.evaluate("location.pathname.startsWith('/signed/')")
        case = "document.querySelector(':target')"
        assert await tab.evaluate(f"{case}.id") == "case=river"
        assert "no idea" in await tab.evaluate(f"{case}.innerText")
        assert await tab.evaluate(f"{case}.getBoundingClientRect().top < innerHeight")
