"""Counts the modules of ours that each way into the package loads, each in a process of its own."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SUITE = """\
runs: 1
providers: [{type: mock}]
cases: [{id: greeting, input: hello, expect: [{contains: hello}]}]
"""
RUN_COMMAND = """\
import sys
sys.argv = {arguments!r}
from ci_evals.cli.main import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""
PRINT_MODULES = """
import sys
print("\\nmodules", sum(name.split(".")[0] == "ci_evals" for name in sys.modules))
"""


class Door(NamedTuple):
    """A way into the package, as Python code.

    `bound` is the most modules that it should load; above `allowed`, `--check` fails.
    """

    name: str
    code: str
    bound: int
    allowed: int


def command(*arguments: str) -> str:
    return RUN_COMMAND.format(arguments=["ci-evals", *arguments])


DOORS = (
    Door("import ci_evals", "import ci_evals", 8, 10),
    Door("a pytest session without evals", "import ci_evals.pytest_plugin", 4, 5),
    Door("ci-evals --help", command("--help"), 12, 15),
    Door("ci-evals validate", command("validate"), 75, 75),
    Door("ci-evals run, one case on a mock", command("run", "--quiet"), 120, 133),
)


def modules_loaded(code: str, folder: Path) -> int:
    """Return how many modules of ours some code loads.

    Args:
        code: what to run.
        folder: where to run it; it has a suite.
    """
    process = subprocess.run(
        [sys.executable, "-c", code + PRINT_MODULES],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(process.stdout.rsplit(maxsplit=1)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail above what is allowed")
    options = parser.parse_args()
    is_too_much = False
    print(f"{'Modules of ours':40} {'now':>8} {'bound':>8} {'allowed':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "evals.yaml").write_text(SUITE, encoding="utf-8")
        for door in DOORS:
            loaded = modules_loaded(door.code, folder)
            is_too_much |= loaded > door.allowed
            print(f"{door.name:40} {loaded:8} {door.bound:8} {door.allowed:8}")
    if options.check and is_too_much:
        sys.exit("too many modules: `python -X importtime` shows who imports them")


if __name__ == "__main__":
    main()
