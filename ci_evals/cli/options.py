"""The options that several commands share, and the console that they print on."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from ci_evals.engine.interrupt import columns_of, say
from ci_evals.format import without_commands
from ci_evals.github.baseline import Wanted
from ci_evals.github.context import in_actions
from ci_evals.github.job import Posting
from ci_evals.model.plan import Shard
from ci_evals.redaction import Redactor
from ci_evals.reports import report_json, terminal
from ci_evals.reports.summary import Summary
from ci_evals.suite.load import Overrides, find_config, load_suite
from ci_evals.suite.types import CheckedSuite


@dataclass(frozen=True, slots=True)
class Console:
    """The environment and the streams of this process, and how a command prints.

    Args:
        environ: the environment.
        stdout: for the outcome and nothing else.
        stderr: for progress and remarks.
        output: the format of the outcome: `json`, or a text for people.
        quiet: print no progress.
        redactor: takes secrets out of everything that is printed.
    """

    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    output: str = "table"
    quiet: bool = False
    redactor: Redactor = field(default_factory=lambda: Redactor(()))

    @classmethod
    def of_process(cls, output: str = "table", *, quiet: bool = False, suite: CheckedSuite | None = None) -> "Console":
        """Return the console of this process as it is now; `suite` knows the secrets."""
        return cls(os.environ, sys.stdout, sys.stderr, output, quiet, Redactor(suite.secrets if suite else ()))

    @property
    def in_actions(self) -> bool:
        return in_actions(self.environ)

    @property
    def log(self) -> TextIO:
        """The stream that a log of GitHub Actions shows; with JSON, stdout is a file or another program's input."""
        return self.stderr if self.output == "json" else self.stdout

    @property
    def is_live(self) -> bool:
        """Return True if a line on stderr can be drawn anew."""
        return self.stderr.isatty() and self.environ.get("TERM") != "dumb"

    @property
    def line_start(self) -> str:
        """The beginning of a line on stderr, which replaces a progress bar."""
        return "\r\x1b[2K" if self.is_live else ""

    @property
    def width(self) -> int:
        """The width of the terminal, at least 40; 120 columns in a log and where it is unknown."""
        if given := self.environ.get("COLUMNS", ""):
            columns = int(given) if given.isdecimal() else 0
        else:
            columns = columns_of(self.stdout)
        return max(40, columns) if columns else 120

    @property
    def color(self) -> bool:
        return self.stdout.isatty() and "NO_COLOR" not in self.environ

    def clean(self, text: str) -> str:
        """Return a text without secrets, and in a job of GitHub Actions without workflow commands."""
        text = self.redactor.clean_text(text)
        return without_commands(text) if self.in_actions else text

    def print(self, text: str) -> None:
        """Print the outcome on stdout. JSON is printed as it is: no log takes it for a workflow command."""
        text = self.redactor.clean_text(text) if self.output == "json" else self.clean(text)
        say(self.stdout, text.rstrip("\n") + "\n")

    def show(self, summary: Summary) -> None:
        """Print the outcome of a run."""
        if self.output == "json":
            self.print(report_json.render_brief(summary))
        else:
            self.print(terminal.render(summary, width=self.width, color=self.color))

    def remark(self, *lines: str) -> None:
        """Print lines on stderr, unless nothing but the outcome is wanted."""
        if lines and not self.quiet:
            say(self.stderr, self.line_start + self.clean("".join(f"{line}\n" for line in lines)))

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        say(self.stderr, self.clean(f"warning: {' '.join(text.split())}\n"))


Command = TypeVar("Command", bound=Callable[..., Any])

SETTINGS = {"auto_envvar_prefix": "CI_EVALS"}

command = partial(click.command, context_settings=SETTINGS)

option = partial(click.option, allow_from_autoenv=False)
"""An option of the command line only."""

setting = partial(click.option, show_envvar=True)
"""An option that an environment variable may give, too: `--max-runs` is CI_EVALS_MAX_RUNS."""


