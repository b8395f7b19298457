"""The CI system of a command, in two processes.

The command runs code under test and has no credentials of the job. What needs them is done by its
parent (`watchdog.py`), which loads nothing of a suite: it looks for earlier results, and publishes
a verdict from the report that the command has left.
"""

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TextIO, TypeVar, get_type_hints

from pydantic import TypeAdapter, validate_call
from pydantic_core import to_jsonable_python

from ci_evals.cli.watchdog import ask_parent
from ci_evals.errors import HostError, Problem, StorageError
from ci_evals.format import describe_status
from ci_evals.hosts import (
    ChangedFiles,
    Earlier,
    Host,
    Job,
    Log,
    MainCommit,
    Posting,
)
from ci_evals.model.report import Checkout
from ci_evals.providers.subprocess import kill_all
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import find_host
from ci_evals.streams import flush_streams, say
from ci_evals.suite.types import CheckedSuite

T = TypeVar("T")

_ERRORS: Final[Mapping[str, type[HostError | StorageError]]] = {
    "HostError": HostError,
    "StorageError": StorageError,
}
_LOST = (
    "the command ended with {how} before it gave a verdict: code under test ended the process"
    " (os._exit, exec), crashed it, or used up the memory; finished runs are in the journal, and"
    " --resume continues with them"
)


class _Section(NamedTuple):
    """The place of a verdict, and how it is published; see `Host.note_section`."""

    suite: str
    posting: Posting


