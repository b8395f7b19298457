"""`ci-evals schema`: the JSON Schema of a suite, and the names that it may use."""

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.registry import EXECUTORS, GRADERS, PROVIDERS, REGISTRIES
from ci_evals.suite.schema import suite_schema_text


@options.command()
@options.option(
    "--names",
    is_flag=True,
    help="List every name instead, including those of installed plug-ins.",
)
def schema(*, names: bool) -> None:
    """Print the JSON Schema of evals.yaml.

    Editors complete and check the file with it:

    \b
      ci-evals schema > evals.schema.json
      # yaml-language-server: $schema=evals.schema.json

    Put the second line at the top of evals.yaml.
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
    """Return every name with its line of help, without importing anything."""
    formatter = click.HelpFormatter(width=100)
    for title, registry in REGISTRIES.items():
        if not registry:  # the plug-ins that have all names of this kind are missing
            continue
        with formatter.section(title):
            formatter.write_dl([(name, registry.help(name)) for name in registry])
    return formatter.getvalue()
