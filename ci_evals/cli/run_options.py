"""The options of `run` and `merge`, the commands that run a suite."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ci_evals.cli import options
from ci_evals.cli.console import environment
from ci_evals.cli.help import write_sections
from ci_evals.errors import UsageError
from ci_evals.executors import ExecutorOptions, parse_executor
from ci_evals.format import one_line
from ci_evals.hosts import BaselineChoice, Host, Posting
from ci_evals.model.plan import Shard
from ci_evals.registry import host_variable, missing_host
from ci_evals.reports.report_json import REPORT
from ci_evals.suite.configs import is_suite_path
from ci_evals.suite.load import UNLIMITED
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import RESULTS

_SECTIONS = {
    "Selection": (
        "config",
        "providers",
        "tags",
        "cases",
        "failed",
        "failed_first",
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
        "watch",
    ),
    "Earlier answers": (
        "resume",
        "resume_from",
        "run_missing",
        "reuse",
        "reuse_own_code",
        "replay",
        "replay_only",
        "record",
    ),
    "Comparison and verdict": ("against", "baseline", "fail_on"),
    "Reports": ("out", "output", "quiet", "label", "run_id"),
    "GitHub Actions and GitLab CI": ("artifact", "comment", "comment_progress"),
}
"""The options of `run` and `merge` by purpose."""


_COMMON = (
    "config",
    "providers",
    "tags",
    "cases",
    "failed",
    "first",
    "runs",
    "resume",
    "run_missing",
    "watch",
    "against",
    "baseline",
    "fail_on",
    "out",
    "output",
    "quiet",
)
"""The options of these sections that `--help` lists, in order."""

_ALL_OPTIONS = f"{__name__}.all_options"
"""The key that marks a context whose help is to list all options."""


class SectionedCommand(click.Command):
    """A command with so many options that `--help` lists only the common ones."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                allow_from_autoenv=False,
                callback=_show_all_options,
                help="Show all options by purpose, and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options, or the sections of all options."""
        rows = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option):
                record = parameter.get_help_record(ctx)
                if record:
                    rows[parameter.name or ""] = record
        if _ALL_OPTIONS in ctx.meta:
            write_sections(formatter, _SECTIONS, rows)
            return
        for names in _SECTIONS.values():
            for name in names:
                if name not in _COMMON:
                    rows.pop(name, None)
        write_sections(formatter, {"Options": _COMMON}, rows)


def _show_all_options(ctx: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001  as click calls it
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL_OPTIONS] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class _IntegerOr(click.IntRange):
    """A whole number, or a word that stands for `meaning`."""

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


