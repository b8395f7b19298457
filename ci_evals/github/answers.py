"""GitHub's answers and events, as far as they are read: another shape is an error and never half believed."""

from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ci_evals.errors import GitHubError

T = TypeVar("T")


class User(Struct, frozen=True):
    login: str


class Comment(Struct, frozen=True):
    """A comment on a pull request. `user` is None when the account was deleted."""

    id: int
    html_url: str
    user: User | None = None
    body: str | None = None


class Repository(Struct, frozen=True):
    id: int
    full_name: str


class Side(Struct, frozen=True):
    """Head or base of a pull request. `repo` is None when the fork was deleted."""

    ref: str
    sha: str
    repo: Repository | None = None


class Pull(Struct, frozen=True):
    number: int
    head: Side
    base: Side


class ArtifactRun(Struct, frozen=True):
    """Where an artifact comes from."""

    id: int
    repository_id: int
    head_repository_id: int
    head_sha: str
    head_branch: str | None = None


class Artifact(Struct, frozen=True):
    """What a run has uploaded. `size_in_bytes` is that of the zip."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    created_at: datetime | None = None
    workflow_run: ArtifactRun | None = None


class Run(Struct, frozen=True):
    """A workflow run. `name` is that of the workflow."""

    id: int
    event: str
    head_sha: str
    html_url: str
    status: str | None = None
    head_branch: str | None = None
    head_repository: Repository | None = None
    run_attempt: int = 1
    name: str | None = None


class Commit(Struct, frozen=True):
    sha: str


class Comparison(Struct, frozen=True):
    merge_base_commit: Commit


def read(answer: Any, kind: type[T], what: str) -> T:
    """`answer` as `kind`, else `GitHubError("unexpected")`."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise GitHubError("unexpected", f"GitHub's answer is not a {what}: {error}") from error
