"""What earlier runs left behind for this one: the base side of the comparison, a recording, earlier attempts."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ci_evals.suite import Suite
from ci_evals.verdict.comparison import NoComparison
from ci_evals.verdict.history import Baseline

if TYPE_CHECKING:
    from ci_evals.github.context import Context

Wanted = Literal["auto", "none"] | tuple[Path, ...]
"""What to compare with: whatever can be found, nothing, or these reports."""


class Earlier(Struct, frozen=True):
    """What was found.

    Args:
        baseline: what to compare with, or why there is nothing; None if nobody asked.
        said: what the log is to say of it, in sentences.
        warnings: what went wrong on the way.
        journals: what the attempts before this one have finished.
        recording: the journal of the base side.
    """

    baseline: Baseline | NoComparison | None = None
    said: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    journals: tuple[Path, ...] = ()
    recording: Path | None = None


class Artifacts(Struct, frozen=True):
    """Where to look on GitHub: what the base branch's results are uploaded as, and what those of earlier attempts.

    `attempts` is None where none is gone on with.
    """

    base: str
    attempts: str | None = None


def earlier(wanted: Wanted, suite: Suite, context: "Context | None", artifacts: Artifacts, folder: Path) -> Earlier:
    """Look for what earlier runs left behind. GitHub's refusals are sentences, and no errors.

    Args:
        wanted: what to compare with.
        suite: what is run.
        context: the job of GitHub Actions; None elsewhere.
        artifacts: where to look on GitHub.
        folder: where artifacts are unpacked; they must stay there until the reports are written.

    Raises:
        StorageError: a report that was named, or that is committed, cannot be read.
    """
    if wanted == "none" and context is None:
        return Earlier()
    from ci_evals.actions.search import search

    return search(wanted, suite, context, artifacts, folder)
