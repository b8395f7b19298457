"""Signals while a job of GitHub Actions waits for GitHub."""

import json
import signal
import sys
from pathlib import Path

import pytest
from fakes.github import TOKEN
from fakes.http_server import never, serving
from leftovers import report_in
from processes import finished, start, until
from suites import write_suite

HEAD, BASE = "a" * 40, "b" * 40

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def environment(folder: Path, url: str) -> dict[str, str]:
    """A job for a pull request, whose GitHub is at `url`."""
    head = {"ref": "feature", "sha": HEAD, "repo": {"id": 1, "full_name": "acme/app"}}
    base = {"ref": "main", "sha": BASE, "repo": {"id": 1, "full_name": "acme/app"}}
    event = {"pull_request": {"number": 7, "head": head, "base": base}}
    (folder / "event.json").write_text(json.dumps(event))
    return {
        "CI_EVALS_AGAINST": "off",
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": url,
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_REPOSITORY": "acme/app",
        "GITHUB_RUN_ID": "100",
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "GITHUB_TOKEN": TOKEN,
    }


@pytest.mark.parametrize(
    ("which", "code"),
    [(getattr(signal, name, None), code) for name, code in (("SIGINT", 130), ("SIGTERM", 143))],
    ids=["SIGINT", "SIGTERM"],
)
@pytest.mark.parametrize("phase", ["baseline", "posting"])
async def test_a_signal_ends_a_job_that_waits_for_github(
    phase: str, which: signal.Signals, code: int, tmp_path: Path
) -> None:
    write_suite(tmp_path)
    baseline = {"baseline": "auto", "posting": "none"}[phase]
    async with serving() as server:
        server.answers(never)
        environ = environment(tmp_path, server.url)
        process = await start(tmp_path, "run", "--baseline", baseline, environ=environ)
        await until(lambda: bool(server.seen))
        process.send_signal(which)
        if phase == "posting":  # what is under way may end; a runner sends another one
            other = signal.SIGINT if which == signal.SIGTERM else signal.SIGTERM
            process.send_signal(other)
        ended = await finished(process)
    assert ended.code in ({code} if phase == "baseline" else {130, 143})
    assert "Traceback" not in ended.err
    if phase == "posting":
        out = tmp_path / "ci-evals-results"
        assert len(report_in(out)["results"]) > 0
        assert (out / "report.html").exists()
        assert "✅" in (tmp_path / "summary").read_text("utf-8")
