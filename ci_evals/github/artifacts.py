"""Artifacts of workflow runs: found, downloaded without the token, unpacked without trust."""

import tempfile
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_evals.errors import GitHubError, StorageError
from ci_evals.github.answers import Artifact, Pull, Run
from ci_evals.github.archive import OWN_LIMITS, ArchiveLimits, unpack
from ci_evals.github.client import GitHub

NAMES: Final = frozenset(("report.json", "results.jsonl"))
"""The files that a later run goes by; nothing else is taken out of an artifact."""

MAX_LISTED: Final = 1_000


class NothingLeft(Struct, frozen=True):
    """A run has left nothing that is still there. `reason` is a sentence."""

    reason: str


async def artifacts_named(github: GitHub, name: str) -> tuple[Artifact, ...]:
    """The repository's artifacts of exactly this name, the newest first, expired ones too; at most `MAX_LISTED`."""
    return await github.every("actions/artifacts", Artifact, "artifact", key="artifacts", limit=MAX_LISTED, name=name)


async def artifacts_of_run(
    github: GitHub, run_id: int, name: str, *, exact: bool = False
) -> tuple[Artifact, ...] | NothingLeft:
    """What a run has uploaded under such names, in all its attempts; of each name the newest, and the newest first.

    Args:
        github: with a token that has `actions: read`.
        run_id: the workflow run, of this repository.
        name: a pattern as `fnmatch` has it, or just what it says if it is `exact`.
    """
    path = f"actions/runs/{run_id}/artifacts"
    every = await github.every(path, Artifact, "artifact", key="artifacts", limit=MAX_LISTED)
    matching = [each for each in every if (each.name == name if exact else fnmatchcase(each.name, name))]
    newest: dict[str, Artifact] = {}
    for artifact in sorted(matching, key=lambda artifact: -artifact.id):
        if not artifact.expired:
            newest.setdefault(artifact.name, artifact)
    if newest:
        return tuple(newest.values())
    return NothingLeft(f"the artifact {name!r} of run {run_id} {'has expired' if matching else 'is not there'}")


async def fetch(
    github: GitHub,
    artifact: Artifact,
    folder: Path,
    names: Collection[str] = NAMES,
    limits: ArchiveLimits = OWN_LIMITS,
) -> tuple[Path, ...]:
    """Download an artifact and unpack its files of known names into `folder`; returns where they are.

    Raises:
        GitHubError: it has expired, is too large, or is not what an artifact should be.
        StorageError: `folder` cannot be written.
    """
    if artifact.size_in_bytes > limits.max_archive_bytes:
        raise GitHubError("too_large", f"the artifact has more than {limits.max_archive_bytes:,} bytes")
    try:
        with tempfile.TemporaryFile() as file:
            await github.download(f"actions/artifacts/{artifact.id}/zip", file, limits.max_archive_bytes)
            return unpack(file, folder, names, limits)
    except OSError as error:
        raise StorageError(f"{folder}: the artifact cannot be unpacked: {error.strerror}") from error


async def run_of(github: GitHub, run_id: int) -> Run:
    """A workflow run of this repository."""
    return await github.get(f"actions/runs/{run_id}", Run, "workflow run")


async def pull_requests_of(github: GitHub, run: Run) -> tuple[Pull, ...]:
    """The open pull requests that a run was for, the lowest number first; none when their head has moved on.

    They are looked up by the branch that GitHub says the run had. What an artifact says is not asked: code of a fork
    may have written it.
    """
    head = run.head_repository
    if head is None or not run.head_branch:
        return ()
    owner = head.full_name.partition("/")[0]
    found = await github.every(
        "pulls", Pull, "pull request", limit=MAX_LISTED, state="open", head=f"{owner}:{run.head_branch}"
    )
    own = [pull for pull in found if pull.head.repo and pull.head.repo.id == head.id and pull.head.sha == run.head_sha]
    return tuple(sorted(own, key=lambda pull: pull.number))
