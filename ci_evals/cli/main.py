"""The command line: its commands, and the border where errors become exit codes."""

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ci_evals.cli.reports import comment, compare_command, explain
from ci_evals.cli.run import merge_command, run_command
from ci_evals.cli.tools import grade, init, judge, mock_server, pairwise_command, power, schema, validate
from ci_evals.engine.interrupt import EXIT_CODES, flush_streams, prepare_streams, say
from ci_evals.errors import CiEvalsError, ConfigError, StorageError
from ci_evals.format import number_of, without_commands
from ci_evals.github.context import in_actions, remove_credentials
from ci_evals.github.job import command, write_outputs
from ci_evals.redaction import Redactor, secret_values
from ci_evals.release import __version__
from ci_evals.suite.environment import read_dotenv

MAX_PROBLEMS_SHOWN = 50

_DECIDING = ("run", "merge", "grade")
_MAX_ANNOTATED_PROBLEMS = 10
_MAX_ANNOTATION_CHARACTERS = 4000  # characters
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def main() -> None:
    """The console script."""
    prepare_streams()
    environ, named = dict(os.environ), _dotenv_folders()
    remove_credentials(os.environ)
    code = _exit_code(lambda: group.main(standalone_mode=False, prog_name="ci-evals", obj=environ), named, environ)
    flush_streams()
    if code in EXIT_CODES.values():
        os._exit(code)  # threads and tasks of code under test may still be busy, for as long as they like
    sys.exit(code)


def _dotenv_folders() -> list[Path]:
    """Return the folders of all files that the command line names, each of which may have a `.env`."""
    words = (*sys.argv[1:], os.environ.get("CI_EVALS_CONFIG", ""))
    named = [Path(word.removeprefix("-c").rpartition("=")[2]).parent for word in words]
    return [folder.absolute() for folder in dict.fromkeys([Path(), Path(".github"), *named])]


def _exit_code(command: Callable[[], Any], folders: Iterable[Path], environ: Mapping[str, str]) -> int:
    """The one place where errors become exit codes; what is in a `.env` file of the folders is not printed."""
    try:
        return int(command() or 0)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:  # as a shell has it of whom SIGPIPE ended
        return 141
    except click.ClickException as error:
        error.show()
        code, text, annotation = 2, "", error.format_message()
    except ConfigError as error:
        code, text, annotation = (
            2,
            _list_problems(error, MAX_PROBLEMS_SHOWN),
            _list_problems(error, _MAX_ANNOTATED_PROBLEMS),
        )
    except CiEvalsError as error:
        code, text, annotation = 3 if isinstance(error, StorageError) else 2, f"error: {error}", str(error)
    except BaseException as raised:  # the last border: a bug, or an exit of user code, must not look like a verdict
        if isinstance(raised, SystemExit) and "_CI_EVALS_COMPLETE" in environ:
            raise  # the way in which click ends after completing a command line for a shell

        code, annotation = 3, f"{type(raised).__name__}: a bug in ci-evals; the log has the details"
        text = f"{traceback.format_exc()}\nThis is a bug in ci-evals. Please report it with the lines above."
    _print_error(text, annotation, folders, environ)
    return code


def _list_problems(error: ConfigError, limit: int) -> str:
    problems = error.problems
    lines = [*map(str, problems[:limit])]
    if len(problems) > limit:
        lines.append(f"… and {len(problems) - limit} more")
    return "\n".join([*lines, "", f"{number_of(len(problems), 'problem')}, nothing was run."])


def _print_error(text: str, annotation: str, folders: Iterable[Path], environ: Mapping[str, str]) -> None:
    """Print an error. In a job of GitHub Actions, show it on the run's page, too, and set the output `verdict`."""
    in_job = in_actions(environ)
    if text:
        shown = _without_secrets(f"{text}\n", folders, environ)
        say(sys.stderr, without_commands(shown) if in_job else shown)  # an error may quote a dataset or an answer
    if not in_job:
        return
    annotation = _without_secrets(annotation, folders, environ)[:_MAX_ANNOTATION_CHARACTERS]
    say(sys.stderr, command("error", annotation, title="ci-evals"))
    path = environ.get("GITHUB_OUTPUT")
    if path and sys.argv[1:2] and sys.argv[1] in _DECIDING:
        with suppress(CiEvalsError):  # the exit code says it, too
            write_outputs(Path(path), {"verdict": "error"})


def _without_secrets(text: str, folders: Iterable[Path], environ: Mapping[str, str]) -> str:
    """Redact every variable whose name sounds secret: an error may quote it, and no suite says which are."""
    named = {name: value for name, value in environ.items() if any(word in name.upper() for word in _SECRET_NAMES)}
    dotenv: dict[str, str] = {}
    for folder in folders:
        with suppress(CiEvalsError, OSError, ValueError):
            dotenv |= read_dotenv(folder)
    return Redactor(secret_values(named, dotenv, ())).clean_text(text)


_COMMANDS: dict[str, click.Command] = {
    "run": run_command,
    "merge": merge_command,
    "validate": validate,
    "init": init,
    "compare": compare_command,
    "explain": explain,
    "comment": comment,
    "power": power,
    "grade": grade,
    "judge": judge,
    "pairwise": pairwise_command,
    "schema": schema,
    "mock-server": mock_server,
}


class _InOrder(click.Group):
    """Lists commands in the order of the table: the usual ones first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(self.commands)


@click.group(cls=_InOrder, commands=_COMMANDS, context_settings=_SETTINGS)
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
    Exit codes: 0 passed · 1 failed · 2 the config or the command line is wrong,
    nothing was run · 3 no verdict (too many runs errored, results could not be
    written) · 129/130/143 interrupted
    """