def to_baseline(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> BaselineChoice:
    """Return `auto`, `none`, or paths. Default: `auto` in a CI system with reports, else `none`.

    Raises:
        click.BadParameter: a named report.json does not exist.
    """
    values = [text for text in value if text]  # an input of an action that is left out is empty
    if not values:
        if host_variable(environment()):
            return "auto"
        return "none"
    for word in ("auto", "none"):
        if word in values:
            if len(values) > 1:
                raise click.BadParameter(f"{word!r} cannot be combined with other baselines")
            return word
    paths = tuple(map(Path, values))
    for path in paths:
        # A folder may be missing: on the first run, the base branch has left nothing to download.
        if path.suffix == ".json" and not path.exists():
            raise click.BadParameter(
                f"there is no file {one_line(str(path))}; name its folder if the base branch may"
                " have no report yet"
            )
    return paths


def failed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --failed, whose value is optional.

    click takes the next argument for its value: if that is a suite, it counts as SUITE.
    """

    @options.option(
        "--failed",
        is_flag=False,
        flag_value="",
        metavar="[REPORT]",
        help="Run only the cases that did not pass in a report, or its folder; default: the results"
        " folder.",
    )
    @wraps(command)
    def call(*, failed: str | None, suites: tuple[Path, ...], **values: Any) -> Any:
        if failed and is_suite_path(Path(failed)) and not Path(failed, REPORT).is_file():
            suites = (Path(failed), *suites)
            failed = ""
        return command(failed=failed, suites=suites, **values)

    return call


baseline = options.setting(
    "--baseline",
    multiple=True,
    callback=to_baseline,
    type=click.Path(),
    metavar="auto|none|PATH",
    help="Compare with this report.json, or a folder with one or more; may be repeated. `auto`: the"
    " base branch's report on GitHub or GitLab, otherwise `evals.baseline.json` next to the suite."
    " Default: auto in their jobs, otherwise none.",
)


def to_against(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """Return `auto`, `off`, or a revision that cannot be taken for an option of git."""
    revision = value.strip()
    if not revision:  # an input of an action that is left out is empty
        return "auto"
    if revision.startswith("-"):
        raise click.BadParameter(f"{one_line(revision)} is not a branch or commit")
    return revision


def names_main(against: str) -> bool:
    """Return True if the user names a commit to compare with."""
    return against not in ("", "auto", "off")


def main_to_run(against: str, baseline: BaselineChoice, host: Host, *, calls: bool) -> str:
    """Return what to run alongside: `auto` for the base that the host knows, `off` if nothing is to
    be compared although it knows one, or a revision; empty if nothing is to be run.

    Args:
        against: the option.
        baseline: the stored reports to compare with.
        host: the CI system.
        calls: False for a command that calls nothing, or leaves the comparison to another.
    """
    if names_main(against):
        return against
    if not calls or not host.name:
        return ""
    if baseline == "auto":
        return against
    if baseline == "none":  # a change may have written that into its workflow
        return "off"
    return ""


against = options.setting(
    "--against",
    default="auto",
    callback=to_against,
    metavar="auto|off|REV",
    help="Run the code of this branch or commit alongside, in the same minutes, and compare with"
    " it: `--against main` needs no stored report. `auto`: the base of a pull request, where"
    " something would be red. Default: auto.",
)


def to_run_id(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Check that an id is one short line."""
    if value is None:
        return None
    if 0 < len(value) <= 200 and value.isprintable() and value.strip() == value:
        return value
    raise click.BadParameter(
        "expected up to 200 printable characters, without leading or trailing blanks"
    )


def to_cases(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    return value or None


def to_executor(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> ExecutorOptions | None:
    if value is None:
        return None
    try:
        return parse_executor(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


run_id = options.setting(
    "--run-id",
    callback=to_run_id,
    metavar="TEXT",
    help="The id of the run in journal and reports, such as the CI system's; default: random.",
)
overriding = options.collect(
    Overrides,
    "overrides",
    {
        "out": options.out,
        "providers": options.providers,
        "tags": options.tags,
        "cases": options.option(
            "--case",
            "cases",
            multiple=True,
            callback=to_cases,
            metavar="ID|GLOB",
            help="Run only this case, or cases that match a pattern such as 'refund*'; may be"
            " repeated.",
        ),
        "first": options.option(
            "--first",
            type=options.WholeNumber(min=1),
            metavar="N",
            help="Run only the first N cases.",
        ),
        "sample": options.option(
            "--sample",
            type=options.WholeNumber(min=1),
            metavar="N",
            help="Run only N random cases, drawn with the suite's `seed`: the same ones each time.",
        ),
        "runs": options.runs,
        "max_runs": options.setting(
            "--max-runs",
            type=options.WholeNumber(min=1),
            metavar="N",
            help="Run each cell up to this many times while the verdict is open.",
        ),
        "confirm_runs": options.setting(
            "--confirm-runs",
            type=options.WholeNumber(min=0, max=1000),
            metavar="N",
            help="Runs that name a case, if it still looks worse when it runs again (default: 10);"
            " 0: none.",
        ),
        "max_concurrency": options.setting(
            "--max-concurrency",
            type=_IntegerOr("unlimited", UNLIMITED, 1),
            metavar="N",
            help="How many calls may run at once, over all providers; or `unlimited`.",
        ),
        "timeout_s": options.setting(
            "--timeout-s",
            type=options.Number(min=0, min_open=True),
            metavar="SECONDS",
            help="The longest time for one call.",
        ),
        "retries": options.setting(
            "--retries",
            type=options.WholeNumber(min=0, max=20),
            metavar="N",
            help="How often to retry a refused or lost call.",
        ),
        "executor": options.setting(
            "--executor",
            callback=to_executor,
            metavar="local|ray[://HOST:PORT]",
            help="Where your own code runs: on this machine, or on a Ray cluster. Default: the"
            " suite's, otherwise local.",
        ),
        "reuse": options.setting(
            "--reuse/--no-reuse",
            default=None,
            help="Take unchanged answers from the last run here, or on the base branch. Default:"
            " the suite's.",
        ),
        "label": options.setting(
            "--label",
            metavar="TEXT",
            help="A label for the reports, to group them by; default: the suite's.",
        ),
    },
)
"""Adds the options that override the suite; the command gets them as `overrides`."""

posting = options.collect(
    Posting,
    "posting",
    {
        "artifact": options.setting(
            "--artifact",
            metavar="NAME",
            default=RESULTS,
            show_default=True,
            help="The name of the artifact with the results in GitHub Actions, by which `--baseline"
            " auto` and later attempts find them.",
        ),
        "fail_on": options.setting(
            "--fail-on",
            type=click.Choice(["fail", "borderline", "never"]),
            help="Exit 1 on this verdict or worse; `never`: exit 0 even without a verdict. Default:"
            " as the suite's `gate.on_borderline` says.",
        ),
        "comment": options.setting(
            "--comment",
            type=click.Choice(["auto", "changes", "off", "new"]),
            default="auto",
            show_default=True,
            help="In GitHub Actions and GitLab CI, edit the change's one comment, start it only"
            " when something changed against the base branch, leave it alone, or post a new one.",
        ),
        "comment_progress": options.setting(
            "--comment-progress",
            is_flag=True,
            help="Post the comment when the run starts, and update it when it ends.",
        ),
    },
)
"""Adds the options about publishing a verdict; the command gets them as `posting`."""


def to_shard(_context: click.Context, _option: click.Parameter, value: str | None) -> Shard | None:
    if value is None:
        return None
    try:
        return Shard.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The options of `run` about the sources of answers, the comparison, and the recording."""

    resume: bool
    resume_from: tuple[Path, ...]
    shard: Shard | None
    balance_by: Path | None
    replay: Path | None
    replay_only: bool
    record: Path | None
    failed_first: bool
    reuse_own_code: bool
    watch: bool
    run_id: str | None
    against: str
    baseline: BaselineChoice

    def check(self) -> None:
        """Check that the options can be combined.

        Raises:
            UsageError: they cannot.
        """
        if self.replay_only and self.replay is None:
            raise click.UsageError("--replay-only needs --replay PATH")
        if self.watch and (self.resume or self.resume_from or self.shard):
            raise click.UsageError("--watch cannot be combined with --resume or --shard")
        if names_main(self.against) and self.baseline not in ("auto", "none"):
            raise click.UsageError(
                "--against REV runs main's code, and --baseline PATH takes a stored report: use one"
            )
        alone = {"--watch": self.watch, "--shard": self.shard, "--replay": self.replay}
        for name, value in alone.items():
            if value and names_main(self.against):
                raise click.UsageError(f"--against REV cannot be combined with {name}")
        environ = environment()
        if self.watch and (host_variable(environ) or missing_host(environ)):
            raise click.UsageError("--watch is for a terminal, not for a CI system")

    def check_for_several(self, number: int) -> None:
        """Check that the options can be used with several suites.

        Raises:
            UsageError: one of them works with a single suite only.
        """
        for_one_suite = {
            "--shard": self.shard,
            "--balance-by": self.balance_by,
            "--replay": self.replay,
            "--record": self.record,
        }
        for name, value in for_one_suite.items():
            if value:
                raise UsageError(f"{name} works with one suite, got {number}: run them one by one")


request = options.collect(
    RunRequest,
    "request",
    {
        "resume": options.setting(
            "--resume",
            is_flag=True,
            help="Continue from the journal in the results folder: keep graded runs, retry errored"
            " ones.",
        ),
        "resume_from": options.option(
            "--resume-from",
            multiple=True,
            type=options.PATH,
            metavar="PATH",
            help="Take over the results of another journal: a file, the journal in a folder, or all"
            " in its subfolders; may be repeated.",
        ),
        "shard": options.setting(
            "--shard",
            callback=to_shard,
            metavar="K/N",
            help="Run only the K-th of N shards of the cells; `ci-evals merge` combines them and"
            " decides.",
        ),
        "balance_by": options.setting(
            "--balance-by",
            type=options.PATH,
            metavar="PATH",
            help="Balance shards by the durations in this journal or report.json; pass the same"
            " path to every shard.",
        ),
        "replay": options.setting(
            "--replay",
            type=options.PATH,
            metavar="PATH",
            help="Answer questions from this journal if it has them; call providers for the rest.",
        ),
        "replay_only": options.setting(
            "--replay-only",
            is_flag=True,
            help="With --replay: call no provider; runs without a recording are errored. Needs no"
            " keys.",
        ),
        "record": options.setting(
            "--record",
            type=options.PATH,
            metavar="PATH",
            help="The results.jsonl of an earlier run that answers for pull requests from forks,"
            " which get no secrets; default: the base branch's. It is only read.",
        ),
        "failed_first": options.option(
            "--failed-first",
            is_flag=True,
            help="Start with the cases that did not pass last time.",
        ),
        "reuse_own_code": options.option(
            "--reuse-own-code",
            is_flag=True,
            help="With --reuse: also reuse the answers of your own code; it must not have changed.",
        ),
        "against": against,
        "watch": options.option(
            "--watch",
            is_flag=True,
            help="Run again whenever a file changes, and reuse answers that the change does not"
            " affect; `q` quits.",
        ),
        "run_id": run_id,
        "baseline": baseline,
    },
)
