"""The command line: options in, exit code out. Everything else is imported when a command needs it.

So what is wrong with a suite is told without anything that only running one takes.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_evals import __version__, options, report_commands, streams
from ci_evals.errors import CiEvalsError, ConfigError, StorageError

if TYPE_CHECKING:
    from ci_evals.actions.earlier import Wanted
    from ci_evals.reports.power import PowerFormat
    from ci_evals.suite import Suite
    from ci_evals.world import World

MAX_PROBLEMS_SHOWN = 50

_INTERRUPTED = (130, 143)
_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main() -> None:
    """The console script."""
    streams.prepare()
    named = _folders_named()
    code = _exit_code(lambda: group.main(standalone_mode=False, prog_name="ci-evals"), named)
    streams.let_go()
    if code in _INTERRUPTED:
        os._exit(code)  # threads and tasks of code under test may still be busy, for as long as they like
    sys.exit(code)


def _folders_named() -> list[Path]:
    """Where a `.env` file may be: beside whatever the command line names, wherever code under test goes later."""
    words = (*sys.argv[1:], os.environ.get("CI_EVALS_CONFIG", ""))
    named = [Path(word.removeprefix("-c").rpartition("=")[2]).parent for word in words]
    return [folder.absolute() for folder in dict.fromkeys([Path(), Path(".github"), *named])]


def _exit_code(command: Callable[[], Any], folders: Iterable[Path]) -> int:  # noqa: PLR0911  one per kind of error
    """The one place where errors become exit codes; what is in a `.env` file of the folders is not printed."""
    try:
        return int(command() or 0)
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:  # as a shell has it of whom SIGPIPE ended
        return 141
    except ConfigError as error:
        _print_problems(error, folders)
        return 2
    except CiEvalsError as error:
        _tell(f"error: {error}", folders)
        return 3 if isinstance(error, StorageError) else 2
    except BaseException as raised:  # the last border: a bug, or an exit of user code, must not look like a verdict
        if isinstance(raised, SystemExit) and "_CI_EVALS_COMPLETE" in os.environ:
            raise  # the way in which click ends after completing a command line for a shell
        import traceback

        text = f"{traceback.format_exc()}\nThis is a bug in ci-evals. Please report it with the lines above."
        _tell(text, folders)
        return 3


def _print_problems(error: ConfigError, folders: Iterable[Path]) -> None:
    count = len(error.problems)
    lines = [str(problem) for problem in error.problems[:MAX_PROBLEMS_SHOWN]]
    if count > MAX_PROBLEMS_SHOWN:
        lines.append(f"… and {count - MAX_PROBLEMS_SHOWN} more")
    _tell("\n".join([*lines, "", f"{count} problem{'s' * (count != 1)}, nothing was run."]), folders)


def _tell(text: str, folders: Iterable[Path]) -> None:
    text = _without_secrets(text, folders)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from ci_evals.reports.text import without_commands

        text = without_commands(text.replace("\r", "\n"))  # an error may quote a dataset or an answer
    streams.say(sys.stderr, text + "\n")


def _without_secrets(text: str, folders: Iterable[Path]) -> str:
    """An error may quote what user code was given, and which variables a suite would have named is not known here."""
    from ci_evals.config.environment import read_dotenv
    from ci_evals.redaction import Redactor, secret_values

    named = {name: value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    dotenv: dict[str, str] = {}
    for folder in folders:
        with suppress(CiEvalsError, OSError, ValueError):
            dotenv |= read_dotenv(folder)
    return Redactor(secret_values(named, dotenv, ())).clean_text(text)


@click.group(context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="ci-evals", message="%(prog)s %(version)s")
def group() -> None:
    """The merge gate for the behaviour of LLM apps and agents.

    Runs every case of a suite on every provider and prompt, several times, judges the answers, and says by its exit
    code whether they are good enough to merge.

    \b
    Start here:
      ci-evals init        write a commented evals.yaml and a workflow
      ci-evals validate    check the suite; calls nothing, costs nothing
      ci-evals run         run it

    \b
    Exit codes: 0 passed · 1 failed · 2 the config or the command line is wrong, nothing was run ·
    3 no verdict (too many runs errored, results could not be written) · 130/143 interrupted
    """


@group.command()
@options.config
@options.overriding
@click.option(
    "--resume",
    is_flag=True,
    envvar="CI_EVALS_RESUME",
    show_envvar=True,
    help="Go on with the journal in the results folder: graded runs are kept, errored ones tried again.",
)
@options.setting(
    "--resume-from",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Take over the results of another journal, or of the folder it is in; may be repeated.",
)
@options.setting(
    "--shard",
    callback=options.to_shard,
    metavar="K/N",
    envvar="CI_EVALS_SHARD",
    show_envvar=True,
    help="Run only the K-th of N shares of the cells; `ci-evals merge` puts them together and decides.",
)
@options.setting(
    "--balance-by",
    type=click.Path(path_type=Path),
    metavar="PATH",
    envvar="CI_EVALS_BALANCE_BY",
    show_envvar=True,
    help="Balance shards by the durations in this journal or report.json; every shard must be given the same.",
)
@options.setting(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="PATH",
    envvar="CI_EVALS_REPLAY",
    show_envvar=True,
    help="Answer from this journal what was asked before, and call providers for the rest.",
)
@click.option(
    "--replay-only",
    is_flag=True,
    envvar="CI_EVALS_REPLAY_ONLY",
    show_envvar=True,
    help="With --replay: call no provider; runs that are not recorded are errored. Needs no keys.",
)
@options.setting(
    "--record",
    type=click.Path(path_type=Path),
    metavar="PATH",
    envvar="CI_EVALS_RECORD",
    show_envvar=True,
    help="A journal to answer from where a pull request of a fork gets no secrets; default: the base branch's.",
)
@options.baseline
@options.posting
@options.output
@options.quiet
def run(config: Path | None, output: str, *, quiet: bool, **others: Any) -> int:
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
    if others["replay_only"] and others["replay"] is None:
        raise click.UsageError("--replay-only needs --replay PATH")
    named, told = ({name: others.pop(name) for name in names} for names in (options.OVERRIDING, options.POSTING))
    suite, without_secrets = _suite_of_job(config, named, offline=others["replay_only"])

    from ci_evals import app
    from ci_evals.actions.job import Posting
    from ci_evals.world import Appearance

    continuation = app.Continuation(**others, without_secrets=without_secrets)
    return app.run(suite, continuation, _world(), Appearance(output, quiet), Posting(**told))


@group.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="DIR...")
@options.config
@options.overriding
@options.setting(
    "--run-missing",
    is_flag=True,
    envvar="CI_EVALS_RUN_MISSING",
    show_envvar=True,
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
    """Put the results of shards together, judge them, and exit with the verdict.

    DIR is a shard's results folder. The suite, --runs and --providers must be those of the shards. What comes out is
    what one unsharded run would have written.

    \b
    Example:
      ci-evals merge shard-1 shard-2 shard-3 --out ci-evals-results
    """
    named, told = ({name: others.pop(name) for name in names} for names in (options.OVERRIDING, options.POSTING))
    suite, without_secrets = _suite_of_job(config, named, offline=not run_missing)

    from ci_evals import app
    from ci_evals.actions.job import Posting
    from ci_evals.world import Appearance

    shards = app.Shards(folders, run_missing=run_missing and not without_secrets, baseline=baseline)
    return app.merge(suite, shards, _world(), Appearance(output, quiet), Posting(**told))


@group.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.config
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default="ci-evals-results",
    show_default=True,
    help="Where A and B are looked up when they are variants: a report, a journal, or the folder of either.",
)
@click.option("--judge", metavar="PROVIDER", help="The judge or provider of the suite that prefers.")
@click.option("--rubric", metavar="TEXT", help="What the judge goes by; default: correct, helpful, to the point.")
@click.option("--function", metavar="MODULE:FUNCTION", help="A function that prefers, instead of a judge.")
@options.setting(
    "--format",
    "output",
    type=click.Choice(["table", "markdown", "json"]),
    default="table",
    show_default=True,
    envvar="CI_EVALS_FORMAT",
    show_envvar=True,
    help="What is printed on stdout.",
)
@click.option("--fail-if-worse", is_flag=True, help="Exit 1 if A is preferred beyond what luck explains.")
def pairwise(a: str, b: str, config: Path | None, output: str, *, fail_if_worse: bool, **others: Any) -> int:
    """Ask which of two variants is preferred, case by case, each pair of answers in both orders.

    A and B are variants of one report, or the paths of two (PATH, or PATH::VARIANT where there are several). A
    preference counts if it is the same in both orders; one that goes with the order is a flip, and a tie.

    \b
    Examples:
      ci-evals pairwise gpt-4o-mini gpt-4o --judge claude
      ci-evals pairwise main-results results --function taste:prefer --fail-if-worse
    """
    from ci_evals import app
    from ci_evals.config.asked import load_asked
    from ci_evals.config.load import find_config
    from ci_evals.engine.pairwise import RUBRIC, Judge

    judge, function, rubric = others["judge"], others["function"], others["rubric"]
    if (judge is None) == (function is None):
        raise click.UsageError("name who prefers: --judge PROVIDER, or --function MODULE:FUNCTION")
    if rubric and function:
        raise click.UsageError("--rubric is for a --judge; a --function has its own")
    if judge:
        suite, model = load_asked(config or find_config(Path()), os.environ, judge)
        prefers = Judge(provider=model, rubric=rubric or RUBRIC)
    else:
        suite, prefers = _suite(config, {}, offline=True), Judge(function)
    found = app.pairwise(suite, (a, b), others["report"], prefers, _world(), output)
    return int(fail_if_worse and found.preference.side == "a")


@group.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="TRACES...")
@options.setting("--suite", type=click.Path(path_type=Path), help="The suite; default: evals.yaml here or in .github/.")
@options.setting("--match", metavar="ATTRIBUTE", help="The attribute of a trace that holds the id of its case.")
@options.out
@options.output
@options.quiet
def grade(
    traces: tuple[Path, ...], suite: Path | None, match: str | None, out: Path | None, output: str, *, quiet: bool
) -> int:
    """Grade traces that are there, without running anything, and exit with the verdict.

    TRACES are files, or folders of files: OTLP JSON of OpenTelemetry (one document, or one to the line), or a run JSON
    of ag2. A trace belongs to the case whose id it has as `ci_evals.case.id`, `case_id`, `case.id` or `task_id`, or
    whose input it was asked. Judges are asked; cases without a trace are errored.

    \b
    Example:
      ci-evals grade traces.jsonl --suite evals.yaml
    """
    from ci_evals.config.load import find_config, load_suite
    from ci_evals.config.overrides import Overrides

    path = suite or find_config(Path())
    loaded = load_suite(path, os.environ, Overrides(out=out), offline=True, judging=True)

    from ci_evals import app
    from ci_evals.world import Appearance

    return app.grade(loaded, traces, _world(), Appearance(output, quiet), match=match)


@group.group()
def judge() -> None:
    """Measure models that judge."""


@judge.command("check")
@click.argument("labels", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="LABELS.jsonl")
@options.setting("--suite", type=click.Path(path_type=Path), help="The suite; default: evals.yaml here or in .github/.")
@options.setting("--rubric", help="Which judge, by its rubric, if the suite has several.")
@options.output
def judge_check(labels: Path, suite: Path | None, rubric: str | None, output: str) -> int:
    """Measure a judge against people's labels, and say whether it is fit to gate.

    LABELS.jsonl has one answer to the line: `output`, `label` (pass or fail), and perhaps `input`, `reference`,
    `context` and `case`. The judge is the suite's. It is fit with at least 30 labels and a Cohen's kappa whose 95 %
    interval lies from 0.6 on.

    \b
    Exit codes: 0 fit to gate · 1 not fit · 3 too little to tell

    \b
    Example:
      ci-evals judge check labels.jsonl --suite evals.yaml
    """
    from ci_evals.config.load import find_config, load_suite
    from ci_evals.config.overrides import Overrides

    loaded = load_suite(suite or find_config(Path()), os.environ, Overrides(), offline=True, judging=True)

    from ci_evals import app

    return app.check_judge(loaded, labels, rubric, _world(), output)


@group.command()
@options.config
@options.providers
@options.tags
@options.runs
def validate(config: Path | None, **overrides: Any) -> None:
    """Check a suite without calling anything.

    Lists every problem with its file, line and a suggestion: unknown keys, wrong types, duplicate ids, missing files,
    variables that are not set, templates that do not fit their cases.
    """
    suite = _suite(config, overrides)

    from ci_evals.matrix import Matrix
    from ci_evals.reports.figures import number_of

    total = Matrix(suite.cases, suite.variants, suite.runs).total
    shape = f"{number_of(len(suite.cases), 'case')} × {number_of(len(suite.variants), 'variant')}"
    click.echo(f"{suite.file} is valid: {shape}, {number_of(total, 'run')}")


@group.command()
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[CONFIG]")
@options.setting(
    "--history",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A report.json of this suite, or a folder of them, that shows how its answers vary; may be repeated.",
)
@options.providers
@options.runs
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="What is printed on stdout.",
)
def power(
    file: Path | None,
    history: tuple[Path, ...],
    runs: int | None,
    providers: tuple[str, ...] | None,
    output: "PowerFormat",
) -> None:
    """Say what a suite can detect, and what more runs or cases would buy; calls nothing, costs nothing.

    \b
    Examples:
      ci-evals power
      ci-evals power evals/support.yaml --runs 5 --history main/report.json
    """
    suite = _suite(file, {"runs": runs, "providers": providers}, offline=True)

    from ci_evals import app

    app.tell_power(suite, history, _world(), output)


@group.command()
def schema() -> None:
    """Print the JSON Schema of evals.yaml.

    Editors complete and check the file with it:

    \b
      ci-evals schema > evals.schema.json
      # yaml-language-server: $schema=evals.schema.json   (first line of evals.yaml)
    """
    from ci_evals.config.schema import suite_schema_text

    click.echo(suite_schema_text())


@group.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def init(folder: Path, *, force: bool) -> None:
    """Write a commented evals.yaml and a GitHub workflow into FOLDER (default: here).

    The suite runs at once against a mock provider: no key, no network.
    """
    from ci_evals.starter import write_starter

    for path in write_starter(folder, overwrite=force):
        click.echo(f"written: {path.as_posix()}")
    click.echo("next: ci-evals run")


group.add_command(report_commands.comment)
group.add_command(report_commands.compare)
group.add_command(report_commands.explain)


@group.command("mock-server")
@options.config
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
def mock_server(config: Path | None, host: str, port: int) -> None:
    """Serve an OpenAI-compatible endpoint on loopback, to try a suite without a key.

    Answers as the first `mock` provider of the config does, or echoes the question without one. Point an `openai`
    provider at it with `base_url: http://127.0.0.1:8080/v1`.
    """
    from ci_evals import app

    app.serve_mock(config, _world(), host, port)


def _suite(config: Path | None, overrides: Mapping[str, Any], *, offline: bool = False) -> "Suite":
    from ci_evals.config.load import find_config, load_suite
    from ci_evals.config.overrides import Overrides

    return load_suite(config or find_config(Path()), os.environ, Overrides(**overrides), offline=offline)


def _suite_of_job(config: Path | None, overrides: Mapping[str, Any], *, offline: bool) -> tuple["Suite", bool]:
    """The suite, and whether it can only be replayed: where GitHub gives no secrets, keys may be missing."""
    try:
        return _suite(config, overrides, offline=offline), False
    except ConfigError:
        if not _without_secrets_here():
            raise
        return _suite(config, overrides, offline=True), True


def _without_secrets_here() -> bool:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return False
    from ci_evals.github.context import read_context

    return read_context(os.environ).read_only


def _world() -> "World":
    from ci_evals.world import World

    return World(os.environ, Path(), sys.stdout, sys.stderr)
