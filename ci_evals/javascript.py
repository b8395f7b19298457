"""Runs JavaScript of a suite, in processes of the machine's Node.js."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import one_line
from ci_evals.workers import START_S, Worker, WorkerEndedError, Workers, WorkerTimeoutError

_WORKER = Path(__file__).with_name("javascript_worker.cjs")
_OLDEST = 18
_OLDEST_SANDBOX = 20
_VARIABLES = ("LANG", "LC_ALL", "SYSTEMROOT", "TZ")
"""The variables that code in the sandbox sees: none tells anything about the job."""

_DETECTS_MODULES = (20, 10)  # the first version that recognizes ES modules in .js files
_STRIPS_TYPES = (22, 10)  # the first version that reads TypeScript


class JavaScriptError(Exception):
    """JavaScript threw something.

    Args:
        stack: its type, its message and the frames of the suite's code.
        place: the place in the suite's code: `checks.mjs:2`, or `line 2` of code in the suite file.
        setup: True if the environment is to blame, not the data: a module is missing or cannot be
            parsed, or a service does not answer.
        denied: True if the sandbox denied an access.
    """

    def __init__(
        self, stack: str, place: str = "", *, setup: bool = False, denied: bool = False
    ) -> None:
        super().__init__(stack)
        self.place = place
        self.setup = setup
        self.denied = denied


def split_file(reference: str) -> Mapping[str, str] | None:
    """Split `file.mjs:name` into `file` and, if there is one, `name`; None for any other text."""
    match = re.fullmatch(r"(?P<file>.+\.[cm]?[jt]s)(?::(?P<name>\w+))?", reference)
    if match is None:
        return None
    return {key: value for key, value in match.groupdict().items() if value}


def file_problem(reference: str, folder: Path) -> str | None:
    """Return why a reference does not name a JavaScript file; None if it does."""
    parts = split_file(reference.removeprefix("file://"))
    if parts is None:
        kinds = "a file of JavaScript (.js, .mjs or .cjs) or TypeScript (.ts, .mts or .cts)"
        return f"expected {kinds}, got {reference!r:.80}"
    if reference.startswith("file://"):
        return f"write only the path: {parts['file']}"
    path = folder / parts["file"]
    if not path.is_file():
        return f"there is no file {path}"
    return None


class NodeWorker(Worker):
    """A process of Node.js in a folder.

    Args:
        folder: the folder of the suite.
        sandbox: the code may only read the folder and its packages.
    """

    title = "Node.js"

    def __init__(self, folder: Path, *, sandbox: bool) -> None:
        node = find_node()
        command = [node.program, *node.flags]
        environ = None
        if sandbox:
            command += node.sandbox_flags(folder)
            environ = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        # Answers start with a random mark: the code may print to the same stream.
        mark = token_hex(8)
        self._mark = mark.encode()
        super().__init__([*command, str(_WORKER), mark], folder, environ)

    def encode(self, request: Mapping[str, Any]) -> bytes:
        return json.dumps(request, default=str).encode()

    def decode(self, line: bytes) -> Mapping[str, Any]:
        if not line.startswith(self._mark):
            raise ValueError("not an answer")
        answer: Mapping[str, Any] = json.loads(line.removeprefix(self._mark))
        return answer

    def error(self, answer: Mapping[str, Any]) -> Exception:
        error = answer["error"]
        return JavaScriptError(
            error["stack"], error["place"], setup=error["setup"], denied=error["denied"]
        )


class NodeProcesses:
    """The processes of Node.js in a folder, started on first use.

    Args:
        folder: the folder of the suite.
    """

    def __init__(self, folder: Path) -> None:
        # A grader that hangs is killed with its process, which must not have a provider's calls in
        # it: they cost money.
        self._open = Workers(partial(NodeWorker, folder, sandbox=False))
        self._sandboxed = Workers(partial(NodeWorker, folder, sandbox=True))
        self._providers = Workers(partial(NodeWorker, folder, sandbox=False))
        self._syntax_problems: dict[str, str | None] = {}
        self._file_problems: dict[str, str | None] = {}

    async def grade(self, *, sandbox: bool, timeout_s: float, **request: Any) -> Any:
        """Return the result of a grader's code.

        Raises:
            JavaScriptError: it threw something.
            WorkerTimeoutError: it took too long.
            WorkerEndedError: it ended its process.
        """
        workers = self._graders(sandbox=sandbox)
        return await workers.ask({"do": "grade", **request}, timeout_s)

    async def call(self, *, timeout_s: float, **request: Any) -> Any:
        """Return the answer of a provider. Raises as `grade`."""
        return await self._providers.ask({"do": "call", **request}, timeout_s)

    def check_grader(self, *, sandbox: bool, **request: Any) -> None:
        """Parse the code of a grader, and load its modules.

        Raises:
            ConfigError: there is no Node.js, or the code is wrong.
        """
        _check(self._graders(sandbox=sandbox), {"do": "check", **request})

    def syntax_problem(self, code: str) -> str | None:
        """Return why code cannot be parsed; None if it can. The same code is parsed once."""
        if code not in self._syntax_problems:
            self._syntax_problems[code] = None
            try:
                self.check_grader(sandbox=False, code=code)
            except ConfigError as error:
                self._syntax_problems[code] = error.problems[0].message
        return self._syntax_problems[code]

    def file_problem(self, reference: str) -> str | None:
        """Return why a file does not load in the sandbox; None if it does. It is loaded once."""
        if reference not in self._file_problems:
            self._file_problems[reference] = None
            parts = split_file(reference)
            assert parts is not None  # its form was checked before
            try:
                self.check_grader(sandbox=True, **parts)
            except ConfigError as error:
                text = f"{parts['file']} does not load: {error.problems[0].message}"
                self._file_problems[reference] = text
        return self._file_problems[reference]

    def check_provider(self, **request: Any) -> None:
        """Load the file of a provider. Raises as `check_grader`."""
        _check(self._providers, {"do": "open", **request})

    def make(self, **request: Any) -> Any:
        """Return the value of a file's export, or the result if it is a function.

        Called while a suite is read. Raises as `check_grader`.
        """
        return _check(self._open, {"do": "make", **request})

    def close(self) -> None:
        """End the processes."""
        for workers in (self._open, self._sandboxed, self._providers):
            workers.close()

    def _graders(self, *, sandbox: bool) -> Workers:
        if sandbox:
            return self._sandboxed
        return self._open


def _check(workers: Workers, request: Mapping[str, Any]) -> Any:
    try:
        return workers.check(request)
    except (JavaScriptError, WorkerEndedError) as error:
        text = one_line(str(error), 500)
        if isinstance(error, JavaScriptError) and error.denied:
            text = f"{text}: the sandbox denies it; a `javascript` grader can set `sandbox: false`"
        raise _config_error(text) from error
    except WorkerTimeoutError as error:
        raise _config_error(f"Node.js did not answer within {START_S:g} s") from error


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """The program, by its real path, and its version."""

    program: str
    version: tuple[int, int]

    @property
    def flags(self) -> Sequence[str]:
        """The flags for all code."""
        flags = ["--no-warnings"]  # about experimental flags
        if self.version >= _DETECTS_MODULES:
            flags.append("--experimental-detect-module")
        if self.version >= _STRIPS_TYPES:
            flags.append("--experimental-strip-types")
        return flags

    def sandbox_flags(self, folder: Path) -> Sequence[str]:
        """Return the flags for code that may only read a folder and its packages.

        Raises:
            ConfigError: this Node.js has no permission model.
        """
        major = self.version[0]
        if major < _OLDEST_SANDBOX:
            text = (
                f"the sandbox of JavaScript needs Node.js {_OLDEST_SANDBOX} or newer, but this is"
                f" {major}: update it, or write `javascript: {{code: …, sandbox: false}}`"
            )
            raise _config_error(text)
        name = "--permission"  # 22.13 and 23.5 dropped the prefix `experimental-`
        if self.version < (22, 13) or (23, 0) <= self.version < (23, 5):
            name = "--experimental-permission"
        folder = folder.resolve()
        readable = [_WORKER, folder / "*"]
        # Node.js looks for packages in every folder above.
        for above in (folder, *folder.parents):
            readable += [above / "package.json", above / "node_modules" / "*"]
        return (name, "--allow-worker", *(f"--allow-fs-read={path}" for path in readable))


@cache
def find_node() -> NodeProgram:
    """Return the Node.js of this machine.

    Raises:
        ConfigError: it is not on the PATH, or too old.
    """
    program = shutil.which("node")
    if program is None:
        raise _config_error("JavaScript needs Node.js: there is no `node` on the PATH")
    ended = subprocess.run(  # noqa: S603
        [program, "-p", "process.execPath + ' ' + process.version"],
        capture_output=True,
        text=True,
        check=False,
    )
    # `program` may be a script of a version manager, to which the flags below mean nothing.
    path, _, version = ended.stdout.strip().rpartition(" ")
    numbers = re.match(r"v(\d+)\.(\d+)", version)
    if numbers is None or int(numbers[1]) < _OLDEST:
        shown = version or "of an unknown version"
        text = f"JavaScript needs Node.js {_OLDEST} or newer: {program} is {shown}"
        raise _config_error(text)
    return NodeProgram(path, (int(numbers[1]), int(numbers[2])))


def _config_error(text: str) -> ConfigError:
    return ConfigError([Problem("", None, "", text)])


_current: ContextVar[NodeProcesses | None] = ContextVar("node", default=None)


@contextmanager
def node_processes(folder: Path) -> Iterator[None]:
    """Within the context, provide processes for JavaScript in a folder, started on first use."""
    node = NodeProcesses(folder)
    before = _current.get()
    _current.set(node)
    try:
        yield
    finally:
        _current.set(before)
        node.close()


def syntax_problem(code: str) -> str | None:
    """Return why code in a suite cannot be parsed; None if it can, or if Node.js is missing."""
    node = _current.get()
    if node is None:
        return None
    try:
        find_node()
    except ConfigError:
        return None  # reported when the code is run
    return node.syntax_problem(code)


def sandboxed_file_problem(reference: str, folder: Path) -> str | None:
    """Return why a file cannot be loaded in the sandbox; None if it can or Node.js is missing."""
    problem = file_problem(reference, folder)
    node = _current.get()
    if problem is not None or node is None:
        return problem
    try:
        find_node().sandbox_flags(folder)
    except ConfigError:
        return None  # reported when the code is run
    return node.file_problem(reference)


def current_node() -> NodeProcesses:
    """Return the processes of the innermost `node_processes`."""
    node = _current.get()
    if node is None:
        raise RuntimeError("no `node_processes` is open here")
    return node


def call_file(reference: str, calls: Sequence[Sequence[Any]], folder: Path) -> list[Any]:
    """Call a function of a file several times; return the results.

    Args:
        reference: `file.mjs` or `file.mjs:name`.
        calls: the arguments of each call.
        folder: the folder of the suite.

    Raises:
        ConfigError: there is no Node.js, or the function threw or took too long.
    """
    target = split_file(reference) or {}
    with node_processes(folder):
        node = current_node()
        try:
            return [node.make(**target, arguments=arguments) for arguments in calls]
        except ConfigError as error:
            raise _config_error(f"{reference}: {error.problems[0].message}") from error