def to_names(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else None


def to_wanted(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> Wanted:
    """`auto`, `none`, or paths; where none is given, what is usual here."""
    value = tuple(filter(None, value))
    if not value:
        return "auto" if in_actions(os.environ) else "none"
    for word in ("auto", "none"):
        if word in value:
            if len(value) > 1:
                raise click.BadParameter(f"{word!r} does not go with others")
            return word
    return tuple(Path(each) for each in value)


config = setting(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    help="The suite; default: evals.yaml here or in .github/.",
)
suite = setting(
    "--suite",
    "-c",
    "--config",
    "config",
    type=click.Path(path_type=Path),
    help="The suite; default: evals.yaml here or in .github/.",
)
providers = setting(
    "--providers",
    callback=to_names,
    metavar="A,B",
    help="Run only these providers, by name.",
)
runs = setting(
    "--runs",
    type=click.IntRange(min=1),
    help="Executions of every cell; a case's own `runs` still wins.",
)
baseline = setting(
    "--baseline",
    multiple=True,
    callback=to_wanted,
    type=click.Path(),
    metavar="auto|none|PATH",
    help="Compare with this report.json, or a folder with one or more; may be repeated. `auto`: what the base branch"
    " has left on GitHub, else `evals.baseline.json` beside the suite. Default: auto in GitHub Actions, else none.",
)
baseline_reports = setting(
    "--baseline",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Compare with this report.json, or a folder with one or more; may be repeated.",
)
artifact = setting(
    "--artifact",
    metavar="NAME",
    default="ci-evals-results",
    show_default=True,
    help="What the results are uploaded as in GitHub Actions: where `--baseline auto` and later attempts look.",
)
fail_on = setting(
    "--fail-on",
    type=click.Choice(["fail", "borderline", "never"]),
    help="Exit with an error on this verdict or a worse one; `never`: exit 0 even without a verdict."
    " Default: what the suite's `gate.on_borderline` says.",
)
comment = setting(
    "--comment",
    type=click.Choice(["auto", "off", "new"]),
    default="auto",
    show_default=True,
    help="In GitHub Actions, edit the pull request's one comment, leave it alone, or post a new one.",
)
comment_progress = setting(
    "--comment-progress",
    is_flag=True,
    help="Say in the comment that a run is under way.",
)
tags = setting(
    "--tags",
    callback=to_names,
    metavar="A,B",
    help="Run only cases with one of these tags.",
)
confirm_runs = setting(
    "--confirm-runs",
    type=click.IntRange(min=0, max=1000),
    help="Further runs of a case that looks worse than the baseline; 0: none.",
)
max_runs = setting(
    "--max-runs",
    type=click.IntRange(min=1),
    help="Go on up to so many runs of a cell while the verdict is open.",
)
out = setting(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for results; default: the suite's, else ci-evals-results.",
)
max_concurrency = setting(
    "--max-concurrency",
    type=click.IntRange(min=1),
    help="Calls under way at once, over all providers.",
)
timeout_s = setting(
    "--timeout-s",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that one call may take.",
)
retries = setting(
    "--retries",
    type=click.IntRange(min=0, max=20),
    help="Further attempts after a refused or lost call.",
)
output = setting(
    "--format",
    "output",
    envvar="CI_EVALS_FORMAT",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="What is printed on stdout.",
)
report_format = option(
    "--format",
    "output",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="What is printed on stdout.",
)
quiet = setting("-q", "--quiet", is_flag=True, help="No progress on stderr.")
label = setting(
    "--label",
    metavar="TEXT",
    help="Kept in the reports, to group them by; default: the suite's.",
)

POSTING = {"artifact": artifact, "fail_on": fail_on, "comment": comment, "comment_progress": comment_progress}
OVERRIDING = {
    "out": out,
    "providers": providers,
    "tags": tags,
    "runs": runs,
    "max_runs": max_runs,
    "confirm_runs": confirm_runs,
    "max_concurrency": max_concurrency,
    "timeout_s": timeout_s,
    "retries": retries,
    "label": label,
}


def posting(command: Command) -> Command:
    """Add the options of `POSTING`, about what becomes of a verdict."""
    return _all(POSTING, command)


def overriding(command: Command) -> Command:
    """Add the options of `OVERRIDING`, whose values replace the suite's."""
    return _all(OVERRIDING, command)


def split(values: Mapping[str, Any]) -> tuple[Mapping[str, Any], Posting]:
    """Tell the values of `overriding` from those of `posting`."""
    overrides = {name: values[name] for name in OVERRIDING}
    return overrides, Posting(**{name: values[name] for name in POSTING})


def _all(options: Mapping[str, Callable[[Command], Command]], command: Command) -> Command:
    for each in reversed([*options.values()]):
        command = each(command)
    return command


def to_shard(_context: click.Context, _option: click.Parameter, value: str | None) -> Shard | None:
    if value is None:
        return None
    number, slash, of = value.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise click.BadParameter(f"{value!r} is not a share such as 2/5")

    return Shard(int(number), int(of))


def suite_named(
    config: Path | None, overrides: Mapping[str, Any] = {}, *, offline: bool = False, judging: bool = False
) -> CheckedSuite:
    """Load the suite of `--config`, or the one that is here, with `overrides` in place of its own values.

    Raises:
        ConfigError: it cannot be used. Where `offline`, keys of providers may be missing; of judges not, if `judging`.
    """
    return load_suite(
        config or find_config(Path()), os.environ, Overrides(**overrides), offline=offline, judging=judging
    )
