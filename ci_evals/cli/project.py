"""Reads from a project's files what a suite could call, and what its workflow needs."""

import ast
import os
import re
import shlex
import warnings
from collections.abc import Sequence
from functools import cached_property
from io import StringIO
from pathlib import Path, PurePosixPath

from dotenv import dotenv_values

from ci_evals.cli.web_apps import Definition, Module, WebApp, find_web_app
from ci_evals.git import ask_git
from ci_evals.providers.model_api import ModelOptions
from ci_evals.registry import PROVIDERS
from ci_evals.suite.configs import DEFAULT_NAMES, FOREIGN_NAMES
from ci_evals.user_code.folders import find_code_folders

GITLAB_FILE = ".gitlab-ci.yml"

# `init` should answer at once, whatever folder it is started in.
_MOST_FILES = 300
_MOST_BYTES = 1_000_000
_DEEPEST = 4
_NOT_THE_APP = {
    *("build", "dist", "docs", "env", "examples", "node_modules", "scripts"),
    *("test", "tests", "venv"),
}


class Project:
    """A project, known from its files only: none of its code is run.

    Args:
        folder: the folder for the suite. The code is there, too, or in the repository around it.
    """

    _MODULES = ("agent", "app", "assistant", "bot", "chatbot", "chat", "main")
    _FUNCTIONS = (
        "answer",
        "respond",
        "reply",
        "ask",
        "chat",
        "run_agent",
        "run",
        "generate",
        "invoke",
        "agent",
    )
    _NO_QUESTIONS = ("request", "event", "context", "args", "argv")
    _DEPENDENCIES = (
        "pyproject.toml",
        "requirements.txt",
        "requirements-dev.txt",
        "Pipfile",
        "package.json",
    )
    _PACKAGES = re.compile(r"\b(?:(openai)|(anthropic)|google[-/]gen(?:erative)?-?ai)\b")
    _KEY_NAME = re.compile(r"[A-Z0-9_]+_API_KEY")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        resolved = folder.resolve()
        repository = resolved
        for parent in (resolved, *resolved.parents):
            if (parent / ".git").exists():
                repository = parent
                break
        self.inside = resolved.relative_to(repository).as_posix()
        # Relative where `folder` is, as messages name paths below it.
        self.root = Path(os.path.normpath(folder / os.path.relpath(repository, resolved)))
        self.code = folder
        self._sources = _find_sources(folder)
        if not self._sources and self.root != folder:
            self.code = self.root
            self._sources = _find_sources(self.root)
        self.name = self.code.resolve().name or "my app"
        self._needs = "\n".join(read_file(self.code / name) for name in self._DEPENDENCIES)

    @property
    def suite(self) -> Path | None:
        """The suite that already exists; None if there is none."""
        for folder in (self.folder, self.folder / ".github"):
            for name in DEFAULT_NAMES:
                if (folder / name).exists():
                    return folder / name
        return None

    @property
    def foreign(self) -> Path | None:
        """The config of another tool; None if there is none."""
        for name in FOREIGN_NAMES:
            if (self.folder / name).is_file():
                return self.folder / name
        return None

    @property
    def target(self) -> str | None:
        """A function that takes a question, as `module:function`; None if none is found."""
        if self._function is None:
            return None
        source, function = self._function
        return f"{source.module}:{function.name}"

    @property
    def target_returns_text(self) -> bool:
        """True if the target is annotated to return text."""
        if self._function is None:
            return False
        returns = self._function[1].returns
        return returns is not None and ast.unparse(returns) in ("str", "'str'")

    @property
    def pythonpath(self) -> str | None:
        """The folder from which the target is imported; None if none has to be named."""
        if self._function is None or self._function[0].file.parts[0] != "src":
            return None
        folders = find_code_folders(self.folder, ())
        if (self.code / "src").resolve() in (*folders.named, *folders.usual):
            return None
        return "src"

    @cached_property
    def _function(self) -> tuple[Module, Definition] | None:
        for module in self._MODULES:
            for source in self._sources:
                if source.module.rpartition(".")[2] != module:
                    continue
                functions = {
                    statement.name: statement
                    for statement in source.tree.body
                    if isinstance(statement, Definition) and self._takes_question(statement)
                }
                for name in self._FUNCTIONS:
                    if name in functions:
                        return source, functions[name]
        return None

    @cached_property
    def web_app(self) -> WebApp | None:
        """The web app in its sources; None if there is none."""
        return find_web_app(self._sources)

    def _takes_question(self, function: Definition) -> bool:
        """Return True if a function can be called with a text and nothing else."""
        if function.decorator_list or None in function.args.kw_defaults:
            return False
        positional = [*function.args.posonlyargs, *function.args.args]
        required = positional[: len(positional) - len(function.args.defaults)]
        if len(required) != 1 or required[0].arg in self._NO_QUESTIONS:
            return False
        if required[0].annotation is None:
            return True
        kind = ast.unparse(required[0].annotation).strip("\"'")
        return kind.startswith(("str", "Any", "object"))

    @cached_property
    def vendors(self) -> list[str]:
        """The provider types of the model APIs that it depends on."""
        vendors = []
        for openai, anthropic in self._PACKAGES.findall(self._needs):
            vendors.append(openai or anthropic or "gemini")
        return list(dict.fromkeys(vendors))

    @property
    def keys(self) -> list[str]:
        """The environment variables with keys that the project names."""
        keys: list[str] = []
        for end in (".example", ".sample", ".template", ""):
            text = read_file(self.code / f".env{end}")
            names = dotenv_values(stream=StringIO(text), interpolate=False)
            keys += filter(self._KEY_NAME.fullmatch, names)
        for vendor in self.vendors:
            keys += key_variables(vendor)
        return keys

    @property
    def install(self) -> str | None:
        """The command that installs the project's dependencies; None if it is not known."""
        if self.target is None and self.web_app is None:
            return None
        inside = self.inside
        if self.code == self.root:
            inside = "."
        if (self.code / "requirements.txt").is_file():
            path = PurePosixPath(inside, "requirements.txt").as_posix()
            return f"pip install -r {shlex.quote(path)}"
        if not re.search(r"^\[(project|build-system)\]", self._needs, re.MULTILINE):
            return None
        if inside == ".":
            return "pip install ."
        return f"pip install {shlex.quote(f'./{inside}')}"

    @property
    def is_on_gitlab(self) -> bool:
        """True if the repository is one of GitLab: its remote says so, or else its files do."""
        remote = ask_git("remote", "get-url", "origin", folder=self.folder)
        host = re.search(r"(?:://|^)(?:[^/@]*@)?([\w.-]+)", remote)
        if host is not None and "github" in host[1]:
            return False
        if host is not None and "gitlab" in host[1]:
            return True
        return (self.root / GITLAB_FILE).is_file()

    @property
    def has_pytest(self) -> bool:
        if "pytest" in self._needs:
            return True
        files = ("pytest.ini", "conftest.py", "tests/conftest.py")
        return any((self.code / name).exists() for name in files)

    @property
    def branch(self) -> str:
        """The default branch: the remote's, else main or master, else the current branch."""
        remote = ask_git("symbolic-ref", "--short", "refs/remotes/origin/HEAD", folder=self.folder)
        branch = remote.removeprefix("origin/")
        if not branch:
            names = ("refs/heads/main", "refs/heads/master")
            usual = ask_git("for-each-ref", "--format=%(refname:short)", *names, folder=self.folder)
            branch = usual.partition("\n")[0]
        if not branch:
            branch = ask_git("symbolic-ref", "--short", "HEAD", folder=self.folder)
        if not re.fullmatch(r"[\w./-]+", branch):  # it is written into YAML without quotes
            return "main"
        return branch


