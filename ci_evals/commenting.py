"""The comment on the pull request: from a summary, or from what another workflow run has left, to GitHub."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ci_evals.errors import GitHubError, StorageError
from ci_evals.files import write_whole
from ci_evals.github.answers import Artifact, Run
from ci_evals.github.archive import FORK_LIMITS
from ci_evals.github.artifacts import NothingLeft, artifacts_of_run, fetch, pull_requests_of, run_of
from ci_evals.github.client import GitHub, connected
from ci_evals.github.comment import Contribution, NotPosted, preview, put_section
from ci_evals.github.comment_body import MAX_BYTES, SectionId, Stamp
from ci_evals.github.context import Context
from ci_evals.github.names import RESULTS
from ci_evals.recalled import read_summary
from ci_evals.reports.comment import Comment, Links, progress_text
from ci_evals.reports.json_report import REPORT
from ci_evals.reports.summary import Summary

Mode = Literal["auto", "new"]

FILE: Final = "comment.md"
ARTIFACTS: Final = "ci-evals*"
"""Artifacts with such a name are taken for results."""
MOST_ARTIFACTS: Final = 20
MOST_REPORT_BYTES: Final = 64 * 1024 * 1024
"""Of a report that another run has uploaded; reading it takes several times as much memory."""

_NOT_POSTED: Final = "no comment was posted"


class Place(Struct, frozen=True):
    """Where a section goes.

    Args:
        part: tells the jobs of one workflow apart: the name of the job's artifact.
        mode: `auto` keeps one comment for the pull request, `new` makes one for each workflow run.
    """

    part: str = RESULTS
    mode: Mode = "auto"


class Commented(Struct, frozen=True):
    """What came of it.

    The comment's `url`; or a `warning` in one sentence; or a `note`, where there rightly is none of this run: without a
    pull request, or beside a newer run's. None of them after a dry run.
    """

    url: str | None = None
    warning: str | None = None
    note: str | None = None


def post_comment(summary: Summary, context: Context, place: Place) -> Commented:
    """Put a suite's section into the comment on the pull request that this job is for.

    Whatever GitHub or the network do ends in a warning. Without a pull request, nothing is done.

    Args:
        summary: what was found.
        context: the job.
        place: where the section goes.
    """
    return _post(_own(summary, context, place), context, place.mode)


def post_progress(suite: str, context: Context, place: Place) -> Commented:
    """Say in the comment that a run is under way; `post_comment` puts its section in the place of this one.

    Args:
        suite: its name.
        context: the job.
        place: where the section goes.
    """
    text = progress_text(suite, context.run_url)
    section = Contribution(SectionId(suite, context.workflow, place.part), _stamp(context), lambda _max_bytes: text)
    return _post(section, context, place.mode)


def comment_on(folder: Path, context: Context, place: Place, dry_run: Callable[[str], None] | None) -> Commented:
    """Post what a results folder has to say on the pull request of this job.

    Args:
        folder: where report.json is.
        context: the job.
        place: where the section goes.
        dry_run: told what would be posted, as far as that is known without asking GitHub, instead of posting it.

    Raises:
        StorageError: there is no report, or it is damaged.
    """
    summary = read_summary(folder)
    if dry_run is not None:
        dry_run(preview(_own(summary, context, place)))
        return Commented()
    if context.problem is not None:
        return Commented(warning=f"{_NOT_POSTED}: {context.problem}")
    return post_comment(summary, context, place)


def write_comment(summary: Summary, context: Context, folder: Path) -> Path:
    """Write comment.md for a reader; what posts it elsewhere goes by report.json.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    text = Comment(summary, Links(context.run_url)).render(MAX_BYTES)
    write_whole(path, [f"{text}\n".encode()])
    return path


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
        contributions, problems = await _contributions(github, run, artifact or ARTIFACTS)
        outcome = Commented()
        for contribution in contributions:
            if dry_run is not None:
                dry_run(preview(contribution))
                continue
            for pull in pulls:
                put = await _put(github, pull.number, contribution, mode)
                problems += [put.warning] if put.warning else []
                outcome = msgspec.structs.replace(outcome, url=put.url or outcome.url, note=put.note or outcome.note)
        return msgspec.structs.replace(outcome, warning="; ".join(problems) or None)

    return _asked(context, post)


async def _contributions(github: GitHub, run: Run, pattern: str) -> tuple[list[Contribution], list[str]]:
    """A section for each report that a run has uploaded, and a sentence for each artifact that cannot be believed."""
    contributions: list[Contribution] = []
    problems: list[str] = []
    uploaded = await artifacts_of_run(github, run.id, pattern)
    if isinstance(uploaded, NothingLeft):
        return [], [f"{_NOT_POSTED}: {uploaded.reason}"]
    with tempfile.TemporaryDirectory(prefix="ci-evals-") as folder:
        for number, artifact in enumerate(uploaded[:MOST_ARTIFACTS]):
            try:
                reports = await fetch(github, artifact, Path(folder, str(number)), {REPORT}, FORK_LIMITS)
                if reports:  # a shard's has none: what it found is in that of the merge
                    contributions.append(_of_artifact(artifact, reports, run))
            except (GitHubError, StorageError) as error:
                problems.append(f"artifact {artifact.name!r} was left out: {error}")
    if not contributions and not problems:
        problems.append(f"{_NOT_POSTED}: no artifact {pattern!r} of run {run.id} has a {REPORT}")
    return contributions, problems


def _of_artifact(artifact: Artifact, reports: Sequence[Path], run: Run) -> Contribution:
    """The section that the report of an artifact makes.

    Raises:
        StorageError: it is one of several, or damaged.
    """
    if len(reports) != 1:
        raise StorageError(f"it has {len(reports)} files named {REPORT}, and one is needed")
    if (size := reports[0].stat().st_size) > MOST_REPORT_BYTES:
        raise StorageError(f"{REPORT} has {size:,} bytes, more than {MOST_REPORT_BYTES:,}")
    try:
        summary = read_summary(reports[0])
    except StorageError as error:
        reason = str(error).removeprefix(f"{reports[0]}: ")
        raise StorageError(f"{REPORT} {reason}") from error
    links = Links(run.html_url, f"{run.html_url}/artifacts/{artifact.id}")
    section = SectionId(summary.report.suite.name, run.name or "", artifact.name)
    return Contribution(section, Stamp(run.id, run.run_attempt, run.head_sha), Comment(summary, links).render)


def _own(summary: Summary, context: Context, place: Place) -> Contribution:
    """This job's section."""
    section = SectionId(summary.report.suite.name, context.workflow, place.part)
    return Contribution(section, _stamp(context), Comment(summary, Links(context.run_url)).render)


def _stamp(context: Context) -> Stamp:
    pull = context.pull_request
    return Stamp(context.run_id or 0, context.attempt, pull.head.sha if pull else "")


def _post(contribution: Contribution, context: Context, mode: Mode) -> Commented:
    pull = context.pull_request
    if pull is None:
        return Commented(note="no pull request: nothing was posted")
    if reason := context.unusable or (None if context.run_id else "GITHUB_RUN_ID is not set"):
        return Commented(warning=f"{_NOT_POSTED}: {reason}")

    async def put(github: GitHub) -> Commented:
        return await _put(github, pull.number, contribution, mode)

    return _asked(context, put)


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
