"""A suite together with the one model of it that a command asks."""

from collections.abc import Mapping
from pathlib import Path

from ci_evals.config.decode import unknown
from ci_evals.config.load import load_suite
from ci_evals.config.overrides import Overrides
from ci_evals.errors import UsageError
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite import Suite


def load_asked(path: Path, environ: Mapping[str, str], name: str) -> tuple[Suite, ProviderOptions]:
    """A suite, and the judge or else the provider of that name, with its key; the other providers need none.

    Raises:
        ConfigError: with every problem of the file.
        UsageError: there is no such model, or it answers with embeddings.
    """
    known = load_suite(path, environ, offline=True)
    judges = [str(options.name) for options in known.judges]
    names = [*judges, *(str(options.name) for options in known.providers)]
    if name not in names:
        raise UsageError(unknown("judge", name, names))
    if name in judges:
        suite = load_suite(path, environ, offline=True, judging=True)
        found = next(options for options in suite.judges if options.name == name)
    else:
        suite = load_suite(path, environ, Overrides(providers=(name,)))
        found = suite.providers[0]
    if found.embeds:
        raise UsageError(f"{name} answers with embeddings: name a model that answers with text")
    return suite, found
