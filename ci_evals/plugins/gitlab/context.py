"""A job of GitLab CI, read from its predefined variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ci_evals.format import short_sha
from ci_evals.model.fields import Secret

TRUSTED_SOURCES: Final = frozenset(("push", "schedule", "web"))
"""The values of `CI_PIPELINE_SOURCE` for pipelines whose results may be a baseline."""

CHILD: Final = "parent_pipeline"
"""The value in a child pipeline, whose results may be a baseline if its parent's may."""

_NO_COMMIT: Final = "0" * 40  # before a pipeline that is not a push, or the first on a branch


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """The merge request of a pipeline.

    Attributes:
        iid: its number in the target project.
        project_id: the target project.
        url: its page.
        head_sha: the newest commit of its branch; not the merge commit that is checked out in a
            pipeline for merged results.
        base_sha: the merge base, or the target branch's commit in a pipeline for merged results.
        target_branch: the branch to merge it into.
        in_train: True in a merge train, whose verdicts are not for reviewers.
        is_listed_only: True in a pipeline of its branch, which knows its number only: then
            `target_branch` is the default branch, and `base_sha` is None.
    """

    iid: int
    project_id: str
    url: str
    head_sha: str
    base_sha: str | None
    target_branch: str
    in_train: bool = False
    is_listed_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLabContext:
    """A job: its pipeline, its commits and its tokens.

    Attributes:
        project_id: the project that the pipeline runs in; for a fork's own pipeline, the fork.
        job_name: its name in `.gitlab-ci.yml`, which identifies earlier results.
        branch: the branch; None in a pipeline for a merge request or a tag.
        before_sha: the commit before a push.
        job_token: may download artifacts of other jobs if the project allows it.
        token: a project, group or personal access token; None unless the project has one.
    """

    api_url: str
    project_id: str
    project_url: str = ""
    default_branch: str | None = None
    source: str = ""
    pipeline_id: int = 0
    pipeline_url: str | None = None
    job_id: int = 0
    job_name: str = ""
    job_url: str | None = None
    config_path: str = ".gitlab-ci.yml"
    sha: str = ""
    branch: str | None = None
    before_sha: str | None = None
    merge_request: MergeRequest | None = None
    workspace: Path | None = None
    job_token: Secret | None = None
    token: Secret | None = None

    @property
    def runs_in_fork(self) -> bool:
        """True for a pipeline that a fork runs itself, without the target project's variables."""
        if self.merge_request is None:
            return False
        return self.project_id != self.merge_request.project_id

    @property
    def target_project_id(self) -> str:
        """The project that has the baseline and the merge request."""
        if self.merge_request is None:
            return self.project_id
        return self.merge_request.project_id

    @property
    def makes_baselines(self) -> bool:
        """True if results of this job may be a baseline, since it runs on the default branch."""
        on_default_branch = self.branch is not None and self.branch == self.default_branch
        return on_default_branch and self.source in (*TRUSTED_SOURCES, CHILD)

    @property
    def source_url(self) -> str | None:
        """The files of the commit under test, on GitLab's pages."""
        if not self.project_url or not self.sha:
            return None
        return f"{self.project_url}/-/blob/{self.sha}"

    @property
    def artifacts_url(self) -> str | None:
        """The page of this job's artifacts, which exists once the job has ended."""
        if self.job_url is None:
            return None
        return f"{self.job_url}/artifacts/browse"

    def page_url(self, file: Path) -> str | None:
        """Return the address of a file among this job's artifacts; None for a file outside of the
        project's folder, which cannot be one.
        """
        workspace = self.workspace
        if self.job_url is None or workspace is None or not file.is_relative_to(workspace):
            return None
        return f"{self.job_url}/artifacts/file/{file.relative_to(workspace).as_posix()}"

    @property
    def links(self) -> Mapping[str, str]:
        """The pages of the pipeline, the job, its artifacts, the commit and the merge request."""
        links = {}
        if self.pipeline_url:
            links[f"pipeline {self.pipeline_id}"] = self.pipeline_url
        if self.job_url:
            links[f"job {self.job_id}"] = self.job_url
        if self.artifacts_url:
            links["artifacts"] = self.artifacts_url
        if self.project_url and self.sha:
            links[f"commit {short_sha(self.sha)}"] = f"{self.project_url}/-/commit/{self.sha}"
        if self.merge_request:
            links[f"merge request !{self.merge_request.iid}"] = self.merge_request.url
        return links


