"""The environment of the process that runs main's code."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ci_evals.merge_base.checkout import PACKAGES, Worktree, link_modules
from ci_evals.user_code.folders import editable_packages

_NOT_MAINS = (
    "ACTIONS_",
    "CI_EVALS_",
    "CI_JOB_TOKEN",
    "CI_REPOSITORY_URL",
    "GH_TOKEN",
    "GITHUB_",
    "GITLAB_",
    "RUNNER_",
)
"""The beginnings of variables that belong to the job, not to the code under test."""
_CHECKOUTS = ("CI_PROJECT_DIR", "GITHUB_WORKSPACE")
"""The variables that name the checkout."""
_NAME = re.compile(r"\w+")


def child_environment(
    worktree: Worktree,
    environ: Mapping[str, str],
    import_path: Sequence[Path],
    suite: str,
    added: Mapping[str, str],
) -> Mapping[str, str]:
    """Return the environment in which main's code runs.

    It gets what the change's code gets, without the job's own variables: it must neither steer the
    job nor have its token.

    Args:
        worktree: main's files.
        environ: the environment of the job.
        import_path: the folders to import from first; see `import_path`.
        suite: the text of main's suite; variables that it names are left to it.
        added: the variables of `against.env`.
    """
    named = set(_NAME.findall(suite))
    kept = {
        name: value
        for name, value in environ.items()
        if name in named or not name.startswith(_NOT_MAINS)
    }
    for name in _CHECKOUTS:
        if name in environ:
            kept[name] = str(worktree.folder)
    kept.pop("PYTHONPATH", None)
    if import_path:
        kept["PYTHONPATH"] = os.pathsep.join(map(str, import_path))
    return {**kept, **added}


def import_path(worktree: Worktree) -> Iterator[Path]:
    """Yield the folders to import main's code from, before anything else.

    They are the counterparts of the folders that this process imports from, such as those of
    editable installs, which would lead to the change's code otherwise.
    """
    modules = link_modules(worktree, editable_packages())
    if modules is not None:
        yield modules
    for text in dict.fromkeys(sys.path):
        path = Path(text).resolve()  # the first one is often empty: the working folder
        if is_of_change(path, worktree.root):
            main = worktree.counterpart(path)
            if main.exists():
                yield main
        elif text in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            yield path


def is_of_change(path: Path, root: Path) -> bool:
    """Return True for a file of the checkout, except for installed packages in an environment."""
    installed = (Path(sys.prefix), Path(sys.base_prefix))
    if any(path.is_relative_to(place) for place in installed if place.is_relative_to(root)):
        return False
    if not path.is_relative_to(root):
        return False
    return not set(PACKAGES).intersection(path.relative_to(root).parts)
