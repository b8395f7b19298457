"""The options that several commands share."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ci_evals.cli.console import Console, current_host, environment
from ci_evals.cli.help import write_sections
from ci_evals.errors import ConfigError
from ci_evals.hosts import BaselineChoice, Posting
from ci_evals.model.plan import Shard
from ci_evals.redaction import Redactor, learn, secret_values
from ci_evals.reports.report_json import REPORT
from ci_evals.suite.configs import find_config, is_suite_path
from ci_evals.suite.environment import read_dotenv
from ci_evals.suite.executor import ExecutorOptions, parse_executor
from ci_evals.suite.load import UNLIMITED, load_suite
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import RESULTS, CheckedSuite

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_SECTIONS = {
    "Selection": (
        "config",
        "providers",
        "tags",
        "cases",
        "failed",
        "first",
        "sample",
        "shard",
        "balance_by",
    ),
    "Execution": (
        "runs",
        "max_runs",
        "confirm_runs",
        "max_concurrency",
        "timeout_s",
        "retries",
        "executor",
    ),
    "Earlier answers": (
        "resume",
        "resume_from",
        "run_missing",
        "reuse",
        "replay",
        "replay_only",
        "record",
    ),
    "Comparison and verdict": ("baseline", "fail_on"),
    "Reports": ("out", "output", "quiet", "label", "run_id"),
    "GitHub Actions": ("artifact", "comment", "comment_progress"),
}
"""The options of `run` and `merge` by purpose."""


class SectionedCommand(click.Command):
    """A command with so many options that its help lists them by purpose."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        rows = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                rows[parameter.name or ""] = record
        write_sections(formatter, _SECTIONS, rows)


SETTINGS = {"auto_envvar_prefix": "CI_EVALS"}

command = partial(click.command, context_settings=SETTINGS)

option = partial(click.option, allow_from_autoenv=False)
"""An option of the command line only."""

setting = partial(click.option, show_envvar=True)
"""An option that an environment variable may give, too: `--max-runs` is CI_EVALS_MAX_RUNS."""


