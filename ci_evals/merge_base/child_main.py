"""Starts `child.py` with the ci-evals of the parent process, whatever main's files hold."""

import sys
from pathlib import Path

_PACKAGES = str(Path(__file__).parents[2])

# Main may be a commit of ci-evals itself, whose folder is first on the import path.
sys.path.insert(0, _PACKAGES)
import ci_evals.release  # noqa: E402, F401  the package, whose other modules are found next to it

sys.path.remove(_PACKAGES)

from ci_evals.merge_base.child import serve  # noqa: E402

if __name__ == "__main__":
    serve()