def read_context(environ: Mapping[str, str]) -> GitLabContext:
    """Read the environment. Never raises: unknown values are None or empty."""
    before_sha = environ.get("CI_COMMIT_BEFORE_SHA") or None
    if before_sha == _NO_COMMIT:
        before_sha = None
    workspace = None
    if environ.get("CI_PROJECT_DIR"):
        workspace = Path(environ["CI_PROJECT_DIR"])
    return GitLabContext(
        api_url=environ.get("CI_API_V4_URL", "https://gitlab.com/api/v4").rstrip("/"),
        project_id=environ.get("CI_PROJECT_ID", ""),
        project_url=environ.get("CI_PROJECT_URL", "").rstrip("/"),
        default_branch=environ.get("CI_DEFAULT_BRANCH") or None,
        source=environ.get("CI_PIPELINE_SOURCE", ""),
        pipeline_id=_number(environ, "CI_PIPELINE_ID"),
        pipeline_url=environ.get("CI_PIPELINE_URL") or None,
        job_id=_number(environ, "CI_JOB_ID"),
        job_name=environ.get("CI_JOB_NAME", ""),
        job_url=environ.get("CI_JOB_URL") or None,
        config_path=environ.get("CI_CONFIG_PATH") or ".gitlab-ci.yml",
        sha=environ.get("CI_COMMIT_SHA", ""),
        branch=environ.get("CI_COMMIT_BRANCH") or None,
        before_sha=before_sha,
        merge_request=_merge_request(environ),
        workspace=workspace,
        job_token=_secret(environ, "CI_JOB_TOKEN"),
        token=_secret(environ, "GITLAB_TOKEN"),
    )


def _merge_request(environ: Mapping[str, str]) -> MergeRequest | None:
    iid = _number(environ, "CI_MERGE_REQUEST_IID")
    if not iid:
        return _listed_merge_request(environ)
    project_url = environ.get("CI_MERGE_REQUEST_PROJECT_URL", "").rstrip("/")
    # These two are set in pipelines for merged results only, which test a merge commit.
    head_sha = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")
    base_sha = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
    return MergeRequest(
        iid=iid,
        project_id=environ.get("CI_MERGE_REQUEST_PROJECT_ID") or environ.get("CI_PROJECT_ID", ""),
        url=f"{project_url}/-/merge_requests/{iid}",
        head_sha=head_sha or environ.get("CI_COMMIT_SHA", ""),
        base_sha=base_sha or environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or None,
        target_branch=environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        in_train=environ.get("CI_MERGE_REQUEST_EVENT_TYPE") == "merge_train",
    )


def _listed_merge_request(environ: Mapping[str, str]) -> MergeRequest | None:
    """Return the open merge request of a branch whose pipelines run on pushes to it.

    Of several, it is the first. Those of the default branch don't count, nor do a fork's into
    another project, which the fork's token may not see.
    """
    branch = environ.get("CI_COMMIT_BRANCH")
    default_branch = environ.get("CI_DEFAULT_BRANCH", "")
    if not branch or branch == default_branch:
        return None
    for listed in environ.get("CI_OPEN_MERGE_REQUESTS", "").split(","):
        found = re.fullmatch(r"(?P<project>[^!]+)!(?P<iid>[0-9]{1,19})", listed.strip())
        if found is None or found["project"] != environ.get("CI_PROJECT_PATH"):
            continue
        project_url = environ.get("CI_PROJECT_URL", "").rstrip("/")
        return MergeRequest(
            iid=int(found["iid"]),
            project_id=environ.get("CI_PROJECT_ID", ""),
            url=f"{project_url}/-/merge_requests/{found['iid']}",
            head_sha=environ.get("CI_COMMIT_SHA", ""),
            base_sha=None,
            target_branch=default_branch,
            is_listed_only=True,
        )
    return None


def _number(environ: Mapping[str, str], name: str) -> int:
    """Return the number in a variable; 0 if there is none."""
    text = environ.get(name, "")
    if not text.isdecimal():
        return 0
    return int(text)


def _secret(environ: Mapping[str, str], name: str) -> Secret | None:
    value = environ.get(name, "")
    if not value.strip():
        return None
    return Secret(value, name)
