"""Artifacts of workflow runs: found, downloaded without the token, unpacked without trust."""

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

from ci_evals.errors import GitHubError, StorageError
from ci_evals.github.answers import Artifact, Pull, Run
from ci_evals.github.archive import OWN_LIMITS, ArchiveLimits, unpack
from ci_evals.github.client import GitHub

NAMES: Final = frozenset(
    ("report.json", "results.jsonl", "junit.xml", "summary.md", "report.html", "comment.md", "comment.json")
)
"""The files that ci-evals writes; nothing else is taken out of an artifact."""

MAX_LISTED: Final = 1_000


class Fetched(NamedTuple):
    """An artifact, unpacked into `folder`."""

    artifact: Artifact
    folder: Path
    files: tuple[Path, ...]


class NotFetched(NamedTuple):
    """There is nothing to be had. `reason` is a sentence."""

    reason: str


async def artifacts_named(github: GitHub, name: str) -> tuple[Artifact, ...]:
    """The repository's artifacts of exactly this name, the newest first, expired ones too; at most `MAX_LISTED`."""
    return await github.every("actions/artifacts", Artifact, "artifact", key="artifacts", limit=MAX_LISTED, name=name)


async def artifacts_of_run(github: GitHub, run_id: int) -> tuple[Artifact, ...]:
    """Everything that a run has uploaded, in all its attempts, the newest first."""
    path = f"actions/runs/{run_id}/artifacts"
    found = await github.every(path, Artifact, "artifact", key="artifacts", limit=MAX_LISTED)
    return tuple(sorted(found, key=lambda artifact: -artifact.id))


async def fetch(
    github: GitHub,
    artifact: Artifact,
    folder: Path,
    names: Collection[str] = NAMES,
    limits: ArchiveLimits = OWN_LIMITS,
) -> Fetched:
    """Download an artifact and unpack its files of known names into `folder`.

    Raises:
        GitHubError: it has expired, is too large, or is not what an artifact should be.
        StorageError: `folder` cannot be written.
    """
    if artifact.size_in_bytes > limits.max_archive_bytes:
        raise GitHubError("too_large", f"the artifact has more than {limits.max_archive_bytes:,} bytes")
    try:
        with tempfile.TemporaryFile() as file:
            await github.download(f"actions/artifacts/{artifact.id}/zip", file, limits.max_archive_bytes)
            files = unpack(file, folder, names, limits)
    except OSError as error:
        raise StorageError(f"{folder}: the artifact cannot be unpacked: {error.strerror}") from error
    return Fetched(artifact, folder, files)


async def fetch_from_run(
    github: GitHub,
    run_id: int,
    wanted: str | Callable[[str], bool],
    folder: Path,
    names: Collection[str] = NAMES,
    limits: ArchiveLimits = OWN_LIMITS,
) -> tuple[Fetched, ...] | NotFetched:
    """What a run has uploaded, each artifact in a folder of its own below `folder`.

    In a later attempt of a run this finds what the attempts before have left. Of several with one name the newest
    is taken.

    Args:
        github: with a token that has `actions: read`.
        run_id: the workflow run, of this repository.
        wanted: the artifact's name, or which names to take.
        folder: where to; its own folders are numbered from 1.
        names, limits: what is taken out of them; `FORK_LIMITS` for a run of a pull request.

    Raises:
        GitHubError, StorageError: as `fetch`.
    """
    matches = wanted if callable(wanted) else wanted.__eq__
    every = [artifact for artifact in await artifacts_of_run(github, run_id) if matches(artifact.name)]
    newest = {artifact.name: artifact for artifact in reversed(every) if not artifact.expired}
    if not newest:
        state = "has expired" if every else "is not there"
        called = f" {wanted!r}" if isinstance(wanted, str) else ""
        return NotFetched(f"the artifact{called} of run {run_id} {state}")
    return tuple(
        [
            await fetch(github, newest[name], folder / str(number), names, limits)
            for number, name in enumerate(sorted(newest), start=1)
        ]
    )


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
