"""The options that several commands share."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ci_evals.cli.console import Console, environment, reveal_credentials
from ci_evals.errors import ConfigError, UsageError
from ci_evals.files import check_folder
from ci_evals.redaction import Redactor, learn, secret_values
from ci_evals.suite.configs import find_config
from ci_evals.suite.environment import read_dotenv
from ci_evals.suite.load import load_suite
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import CheckedSuite

T = TypeVar("T")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

SETTINGS = {"auto_envvar_prefix": "CI_EVALS"}

command = partial(click.command, context_settings=SETTINGS)

option = partial(click.option, allow_from_autoenv=False)
"""An option for the command line only."""

setting = partial(click.option, show_envvar=True)
"""An option that an environment variable can set, too: CI_EVALS_MAX_RUNS sets `--max-runs`."""


def to_names(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Split a list such as `A,B`."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")]
    return tuple(name for name in names if name)


PATH = click.Path(path_type=Path)


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


def _config(*names: str) -> Decorator:
    return setting(*names, type=PATH, help="The suite; default: evals.yaml here or in .github/.")


class _PathPerLine(click.Path):
    """A path. A variable may have several, one on each line: paths may contain spaces."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [line.strip() for line in rv.splitlines() if line.strip()]


def suites(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument SUITE... and its other name --config; the command gets them as `named`."""

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
                f"--config {config[0]} and {suites[0]}: pass all suites as arguments"
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
        help="The format of the output on stdout.",
    )


config = _config("-c", "--config")
suite = _config("--suite", "-c", "--config", "config")
output = _format("table", "json", envvar="CI_EVALS_FORMAT")
table_format = _format("table", "markdown", "json", envvar="CI_EVALS_FORMAT")
report_format = _format("text", "markdown", "json")
comparison_format = _format("text", "markdown", "json", "html")
providers = setting(
    "--providers",
    callback=to_names,
    metavar="A,B",
    help="Run only these providers, by name.",
)
runs = setting(
    "--runs",
    type=WholeNumber(min=1),
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


def _to_folder(
    _context: click.Context, _option: click.Parameter, value: Path | None
) -> Path | None:
    if value is not None:
        check_folder(value)
    return value


out = setting(
    "-o",
    "--out",
    type=PATH,
    callback=_to_folder,
    help="The results folder; default: the suite's, otherwise ci-evals-results.",
)
quiet = setting("-q", "--quiet", is_flag=True, help="No progress on stderr.")


def collect(kind: Callable[..., Any], name: str, options: dict[str, Decorator]) -> Decorator:
    """Return a decorator that adds options to a command and passes their values as one argument.

    Args:
        kind: makes the argument; called with the values by name.
        name: the name of the argument.
        options: the options by the name of their value.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(**values: Any) -> Any:
            collected = {option: values.pop(option) for option in options}
            values[name] = kind(**collected)
            return command(**values)

        decorated: Callable[..., Any] = call
        # Decorators apply from the bottom up; reversed, `--help` lists the options in order.
        for add_option in reversed(options.values()):
            decorated = add_option(decorated)
        return decorated

    return add


console = collect(Console.of_process, "console", {"output": output, "quiet": quiet})
"""Adds the options about printing; the command gets them as `console`."""

_NOTHING = Overrides()


def learn_secrets(suite: CheckedSuite) -> None:
    """Redact the secrets of a suite in everything that this process prints, including errors."""
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
        config: its file; None for the suite in the working folder.
        overrides: the values set on the command line.
        offline: True if no provider is called; then their keys may be missing.
        judging: True if judges are called even when offline.

    Raises:
        ConfigError: it cannot be used.
    """
    path = config or find_config(Path())
    reveal_credentials(environment(), [path])
    try:
        suite = load_suite(path, environment(), overrides, offline=offline, judging=judging)
    except ConfigError as error:
        dotenv = read_dotenv(path.parent)  # errors of imported code may quote any value
        redactor = Redactor(secret_values({}, dotenv, ()))
        raise ConfigError(redactor.clean(error.problems)) from None
    learn_secrets(suite)
    if suite.imported:
        click.echo(
            f"{suite.file} is a config of {suite.imported}, translated on the fly:"
            " `ci-evals import` turns it into a suite",
            err=True,
        )
    return suite


def choose_variant(variants: Mapping[str, T], name: str | None, where: str) -> tuple[str, T]:
    """Choose a variant of a report by its name; without a name, the only one.

    Raises:
        UsageError: there is no variant of that name, or no name and several variants.
    """
    if name is None and len(variants) == 1:
        return next(iter(variants.items()))
    if name is None:
        known = ", ".join(variants) or "none"
        example = next(iter(variants), "…")
        raise UsageError(
            f"{where} has several variants ({known}): name one, as in '{where}::{example}'"
        )
    if name not in variants:
        raise UsageError(f"{where}: {unknown('variant', name, variants)}")
    return name, variants[name]
