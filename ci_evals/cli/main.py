"""The command line: its commands, and the border where errors become exit codes."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click
from click.core import ParameterSource

from ci_evals.cli.console import host_of
from ci_evals.cli.help import write_sections
from ci_evals.cli.watchdog import end_if_forked, is_watched, prove_exit_code
from ci_evals.errors import (
    EXIT_CODES,
    CiEvalsError,
    ConfigError,
    Problem,
    StorageError,
    UsageError,
    problems_of,
)
from ci_evals.format import closest, number_of
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import COMMANDS, credentials_of
from ci_evals.streams import flush_streams, prepare_streams, say

if TYPE_CHECKING:
    from ci_evals.cli.job_host import HostService
    from ci_evals.hosts import Host

_OURS = "CI_EVALS_"  # variables for processes of our own begin with `_`, and are no options
_MAX_PROBLEMS_SHOWN = 50
_BUG = "This is a bug in ci-evals. Please report it with the lines above."


class LazyGroup(click.Group):
    """A group that imports commands when they are run, and lists them by purpose."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no command of this name."""
        del ctx
        return COMMANDS.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest one for a misspelt name."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            if lack := COMMANDS.missing_clause(name):
                ctx.fail(f"The command {name!r} {lack}.")
            text = f"No such command {name!r}."
            close = closest(name, COMMANDS)
            if close:
                text += f" Did you mean {close!r}?"
            ctx.fail(text)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and help of all commands without importing them."""
        del ctx
        sections: dict[str, list[str]] = {}
        for name in COMMANDS:
            section = COMMANDS.section(name)
            if section:
                sections.setdefault(section, []).append(name)
        rows = {name: (name, COMMANDS.help(name)) for name in COMMANDS}
        write_sections(formatter, sections, rows)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="ci-evals", prog_name="ci-evals", message="%(prog)s %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """The merge gate for the behaviour of LLM apps and agents.

    Runs every case of a suite on every provider and prompt, several times, grades the answers, and
    tells by its exit code whether they are good enough to merge.

    \b
    Start here:
      ci-evals init        write an evals.yaml and a workflow that fit the project
      ci-evals validate    check the suite; calls nothing, costs nothing
      ci-evals run         run it

    \b
    Exit codes: 0 passed · 1 failed · 2 the config or the command line is wrong,
    nothing was run · 3 no verdict (too many runs errored, results could not be
    written) · 129/130/143 interrupted
    """
    environ = ctx.obj or os.environ
    for text in _unknown_variables(environ, COMMANDS[str(ctx.invoked_subcommand)]):
        say(sys.stderr, f"warning: {text}\n")


def _unknown_variables(environ: Mapping[str, str], command: click.Command) -> Iterator[str]:
    """Yield a warning for each variable that looks like one of ours but sets no option.

    Args:
        environ: the environment.
        command: the command that runs. The others are imported only if it doesn't know a variable.
    """
    given = {name for name, value in environ.items() if name.startswith(_OURS) and value}
    given.difference_update(_variables_of(command))
    if not given:
        return
    known: set[str] = set()
    for _, other in COMMANDS.loadable():
        known.update(_variables_of(other))
    # Compared without the prefix that all share, which would make any two names alike.
    settings = [variable.removeprefix(_OURS) for variable in sorted(known)]
    for name in sorted(given - known):
        text = f"the variable {name} sets no option of any command"
        if close := closest(name.removeprefix(_OURS), settings):
            text += f", did you mean {_OURS}{close}?"
        yield text


def _variables_of(command: click.Command) -> Iterator[str]:
    """Yield the variables that set options of a command."""
    prefix = command.context_settings.get("auto_envvar_prefix")
    for option in command.params:
        variable = _variable(option, prefix)
        if variable is not None:
            yield variable


def main() -> NoReturn:
    """Run a command in this process, and exit."""
    prepare_streams()
    environ = dict(os.environ)  # code under test may change it
    if not is_watched():  # its parent would have taken them out
        for name in credentials_of(environ):
            del os.environ[name]
    host = None
    folder = Path()
    try:
        folder = _working_folder()  # code under test may change it
        host = host_of(environ)
        returned = group.main(standalone_mode=False, prog_name="ci-evals", obj=environ)
        code = int(returned or 0)
    except BaseException as raised:  # noqa: BLE001  the last border: no error may look like a verdict
        end_if_forked()
        failure = _describe(raised, environ)
        code = failure.exit_code
        # An error may come before a suite has named its secrets.
        redactor = Redactor(sensitive_values(environ))
        text = redactor.clean_text(failure.text)
        if host:
            problems = redactor.clean(failure.problems)
            code = _report(host, failure._replace(text=text, problems=problems), folder)
        elif text:
            say(sys.stderr, f"{text}\n")
    flush_streams()
    for number in EXIT_CODES:  # nothing is left to interrupt
        signal.signal(number, signal.SIG_IGN)
    prove_exit_code(code)
    if code in EXIT_CODES.values():
        os._exit(code)  # threads and tasks of code under test may still be busy
    sys.exit(code)


def _working_folder() -> Path:
    """Return the working folder.

    Raises:
        UsageError: it has been removed.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the working folder has been removed: change to another one") from None


