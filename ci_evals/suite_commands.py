"""The commands that look at a suite, or make one, and call nothing: `validate`, `init` and the like."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_evals import options, world

if TYPE_CHECKING:
    from ci_evals.reports.power import PowerFormat


@click.command()
@options.config
@options.providers
@options.tags
@options.runs
def validate(config: Path | None, **overrides: Any) -> None:
    """Check a suite without calling anything.

    Lists every problem with its file, line and a suggestion: unknown keys, wrong types, duplicate ids, missing files,
    variables that are not set, templates that do not fit their cases.
    """
    suite = options.suite_named(config, overrides)

    from ci_evals.matrix import Matrix
    from ci_evals.reports.figures import number_of

    total = Matrix(suite.cases, suite.variants, suite.runs).total
    shape = f"{number_of(len(suite.cases), 'case')} × {number_of(len(suite.variants), 'variant')}"
    click.echo(f"{suite.file} is valid: {shape}, {number_of(total, 'run')}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def init(folder: Path, *, force: bool) -> None:
    """Write a commented evals.yaml and a GitHub workflow.

    They go into FOLDER (default: here). The suite runs at once against a mock provider: no key, no network.
    """
    from ci_evals.starter import write_starter

    for path in write_starter(folder, overwrite=force):
        click.echo(f"written: {path.as_posix()}")
    there = [] if folder == Path() else [f'cd "{folder.as_posix()}"']
    click.echo("\n  ".join(["next:", *there, "ci-evals run"]))


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[CONFIG]")
@options.config
@options.option(
    "--history",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A report.json of this suite, or a folder of them, that shows how its answers vary; may be repeated.",
)
@options.providers
@options.runs
@options.report_format
def power(
    file: Path | None,
    config: Path | None,
    history: tuple[Path, ...],
    runs: int | None,
    providers: tuple[str, ...] | None,
    output: "PowerFormat",
) -> None:
    """Say what a suite can detect, and what more runs would buy.

    It says so of more cases, too. It calls nothing and costs nothing. CONFIG is the same as --config.

    \b
    Examples:
      ci-evals power
      ci-evals power evals/support.yaml --runs 5 --history main/report.json
    """
    suite = options.suite_named(file or config, {"runs": runs, "providers": providers}, offline=True)

    from ci_evals import measuring

    measuring.tell_power(suite, history, world.here(), output)


@click.command()
def schema() -> None:
    """Print the JSON Schema of evals.yaml.

    Editors complete and check the file with it:

    \b
      ci-evals schema > evals.schema.json
      # yaml-language-server: $schema=evals.schema.json   (first line of evals.yaml)
    """
    from ci_evals.config.schema import suite_schema_text

    click.echo(suite_schema_text())


@click.command("mock-server")
@options.config
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
def mock_server(config: Path | None, host: str, port: int) -> None:
    """Serve an OpenAI-compatible endpoint on loopback.

    With it a suite can be tried without a key. Answers as the first `mock` provider of the config does, or echoes the
    question without one. Point an `openai` provider at it with `base_url: http://127.0.0.1:8080/v1`.
    """
    from ci_evals import app

    app.serve_mock(config, world.here(), host, port)
