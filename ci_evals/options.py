"""The options that several commands of the command line share."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_evals import world

if TYPE_CHECKING:
    from ci_evals.actions.earlier import Wanted
    from ci_evals.engine.shards import Shard
    from ci_evals.suite import Suite

Command = TypeVar("Command", bound=Callable[..., Any])


class Setting(click.Option):
    """An option for which an empty value counts as not given: CI systems pass empty strings for inputs left out."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value of this option; without one, its variable or its default."""
        given = {key: _without_empty(value) for key, value in opts.items()}
        return super().handle_parse_result(
            ctx, {key: value for key, value in given.items() if value not in ("", [])}, args
        )


def _without_empty(value: Any) -> Any:
    """Of an option that may be repeated, what was not empty."""
    return [each for each in value if each != ""] if isinstance(value, list) else value


option = partial(click.option, cls=Setting)


def setting(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option that a variable may give, too: `--max-runs` is CI_EVALS_MAX_RUNS."""
    name = next(name for name in names if name.startswith("--"))
    variable = "CI_EVALS_" + name.removeprefix("--").upper().replace("-", "_")
    return option(*names, **{"envvar": variable, "show_envvar": True, **attributes})


def to_names(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else None


def to_wanted(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> "Wanted":
    """`auto`, `none`, or paths; where none is given, what is usual here."""
    value = tuple(filter(None, value))
    if not value:
        return "auto" if world.in_actions(os.environ) else "none"
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
    envvar="CI_EVALS_CONFIG",
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
    help="The mildest verdict that ends in a failure; `never`: none, not even the lack of one."
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
    """The options of `POSTING`: what becomes of a verdict."""
    return _all(POSTING, command)


def overriding(command: Command) -> Command:
    """The options of `OVERRIDING`: other values in place of the suite's."""
    return _all(OVERRIDING, command)


def _all(options: Mapping[str, Callable[[Command], Command]], command: Command) -> Command:
    for each in reversed([*options.values()]):
        command = each(command)
    return command


def to_shard(_context: click.Context, _option: click.Parameter, value: str | None) -> "Shard | None":
    if value is None:
        return None
    number, slash, of = value.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise click.BadParameter(f"{value!r} is not a share such as 2/5")
    from ci_evals.engine.shards import Shard

    return Shard(int(number), int(of))


def suite_named(
    config: Path | None, overrides: Mapping[str, Any] = {}, *, offline: bool = False, judging: bool = False
) -> "Suite":
    """The suite of `--config`, or the one that is here, with `overrides` in place of its own values.

    Raises:
        ConfigError: it cannot be used. Where `offline`, keys of providers may be missing; of judges not, if `judging`.
    """
    from ci_evals.config.load import find_config, load_suite
    from ci_evals.config.overrides import Overrides

    return load_suite(
        config or find_config(Path()), os.environ, Overrides(**overrides), offline=offline, judging=judging
    )