def _report(host: "Host", failure: "_Failure", folder: Path) -> int:
    """Show the error that ended the command, also in place of a verdict that it was to give.

    Args:
        host: the CI system.
        failure: the error; after a signal, it has no problems.
        folder: where relative files of problems start.

    Returns:
        The exit code.
    """
    try:
        host.print_error(failure.text, failure.problems, folder)
        if failure.problems:
            host.report_error(failure.problems, _posting_of(sys.argv[1:]))
    except KeyboardInterrupt:  # while it is posted
        return 130
    return failure.exit_code


def _posting_of(arguments: Sequence[str]) -> Mapping[str, str] | None:
    """Return how the verdict of a command line would be published, even of a wrong one; None if it
    gives none.
    """
    match arguments:
        case ["grade", *_]:
            return {"comment": "off"}
        case ["run" | "merge" as name, *others]:
            pass
        case _:
            return None
    # Options that are wrong or unknown count as not given.
    context = COMMANDS[name].make_context(
        name,
        list(others),
        resilient_parsing=True,
        ignore_unknown_options=True,
        allow_extra_args=True,
    )
    given = context.params
    posting = {name: given[name] for name in ("artifact", "comment") if given.get(name)}
    if given.get("shard"):  # its verdict is left to the merge
        posting["comment"] = "off"
    return posting


def open_service(environ: Mapping[str, str]) -> "HostService":
    """Return what the parent of a command does for it; see `watch`.

    Args:
        environ: the environment with the job's credentials.
    """
    from ci_evals.cli.job_host import HostService

    return HostService(environ)


class _Failure(NamedTuple):
    """An error as an exit code, a text for the terminal, and problems for a host's annotations."""

    exit_code: int
    text: str = ""
    problems: tuple[Problem, ...] = ()


def _describe(raised: BaseException, environ: Mapping[str, str]) -> _Failure:
    """Return the exit code and the text of an error. Only this function decides them."""
    match raised:
        case KeyboardInterrupt() | click.Abort():
            return _Failure(130)
        case BrokenPipeError():
            return _Failure(141)  # the exit code that shells report for SIGPIPE
        case click.BadParameter() if variable := _variable_of(raised):
            text = f"{variable}: {raised.message}"
            return _failure(2, f"error: {text}", text)
        case click.ClickException():
            raised.show()
            return _failure(2, "", raised.format_message())
        case ConfigError():
            return _Failure(2, _list_problems(raised), problems_of(raised))
        case StorageError():
            return _Failure(3, f"error: {raised}", problems_of(raised))
        case CiEvalsError():
            return _Failure(2, f"error: {raised}", problems_of(raised))
        case SystemExit() if "_CI_EVALS_COMPLETE" in environ:
            raise raised  # click's end of completing a command line for a shell
        case _:
            text = "".join(traceback.format_exception(raised))
            message = f"{type(raised).__name__}: a bug in ci-evals; the log has the details"
            return _failure(3, f"{text}\n{_BUG}", message)


def _variable_of(error: click.BadParameter) -> str | None:
    """Return the environment variable with the wrong value; None if it is in an argument."""
    if error.ctx is None or error.param is None or error.param.name is None:
        return None
    if error.ctx.get_parameter_source(error.param.name) is not ParameterSource.ENVIRONMENT:
        return None
    return _variable(error.param, error.ctx.auto_envvar_prefix)


def _variable(option: click.Parameter, prefix: str | None) -> str | None:
    """Return the environment variable that sets an option; None if none does."""
    if isinstance(option.envvar, str):
        return option.envvar
    if isinstance(option, click.Option) and option.allow_from_autoenv and prefix and option.name:
        return f"{prefix}_{option.name.upper()}"
    return None


def _failure(exit_code: int, text: str, message: str) -> _Failure:
    """Return a failure with one problem that is not in a file."""
    problem = Problem("", None, "", message)
    return _Failure(exit_code, text, (problem,))


def _list_problems(error: ConfigError) -> str:
    problems = error.problems
    lines = [str(problem) for problem in problems[:_MAX_PROBLEMS_SHOWN]]
    more = len(problems) - _MAX_PROBLEMS_SHOWN
    if more > 0:
        lines.append(f"… and {more} more")
    ran = "nothing was run"
    if error.others_ran:
        ran = "the other suites were run"
    number = number_of(len(problems), "problem")
    lines += ["", f"{number}, {ran}."]
    return "\n".join(lines)
