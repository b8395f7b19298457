"""Jobs of GitLab CI: ci-evals as a process in a checkout, with what a runner would tell it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from archives import archive
from checkouts import RESULTS, SETTLED, Checkout
from fakes.gitlab import (
    JOB_TOKEN,
    PROJECT_ID,
    PROJECT_URL,
    TOKEN,
    FakeGitLab,
    StoredJob,
    StoredMergeRequest,
    StoredPipeline,
)
from processes import Finished, ci_evals

IID = 12


class Job(NamedTuple):
    """A job that has ended. `results` is its results folder."""

    ended: Finished
    results: Path
    stored: StoredJob

    @property
    def report(self) -> Any:
        return json.loads((self.results / "report.json").read_bytes())

    @property
    def quality(self) -> Any:
        return json.loads((self.results / "gl-code-quality-report.json").read_bytes())


class Project(Checkout):
    """The checkout that jobs use one after the other, and the fake GitLab that knows them."""

    def __init__(self, folder: Path, fake: FakeGitLab) -> None:
        super().__init__(folder)
        self.fake = fake
        self.constants: Mapping[str, float] = {
            **SETTLED,
            "ci_evals.plugins.ci.requests._FIRST_RETRY_S": 0.01,
        }

    async def push(self, sha: str, *arguments: str, before: str = "0" * 40, **changes: str) -> Job:
        """A push to main, whose results become artifacts of its job."""
        self.check_out(sha)
        environ = {"CI_COMMIT_BRANCH": "main", "CI_COMMIT_BEFORE_SHA": before, **changes}
        pipeline = self.fake.add_pipeline(sha)
        job = await self.job(pipeline, *arguments, command=("run",), **environ)
        self.keep(job)
        return job

    async def merge_request(
        self,
        sha: str,
        *arguments: str,
        pipeline: StoredPipeline | None = None,
        command: tuple[str, ...] = ("run",),
        **changes: str,
    ) -> Job:
        """A push to the merge request that is open on the fake."""
        self.check_out(sha)
        pipeline = pipeline or self.fake.add_pipeline(
            sha, ref=f"refs/merge-requests/{IID}/head", source="merge_request_event"
        )
        environ = {
            "CI_MERGE_REQUEST_IID": str(IID),
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT_ID),
            "CI_MERGE_REQUEST_PROJECT_URL": PROJECT_URL,
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            **changes,
        }
        return await self.job(pipeline, *arguments, command=command, **environ)

    async def job(
        self,
        pipeline: StoredPipeline,
        *arguments: str,
        command: tuple[str, ...] = ("run",),
        **changes: str,
    ) -> Job:
        """Run a command, `ci-evals run` unless another is given, as a job of a pipeline."""
        stored = self.fake.add_job(pipeline, name=changes.get("CI_JOB_NAME", "evals"))
        pipeline.status = "running"
        out = f"{RESULTS}-{stored.id}"
        environ = {
            "CI": "true",
            "CI_EVALS_AGAINST": "off",  # the fake's commits are in no repository
            "CI_API_V4_URL": self.fake.api_url,
            "CI_COMMIT_SHA": pipeline.sha,
            "CI_DEFAULT_BRANCH": "main",
            "CI_JOB_ID": str(stored.id),
            "CI_JOB_NAME": stored.name,
            "CI_JOB_TOKEN": JOB_TOKEN,
            "CI_JOB_URL": f"{PROJECT_URL}/-/jobs/{stored.id}",
            "CI_PIPELINE_ID": str(pipeline.id),
            "CI_PIPELINE_SOURCE": pipeline.source,
            "CI_PIPELINE_URL": f"{PROJECT_URL}/-/pipelines/{pipeline.id}",
            "CI_PROJECT_DIR": str(self.folder),
            "CI_PROJECT_ID": str(PROJECT_ID),
            "CI_PROJECT_PATH": "acme/app",
            "CI_PROJECT_URL": PROJECT_URL,
            "GITLAB_TOKEN": TOKEN,
            "GITLAB_CI": "true",
            **changes,
        }
        ended = await ci_evals(
            self.folder,
            *command,
            *arguments,
            "--out",
            out,
            environ=environ,
            constants=self.constants,
        )
        pipeline.status = "success"
        if ended.code:
            pipeline.status = stored.status = "failed"
        return Job(ended, self.folder / out, stored)

    def keep(self, job: Job) -> None:
        """Keep the results of a job as its artifacts."""
        paths = [path for path in job.results.rglob("*") if path.is_file()]
        job.stored.content = archive(
            {f"{RESULTS}/{path.relative_to(job.results)}": path.read_bytes() for path in paths}
        )


def open_merge_request(fake: FakeGitLab, sha: str, **changes: Any) -> StoredMergeRequest:
    """A merge request from a branch of the project itself."""
    found = StoredMergeRequest(IID, sha, **changes)
    fake.merge_requests[IID] = found
    return found
