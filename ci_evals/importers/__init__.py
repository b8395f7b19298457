"""Suites of other tools: an importer recognizes files of its format, and makes a draft of a suite
of them.
"""

from collections.abc import Sequence
from pathlib import Path

from ci_evals.errors import ConfigError, UsageError
from ci_evals.format import number_of
from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.parts import tidy
from ci_evals.importers.source import Source, read_source
from ci_evals.importers.writing import YamlComment, write_yaml
from ci_evals.registry import IMPORTERS
from ci_evals.suite.nodes import Node


def translate_config(path: Path, config: Node) -> Draft | None:
    """Return a draft of the config of another tool; None for anything else.

    Raises:
        ConfigError: a file that it names cannot be read.
    """
    return translate(Source(path, config.file, path.resolve().parent, config))


def translate(source: Source) -> Draft | None:
    """Return a draft of a suite of another tool; None for a suite of ci-evals, and for anything
    else.

    Raises:
        ConfigError: a file that it names cannot be read.
    """
    for name in IMPORTERS:
        importer = IMPORTERS[name]
        if importer.recognize(source):
            break
    else:
        return None
    try:
        draft: Draft = importer.convert(source)
        tidy(draft)
    except UntranslatableError as error:
        raise ConfigError([source.written.problem(str(error))]) from None
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # any of a value of another shape
        text = f"it looks like {name}, and is not in the shape of its files: {type(error).__name__}: {error}"
        raise ConfigError([source.written.problem(text)]) from error
    draft.lost.sort(key=lambda lost: (lost.file != source.shown, lost.file, lost.line or 0))
    return draft


def import_suite(paths: Sequence[Path], folder: Path) -> Draft:
    """Make one draft of files of another tool: the suite that the first one is, with the cases of
    the others.

    Args:
        paths: the files.
        folder: where the suite is to stand.

    Raises:
        ConfigError: a file cannot be read.
        UsageError: a file is of no known format, or a further one has prompts or providers of its
            own.
    """
    drafts = []
    for path in paths:
        source = read_source(path, path.as_posix(), folder.resolve())
        draft = translate(source)
        if draft is None:
            raise UsageError(
                f"{path.as_posix()} is of no known format; known: {', '.join(IMPORTERS)}"
            )
        drafts.append(draft)
    first, *others = drafts
    for path, other in zip(paths[1:], others, strict=True):
        if own := sorted(
            key
            for key in other.suite
            if key not in ("name", "cases") and other.suite[key] != first.suite.get(key)
        ):
            raise UsageError(f"{path.as_posix()} has {own[0]} of its own: import it by itself")
        first.suite["cases"] = [*first.suite.get("cases", ()), *other.suite.get("cases", ())]
        first.lost += other.lost
    return first


def suite_text(draft: Draft, paths: Sequence[Path]) -> str:
    """Return a draft as the text of `evals.yaml`."""
    names = ", ".join(path.name for path in paths)
    lost = (
        f" {number_of(len(draft.lost), 'part')} could not be translated: see `not imported`."
        if draft.lost
        else ""
    )
    return write_yaml(
        {YamlComment(f"Imported from {names} ({draft.origin}).{lost}"): None, **draft.suite}
    )
