"""`ci-evals import`: turns a suite of another tool, or traces, into a suite of ci-evals."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from ci_evals.cli import options
from ci_evals.engine.interrupt import run_until_signal
from ci_evals.engine.setup import collect_problems, open_suite
from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.files import write_atomically
from ci_evals.format import number_of
from ci_evals.plugins.importers import import_suite, suite_text
from ci_evals.plugins.importers.traces import import_traces, is_trace
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import IMPORTERS
from ci_evals.streams import say
from ci_evals.suite.load import load_suite
from ci_evals.suite.types import CheckedSuite

_MOST_CHARACTERS = 2_000_000
"""The longest suite of traces in YAML, which takes long to read and must not exceed 50 MB. JSON
Lines may have any size.
"""
_CASES_FILE = "cases.jsonl"
_CODE = ("python", "javascript")


@options.command("import", epilog=f"Formats: {', '.join(IMPORTERS)}.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE...",
)
@options.option(
    "--to", type=options.PATH, metavar="PATH", help="Write the suite there; default: to stdout."
)
@options.option("--force", is_flag=True, help="Overwrite existing files.")
def import_command(files: tuple[Path, ...], to: Path | None, *, force: bool) -> None:
    """Turn the config or dataset of another tool, or traces, into a suite.

    The format is recognized by the content. Parts without a counterpart are listed, and kept in
    their place as comments with the reason. If there are several files, the first one is the
    suite, and the others add cases.

    Traces of an app become a case for each question, with the recorded answer as a reference that
    you confirm: until then, the case is in quarantine. Secrets are masked. Many cases go into
    cases.jsonl next to the suite.

    \b
    Examples:
      ci-evals import promptfooconfig.yaml --to evals.yaml
      ci-evals import traces/*.jsonl --to evals.yaml
    """
    folder = files[0].parent
    if to is not None:
        folder = to.parent
    if is_trace(files[0]):
        redactor = Redactor(sensitive_values(os.environ))
        draft = import_traces(files, redactor, datetime.now(UTC).date())
        text = suite_text(draft, files)
        if len(text) > _MOST_CHARACTERS:
            draft.move_cases(_CASES_FILE)
            text = suite_text(draft, files)
    else:
        draft = import_suite(files, folder)
        text = suite_text(draft, files)
    if to is None:
        say(sys.stdout, text)
        for name in draft.files:
            click.echo(f"with --to, {name} is written next to the suite", err=True)
    else:
        texts = {to: text}
        for name, content in draft.files.items():
            texts[folder / name] = content
        _write(texts, force=force)
    for lost in draft.lost:
        click.echo(f"{lost.heading}: {lost}", err=True)
    if draft.lost:
        parts = number_of(len(draft.lost), "part")
        click.echo(f"{parts} not imported, and kept as comments", err=True)
    weakening = [lost for lost in draft.lost if lost.weakens]
    if weakening:
        click.echo(f"without {len(weakening)} of these, a wrong answer could pass", err=True)
    if to is not None:
        _check(to, draft.targets)


def _write(texts: Mapping[Path, str], *, force: bool) -> None:
    taken = [path.as_posix() for path in texts if path.exists()]
    if taken and not force:
        raise UsageError(f"already there: {', '.join(taken)}. Overwrite with --force.")
    for path, text in texts.items():
        write_atomically(path, [text.encode()])
        click.echo(f"written: {path.as_posix()}", err=True)


def _check(suite_file: Path, targets: Iterable[str]) -> None:
    """Print whether the new suite is complete and its code loads, or what is still to do."""
    try:
        suite = load_suite(suite_file, {}, offline=True)
        run_until_signal(_load_code(suite, targets))
    except ConfigError as error:
        click.echo("still to do before it runs:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
    else:
        cases = number_of(len(suite.cases), "case")
        providers = number_of(len(suite.providers), "provider")
        run = f"ci-evals run {suite_file.as_posix()}"
        click.echo(f"{cases}, {providers}: run it with `{run}`", err=True)


async def _load_code(suite: CheckedSuite, targets: Iterable[str]) -> None:
    """Load the code of graders, transforms and providers, as before a run; none is called.

    Args:
        suite: the new suite.
        targets: functions that code in the suite imports, which a run only does when it grades.

    Raises:
        ConfigError: some of it does not load.
    """
    from ci_evals.graders.functions import prepare_target

    own = tuple(options for options in suite.providers if options.kind in _CODE)
    async with open_suite(replace(suite, providers=own), calls=True, judges=False):
        problems: list[Problem] = []
        for target in dict.fromkeys(targets):
            with collect_problems(problems):
                prepare_target(target)
        if problems:
            raise ConfigError(problems)
