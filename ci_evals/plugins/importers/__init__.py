"""Imports suites of other tools: importers recognize files of a format, and make drafts."""

from collections.abc import Sequence
from pathlib import Path

from ci_evals.errors import ConfigError, UsageError
from ci_evals.format import number_of
from ci_evals.plugins.importers.draft import (
    WRONG_SHAPE,
    LostPart,
    SuiteDraft,
    UntranslatableError,
)
from ci_evals.plugins.importers.parts import tidy
from ci_evals.plugins.importers.source import Source, read_source
from ci_evals.plugins.importers.writing import YamlComment, write_yaml
from ci_evals.registry import IMPORTERS
from ci_evals.suite.nodes import Node


def translate_config(path: Path, config: Node) -> SuiteDraft | None:
    """Return a draft of another tool's config; None for anything else.

    Raises:
        ConfigError: a file that the config names cannot be read.
    """
    return translate(Source(path, config.file, path.resolve().parent, config))


def translate(source: Source) -> SuiteDraft | None:
    """Return a draft of another tool's suite; None for a suite of ci-evals and anything else.

    Raises:
        ConfigError: a file that the config names cannot be read.
    """
    name = _format_of(source)
    if name is None:
        return None
    draft: SuiteDraft
    try:
        draft = IMPORTERS[name].convert(source)
        tidy(draft)
    except UntranslatableError as error:
        problem = source.written.problem(str(error))
        raise ConfigError([problem]) from None
    except WRONG_SHAPE as error:
        cause = f"{type(error).__name__}: {error}"
        text = f"it looks like {name}, but does not have the shape of its files: {cause}"
        problem = source.written.problem(text)
        raise ConfigError([problem]) from error

    def rank(lost: LostPart) -> tuple[bool, bool, str, int]:
        is_elsewhere = lost.file != source.shown
        return not lost.weakens, is_elsewhere, lost.file, lost.line or 0

    draft.lost.sort(key=rank)
    return draft


def _format_of(source: Source) -> str | None:
    """Return the name of the importer that recognizes a file."""
    for name in IMPORTERS:
        importer = IMPORTERS[name]
        if importer.recognize(source):
            return name
    return None


def import_suite(paths: Sequence[Path], folder: Path) -> SuiteDraft:
    """Make a draft of the first file, with the cases of the others.

    Args:
        paths: the files.
        folder: the folder of the new suite.

    Raises:
        ConfigError: a file cannot be read.
        UsageError: a file has an unknown format, or a further one has its own prompts or providers.
    """
    draft = _import_file(paths[0], folder)
    for path in paths[1:]:
        other = _import_file(path, folder)
        _append(draft, other, path)
    return draft


def _import_file(path: Path, folder: Path) -> SuiteDraft:
    shown = path.as_posix()
    source = read_source(path, shown, folder.resolve())
    draft = translate(source)
    if draft is None:
        known = ", ".join(IMPORTERS)
        raise UsageError(f"{shown} has an unknown format; known: {known}")
    return draft


def _append(draft: SuiteDraft, other: SuiteDraft, path: Path) -> None:
    """Add the cases of another draft, made from the file `path`."""
    for key, value in other.suite.items():
        if key not in ("name", "cases") and value != draft.suite.get(key):
            raise UsageError(f"{path.as_posix()} has its own {key}: import it separately")
    cases = draft.suite.get("cases", [])
    more_cases = other.suite.get("cases", [])
    draft.suite["cases"] = cases + more_cases
    draft.lost += other.lost


def suite_text(draft: SuiteDraft, paths: Sequence[Path]) -> str:
    """Return a draft as the text of `evals.yaml`."""
    names = ", ".join(path.name for path in paths)
    heading = f"Imported from {names} ({draft.origin})."
    if draft.lost:
        parts = number_of(len(draft.lost), "part")
        heading += f" {parts} could not be translated: see `not imported`."
    suite = {YamlComment(heading): None}
    suite |= draft.suite
    return write_yaml(suite)
