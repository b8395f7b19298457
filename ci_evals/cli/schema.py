"""`ci-evals schema`: what may be written into a suite."""

from typing import Any

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.registry import (
    COMMANDS,
    EXECUTORS,
    FORMATS,
    GRADERS,
    HOSTS,
    IMPORTERS,
    PROVIDERS,
    Registry,
)
from ci_evals.suite.schema import suite_schema_text

_KINDS: dict[str, Registry[Any]] = {
    "Graders": GRADERS,
    "Providers": PROVIDERS,
    "Report formats": FORMATS,
    "Executors": EXECUTORS,
    "Importers": IMPORTERS,
    "CI systems": HOSTS,
    "Commands": COMMANDS,
}


@options.command()
@options.option(
    "--names",
    is_flag=True,
    help="List everything that has a name instead, installed plug-ins included.",
)
def schema(*, names: bool) -> None:
    """Print the JSON Schema of evals.yaml.

    Editors complete and check the file with it:

    \b
      ci-evals schema > evals.schema.json
      # yaml-language-server: $schema=evals.schema.json

    The second line is the first one of evals.yaml.
    """
    if names:
        Console.of_process().print(_list_names())
    else:
        console = Console.of_process("json")
        console.print(suite_schema_text())
        for registry in (GRADERS, PROVIDERS, EXECUTORS):
            for name in registry:
                problem = registry.problem(name)
                if problem is not None:
                    console.warn(f"left out: {problem}")


def _list_names() -> str:
    """Return every name with its line of help. Nothing is imported for that."""
    formatter = click.HelpFormatter(width=100)
    for title, registry in _KINDS.items():
        with formatter.section(title):
            formatter.write_dl([(name, registry.help(name)) for name in registry])
    return formatter.getvalue()
