"""The options that several commands share."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ci_evals.cli.console import Console, environment
from ci_evals.errors import ConfigError
from ci_evals.redaction import Redactor, learn, secret_values
from ci_evals.suite.configs import find_config
from ci_evals.suite.environment import read_dotenv
from ci_evals.suite.load import load_suite
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import CheckedSuite

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

SETTINGS = {"auto_envvar_prefix": "CI_EVALS"}

command = partial(click.command, context_settings=SETTINGS)

option = partial(click.option, allow_from_autoenv=False)
"""An option of the command line only."""

setting = partial(click.option, show_envvar=True)
"""An option that an environment variable may give, too: `--max-runs` is CI_EVALS_MAX_RUNS."""


def to_names(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return (
        None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())
    )


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