class DistantHost(Host):
    """A CI system, as a command sees it: the parent does what needs credentials.

    Args:
        local: the CI system without credentials, which knows the job and its log.
        environ: the environment of the command.
    """

    def __init__(self, local: Host, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._local = local
        self.name = local.name
        self.lacks_secrets = local.lacks_secrets
        self.on_default_branch = local.on_default_branch
        self.job_revision = local.job_revision

    def clean(self, text: str) -> str:
        return self._local.clean(text)

    def warn(self, text: str, stream: TextIO) -> None:
        self._local.warn(text, stream)

    def print_error(self, text: str, problems: Sequence[Problem], folder: Path) -> None:
        self._local.print_error(text, problems, folder)

    def start(self, suite: CheckedSuite, log: Log, stream: TextIO) -> Job:
        return self._local.start(suite, log, stream)

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        return self._local.explain_lost_baseline(checkout)

    def is_touched(self, suite: CheckedSuite, names: Sequence[str]) -> bool:
        return self._local.is_touched(suite, names)

    def note_section(self, suite: str | None, posting: Posting) -> None:
        sent = None
        if suite is not None:
            sent = to_jsonable_python(_Section(suite, posting))
        ask_parent({"do": "note", "arguments": [sent]})

    def report_error(self, problems: Sequence[Problem], fallback: Mapping[str, str] | None) -> None:
        cleaned = self._redactor.clean(tuple(problems))
        ask_parent({"do": "report", "arguments": [to_jsonable_python(cleaned), fallback]})

    @property
    def _redactor(self) -> Redactor:
        """Takes out what this command knows: the parent has loaded no suite."""
        return Redactor(sensitive_values(self.environ))

    # Asked of the parent.

    def find_earlier(
        self,
        suite: str,
        suites: Sequence[str],
        folder: Path,
        base: str | None,
        attempts: str | None,
    ) -> Earlier:
        return self._ask(super().find_earlier, suite, suites, folder, base, attempts)

    def find_main(self, root: Path) -> MainCommit | None:
        return self._ask(super().find_main, root)

    def fetch(self, sha: str, repository: Path) -> None:
        self._ask(super().fetch, sha, repository)

    def find_committed(self, path: Path, folder: Path) -> Path | None:
        return self._ask(super().find_committed, path, folder)

    def find_changed_files(self) -> ChangedFiles | None:
        return self._ask(super().find_changed_files)

    def begin(self, folder: Path, posting: Posting) -> None:
        self._ask(super().begin, folder, posting)

    def announce(self, suite: str, posting: Posting) -> None:
        self._ask(super().announce, suite, posting)

    def publish(self, report: Path, folder: Path, posting: Posting) -> None:
        self._ask(super().publish, report, folder, posting)

    def publish_shard(self, shard: str, suite: str, outcome: str, posting: Posting) -> None:
        self._ask(super().publish_shard, shard, suite, outcome, posting)

    def report_unchanged(self, text: str, suite: str, posting: Posting) -> None:
        self._ask(super().report_unchanged, self._redactor.clean_text(text), suite, posting)

    def report_problems(self, problems: Sequence[Problem], suite: str, posting: Posting) -> None:
        self._ask(super().report_problems, self._redactor.clean(problems), suite, posting)

    def report_all(
        self, not_run: Mapping[str, str], folder: Path, posting: Posting, *, broken: bool
    ) -> None:
        self._ask(super().report_all, not_run, folder, posting, broken=broken)

    def _ask(self, method: Callable[..., T], *arguments: Any, **options: bool) -> T:
        """Have the parent call a method of its host, and return what that returns.

        Raises:
            HostError: as the method.
            StorageError: as the method.
        """
        flush_streams()  # it prints, too
        sent = [to_jsonable_python(_absolute(argument)) for argument in arguments]
        answer = ask_parent({"do": method.__name__, "arguments": sent, "options": options})
        match answer:
            case {"error": [str() as kind, *details]}:
                raise _ERRORS[kind](*details)
            case {"bug": str() as text}:
                raise RuntimeError(text)
        returned: T = TypeAdapter(get_type_hints(method)["return"]).validate_python(answer["value"])
        return returned


def _absolute(argument: Any) -> Any:
    """Return an argument whose paths don't depend on the working folder, which may change."""
    if isinstance(argument, Path):
        return argument.absolute()
    return argument


_OFFERED: Final = frozenset(
    (
        "announce",
        "begin",
        "fetch",
        "find_changed_files",
        "find_committed",
        "find_earlier",
        "find_main",
        "publish",
        "publish_shard",
        "report_all",
        "report_problems",
        "report_unchanged",
    )
)
"""The methods of a host that a command may have called."""
_BEFORE_CODE: Final = frozenset(("fetch", "find_main"))
"""Those that run git in folders that the command names, so not once code under test may do that."""


class HostService:
    """Does what needs the credentials of a job, in the parent of a command.

    Args:
        environ: the environment of the job, with its credentials.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._host: Host | None = find_host(environ)
        self._section: Sequence[Any] | None = None
        """The last arguments of `note_section`, as JSON."""
        self._has_noted = False
        self._is_sealed = False

    def answer(self, request: Any) -> Any:
        """Do what a request says, and return the answer, or the error."""
        match request:
            case {"do": "seal"}:
                self._is_sealed = True
                return {"value": None}
            case {"do": "reveal", "arguments": [str() as name]}:
                value = None
                if not self._is_sealed:
                    value = self._environ.get(name)
                return {"value": value}
            case {"do": "note", "arguments": [section]}:
                self._has_noted, self._section = True, section
                return {"value": None}
            case {"do": "report", "arguments": [problems, fallback]}:
                section = self._section
                if not self._has_noted and fallback is not None:
                    section = ["", fallback]
                if section is None:
                    return {"value": None}
                suite, posting = section
                shown = {**posting, "log": "stderr"}  # next to the error
                return self._call("report_problems", [problems, suite, shown])
            case {"do": str() as name, "arguments": list() as arguments, "options": options} if (
                name in _OFFERED and not (self._is_sealed and name in _BEFORE_CODE)
            ):
                return self._call(name, arguments, options)
        return {"bug": f"{request!r:.200} is no request"}

    def report_unproven(self, status: int) -> int:
        """Report that the command ended without a verdict, and return the exit code."""
        text = _LOST.format(how=describe_status(status).removeprefix("killed by "))
        if self._host is None:
            say(sys.stderr, f"error: {text}\n")
            return 3
        problems = [Problem("", None, "", text)]
        self._host.print_error(text, problems, Path.cwd())
        self.answer({"do": "report", "arguments": [problems, None]})
        return 3

    def close(self) -> None:
        """End the programs that requests have started, such as git."""
        kill_all()

    def _call(
        self,
        name: str,
        arguments: Sequence[Any],
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        try:
            method = validate_call(validate_return=False)(getattr(self._host, name))
            returned = method(*arguments, **options)
            return {"value": to_jsonable_python(returned)}
        except HostError as error:
            return {"error": ["HostError", error.kind, *error.args]}
        except StorageError as error:
            return {"error": ["StorageError", str(error)]}
        except Exception as error:  # noqa: BLE001  the command reports it as a bug
            traceback.print_exc()
            return {"bug": f"the parent of the command failed: {error!r}"}
