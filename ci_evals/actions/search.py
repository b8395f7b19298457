"""The search for what earlier runs left behind: in named reports, on GitHub, beside the suite."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ci_evals.actions.earlier import Artifacts, Earlier, Wanted
from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import CiEvalsError, GitHubError, StorageError
from ci_evals.github import baseline as base_runs
from ci_evals.github.artifacts import NothingLeft, artifacts_of_run, fetch
from ci_evals.github.client import GitHub, connected
from ci_evals.github.context import Context
from ci_evals.redaction import Redactor
from ci_evals.reports.json_report import REPORT
from ci_evals.saved import SavedReport, baseline_of, read_baseline, read_report
from ci_evals.suite import Suite
from ci_evals.verdict.comparison import NoComparison
from ci_evals.verdict.history import Baseline
from ci_evals.verdict.words import duration, number_of

PATIENCE_S = 60.0
"""So long at most is waited for GitHub's limits and failures before a run starts."""


def search(wanted: Wanted, suite: Suite, context: Context | None, artifacts: Artifacts, folder: Path) -> Earlier:
    """Look for what earlier runs left behind: see `earlier`."""
    if isinstance(wanted, tuple):
        baseline = _read(wanted, suite)
        asked = _asked_of_github(None, suite, context, artifacts.attempts, folder)
        if isinstance(baseline, NoComparison):
            return msgspec.structs.replace(asked, baseline=baseline, warnings=(baseline.reason, *asked.warnings))
        return msgspec.structs.replace(asked, baseline=baseline, said=(*asked.said, _said_of(baseline)))
    base = search_for(context, artifacts.base) if context and wanted == "auto" else None
    asked = _asked_of_github(base, suite, context, artifacts.attempts, folder)
    if wanted == "none" or isinstance(asked.baseline, Baseline):
        return asked
    committed = committed_baseline(suite)
    if not committed.is_file():
        if context is None:
            reason = f"no baseline: there is no {committed.as_posix()}, and no artifacts outside of GitHub Actions"
            return msgspec.structs.replace(asked, baseline=NoComparison(reason), said=(*asked.said, reason))
        return asked
    baseline = _read((committed,), suite, committed.name)
    return msgspec.structs.replace(asked, baseline=baseline, said=(*asked.said, _said_of(baseline)))


def committed_baseline(suite: Suite) -> Path:
    """The report that a team may keep beside its suite: `evals.baseline.json` of `evals.yaml`."""
    return Path(suite.file).with_suffix(".baseline.json")


def search_for(context: Context, artifact: str) -> base_runs.Search | None:
    """Which runs an event is compared with; None for one that runs plainly.

    A pull request and a merge group are compared with their base, a push to the default branch with what was there
    before, a scheduled or dispatched run of that branch with its newest report.
    """
    on_default_branch = context.on_default_branch or context.event == "schedule"
    if context.event == "pull_request" and context.base_ref:
        return base_runs.Search(artifact, context.base_ref, context.base_sha, context.sha)
    if context.event == "merge_group" and context.base_ref:
        return base_runs.Search(artifact, context.base_ref, context.base_sha)
    if context.event == "push" and on_default_branch and context.branch:
        return base_runs.Search(artifact, context.branch, context.base_sha)
    if context.event in ("schedule", "workflow_dispatch") and on_default_branch and context.branch:
        return base_runs.Search(artifact, context.branch, None)
    return None


def _asked_of_github(
    base: base_runs.Search | None, suite: Suite, context: Context | None, attempts: str | None, folder: Path
) -> Earlier:
    if context is None or context.attempt == 1:
        attempts = None
    if context is None or not (base or attempts):
        return Earlier()
    if context.unusable:
        none = NoComparison(f"no baseline: {context.unusable}") if base else None
        warnings = (f"attempt {context.attempt} starts anew: {context.unusable}",) if attempts else ()
        return Earlier(none, warnings=(*([none.reason] if none else []), *warnings))

    async def ask() -> Earlier:
        async with connected(context, patience_s=PATIENCE_S) as github:
            found = await _base_side(github, base, suite, folder / "base") if base else Earlier()
            if attempts is None:
                return found
            journals, why = await _attempts(github, context, attempts, folder / "attempts")
            return msgspec.structs.replace(
                found, journals=journals, warnings=(*found.warnings, *([why] if why else []))
            )

    return asyncio.run(ask())


async def _base_side(github: GitHub, base: base_runs.Search, suite: Suite, folder: Path) -> Earlier:
    tried: list[SavedReport] = []

    def refusal(place: Path) -> str | None:
        try:
            tried.append(read_report(_report_in(place)))
        except CiEvalsError as error:
            return str(error)
        return unusable(tried[-1], suite.name)

    try:
        found = await base_runs.find_baseline(github, base, folder, refusal)
    except StorageError as error:
        found = base_runs.NoBaseline(f"no baseline: {error}", failed=True)
    if isinstance(found, base_runs.NoBaseline):
        none, told = NoComparison(found.reason), (found.reason,)
        return Earlier(none, warnings=told) if found.failed else Earlier(none, said=told)
    baseline = baseline_of(tried[-1:], suite.name, found.base_ref, redactor=Redactor(suite.secrets))
    recording = next(iter(sorted(found.folder.rglob(JOURNAL))), None)
    said = found.sentence(datetime.now(UTC))
    if isinstance(baseline, Baseline):
        said = f"{said}: {_runs_of(baseline)}"
    return Earlier(baseline, (said,), recording=recording)


async def _attempts(
    github: GitHub, context: Context, artifact: str, folder: Path
) -> tuple[tuple[Path, ...], str | None]:
    """The journals of the attempts before, and why there are none."""
    assert context.run_id is not None
    anew = f"attempt {context.attempt} starts anew"
    try:
        found = await artifacts_of_run(github, context.run_id, artifact, exact=True)
        if isinstance(found, NothingLeft):
            return (), f"{anew}: {found.reason}"
        journals = tuple(file for file in await fetch(github, found[0], folder) if file.name == JOURNAL)
    except (GitHubError, StorageError) as error:
        return (), f"{anew}: {error}"
    return journals, None if journals else f"{anew}: {artifact} has no {JOURNAL}"


def unusable(report: SavedReport, suite: str) -> str | None:
    """Why a report is no baseline of a suite; None if it is one."""
    if report.suite.name != suite:
        return f"its report is of another suite, {report.suite.name!r}"
    if report.interrupted:
        return f"its report is incomplete: {report.interrupted}"
    if not any(cell.planned.graded for cell in report.head):
        return "no run of its report was graded"
    return None


def _read(paths: Sequence[Path], suite: Suite, name: str | None = None) -> Baseline | NoComparison:
    return read_baseline(paths, suite.name, name, redactor=Redactor(suite.secrets))


def _report_in(folder: Path) -> Path:
    """The report of an artifact, in whatever folder of it."""
    return next(iter(sorted(folder.rglob(REPORT))), folder / REPORT)


def _said_of(baseline: Baseline | NoComparison) -> str:
    if isinstance(baseline, NoComparison):
        return baseline.reason
    newest = baseline.reports[0]
    at = f" at {newest.revision[:7]}" if newest.revision else ""
    age_s = datetime.now(UTC).timestamp() - newest.started_at
    return f"compared with {baseline.called}{at}, {duration(max(0.0, age_s))} old: {_runs_of(baseline)}"


def _runs_of(baseline: Baseline) -> str:
    most = max((cell.history.pool.graded for cell in baseline.cells.values()), default=0)
    return f"{number_of(len(baseline.reports), 'report')}, up to {number_of(most, 'run')} a case"