class _IntegerOr(click.IntRange):
    """A whole number, or a word, which stands for `meaning`."""

    def __init__(self, word: str, meaning: Any, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self._word = word
        self._meaning = meaning

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == self._word:
            return self._meaning
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither a whole number nor {self._word!r}", param, ctx)
        return super().convert(value, param, ctx)


def to_names(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return (
        None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())
    )


def to_baseline(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> BaselineChoice:
    """`auto`, `none`, or paths; where none is given, what is usual here."""
    value = tuple(filter(None, value))
    if not value:
        return "auto" if current_host().name else "none"
    for word in ("auto", "none"):
        if word in value:
            if len(value) > 1:
                raise click.BadParameter(f"{word!r} does not go with others")
            return word
    return tuple(Path(each) for each in value)


PATH = click.Path(path_type=Path)


def _config(*names: str) -> Decorator:
    return setting(*names, type=PATH, help="The suite; default: evals.yaml here or in .github/.")


class _PathPerLine(click.Path):
    """Paths; in a variable, one to the line."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [line.strip() for line in rv.splitlines() if line.strip()]


def suites(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument SUITE..., and --config as another name for it; the command gets what is
    named as `named`.
    """

    @click.argument("suites", nargs=-1, type=PATH, metavar="[SUITE]...")
    @setting(
        "-c",
        "--config",
        multiple=True,
        type=_PathPerLine(path_type=Path),
        help="The same as SUITE.",
    )
    @wraps(command)
    def call(*, suites: tuple[Path, ...], config: tuple[Path, ...], **values: Any) -> Any:
        source = click.get_current_context().get_parameter_source("config")
        if suites and config and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--config {config[0]} and {suites[0]}: name suites side by side, without an option"
            )
        return command(named=suites or config, **values)

    return call


def failed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --failed, whose value may be left out: a suite that stands in its place is one of
    SUITE...
    """

    @option(
        "--failed",
        is_flag=False,
        flag_value="",
        metavar="[REPORT]",
        help="Run only the cases that did not pass in a report, or its folder; default: the results folder.",
    )
    @wraps(command)
    def call(*, failed: str | None, suites: tuple[Path, ...], **values: Any) -> Any:
        if failed and is_suite_path(Path(failed)) and not Path(failed, REPORT).is_file():
            suites, failed = (Path(failed), *suites), ""
        return command(failed=failed, suites=suites, **values)

    return call


def _format(*choices: str, envvar: str | None = None) -> Decorator:
    return click.option(
        "--format",
        "output",
        type=click.Choice(choices),
        default=choices[0],
        envvar=envvar,
        allow_from_autoenv=False,
        show_default=True,
        show_envvar=True,
        help="What is printed on stdout.",
    )


config = _config("-c", "--config")
suite = _config("--suite", "-c", "--config", "config")
output = _format("table", "json", envvar="CI_EVALS_FORMAT")
table_format = _format("table", "markdown", "json", envvar="CI_EVALS_FORMAT")
report_format = _format("text", "markdown", "json")
providers = setting(
    "--providers",
    callback=to_names,
    metavar="A,B",
    help="Run only these providers, by name.",
)
runs = setting(
    "--runs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Executions of every cell; a case's own `runs` still wins.",
)
baseline = setting(
    "--baseline",
    multiple=True,
    callback=to_baseline,
    type=click.Path(),
    metavar="auto|none|PATH",
    help="Compare with this report.json, or a folder with one or more; may be repeated. `auto`: what the base branch"
    " has left on GitHub, else `evals.baseline.json` beside the suite. Default: auto in GitHub Actions, else none.",
)


def to_run_id(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """An id of one line, as a CI system makes it."""
    if value is not None and not (
        0 < len(value) <= 200 and value.isprintable() and value.strip() == value
    ):
        raise click.BadParameter(
            "expected up to 200 printable characters, without blanks around them"
        )
    return value


def to_executor(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> ExecutorOptions | None:
    try:
        return None if value is None else parse_executor(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


run_id = setting(
    "--run-id",
    callback=to_run_id,
    metavar="TEXT",
    help="Identifies the run in journal and reports, such as a CI system's id of it; default: a random one.",
)
baseline_reports = setting(
    "--baseline",
    multiple=True,
    type=PATH,
    metavar="PATH",
    help="Compare with this report.json, or a folder with one or more; may be repeated.",
)
tags = setting(
    "--tags",
    callback=to_names,
    metavar="A,B",
    help="Run only cases with one of these tags.",
)
out = setting(
    "-o",
    "--out",
    type=PATH,
    help="Folder for results; default: the suite's, else ci-evals-results.",
)
quiet = setting("-q", "--quiet", is_flag=True, help="No progress on stderr.")


def collect(kind: Callable[..., Any], name: str, options: dict[str, Decorator]) -> Decorator:
    """Return a decorator that adds options to a command, which is given their values as one
    argument.

    Args:
        kind: makes that argument of the values.
        name: its name.
        options: by the name of their value.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(**values: Any) -> Any:
            return command(**{name: kind(**{each: values.pop(each) for each in options})}, **values)

        decorated: Callable[..., Any] = call
        for add_option in reversed(options.values()):
            decorated = add_option(decorated)
        return decorated

    return add


console = collect(Console.of_process, "console", {"output": output, "quiet": quiet})
"""Adds the options about what is printed; the command gets its `console`."""

overriding = collect(
    Overrides,
    "overrides",
    {
        "out": out,
        "providers": providers,
        "tags": tags,
        "cases": option(
            "--case",
            "cases",
            multiple=True,
            callback=lambda _context, _option, value: value or None,
            metavar="ID|GLOB",
            help="Run only this case, or those that a pattern such as 'refund*' fits; may be repeated.",
        ),
        "first": option(
            "--first", type=click.IntRange(min=1), metavar="N", help="Run only the first N cases."
        ),
        "sample": option(
            "--sample",
            type=click.IntRange(min=1),
            metavar="N",
            help="Run only N cases, drawn by the suite's `seed`: the same ones each time.",
        ),
        "runs": runs,
        "max_runs": setting(
            "--max-runs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Go on up to this many runs of a cell while the verdict is open.",
        ),
        "confirm_runs": setting(
            "--confirm-runs",
            type=_IntegerOr("auto", "auto", 0, 1000),
            metavar="N|auto",
            help="Further runs of a case that looks worse than the baseline; auto: what naming it takes; 0: none.",
        ),
        "max_concurrency": setting(
            "--max-concurrency",
            type=_IntegerOr("unlimited", UNLIMITED, 1),
            metavar="N",
            help="Calls under way at once, over all providers; or `unlimited`.",
        ),
        "timeout_s": setting(
            "--timeout-s",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Seconds that one call may take.",
        ),
        "retries": setting(
            "--retries",
            type=click.IntRange(min=0, max=20),
            metavar="N",
            help="Further attempts after a refused or lost call.",
        ),
        "executor": setting(
            "--executor",
            callback=to_executor,
            metavar="local|ray[://HOST:PORT]",
            help="Where your own code runs: on this machine, or on a Ray cluster. Default: the suite's, else local.",
        ),
        "reuse": setting(
            "--reuse/--no-reuse",
            default=None,
            help="Take answers from the last run here, or on the base branch, where nothing that they depend on has"
            " changed. Default: the suite's.",
        ),
        "label": setting(
            "--label",
            metavar="TEXT",
            help="Kept in the reports, to group them by; default: the suite's.",
        ),
    },
)
"""Adds the options whose values replace the suite's; the command gets them as `overrides`."""

posting = collect(
    Posting,
    "posting",
    {
        "artifact": setting(
            "--artifact",
            metavar="NAME",
            default=RESULTS,
            show_default=True,
            help="What the results are uploaded as in GitHub Actions: where `--baseline auto` and later attempts look.",
        ),
        "fail_on": setting(
            "--fail-on",
            type=click.Choice(["fail", "borderline", "never"]),
            help="Exit with an error on this verdict or a worse one; `never`: exit 0 even without a verdict."
            " Default: what the suite's `gate.on_borderline` says.",
        ),
        "comment": setting(
            "--comment",
            type=click.Choice(["auto", "off", "new"]),
            default="auto",
            show_default=True,
            help="In GitHub Actions, edit the pull request's one comment, leave it alone, or post a new one.",
        ),
        "comment_progress": setting(
            "--comment-progress",
            is_flag=True,
            help="Say in the comment that a run is under way.",
        ),
    },
)
"""Adds the options about what becomes of a verdict; the command gets them as `posting`."""


def to_shard(_context: click.Context, _option: click.Parameter, value: str | None) -> Shard | None:
    if value is None:
        return None
    number, slash, count = value.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise click.BadParameter(f"{value!r} is not a share such as 2/5")

    return Shard(int(number), int(count))


_NOTHING = Overrides()


def learn_secrets(suite: CheckedSuite) -> None:
    """Take the secrets of a suite out of all that this process prints, errors included."""
    for secret in suite.secrets:
        learn(secret)


def load_named_suite(
    config: Path | None,
    overrides: Overrides = _NOTHING,
    *,
    offline: bool = False,
    judging: bool = False,
) -> CheckedSuite:
    """Load a suite, with `overrides` in place of its own values.

    Args:
        config: its file; None for the one in this folder.
        overrides: what the command line sets.
        offline: True if providers are not called, so that their keys may be missing.
        judging: True if judges are called even so.

    Raises:
        ConfigError: it cannot be used.
    """
    path = config or find_config(Path())
    try:
        suite = load_suite(path, environment(), overrides, offline=offline, judging=judging)
    except ConfigError as error:
        dotenv = read_dotenv(path.parent)  # code that fails to import may quote any of it
        redactor = Redactor(secret_values({}, dotenv, ()))
        raise ConfigError(redactor.clean(error.problems)) from None
    learn_secrets(suite)
    if suite.imported:
        click.echo(
            f"{suite.file} is {suite.imported}'s, translated as it is read:"
            " `ci-evals import` makes a suite of it",
            err=True,
        )
    return suite
