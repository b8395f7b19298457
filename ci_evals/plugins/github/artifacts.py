"""Artifacts of workflow runs: listed, downloaded and unpacked."""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from ci_evals.errors import HostError, StorageError
from ci_evals.files import file_name
from ci_evals.plugins.ci.archives import OWN_LIMITS, ArchiveLimits, unpack
from ci_evals.plugins.github.api import GitHub

MAX_LISTED: Final = 1_000
PAGE_SUFFIX: Final = ".html"
"""The end of the name of an artifact that is a page, not a zip: GitHub opens it in the browser."""


@dataclass(frozen=True, slots=True)
class ArtifactOrigin:
    """The run that an artifact comes from."""

    id: int
    repository_id: int
    head_repository_id: int
    head_sha: str
    head_branch: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact that a run has uploaded. `size_in_bytes` is the size of the zip."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    workflow_run: ArtifactOrigin | None = None


def page_name(artifact: str, suite: str) -> str:
    """Return the name of the artifact that is the page of a suite.

    Args:
        artifact: the name of the artifact with the results.
        suite: the name of the suite.
    """
    return f"{file_name(artifact)}.{file_name(suite)}{PAGE_SUFFIX}"


def artifact_url(run_url: str, artifact: Artifact) -> str:
    """Return the address at which people download an artifact, or open a page."""
    return f"{run_url}/artifacts/{artifact.id}"


async def pages_of_run(github: GitHub, run_id: int) -> Mapping[str, Artifact]:
    """Return the newest page of each name in all attempts of a run.

    Raises:
        HostError: GitHub cannot be reached or refuses.
    """
    pages: dict[str, Artifact] = {}
    for artifact in await _list_newest_first(github, run_id):
        if artifact.name.endswith(PAGE_SUFFIX) and not artifact.expired:
            pages.setdefault(artifact.name, artifact)
    return pages


async def artifacts_of_run(github: GitHub, run_id: int, pattern: str) -> tuple[Artifact, ...]:
    """Return the newest artifact of each matching name in all attempts of a run, newest first.

    Pages are left out.

    Args:
        github: with a token that has `actions: read`.
        run_id: the workflow run, of this repository.
        pattern: a name, or a pattern as in `fnmatch`.

    Raises:
        HostError: there is no such artifact, or GitHub refuses.
    """
    problem = "is not there"
    newest: dict[str, Artifact] = {}
    for artifact in await _list_newest_first(github, run_id):
        if artifact.name != pattern and not fnmatchcase(artifact.name, pattern):
            continue
        if artifact.name.endswith(PAGE_SUFFIX):
            continue
        if artifact.expired:
            problem = "has expired"
        else:
            newest.setdefault(artifact.name, artifact)
    if not newest:
        raise HostError("missing", f"the artifact {pattern!r} of run {run_id} {problem}")
    return tuple(newest.values())


async def _list_newest_first(github: GitHub, run_id: int) -> Sequence[Artifact]:
    path = f"actions/runs/{run_id}/artifacts"
    artifacts = await github.list(path, Artifact, key="artifacts", limit=MAX_LISTED)
    # Attempts upload artifacts of the same names, with rising ids; GitHub promises no order.
    return sorted(artifacts, key=lambda artifact: artifact.id, reverse=True)


async def fetch(
    github: GitHub,
    artifact: Artifact,
    folder: Path,
    names: Collection[str],
    limits: ArchiveLimits = OWN_LIMITS,
) -> tuple[Path, ...]:
    """Download an artifact and unpack its files of these names into `folder`; see `unpack`.

    Raises:
        HostError: it has expired, is too large, or is not a sound zip.
        StorageError: `folder` cannot be written.
    """
    if artifact.size_in_bytes > limits.max_archive_bytes:
        raise HostError(
            "too_large", f"the artifact has more than {limits.max_archive_bytes:,} bytes"
        )
    try:
        with tempfile.TemporaryFile() as file:
            path = f"actions/artifacts/{artifact.id}/zip"
            await github.download(path, file, limits.max_archive_bytes)
            return unpack(file, folder, names, limits)
    except OSError as error:
        raise StorageError(
            f"{folder}: the artifact cannot be unpacked: {error.strerror}"
        ) from error
