"""What is to be done with a suite."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_evals.engine.shards import Shard
from ci_evals.matrix import CellKey
from ci_evals.suite import Suite
from ci_evals.verdict.comparison import NoComparison
from ci_evals.verdict.history import Baseline

if TYPE_CHECKING:
    from ci_evals.engine.traces import TraceAnswers


class Order(Struct, frozen=True, kw_only=True):
    """What is to be done with a suite.

    Args:
        suite: what to run.
        journal: where results are written.
        resume: go on with that journal instead of starting anew.
        sources: journals whose results are taken over.
        merge: take over errored runs as well, and insist that the sources are of this very suite.
        run_missing: run what has no result; else only report.
        shard: run only this share of the cells.
        durations_s: what shards are balanced by.
        replay: a journal that answers before any provider is called.
        replay_only: never call a provider, nor a judge.
        traces: answers from elsewhere; no provider is called then, but judges are.
        revision: the commit under test.
        run_id: identifies a new journal; one that is gone on with keeps its own.
        files: where files that runs leave behind are kept; nowhere if None.
        baseline: what to compare with, or why there is nothing; None if nobody asked for a comparison.
    """

    suite: Suite
    journal: Path
    resume: bool = False
    sources: tuple[Path, ...] = ()
    merge: bool = False
    run_missing: bool = True
    shard: Shard | None = None
    durations_s: Mapping[CellKey, float] = {}
    replay: Path | None = None
    replay_only: bool = False
    traces: "TraceAnswers | None" = None
    revision: str | None = None
    run_id: str | None = None
    files: Path | None = None
    baseline: Baseline | NoComparison | None = None

    @property
    def rounds(self) -> tuple[int, ...]:
        """After which rounds the results are looked at: three times at most, and once if all rounds are to run.

        Shards and their merge run them all: no job sees the results of the others.
        """
        suite = self.suite
        if suite.max_runs is None or suite.max_runs <= suite.runs:
            return (suite.runs,)
        if self.shard or self.merge:
            return (suite.max_runs,)
        return tuple(dict.fromkeys((suite.runs, (suite.runs + suite.max_runs) // 2, suite.max_runs)))
