"""The job of docs/ci/gitlab.md looks for a baseline, and says so if it cannot."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes.http_server import FakeServer, Scripted, serving
from processes import ci_evals

PAGE = (Path(__file__).parents[3] / "docs" / "ci" / "gitlab.md").read_text(encoding="utf-8")
needs_curl = pytest.mark.skipif(
    os.name == "nt" or not shutil.which("curl"), reason="the job's shell and curl"
)


def job() -> Any:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return yaml.safe_load(text)["evals"]


async def download(folder: Path, server: FakeServer, **variables: str) -> tuple[int, str]:
    _install, script = job()["before_script"]
    environ = {
        "CI_API_V4_URL": server.url,
        "CI_DEFAULT_BRANCH": "main",
        "CI_JOB_TOKEN": "a token of the job",
        "CI_PROJECT_ID": "7",
        **variables,
    }
    command = ("sh", "-e", "-c", script.replace("--retry 3", "--retry 0"))
    ended = await ci_evals(folder, command=command, environ=environ)
    return ended.code, ended.out


@needs_curl
async def test_the_job_downloads_the_report_of_the_default_branch(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted(b"a report"))
        assert await download(tmp_path, server) == (0, "")
        assert await download(tmp_path, server, BASELINE_TOKEN="of the project") == (0, "")
    assert (tmp_path / "main" / "report.json").read_bytes() == b"a report"
    by_job, by_project = server.seen
    place = "/projects/7/jobs/artifacts/main/raw/ci-evals-results/report.json?job=evals"
    assert by_job.path == by_project.path == place
    assert by_job.headers["JOB-TOKEN"] == "a token of the job"
    assert by_project.headers["PRIVATE-TOKEN"] == "of the project"
    assert "JOB-TOKEN" not in by_project.headers
    assert "ci-evals-results" in job()["artifacts"]["paths"]
    assert "ci-evals run --baseline main" in job()["script"]


@needs_curl
@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (404, 0, "There is no report of main to compare with.\n"),
        (401, 1, "The report of main cannot be downloaded: HTTP 401\n"),
        (403, 1, "The report of main cannot be downloaded: HTTP 403\n"),
        (500, 1, "The report of main cannot be downloaded: HTTP 500\n"),
    ],
)
async def test_only_a_report_that_is_not_there_lets_the_job_go_on(
    status: int, code: int, said: str, tmp_path: Path
) -> None:
    async with serving() as server:
        server.answers(Scripted({"message": "no"}, status))
        assert await download(tmp_path, server) == (code, said)
    assert not (tmp_path / "main" / "report.json").exists()


@needs_curl
async def test_a_server_that_cannot_be_reached_ends_the_job(tmp_path: Path) -> None:
    async with serving() as server:
        pass
    code, _said = await download(tmp_path, server)
    assert code != 0
