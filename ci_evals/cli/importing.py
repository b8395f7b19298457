"""`ci-evals import`: a suite of another tool becomes one of ci-evals."""

from pathlib import Path

import click

from ci_evals.cli import options
from ci_evals.errors import ConfigError, UsageError
from ci_evals.files import write_atomically
from ci_evals.format import number_of
from ci_evals.suite.importers import IMPORTERS, import_suite, suite_text
from ci_evals.suite.load import load_suite


@options.command("import", epilog=f"Formats: {', '.join(IMPORTERS)}.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE..."
)
@options.option("--to", type=options.PATH, metavar="PATH", help="Write the suite there; default: to stdout.")
@options.option("--force", is_flag=True, help="Overwrite what is there.")
def import_command(files: tuple[Path, ...], to: Path | None, *, force: bool) -> None:
    """Make a suite of what another tool has.

    The format shows in the files. What has no counterpart here is listed, and stays in its place as a comment with the
    reason. Of several files, the first one is the suite, and the others add cases.

    \b
    Example:
      ci-evals import promptfooconfig.yaml --to evals.yaml
    """
    if to is not None and to.exists() and not force:
        raise UsageError(f"{to.as_posix()} is already there: overwrite it with --force")
    draft = import_suite(files, to.parent if to else files[0].parent)
    text = suite_text(draft, files)
    if to is None:
        click.echo(text, nl=False)
    else:
        write_atomically(to, [text.encode()])
        click.echo(f"written: {to.as_posix()}", err=True)
    for lost in draft.lost:
        click.echo(f"not imported: {lost}", err=True)
    if draft.lost:
        click.echo(f"{number_of(len(draft.lost), 'part')} not imported, each a comment in its place", err=True)
    if to is not None:
        try:
            suite = load_suite(to, {}, offline=True)
        except ConfigError as error:
            click.echo("still to do before it runs:", err=True)
            for problem in error.problems:
                click.echo(f"  {problem}", err=True)
        else:
            cases, providers = number_of(len(suite.cases), "case"), number_of(len(suite.providers), "provider")
            click.echo(f"{cases}, {providers}: run it with `ci-evals run {to.as_posix()}`", err=True)
