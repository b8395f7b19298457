"""A project's life with the gate on GitLab: main, merge requests, forks, retried jobs."""

import asyncio
import json
from xml.etree import ElementTree as ET

import pytest
from aiohttp import web
from archives import archive
from fakes.chat import completion
from fakes.gitlab import (
    BOT,
    FORK_ID,
    JOB_TOKEN,
    PROJECT_URL,
    READER,
    TOKEN,
    FakeGitLab,
    Fault,
    expired,
)
from fakes.http_server import serving
from pipelines import IID, Job, Project, open_merge_request
from suites import chat, write_suite

OLDER, BASE, RED, GREEN = "a" * 40, "b" * 40, "c" * 40, "d" * 40
FEATURE = "f" * 40


async def main_pipeline(project: Project) -> Job:
    project.fake.add_history(OLDER, BASE, RED, GREEN)
    project.suite()
    job = await project.push(BASE, before=OLDER)
    assert job.ended.code == 0, job.ended.err
    return job


async def test_a_regression_is_named_in_one_note_which_turns_green_when_it_is_fixed(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    change = open_merge_request(fake, RED)
    fake.add_note(IID, "mentor", "changed the title", system=True)

    project.suite(wrong=("river",))
    red = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert red.ended.code == 1
    lines = red.ended.out.splitlines()
    assert lines[-1].startswith("FAIL: ")
    assert "river" in lines[-1]
    assert "compared with main at bbbbbbb (the merge base)" in red.ended.out
    assert f"{PROJECT_URL}/-/merge_requests/{IID}#note_" in red.ended.out
    (note,) = fake.notes_of(IID)
    assert note.author == BOT
    assert "river" in note.body
    assert "❌" in note.body
    page = f"{PROJECT_URL}/-/jobs/{red.stored.id}/artifacts/file/{red.results.name}/report.html"
    assert f"[open the report](<{page}>)" in note.body

    change.sha = GREEN
    project.suite()
    green = await project.merge_request(GREEN, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert green.ended.code == 0, green.ended.err
    (edited,) = fake.notes_of(IID)
    assert edited.id == note.id
    assert "✅" in edited.body
    assert "❌" not in edited.body


async def test_several_jobs_have_a_section_each(project: Project, fake: FakeGitLab) -> None:
    open_merge_request(fake, RED)
    project.suite()
    pipeline = fake.add_pipeline(RED, source="merge_request_event")
    project.check_out(RED)
    async with asyncio.TaskGroup() as group:
        for name in ("fast", "slow"):
            group.create_task(
                project.merge_request(RED, pipeline=pipeline, CI_JOB_NAME=name, CI_EVALS_RUNS="1")
            )
    (note,) = fake.notes_of(IID)
    assert "part=fast" in note.body
    assert "part=slow" in note.body


async def test_a_failing_case_is_in_the_code_quality_report_and_in_junit(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    red = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    (finding,) = red.quality
    assert finding["location"] == {"path": "evals.yaml", "lines": {"begin": 1}}
    assert finding["severity"] == "major"
    assert finding["description"].startswith("Regressed: river: ")
    again = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert [each["fingerprint"] for each in again.quality] == [finding["fingerprint"]]
    failed = [case.get("name") for case in ET.parse(red.results / "junit.xml").iter("testcase")]
    assert "river" in failed
    project.suite()
    green = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert green.quality == []


async def test_progress_is_folded_and_nobody_else_begins_a_section(
    project: Project, fake: FakeGitLab
) -> None:
    (project.folder / "agent.py").write_text(
        "def answer(case):\n"
        "    print('\\x1b[0Ksection_start:1:stolen\\r\\x1b[0Kstolen')\n"
        "    print('sk-a-secret-of-the-team')\n"
        "    return 'hello'\n"
    )
    write_suite(
        project.folder, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}]
    )
    pipeline = fake.add_pipeline(BASE)
    job = await project.job(pipeline, TEAM_API_KEY="sk-a-secret-of-the-team")
    assert job.ended.code == 0, job.ended.err
    log = job.ended.out + job.ended.err
    assert "[collapsed=true]\r\x1b[0KProgress of test" in log
    assert log.count("section_start:") == log.count("section_end:") == 1
    assert "section-start:1:stolen" in log
    assert "sk-a-secret-of-the-team" not in log


async def test_answers_neither_act_nor_refer_in_the_note(
    project: Project, fake: FakeGitLab
) -> None:
    hostile = (
        "/merge\n```\n/close\n@all !1 #2 $3 &4 %5 ~6 [vulnerability:7] ^alert#8\n````\n/approve"
    )
    entry = {"id": "!9 $9 &9 %9 ~9", "input": "hello", "expect": [{"equals": "hello"}]}
    provider = {"name": "agent", "type": "mock", "answers": {"hello": hostile}}
    write_suite(project.folder, [entry], providers=[provider])
    open_merge_request(fake, RED)
    job = await project.merge_request(RED)
    assert job.ended.code == 1
    (note,) = fake.notes_of(IID)
    assert "/\u200bmerge" not in note.body
    assert "\u200b/close" in note.body
    assert fake.quick_actions == []


async def test_code_under_test_does_not_inherit_the_tokens(
    project: Project, fake: FakeGitLab
) -> None:
    (project.folder / "agent.py").write_text(
        "import json, os\n\n\ndef answer(case):\n    return json.dumps(sorted(os.environ))\n"
    )
    entry = {"id": "names", "input": "x", "expect": [{"contains": "CI_PROJECT_ID"}]}
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(project.folder, [entry], providers=[provider])
    open_merge_request(fake, RED)
    job = await project.merge_request(
        RED, CI_REPOSITORY_URL="https://ci:token@gitlab.example.com/x"
    )
    assert job.ended.code == 0, job.ended.err
    journal = (job.results / "results.jsonl").read_text()
    for name in ("CI_JOB_TOKEN", "GITLAB_TOKEN", "CI_REPOSITORY_URL"):
        assert name not in journal


# The baseline.


async def test_a_push_to_main_carries_the_history_of_the_reports_before(project: Project) -> None:
    await main_pipeline(project)
    second = await project.push(RED, before=BASE)
    assert "compared with main at bbbbbbb (its base)" in second.ended.out
    third = await project.push(GREEN, before=RED)
    assert len(third.report["comparison"]["baseline"]) == 2


async def test_the_nearest_commit_with_results_is_preferred(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.add_pipeline(RED)  # ran other jobs only
    await project.push(GREEN, before=RED)
    open_merge_request(fake, FEATURE)
    job = await project.merge_request(FEATURE, CI_MERGE_REQUEST_DIFF_BASE_SHA=RED)
    said = "compared with main at bbbbbbb (1 commit before the one it is based on)"
    assert said in job.ended.out


async def test_the_job_token_finds_the_last_green_pipeline(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.calls.clear()
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    job = await project.merge_request(RED, GITLAB_TOKEN="")
    assert job.ended.code == 1
    assert "compared with main at bbbbbbb (its last green pipeline)" in job.ended.out
    _, path = fake.asked("GET")
    assert path.startswith("/api/v4/projects/7/jobs/artifacts/main/download?job=evals")
    assert {headers.get("JOB-TOKEN") for _, _, headers in fake.calls} == {JOB_TOKEN}
    assert "comment: no comment was posted: that needs a project access token" in job.ended.out
    assert fake.notes == {}


async def test_the_first_pipeline_has_nothing_to_compare_with(
    project: Project, fake: FakeGitLab
) -> None:
    fake.add_history(OLDER, BASE)
    fake.shows_pipelines = True  # without that, a job's token cannot tell
    project.suite()
    for token in (TOKEN, ""):
        fake.pipelines.clear()
        job = await project.push(BASE, before=OLDER, GITLAB_TOKEN=token)
        assert job.ended.code == 0
        assert "no pipeline of main has finished yet" in job.ended.out
        assert job.report["verdict"]["status"] == "pass"


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_a_branch_with_finished_pipelines_has_no_first_run(
    token: str, project: Project, fake: FakeGitLab
) -> None:
    fake.add_history(OLDER, BASE)
    fake.add_pipeline(BASE)  # ran other jobs only
    open_merge_request(fake, RED)
    project.suite()
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE, GITLAB_TOKEN=token)
    assert job.report["verdict"]["status"] == "borderline"
    assert "left results of th" in job.ended.out


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_a_job_that_the_newest_green_pipeline_did_not_run_is_found_before_it(
    token: str, project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.add_pipeline(RED)  # a scheduled pipeline, say
    open_merge_request(fake, GREEN)
    job = await project.merge_request(GREEN, CI_MERGE_REQUEST_DIFF_BASE_SHA=RED, GITLAB_TOKEN=token)
    assert "compared with main at bbbbbbb" in job.ended.out


async def test_an_older_gitlab_is_not_said_to_have_no_report(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.searches_recent_pipelines = False
    fake.add_pipeline(RED)
    open_merge_request(fake, GREEN)
    job = await project.merge_request(GREEN, GITLAB_TOKEN="")
    assert job.report["verdict"]["status"] == "borderline"
    assert "token with the scope `read_api` in GITLAB_TOKEN" in job.ended.out


async def test_a_renamed_job_is_found_by_its_suite(project: Project, fake: FakeGitLab) -> None:
    first = await main_pipeline(project)
    fake.add_job(first.stored.pipeline, name="build", content=archive({"app.whl": b"a build"}))
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    job = await project.merge_request(
        RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE, CI_JOB_NAME="behaviour"
    )
    assert "compared with main at bbbbbbb (the merge base)" in job.ended.out
    assert job.ended.code == 1


async def test_expired_artifacts_hide_no_older_ones(project: Project, fake: FakeGitLab) -> None:
    await main_pipeline(project)
    for _ in range(6):
        fake.add_job(fake.add_pipeline(RED), expire_at=expired())
    open_merge_request(fake, GREEN)
    job = await project.merge_request(GREEN, CI_MERGE_REQUEST_DIFF_BASE_SHA=RED)
    assert "compared with main at bbbbbbb" in job.ended.out


async def test_an_expired_token_falls_back_to_the_jobs_and_says_so(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    del fake.tokens[TOKEN]
    open_merge_request(fake, RED)
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert "compared with main at bbbbbbb (its last green pipeline)" in job.ended.out
    assert "warning: GITLAB_TOKEN is not valid, or has expired: the baseline was" in job.ended.out


async def test_a_redirect_to_a_link_local_address_is_refused(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.storage_url = "http://169.254.169.254"
    open_merge_request(fake, RED)
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert "a redirect to the link-local address 169.254.169.254 is refused" in job.ended.out
    assert job.report["verdict"]["status"] == "borderline"


async def test_a_job_token_that_may_not_read_artifacts_is_no_first_pipeline(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.job_token_reads_artifacts = False
    open_merge_request(fake, RED)
    job = await project.merge_request(RED, GITLAB_TOKEN="")
    assert "token with the scope `read_api` in GITLAB_TOKEN" in job.ended.out
    assert job.report["verdict"]["status"] == "borderline"


@pytest.mark.parametrize("status", [403, 500])
async def test_only_a_report_that_is_not_there_leaves_the_verdict_as_it_is(
    status: int, project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, RED)
    fake.fails(*[Fault("GET", "/pipelines", status, message=f"{status} no")] * 5)
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert f"answered {status}: {status} no" in job.ended.out
    assert job.report["verdict"]["status"] == "borderline"
    (note,) = fake.notes_of(IID)
    assert f"answered {status}" in note.body


async def test_results_of_others_are_no_baseline(project: Project, fake: FakeGitLab) -> None:
    first = await main_pipeline(project)
    forged = first.stored.content
    merge_request = fake.add_pipeline(BASE, source="merge_request_event")
    fake.add_job(merge_request, content=forged)  # of a pipeline that names main, but tests a change
    fake.add_job(fake.add_pipeline(BASE), content=forged, tag=True)  # a tag that is called main
    fake.add_job(fake.add_pipeline(BASE), expire_at=expired())
    fake.jobs[first.stored.id].content = None
    open_merge_request(fake, RED)
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert "it ran on a tag" in job.ended.out
    assert "its artifacts have expired" in job.ended.out
    assert "compared with main" not in job.ended.out


async def test_artifacts_that_gitlab_keeps_beyond_their_time_are_a_baseline(
    project: Project, fake: FakeGitLab
) -> None:
    first = await main_pipeline(project)
    first.stored.expire_at = expired()
    open_merge_request(fake, RED)
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert "compared with main at bbbbbbb" in job.ended.out


async def test_a_report_of_a_commit_that_main_lacks_is_no_baseline(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.parents[FEATURE] = BASE  # a commit that main doesn't have
    project.suite(wrong=("river",))
    project.check_out(FEATURE)
    pipeline = fake.add_pipeline(GREEN, source="web")
    dispatched = await project.job(pipeline, CI_COMMIT_BRANCH="main")
    assert dispatched.report["suite"]["revision"] == FEATURE
    project.keep(dispatched)
    open_merge_request(fake, FEATURE)
    job = await project.merge_request(FEATURE, CI_MERGE_REQUEST_DIFF_BASE_SHA=GREEN)
    assert "compared with main at bbbbbbb" in job.ended.out
    assert job.ended.code == 1


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_a_pipeline_on_main_that_checked_out_a_merge_request_is_no_baseline(
    token: str, project: Project, fake: FakeGitLab
) -> None:
    fake.add_history(OLDER, BASE, FEATURE)  # the commit has been merged since
    project.suite()
    project.check_out(FEATURE)
    dispatched = await project.job(fake.add_pipeline(BASE, source="web"), CI_COMMIT_BRANCH="main")
    project.keep(dispatched)
    said = "this run cannot be a baseline: it checked out fffffff, but ran on bbbbbbb"
    assert said in dispatched.ended.out
    open_merge_request(fake, FEATURE)
    job = await project.merge_request(
        FEATURE, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE, GITLAB_TOKEN=token
    )
    assert "it checked out fffffff, but ran on bbbbbbb" in job.ended.out
    assert "compared with main" not in job.ended.out


async def test_no_token_reaches_the_storage_of_artifacts(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, RED)
    await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert fake.storage_headers
    for headers in fake.storage_headers:
        assert TOKEN not in str(headers)


async def test_a_retried_job_goes_on_from_what_is_there(project: Project, fake: FakeGitLab) -> None:
    open_merge_request(fake, RED)
    project.suite()
    first = await project.merge_request(RED)
    project.keep(first)
    first.stored.retried = True
    again = await project.merge_request(RED, pipeline=first.stored.pipeline)
    assert again.report["resumption"]["kept"] == 20


async def test_the_committed_baseline_is_the_target_branchs(
    project: Project, fake: FakeGitLab
) -> None:
    first = await main_pipeline(project)
    fake.files[BASE, "evals.baseline.json"] = (first.results / "report.json").read_bytes()
    first.stored.content = None
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    (project.folder / "evals.baseline.json").write_text("forged")
    job = await project.merge_request(RED, CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE)
    assert job.ended.code == 1
    assert "evals.baseline.json" in job.ended.out


async def test_a_suite_that_is_unchanged_is_not_run(project: Project, fake: FakeGitLab) -> None:
    project.suite(skip_unchanged=True)
    open_merge_request(fake, RED, changed=(("docs/a.md", "docs/b.md"),))
    job = await project.merge_request(RED)
    assert job.ended.code == 0
    assert "nothing that the suite depends on has changed (2 other files did)" in job.ended.out
    fake.merge_requests[IID].changed = (("evals.yaml", "evals.yaml"),)
    assert (await project.merge_request(RED)).report["verdict"]["status"] == "pass"


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_a_pipeline_of_a_branch_is_that_of_its_open_merge_request(
    token: str, project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, RED, base_sha=BASE)
    project.suite(wrong=("river",))
    project.check_out(RED)
    job = await project.job(
        fake.add_pipeline(RED, ref="feature"),
        CI_COMMIT_BRANCH="feature",
        CI_OPEN_MERGE_REQUESTS=f"fork/app!3,acme/app!{IID}",
        GITLAB_TOKEN=token,
    )
    assert job.ended.code == 1
    assert "compared with main at bbbbbbb" in job.ended.out
    assert ("(the merge base)" in job.ended.out) is bool(token)
    assert len(fake.notes_of(IID)) == bool(token)


async def test_the_merge_request_of_a_branch_names_its_target(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.branches["release"] = GREEN
    project.check_out(GREEN)
    released = fake.add_pipeline(GREEN, ref="release")
    project.keep(await project.job(released, CI_COMMIT_BRANCH="release"))
    open_merge_request(fake, FEATURE, target_branch="release", base_sha=GREEN)
    project.check_out(FEATURE)
    job = await project.job(
        fake.add_pipeline(FEATURE, ref="feature"),
        CI_COMMIT_BRANCH="feature",
        CI_OPEN_MERGE_REQUESTS=f"acme/app!{IID}",
    )
    assert "compared with release at ddddddd (the merge base)" in job.ended.out


async def test_a_stacked_merge_request_is_compared_with_the_commit_that_both_have(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    fake.parents[FEATURE] = BASE
    fake.branches["feature-1"] = FEATURE
    open_merge_request(fake, RED, target_branch="feature-1")
    project.suite(wrong=("river",))
    job = await project.merge_request(
        RED,
        CI_MERGE_REQUEST_DIFF_BASE_SHA=FEATURE,
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME="feature-1",
    )
    said = "compared with feature-1 at bbbbbbb (1 commit before the one it is based on)"
    assert said in job.ended.out


async def test_a_push_to_main_is_no_merge_request_of_main(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, RED)  # into a branch of releases
    job = await project.push(RED, before=BASE, CI_OPEN_MERGE_REQUESTS=f"acme/app!{IID}")
    assert "compared with main at bbbbbbb (its base)" in job.ended.out
    assert fake.notes == {}


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_a_child_pipeline_is_found_through_its_parent(
    token: str, project: Project, fake: FakeGitLab
) -> None:
    fake.add_history(OLDER, BASE, RED)
    project.suite()
    project.check_out(BASE)
    parent = fake.add_pipeline(BASE)
    child = fake.add_pipeline(BASE, source="parent_pipeline", parent=parent.id)
    grandchild = fake.add_pipeline(BASE, source="parent_pipeline", parent=child.id)
    project.keep(await project.job(grandchild, CI_COMMIT_BRANCH="main"))
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    job = await project.merge_request(
        RED,
        CI_MERGE_REQUEST_DIFF_BASE_SHA=BASE,
        CI_PIPELINE_SOURCE="parent_pipeline",
        GITLAB_TOKEN=token,
    )
    assert job.ended.code == 1
    assert "compared with main at bbbbbbb" in job.ended.out


async def test_a_child_of_a_pipeline_for_a_merge_request_is_no_baseline(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    parent = fake.add_pipeline(RED, source="merge_request_event")
    project.check_out(RED)
    child = fake.add_pipeline(RED, source="parent_pipeline", parent=parent.id)
    project.keep(await project.job(child, CI_COMMIT_BRANCH="main"))
    open_merge_request(fake, GREEN)
    job = await project.merge_request(GREEN, CI_MERGE_REQUEST_DIFF_BASE_SHA=RED)
    assert "compared with main at bbbbbbb" in job.ended.out


# The note.


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (READER, "GitLab answered 403: The request requires higher privileges"),
        ("glpat-unknown-token-0123", "GitLab answered 401: 401 Unauthorized"),
    ],
)
async def test_a_token_that_may_not_write_leaves_the_note_in_the_artifact(
    token: str, said: str, project: Project, fake: FakeGitLab
) -> None:
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    job = await project.merge_request(RED, GITLAB_TOKEN=token)
    assert job.ended.code == 1
    (warning,) = (line for line in job.ended.out.splitlines() if "no comment was posted" in line)
    assert warning.startswith("warning: no comment was posted: ")
    assert said in warning
    assert "the scope `api` in GITLAB_TOKEN" in warning
    assert "river" in (job.results / "comment.md").read_text("utf-8")
    assert token not in job.ended.out + job.ended.err


async def test_a_forks_own_pipeline_says_why_it_posts_nothing(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, RED, source_project_id=FORK_ID)
    project.suite(wrong=("river",))
    job = await project.merge_request(RED, CI_PROJECT_ID=str(FORK_ID), GITLAB_TOKEN="")
    assert job.ended.code == 1
    assert "compared with main at bbbbbbb" in job.ended.out
    assert "this pipeline runs in the fork" in job.ended.out
    assert (job.results / "comment.md").exists()
    assert fake.notes == {}


async def test_a_fork_without_keys_is_answered_from_what_main_recorded(
    project: Project, fake: FakeGitLab
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        question = (await request.json())["messages"][-1]["content"]
        body = completion(f"the {question}")
        return web.Response(body=body, content_type="application/json")

    fake.add_history(OLDER, BASE)
    open_merge_request(fake, RED, source_project_id=FORK_ID)
    async with serving() as server:
        server.answers(answer)
        provider = chat(server.url, api_key="${AGENT_KEY}")
        project.suite(providers=[provider])
        recorded = await project.push(BASE, before=OLDER, AGENT_KEY="a-key-of-the-agent")
        assert recorded.ended.code == 0, recorded.ended.err
        asked = len(server.seen)
        job = await project.merge_request(RED, CI_PROJECT_ID=str(FORK_ID), GITLAB_TOKEN="")
        assert len(server.seen) == asked == 20
    assert job.report["totals"]["passed"] == 20
    assert "a-key-of-the-agent" not in (recorded.results / "results.jsonl").read_text()


async def test_a_merge_request_that_the_token_cannot_see_is_a_warning(
    project: Project, fake: FakeGitLab
) -> None:
    project.suite()
    job = await project.merge_request(RED)
    assert job.ended.code == 0
    assert "warning: no comment was posted: GitLab answered 404: 404 Not found" in job.ended.out


async def test_failures_and_limits_of_gitlab_are_waited_out(
    project: Project, fake: FakeGitLab
) -> None:
    open_merge_request(fake, RED)
    project.suite()
    limited = {"Retry-After": "0"}
    fake.fails(
        Fault("GET", "/user", 502),
        Fault("GET", "/notes", 429, limited, "Retry later"),
        Fault("POST", "/notes", 429, limited, "Retry later"),
        Fault("POST", "/notes", 500, after=True),  # it has been created all the same
    )
    job = await project.merge_request(RED)
    assert job.ended.code == 0
    (note,) = fake.notes_of(IID)
    assert f"#note_{note.id}" in job.ended.out


async def test_a_note_is_found_beyond_the_first_page(project: Project, fake: FakeGitLab) -> None:
    open_merge_request(fake, RED)
    for number in range(150):
        fake.add_note(IID, "reviewer", f"remark {number}")
    project.suite()
    await project.merge_request(RED)
    await project.merge_request(RED)
    assert len([note for note in fake.notes_of(IID) if note.author == BOT]) == 1


async def test_an_outdated_job_leaves_the_note_alone(project: Project, fake: FakeGitLab) -> None:
    open_merge_request(fake, GREEN)
    project.suite()
    job = await project.merge_request(RED)
    assert f"merge request !{IID} has moved on to ddddddd" in job.ended.out
    assert fake.notes == {}


async def test_merged_results_are_judged_for_the_head_of_the_branch(
    project: Project, fake: FakeGitLab
) -> None:
    await main_pipeline(project)
    open_merge_request(fake, FEATURE)
    merged = "e" * 40
    job = await project.merge_request(
        merged,
        CI_MERGE_REQUEST_SOURCE_BRANCH_SHA=FEATURE,
        CI_MERGE_REQUEST_TARGET_BRANCH_SHA=RED,
        CI_MERGE_REQUEST_DIFF_BASE_SHA=OLDER,
    )
    assert "compared with main at bbbbbbb (1 commit before" in job.ended.out
    (note,) = fake.notes_of(IID)
    assert f"sha={FEATURE}" in note.body


async def test_a_broken_suite_is_in_the_note(project: Project, fake: FakeGitLab) -> None:
    open_merge_request(fake, RED)
    (project.folder / "evals.yaml").write_text(json.dumps({"name": "test", "cases": 3}))
    job = await project.merge_request(RED)
    assert job.ended.code == 2
    (note,) = fake.notes_of(IID)
    assert "The suite is broken" in note.body
    project.suite()
    assert (await project.merge_request(RED)).ended.code == 0
    (note,) = fake.notes_of(IID)
    assert "The suite is broken" not in note.body


async def test_the_job_that_merges_shards_gives_the_verdict(
    project: Project, fake: FakeGitLab
) -> None:
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    shards = []
    for number in ("1", "2"):
        name = f"shard {number}/2"
        shard = await project.merge_request(RED, "--shard", f"{number}/2", CI_JOB_NAME=name)
        assert shard.ended.code == 0, shard.ended.err
        shards.append(shard.results.name)
    assert fake.notes == {}
    merged = await project.merge_request(RED, command=("merge", *shards), CI_JOB_NAME="verdict")
    assert merged.ended.code == 1
    assert merged.ended.out.splitlines()[-1].startswith("FAIL: ")
    (note,) = fake.notes_of(IID)
    assert "part=verdict" in note.body


async def test_several_suites_of_a_job_have_a_section_each(
    project: Project, fake: FakeGitLab
) -> None:
    open_merge_request(fake, RED)
    names = ("billing", "search")
    for name in names:
        (project.folder / name).mkdir()
        write_suite(project.folder / name, name=name)
    files = [f"{name}/evals.yaml" for name in names]
    job = await project.merge_request(RED, *files)
    assert job.ended.code == 0, job.ended.err
    (note,) = fake.notes_of(IID)
    for name in names:
        assert f"suite={name} " in note.body
        assert json.loads((job.results / name / "gl-code-quality-report.json").read_bytes()) == []


async def test_the_note_can_say_that_a_run_is_under_way(project: Project, fake: FakeGitLab) -> None:
    open_merge_request(fake, RED)
    project.suite()
    await project.merge_request(RED, "--comment-progress")
    (note,) = fake.notes_of(IID)
    assert "Running" in note.versions[0]
    assert "✅" in note.body


@pytest.mark.parametrize(
    "changes", [{"CI_MERGE_REQUEST_EVENT_TYPE": "merge_train"}, {"CI_EVALS_COMMENT": "off"}]
)
async def test_nothing_is_posted_in_a_merge_train_or_where_nobody_wants_it(
    changes: dict[str, str], project: Project, fake: FakeGitLab
) -> None:
    open_merge_request(fake, RED)
    project.suite(wrong=("river",))
    job = await project.merge_request(RED, command=("run",), pipeline=None, **changes)
    assert job.ended.code == 1
    assert fake.notes == {}
    assert fake.asked("GET", "notes") == []
