"""The commands that run a suite and decide: `run` and `merge`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_evals import options, world
from ci_evals.errors import ConfigError

if TYPE_CHECKING:
    from ci_evals.actions.earlier import Wanted
    from ci_evals.suite import Suite


class _Further(click.Argument):
    """Further values of an option, as a pattern of the shell leaves them behind its first one. Help does without."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return []


@click.command()
@click.argument("further", cls=_Further, nargs=-1, type=click.Path(path_type=Path))
@options.config
@options.overriding
@options.setting(
    "--resume",
    is_flag=True,
    help="Go on with the journal in the results folder: graded runs are kept, errored ones tried again.",
)
@options.option(
    "--resume-from",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH...",
    help="Take over the results of other journals, or of the folders they are in.",
)
@options.setting(
    "--shard",
    callback=options.to_shard,
    metavar="K/N",
    help="Run only the K-th of N shares of the cells; `ci-evals merge` puts them together and decides.",
)
@options.setting(
    "--balance-by",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Balance shards by the durations in this journal or report.json; every shard must be given the same.",
)
@options.setting(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Answer from this journal what was asked before, and call providers for the rest.",
)
@options.setting(
    "--replay-only",
    is_flag=True,
    help="With --replay: call no provider; runs that are not recorded are errored. Needs no keys.",
)
@options.setting(
    "--record",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A journal to answer from where a pull request of a fork gets no secrets; default: the base branch's.",
)
@options.baseline
@options.posting
@options.output
@options.quiet
def run(further: tuple[Path, ...], config: Path | None, output: str, *, quiet: bool, **others: Any) -> int:
    """Run a suite, judge it, and exit with its verdict.

    Writes report.json, junit.xml, summary.md and results.jsonl (one line per run, while they happen) into the results
    folder, progress to stderr and the outcome to stdout. The command line wins over CI_EVALS_… variables, those over
    the file.

    \b
    Examples:
      ci-evals run
      ci-evals run --config evals/support.yaml --runs 5
      ci-evals run --providers gpt-4o-mini,claude --format json
      ci-evals run --baseline main/report.json   say what got worse since, and how sure that is
      ci-evals run --resume                   after a crash, a cancelled job, an outage
      ci-evals run --shard 2/5 --out shard-2  in each of five jobs; then: ci-evals merge shard-*
    """
    if further and not others["resume_from"]:
        raise click.UsageError(f"{further[0]} belongs to no option: a suite is named by --config")
    others["resume_from"] += further
    if others["replay_only"] and others["replay"] is None:
        raise click.UsageError("--replay-only needs --replay PATH")
    named, told = ({name: others.pop(name) for name in names} for names in (options.OVERRIDING, options.POSTING))
    suite, without_secrets = _suite_of_job(config, named, offline=others["replay_only"])

    from ci_evals import app
    from ci_evals.actions.posting import Posting

    continuation = app.Continuation(**others, without_secrets=without_secrets)
    return app.run(suite, continuation, world.here(), world.Appearance(output, quiet), Posting(**told))


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="DIR...")
@options.config
@options.overriding
@options.setting(
    "--run-missing",
    is_flag=True,
    help="Run what no shard has a result of, and again what looks worse than the baseline.",
)
@options.baseline
@options.posting
@options.output
@options.quiet
def merge(
    folders: tuple[Path, ...],
    config: Path | None,
    baseline: "Wanted",
    output: str,
    *,
    run_missing: bool,
    quiet: bool,
    **others: Any,
) -> int:
    """Put the results of shards together, and judge them.

    The verdict is the exit code. DIR is a shard's results folder. The suite, --runs and --providers must be those of
    the shards. What comes out is what one unsharded run would have written.

    \b
    Example:
      ci-evals merge shard-1 shard-2 shard-3 --out ci-evals-results
    """
    named, told = ({name: others.pop(name) for name in names} for names in (options.OVERRIDING, options.POSTING))
    suite, without_secrets = _suite_of_job(config, named, offline=not run_missing)

    from ci_evals import app
    from ci_evals.actions.posting import Posting

    shards = app.Shards(folders, run_missing=run_missing and not without_secrets, baseline=baseline)
    return app.merge(suite, shards, world.here(), world.Appearance(output, quiet), Posting(**told))


def _suite_of_job(config: Path | None, overrides: Mapping[str, Any], *, offline: bool) -> tuple["Suite", bool]:
    """The suite, and whether it can only be replayed: where GitHub gives no secrets, keys may be missing."""
    try:
        return options.suite_named(config, overrides, offline=offline), False
    except ConfigError:
        if not _without_secrets_here():
            raise
        return options.suite_named(config, overrides, offline=True), True


def _without_secrets_here() -> bool:
    if not world.in_actions(os.environ):
        return False
    from ci_evals.github.context import read_context

    return read_context(os.environ).read_only
