"""Copies the project without its plug-ins and their tests: `copy_core.py FOLDER`."""

import shutil
import subprocess
import sys
from pathlib import Path

PLUGINS = ("ci_evals/plugins/", "tests/plugins/")


def copy_core(folder: Path) -> None:
    """Copy what git tracks, or would track, as it is on disk."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    for name in listed.decode().split("\0"):
        source = Path(name)
        # A file may be deleted and still be in the index.
        if not name or name.startswith(PLUGINS) or not source.is_file():
            continue
        target = folder / source
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


if __name__ == "__main__":
    copy_core(Path(sys.argv[1]))
