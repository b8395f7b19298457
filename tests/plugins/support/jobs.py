"""Jobs of GitHub Actions: ci-evals as a process in a checkout, with what a runner would tell it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from archives import archive
from checkouts import RESULTS, SETTLED, Checkout
from fakes.github import TOKEN, FakeGitHub
from fakes.github_state import REPOSITORY, StoredRun
from processes import Finished, ci_evals
from pulls import NUMBER

MERGE_COMMIT = "c0" * 20
"""What a pull request's job checks out: its head merged into its base, on no branch."""
_OUTPUT = re.compile(r"^(.+?)<<(ci_evals_\w+)\n(.*?)\n\2$", re.MULTILINE | re.DOTALL)


class Job(NamedTuple):
    """A job that has ended. `results` is its results folder."""

    ended: Finished
    results: Path
    outputs: Mapping[str, str]
    summary: str
    environ: Mapping[str, str]

    @property
    def report(self) -> Any:
        return json.loads((self.results / "report.json").read_bytes())

    @property
    def page(self) -> str:
        return (self.results / "report.html").read_text("utf-8")


class Repository(Checkout):
    """The checkout that jobs use one after the other, and the fake GitHub that knows them."""

    def __init__(self, folder: Path, fake: FakeGitHub) -> None:
        super().__init__(folder)
        self.fake = fake
        self.constants: Mapping[str, float] = SETTLED

    async def push(self, sha: str, *arguments: str, before: str = "0" * 40, **changes: str) -> Job:
        """A push to main, whose results are uploaded."""
        self.check_out(sha)
        run = self.fake.state.add_run(sha)
        event = {"before": before, "after": sha}
        job = await self.job(
            "push", event, run, *arguments, GITHUB_REF="refs/heads/main", **changes
        )
        self.upload(job, run, changes.get("CI_EVALS_ARTIFACT", RESULTS))
        return job

    async def pull_request(
        self, sha: str, *arguments: str, run: StoredRun | None = None, **changes: str
    ) -> Job:
        """A push to the pull request that is open on the fake."""
        self.check_out(MERGE_COMMIT)
        pull = self.fake.state.pulls[NUMBER]
        run = run or self.fake.state.add_run(sha, head_branch=pull.head_ref, event="pull_request")
        event = {"pull_request": self.fake.state.pull_answer(replace(pull, head_sha=sha))}
        return await self.job("pull_request", event, run, *arguments, **changes)

    async def job(
        self, name: str, event: Mapping[str, Any], run: StoredRun, *arguments: str, **changes: str
    ) -> Job:
        """Run a command, `ci-evals run` unless another is given, as a job of a workflow run."""
        place = self.folder / f".runner-{self.fake.state.next_id()}"
        place.mkdir()
        environ = self.environment(name, event, run, place) | changes
        out = (
            f"{changes.get('CI_EVALS_ARTIFACT', RESULTS)}-{run.id}-{environ['GITHUB_RUN_ATTEMPT']}"
        )
        command = arguments if arguments[:1] == ("merge",) else ("run", *arguments)
        ended = await ci_evals(
            self.folder, *command, "--out", out, environ=environ, constants=self.constants
        )
        written = place / "output"
        outputs = outputs_in(written) if written.exists() else {}
        summary = place / "summary"
        return Job(
            ended,
            self.folder / out,
            outputs,
            summary.read_text() if summary.exists() else "",
            environ,
        )

    def environment(
        self, name: str, event: Mapping[str, Any], run: StoredRun, place: Path
    ) -> dict[str, str]:
        """What a runner sets; `place` is for the files that it hands to a step."""
        path = place / "event.json"
        path.write_text(json.dumps({"repository": {"default_branch": "main"}, **event}))
        return {
            "CI_EVALS_AGAINST": "off",  # the fake's commits are in no repository
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.fake.api_url,
            "GITHUB_ACTOR": "octocat",
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_JOB": "evals",
            "GITHUB_OUTPUT": str(place / "output"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_SHA": MERGE_COMMIT if name == "pull_request" else run.head_sha,
            "GITHUB_STEP_SUMMARY": str(place / "summary"),
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_WORKFLOW": "evals",
            "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/{run.workflow}@refs/heads/main",
            "GITHUB_WORKSPACE": str(self.folder),
            "RUNNER_TEMP": str(place),
        }

    def upload(self, job: Job, run: StoredRun, name: str = RESULTS) -> None:
        """What the steps of the action do that upload the results and the pages."""
        paths = [path for path in job.results.rglob("*") if path.is_file()]
        files = {path.relative_to(job.results).as_posix(): path.read_bytes() for path in paths}
        self.fake.state.add_artifact(run, archive(files), name)
        for page in json.loads(job.outputs.get("pages", "[]")):
            path = Path(job.environ["RUNNER_TEMP"], "ci-evals-pages", page)
            self.fake.state.add_artifact(run, path.read_bytes(), page)

    async def link_pages(self, job: Job, *arguments: str, **changes: str) -> Finished:
        """What the step of the action does that links the pages."""
        environ = {**job.environ, **changes}
        command = ("comment", str(job.results), *arguments)
        return await ci_evals(self.folder, *command, environ=environ, constants=self.constants)


def outputs_in(path: Path) -> Mapping[str, str]:
    """What a step has handed on."""
    return {found[1]: found[3] for found in _OUTPUT.finditer(path.read_text())}
