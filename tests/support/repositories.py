"""Git repositories of a team, and what a run of main's code alongside leaves behind."""

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from aiohttp import web
from loopback import on_loopback
from processes import COMMAND, Finished, ci_evals
from suites import AGENT, write_files, write_suite

RESULTS = "ci-evals-results"
REAL = (sys.executable, "-m", "ci_evals")
"""ci-evals as a process that is not forked: it reads `TMPDIR` and all else anew."""
APPLE = {"id": "apple", "input": "apple", "expect": [{"contains": "apple"}]}
BREAD = {"id": "bread", "input": "bread", "expect": [{"contains": "bread"}]}


class Repository:
    """A git repository with a working tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def new(cls, folder: Path) -> "Repository":
        """Make an empty repository whose branch is `main`."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        made.git("init", "--quiet", "--initial-branch=main")
        return made

    def git(self, *arguments: str) -> str:
        """What git prints in the working tree."""
        user = ("-c", "user.name=octocat", "-c", "user.email=octocat@example.org")
        command = ("git", "-C", str(self.folder), *user, "-c", "commit.gpgsign=false", *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        """Write texts by their paths."""
        write_files(self.folder, files)

    def commit(self, files: Mapping[str, str] = {}) -> str:
        """Write files, and commit all that differs; return the commit."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=a state of the app")
        return self.git("rev-parse", "HEAD")

    @property
    def state(self) -> Mapping[str, Any]:
        """What a run must leave as it is: files, refs, worktrees and all of `.git`."""
        metadata = self.folder / ".git"
        files = {
            path.relative_to(metadata).as_posix(): path.read_bytes()
            for path in sorted(metadata.rglob("*"))
            if path.is_file()
        }
        return {
            "status": self.git("--no-optional-locks", "status", "--porcelain"),
            "worktrees": self.git("worktree", "list"),
            "refs": self.git("for-each-ref"),
            "files": files,
        }


def agent_of(who: str) -> str:
    """An agent whose answers tell whose code it is."""
    return f'def answer(question):\n    return f"{{question}}, says {who}"\n'


CURIOUS = """
import os
from pathlib import Path

import psutil

SECRETS = [first + second for first, second in PARTS]

def answer(question):
    texts = [*os.environ.values()]
    place = Path(__file__).parents[1]
    files = [path for path in place.rglob("*config*") if path.is_file()]
    texts += [path.read_text(errors="replace") for path in files]
    for process in psutil.process_iter(["cmdline"]):
        texts += process.info["cmdline"] or []
    found = [secret for secret in SECRETS for text in texts if secret in text]
    found += [name for name in VARIABLES if name in os.environ]
    is_at_home = os.environ["HOME_OF_CODE"] == str(Path(__file__).parent)
    return f"{question}, finds {found}, is at home: {is_at_home}"
"""


def curious_agent(secrets: Iterable[str], variables: Iterable[str], home: str) -> str:
    """An agent that looks for secrets in its environment, git's settings and the list of processes.

    Args:
        secrets: what it should not find; its own file has them in two parts.
        variables: the names of variables that it should not have.
        home: the variable that names the checkout.
    """
    parts = [(secret[:20], secret[20:]) for secret in secrets]
    code = CURIOUS.replace("PARTS", repr(parts)).replace("VARIABLES", repr(list(variables)))
    return code.replace("HOME_OF_CODE", home)


def repository_with_agent(folder: Path, **settings: Any) -> Repository:
    """A repository whose main has a suite and the agent of main."""
    repository = Repository.new(folder)
    write_suite(folder, **{"name": "shop", "cases": [APPLE], "providers": [AGENT], **settings})
    repository.commit({"agent.py": agent_of("main"), ".gitignore": "__pycache__/\n*.log\n"})
    return repository


class Sides(NamedTuple):
    """The answers that both sides have in their journals."""

    change: AbstractSet[str]
    main: AbstractSet[str]


def sides(folder: Path, out: str = RESULTS) -> Sides:
    """Read the answers of both sides of the last run in a folder."""
    return Sides(
        answers_in(folder / out / "results.jsonl"),
        answers_in(folder / out / "merge-base" / "main.jsonl"),
    )


def answers_in(journal: Path) -> frozenset[str]:
    """The answers that a journal has; for an error, its message."""
    return frozenset(
        line["response"]["output"] if line.get("response") else line["error"]["message"]
        for line in results_in(journal)
    )


def results_in(journal: Path) -> list[dict[str, Any]]:
    """The results in a journal; none if there is no such file."""
    if not journal.exists():
        return []
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    return [line for line in lines if "fingerprint" in line]


async def against_main(
    folder: Path,
    *arguments: str,
    command: tuple[str, ...] = COMMAND,
    environ: Mapping[str, str] = {},
    constants: Mapping[str, float] = {},
) -> Finished:
    """Run a suite against main; `REAL` is the command for what a forked process cannot do."""
    words = ("run", "--against", "main", *arguments)
    return await ci_evals(folder, *words, command=command, environ=environ, constants=constants)


def left_in(temp: Path) -> list[Path]:
    """The checkouts of main in a folder for temporary files."""
    return sorted(temp.glob("ci-evals-main-*"))


def running_in(temp: Path) -> list[psutil.Process]:
    """The processes whose folder for temporary files this is."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # of another user, or gone
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
            if not is_zombie and process.environ().get("TMPDIR") == str(temp):
                found.append(process)
    return found


class GitServer:
    """Git repositories below a folder, over HTTP.

    Args:
        folder: the folder; the repository `acme/app` is in `acme/app.git`.
        authorization: the header that every request needs; None lets everybody in.

    Attributes:
        url: where it is.
        paths: what was asked for, by those who may.
        refused: the number of requests without that header.
        exposed: the arguments of processes that had a secret while a request was answered.
        secrets: what no process may have in its arguments.
        is_silent: requests are never answered.
        was_reached: set by the first request.
    """

    def __init__(self, folder: Path, authorization: str | None) -> None:
        self.url = ""
        self.paths: list[str] = []
        self.refused = 0
        self.exposed: list[list[str]] = []
        self.secrets: tuple[str, ...] = ()
        self.is_silent = False
        self.was_reached = asyncio.Event()
        self._folder = folder
        self._authorization = authorization

    async def respond(self, request: web.Request) -> web.Response:
        self._look_at_processes()
        self.was_reached.set()
        if self.is_silent:
            await asyncio.Event().wait()
        if self._authorization not in (None, request.headers.get("Authorization")):
            self.refused += 1
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        self.paths.append(request.path)
        body = await request.read()  # inflated, if the client has compressed it
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        program = await asyncio.create_subprocess_exec(
            "git", "http-backend", env=environ, stdin=PIPE, stdout=PIPE
        )
        answer, _ = await program.communicate(body)
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, headers=headers, body=content)

    def _look_at_processes(self) -> None:
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if any(secret in word for secret in self.secrets for word in words):
                self.exposed.append(words)


@asynccontextmanager
async def serving_git(folder: Path, authorization: str | None = None) -> AsyncIterator[GitServer]:
    """A git server on a free port of loopback."""
    server = GitServer(folder, authorization)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.respond)
    async with on_loopback(app) as server.url:
        yield server
