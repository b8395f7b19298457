"""The files that `ci-evals init` writes."""

from pathlib import Path

from ci_evals.errors import StorageError, UsageError
from ci_evals.reports import templates

FILES = {"evals.yaml": "init/evals.yaml", ".github/workflows/evals.yml": "init/workflow.yml"}


def write_starter(folder: Path, *, overwrite: bool) -> list[Path]:
    """Write a commented suite and a workflow.

    Args:
        folder: where the project is.
        overwrite: replace files that are there.

    Returns:
        The files written.

    Raises:
        UsageError: a file is there already; nothing was written.
        StorageError: a file cannot be written.
    """
    taken = [name for name in FILES if (folder / name).exists()]
    if taken and not overwrite:
        raise UsageError(f"already there: {', '.join(taken)}. Overwrite with --force.")
    paths = {folder / name: templates.folder() / template for name, template in FILES.items()}
    path = folder
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        for path, template in paths.items():
            path.write_text(template.read_text(encoding="utf-8"), encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    return list(paths)