def _find_sources(folder: Path) -> Sequence[Module]:
    """Return the Python files in a folder, the ones nearest to the top first."""
    found: list[tuple[int, Path]] = []
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        depth = len(inside.parts)
        folders[:] = sorted(
            name for name in folders if name.isidentifier() and name not in _NOT_THE_APP
        )
        if depth == _DEEPEST:
            folders.clear()
        found += [(depth, inside / name) for name in sorted(names) if name.endswith(".py")]
    found.sort()
    sources = []
    for _, file in found[:_MOST_FILES]:
        source = _read_source(folder, file)
        if source is not None:
            sources.append(source)
    return sources


def _read_source(folder: Path, file: Path) -> Module | None:
    """Return a Python file; None if it cannot be imported by a name, or cannot be read."""
    parts = file.with_suffix("").parts
    if parts[0] == "src":
        parts = parts[1:]
    if parts[-1:] == ("__init__",):
        parts = parts[:-1]
    if not parts or not all(part.isidentifier() for part in parts):
        return None
    path = folder / file
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a SyntaxWarning on code that isn't ours helps nobody
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    return Module(".".join(parts), file, tree)


def read_file(path: Path) -> str:
    """Return the text of a file; empty if it is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def key_variables(kind: str) -> list[str]:
    """Return the variable from which a provider of this type reads its key, in a list; an empty one
    if it needs none. Only that provider is imported.
    """
    options = PROVIDERS.get(kind)
    if options is None or not issubclass(options, ModelOptions):
        return []
    variable = options.default_key_variable
    if variable is None:
        return []
    return [variable]
