"""The command line: its commands, and the border where errors become exit codes."""

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ci_evals.cli.console import error_redactor
from ci_evals.cli.importing import import_command
from ci_evals.cli.init import init
from ci_evals.cli.options import write_sections
from ci_evals.cli.reports import comment, compare_command, explain, view
from ci_evals.cli.run import merge_command, run_command
from ci_evals.cli.tools import grade, judge, mock_server, pairwise_command, power, schema, validate
from ci_evals.engine.interrupt import EXIT_CODES
from ci_evals.errors import CiEvalsError, ConfigError, Problem, StorageError
from ci_evals.format import number_of, without_commands
from ci_evals.github.context import in_actions, remove_credentials
from ci_evals.github.job import Annotation, annotation_commands, problems_of, write_outputs
from ci_evals.release import __version__
from ci_evals.streams import flush_streams, prepare_streams, say

MAX_PROBLEMS_SHOWN = 50

_DECIDING = ("run", "merge", "grade")

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main() -> None:
    """The console script."""
    prepare_streams()
    environ = dict(os.environ)
    remove_credentials(os.environ)
    code = _exit_code(
        lambda: group.main(standalone_mode=False, prog_name="ci-evals", obj=environ), environ
    )
    flush_streams()
    if code in EXIT_CODES.values():
        os._exit(
            code
        )  # threads and tasks of code under test may still be busy, for as long as they like
    sys.exit(code)


def _exit_code(command: Callable[[], Any], environ: Mapping[str, str]) -> int:
    """The one place where errors become exit codes."""
    redactor, folder = error_redactor(environ), Path.cwd()  # code under test may change the folder
    try:
        return int(command() or 0)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:  # as a shell has it of whom SIGPIPE ended
        return 141
    except click.ClickException as error:
        error.show()
        code, text, problems = 2, "", [Problem("", None, "", error.format_message())]
    except ConfigError as error:
        code, text, problems = 2, _list_problems(error), problems_of(error, environ, folder)
    except CiEvalsError as error:
        code, text = 3 if isinstance(error, StorageError) else 2, f"error: {error}"
        problems = problems_of(error, environ, folder)
    except (
        BaseException
    ) as raised:  # the last border: a bug, or an exit of user code, must not look like a verdict
        if isinstance(raised, SystemExit) and "_CI_EVALS_COMPLETE" in environ:
            raise  # the way in which click ends after completing a command line for a shell

        code, text = (
            3,
            f"{traceback.format_exc()}\nThis is a bug in ci-evals. Please report it with the lines above.",
        )
        problems = [
            Problem(
                "", None, "", f"{type(raised).__name__}: a bug in ci-evals; the log has the details"
            )
        ]
    _print_error(redactor.clean_text(text), redactor.clean(problems), environ)
    return code


def _print_error(text: str, problems: Iterable[Problem], environ: Mapping[str, str]) -> None:
    """Print an error. In a job of GitHub Actions, show problems beside their lines, and set the
    output `verdict`.
    """
    in_job = in_actions(environ)
    if text:
        say(
            sys.stderr, f"{without_commands(text) if in_job else text}\n"
        )  # it may quote a dataset or an answer
    if not in_job:
        return
    annotations = (
        Annotation("error", f"{path}: {message}" if path else message, file, line, "ci-evals")
        for file, line, path, message in problems
    )
    say(sys.stderr, annotation_commands(annotations, "the log has them"))
    path = environ.get("GITHUB_OUTPUT")
    if path and sys.argv[1:2] and sys.argv[1] in _DECIDING:
        with suppress(CiEvalsError):  # the exit code says it, too
            write_outputs(Path(path), {"verdict": "error"})


def _list_problems(error: ConfigError) -> str:
    problems = error.problems
    lines = [*map(str, problems[:MAX_PROBLEMS_SHOWN])]
    if len(problems) > MAX_PROBLEMS_SHOWN:
        lines.append(f"… and {len(problems) - MAX_PROBLEMS_SHOWN} more")
    ran = "the other suites were run" if error.others_ran else "nothing was run"
    return "\n".join([*lines, "", f"{number_of(len(problems), 'problem')}, {ran}."])


_COMMANDS: dict[str, click.Command] = {
    "run": run_command,
    "merge": merge_command,
    "validate": validate,
    "init": init,
    "import": import_command,
    "compare": compare_command,
    "explain": explain,
    "view": view,
    "comment": comment,
    "power": power,
    "grade": grade,
    "judge": judge,
    "pairwise": pairwise_command,
    "schema": schema,
    "mock-server": mock_server,
}


_SECTIONS = {
    "Suites": ("init", "import", "validate", "power", "schema", "mock-server"),
    "Verdicts": ("run", "merge", "grade", "compare"),
    "Reports": ("view", "explain", "comment"),
    "Judges": ("judge", "pairwise"),
}


class _SectionedGroup(click.Group):
    """A group whose help lists commands by purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        del ctx
        rows = {
            name: (name, each.get_short_help_str(formatter.width))
            for name, each in self.commands.items()
        }
        write_sections(formatter, _SECTIONS, rows)


@click.group(cls=_SectionedGroup, commands=_COMMANDS, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="ci-evals", message="%(prog)s %(version)s")
def group() -> None:
    """The merge gate for the behaviour of LLM apps and agents.

    Runs every case of a suite on every provider and prompt, several times, judges the answers, and
    says by its exit code whether they are good enough to merge.

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
