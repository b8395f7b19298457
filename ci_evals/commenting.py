"""The comment on the pull request: from a summary, or from what another workflow run has left, to GitHub."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ci_evals.errors import GitHubError, StorageError
from ci_evals.github.answers import Run
from ci_evals.github.archive import FORK_LIMITS
from ci_evals.github.artifacts import Fetched, NotFetched, fetch_from_run, pull_requests_of, run_of
from ci_evals.github.client import GitHub, connected
from ci_evals.github.comment import Contribution, NotPosted, preview, put_section
from ci_evals.github.comment_body import SectionId, Stamp
from ci_evals.github.context import Context
from ci_evals.recalled import read_summary
from ci_evals.reports.comment import Comment, Links, progress_text
from ci_evals.reports.json_report import REPORT
from ci_evals.reports.summary import Summary

Mode = Literal["auto", "new"]

FILE: Final = "comment.md"
MAX_BYTES: Final = 65_000
ARTIFACT: Final = "ci-evals-results"
ARTIFACTS: Final = "ci-evals*"
"""Artifacts with such a name are taken for results."""
MOST_ARTIFACTS: Final = 20
MOST_REPORT_BYTES: Final = 64 * 1024 * 1024
"""Of a report that another run has uploaded; reading it takes several times as much memory."""

_NOT_POSTED: Final = "no comment was posted"


class Place(NamedTuple):
    """Where a section goes, and what it links to.

    Args:
        part: tells the jobs of one workflow apart: the name of the job's artifact.
        mode: `auto` keeps one comment for the pull request, `new` makes one for each workflow run.
        artifact_url: where the results are.
        report_url: where the report can be read.
    """

    part: str = ARTIFACT
    mode: Mode = "auto"
    artifact_url: str | None = None
    report_url: str | None = None


class Commented(NamedTuple):
    """What came of it.

    The comment's `url`; or a `warning` in one sentence; or a `note`, where there rightly is none of this run: without a
    pull request, or beside a newer run's. None of them after a dry run.
    """

    url: str | None = None
    warning: str | None = None
    note: str | None = None


def post_comment(summary: Summary, context: Context, place: Place = Place()) -> Commented:  # noqa: B008  immutable
    """Put a suite's section into the comment on the pull request that this job is for.

    Whatever GitHub or the network do ends in a warning. Without a pull request, nothing is done.

    Args:
        summary: what was found.
        context: the job.
        place: where the section goes.
    """
    if context.pull_request is None:
        return Commented(note="no pull request: nothing was posted")
    number, contribution = context.pull_request.number, _own(summary, context, place)
    if contribution is None:
        return _unusable(context)

    async def post(github: GitHub) -> Commented:
        return await _put(github, number, contribution, place.mode)

    return _asked(context, post)


def post_progress(suite: str, context: Context, place: Place = Place()) -> Commented:  # noqa: B008  immutable
    """Say in the comment that a run is under way; `post_comment` puts its section in the place of this one.

    Args:
        suite: its name.
        context: the job.
        place: where the section goes.
    """
    if context.pull_request is None:
        return Commented()
    number, stamp = context.pull_request.number, _stamp(context)
    if stamp is None:
        return _unusable(context)
    text = progress_text(suite, context.run_url)
    contribution = Contribution(SectionId(suite, context.workflow, place.part), stamp, lambda _max_bytes: text)

    async def post(github: GitHub) -> Commented:
        return await _put(github, number, contribution, place.mode)

    return _asked(context, post)


def comment_on(folder: Path, context: Context, place: Place, dry_run: Callable[[str], None] | None) -> Commented:
    """Post what a results folder has to say on the pull request of this job.

    Args:
        folder: where report.json is.
        context: the job.
        place: where the section goes.
        dry_run: told what would be posted, instead of posting it.

    Raises:
        StorageError: there is no report, or it is damaged.
    """
    summary = read_summary(folder)
    if dry_run is not None:
        dry_run(preview_comment(summary, context, place))
        return Commented()
    if context.problem is not None:
        return Commented(warning=f"{_NOT_POSTED}: {context.problem}")
    return post_comment(summary, context, place)


def comment_text(
    summary: Summary,
    context: Context,
    place: Place = Place(),  # noqa: B008  immutable
    max_bytes: int = MAX_BYTES,
) -> str:
    """The section as Markdown, without the hidden markers."""
    return Comment(summary, _links(context, place)).render(max_bytes)


def write_comment(summary: Summary, context: Context, folder: Path, place: Place = Place()) -> Path:  # noqa: B008
    """Write comment.md for a reader; what posts it elsewhere goes by report.json.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    try:
        path.write_text(comment_text(summary, context, place) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def preview_comment(summary: Summary, context: Context, place: Place = Place()) -> str:  # noqa: B008  immutable
    """What `post_comment` would post, as far as that can be known without asking GitHub."""
    return preview(_own(summary, context, place) or _contribution(summary, "", place, Stamp(0, 1, ""), Links()))


def comment_from_run(
    context: Context, run_id: int, artifact: str | None, mode: Mode, dry_run: Callable[[str], None] | None
) -> Commented:
    """Post what another workflow run has found, as a `workflow_run` workflow does for pull requests from forks.

    Nothing that the run has uploaded is believed: archives are unpacked within limits, reports are decoded by their
    schema, the comment is rendered anew, and the pull request is the one whose head GitHub says the run had.

    Args:
        context: this job, with a token that may read artifacts and comment.
        run_id: the run that has uploaded results.
        artifact: the name of its artifact, or a pattern with `*`; None for `ARTIFACTS`.
        mode: as in `Place`.
        dry_run: told what would be posted, instead of posting it.
    """

    async def post(github: GitHub) -> Commented:
        run = await run_of(github, run_id)
        pulls = await pull_requests_of(github, run)
        if not pulls:
            return Commented(warning=f"{_NOT_POSTED}: no open pull request has the commit of run {run_id} as its head")
        contributions, problems = await _contributions(github, run, artifact)
        outcome = Commented()
        for contribution in contributions:
            if dry_run is not None:
                dry_run(preview(contribution))
                continue
            for pull in pulls:
                put = await _put(github, pull.number, contribution, mode)
                problems += [put.warning] if put.warning else []
                outcome = outcome._replace(url=put.url or outcome.url, note=put.note or outcome.note)
        return outcome._replace(warning="; ".join(problems) or None)

    return _asked(context, post)


async def _contributions(github: GitHub, run: Run, artifact: str | None) -> tuple[list[Contribution], list[str]]:
    """A section for each report that a run has uploaded, and a sentence for each that cannot be one."""
    contributions: list[Contribution] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ci-evals-") as folder:
        found = await fetch_from_run(
            github, run.id, _first_results(artifact or ARTIFACTS), Path(folder), {REPORT}, FORK_LIMITS
        )
        if isinstance(found, NotFetched):
            return [], [f"{_NOT_POSTED}: {found.reason}"]
        for fetched in found:
            try:
                contributions.append(_of_artifact(fetched, run))
            except StorageError as error:
                problems.append(f"artifact {fetched.artifact.name!r} was left out: {error}")
    return contributions, problems


def _first_results(pattern: str) -> Callable[[str], bool]:
    """Artifacts with a name of this pattern, up to a number that a workflow may well have."""
    seen: set[str] = set()

    def wanted(name: str) -> bool:
        if fnmatchcase(name, pattern) and len(seen) < MOST_ARTIFACTS:
            seen.add(name)
        return name in seen

    return wanted


def _of_artifact(fetched: Fetched, run: Run) -> Contribution:
    """The section that the report of an artifact makes.

    Raises:
        StorageError: it has no report, or a damaged one.
    """
    reports = [file for file in fetched.files if file.name == REPORT]
    if len(reports) != 1:
        raise StorageError(f"it has {len(reports)} files named {REPORT}, and one is needed")
    if (size := reports[0].stat().st_size) > MOST_REPORT_BYTES:
        raise StorageError(f"{REPORT} has {size:,} bytes, more than {MOST_REPORT_BYTES:,}")
    try:
        summary = read_summary(reports[0])
    except StorageError as error:
        reason = str(error).removeprefix(f"{reports[0]}: ")
        raise StorageError(f"{REPORT} {reason}") from error
    place = Place(fetched.artifact.name, artifact_url=f"{run.html_url}/artifacts/{fetched.artifact.id}")
    stamp = Stamp(run.id, run.run_attempt, run.head_sha)
    return _contribution(summary, run.name or "", place, stamp, Links(run.html_url, place.artifact_url))


def _own(summary: Summary, context: Context, place: Place) -> Contribution | None:
    """This job's section; None if it cannot be posted."""
    stamp = _stamp(context)
    return stamp and _contribution(summary, context.workflow, place, stamp, _links(context, place))


def _stamp(context: Context) -> Stamp | None:
    """Which run this is, if it can post."""
    pull = context.pull_request
    if pull is None or context.run_id is None or context.unusable:
        return None
    return Stamp(context.run_id, context.attempt, pull.head.sha)


def _unusable(context: Context) -> Commented:
    return Commented(warning=f"{_NOT_POSTED}: {context.unusable or 'GITHUB_RUN_ID is not set'}")


def _contribution(summary: Summary, workflow: str, place: Place, stamp: Stamp, links: Links) -> Contribution:
    id_ = SectionId(summary.report.suite.name, workflow, place.part)
    return Contribution(id_, stamp, Comment(summary, links).render)


def _links(context: Context, place: Place) -> Links:
    return Links(context.run_url, place.artifact_url, place.report_url)


async def _put(github: GitHub, number: int, contribution: Contribution, mode: Mode) -> Commented:
    posted = await put_section(github, number, contribution, mode=mode)
    if isinstance(posted, NotPosted) and posted.kind == "stale":
        return Commented(note=posted.reason)
    if isinstance(posted, NotPosted):
        return Commented(warning=f"{_NOT_POSTED}: {posted.reason}")
    return Commented(url=posted.url)


def _asked(context: Context, ask: Callable[[GitHub], Coroutine[Any, Any, Commented]]) -> Commented:
    """Connect and ask; what goes wrong is a warning."""

    async def talk() -> Commented:
        async with connected(context) as github:
            return await ask(github)

    try:
        return asyncio.run(talk())
    except (GitHubError, StorageError) as error:
        return Commented(warning=f"{_NOT_POSTED}: {error}")
