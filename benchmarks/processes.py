"""Child processes: what one cost from start to end, and the server that stands in for a model."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
PYTHON = sys.executable

DROPPED = {
    # A job's page is no place for the summaries of measured runs.
    "GITHUB_STEP_SUMMARY",
    # It would have ci-evals compiled at every start, as no installed package is.
    "PYTHONDONTWRITEBYTECODE",
}


class Spent(NamedTuple):
    """What one process cost from start to end, its ended children included."""

    cpu_s: float
    wall_s: float
    peak_rss_bytes: int
    stdout: str


class UnexpectedExitError(Exception):
    """A measured process failed, so that its figures say nothing."""


def spend(
    command: Sequence[str], env: Mapping[str, str] | None = None, *, exit_code: int = 0
) -> Spent:
    """Run a command in the project's folder.

    The peak memory of a process starts at that of its parent, so this one should stay small: import
    nothing big.

    Args:
        command: the program and its arguments.
        env: what to add to the environment.
        exit_code: the only exit code under which the figures count; any other raises
            `UnexpectedExitError`.
    """
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED} | dict(
        env or {}
    )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if process.returncode != exit_code:
        told = (stdout + stderr)[-2000:]
        raise UnexpectedExitError(
            f"{shlex.join(command)}: exit code {process.returncode}, not {exit_code}\n{told}"
        )
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Spent(usage.ru_utime + usage.ru_stime, wall_s, peak, stdout)


class Server(NamedTuple):
    """A server under way."""

    base_url: str

    @property
    def completions_url(self) -> str:
        return f"{self.base_url}/chat/completions"

    def requests(self) -> int:
        """The completions asked for so far."""
        with urllib.request.urlopen(self.base_url.removesuffix("/v1") + "/stats") as answer:
            return cast("int", json.load(answer)["requests"])


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """Run `server.py` with these options, on a core of its own if there are two."""
    pinned = () if SERVER_CORE is None else ("--cpu", str(SERVER_CORE))
    command = [PYTHON, str(HERE / "server.py"), *pinned, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}/v1")
        finally:
            process.terminate()


def _server_core() -> int | None:
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1] if len(cores) > 1 else None


SERVER_CORE = _server_core()


def leave_the_servers_core() -> None:
    """Keep this process, and what it starts from now on, off the core where servers run."""
    if SERVER_CORE is not None:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {SERVER_CORE})
