"""Suites of other tools: importers recognize files of their format, and make drafts of suites."""

from collections.abc import Sequence
from pathlib import Path

from ci_evals.errors import ConfigError, UsageError
from ci_evals.format import number_of
from ci_evals.importers.draft import SuiteDraft, UntranslatableError
from ci_evals.importers.parts import tidy
from ci_evals.importers.source import Source, read_source
from ci_evals.importers.writing import YamlComment, write_yaml
from ci_evals.registry import IMPORTERS
from ci_evals.suite.nodes import Node


def translate_config(path: Path, config: Node) -> SuiteDraft | None:
    """Return a draft of another tool's config; None for anything else.

    Raises:
        ConfigError: a file that it names cannot be read.
    """
    return translate(Source(path, config.file, path.resolve().parent, config))


def translate(source: Source) -> SuiteDraft | None:
    """Return a draft of another tool's suite; None for a suite of ci-evals and anything else.

    Raises:
        ConfigError: a file that it names cannot be read.
    """
    name = next((name for name in IMPORTERS if IMPORTERS[name].recognize(source)), None)
    if name is None:
        return None
    try:
        draft: SuiteDraft = IMPORTERS[name].convert(source)
        tidy(draft)
    except UntranslatableError as error:
        raise ConfigError([source.written.problem(str(error))]) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Any of these comes of a value of another shape.
        cause = f"{type(error).__name__}: {error}"
        text = f"it looks like {name}, and is not in the shape of its files: {cause}"
        raise ConfigError([source.written.problem(text)]) from error
    draft.lost.sort(key=lambda lost: (lost.file != source.shown, lost.file, lost.line or 0))
    return draft


def import_suite(paths: Sequence[Path], folder: Path) -> SuiteDraft:
    """Make a draft of the first file, with the cases of the others.

    Args:
        paths: the files.
        folder: where the suite is to stand.

    Raises:
        ConfigError: a file cannot be read.
        UsageError: a file has an unknown format, or a further one has prompts or providers of its
            own.
    """
    drafts = []
    for path in paths:
        draft = translate(read_source(path, path.as_posix(), folder.resolve()))
        if draft is None:
            known = ", ".join(IMPORTERS)
            raise UsageError(f"{path.as_posix()} is of no known format; known: {known}")
        drafts.append(draft)
    first, *others = drafts
    for path, other in zip(paths[1:], others, strict=True):
        _append(first, other, path)
    return first


def _append(draft: SuiteDraft, other: SuiteDraft, path: Path) -> None:
    """Add the cases of another draft, which is of the file `path`."""
    own = []
    for key, value in other.suite.items():
        if key not in ("name", "cases") and value != draft.suite.get(key):
            own.append(key)
    if own:
        raise UsageError(f"{path.as_posix()} has {min(own)} of its own: import it by itself")
    draft.suite["cases"] = [*draft.suite.get("cases", ()), *other.suite.get("cases", ())]
    draft.lost += other.lost


def suite_text(draft: SuiteDraft, paths: Sequence[Path]) -> str:
    """Return a draft as the text of `evals.yaml`."""
    names = ", ".join(path.name for path in paths)
    heading = f"Imported from {names} ({draft.origin})."
    if draft.lost:
        parts = number_of(len(draft.lost), "part")
        heading += f" {parts} could not be translated: see `not imported`."
    return write_yaml({YamlComment(heading): None, **draft.suite})
