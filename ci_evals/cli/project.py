"""Reads from a project's files what a suite could call, and what its workflow needs."""

import ast
import os
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import StringIO
from pathlib import Path, PurePosixPath

from dotenv import dotenv_values

from ci_evals.cli.node_apps import MANIFEST, find_node_app, install_command
from ci_evals.cli.web_apps import Definition, Module, WebApp, find_web_app
from ci_evals.git import ask_git
from ci_evals.providers.model_api import ModelOptions
from ci_evals.registry import PROVIDERS
from ci_evals.suite.configs import DEFAULT_NAMES, FOREIGN_NAMES
from ci_evals.user_code.folders import find_code_folders

GITLAB_FILE = ".gitlab-ci.yml"

# `init` should answer at once, whatever folder it is started in.
_MOST_FILES = 300
_SKILLS = ("SKILL.md", "*/SKILL.md", "skills/*/SKILL.md")
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
        is_of_node = (folder / MANIFEST).is_file()
        if not self._sources and not is_of_node and self.root != folder:
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
    def skill(self) -> Path | None:
        """The first skill of an agent in the folder; None if there is none."""
        for pattern in _SKILLS:
            for skill in sorted(self.folder.glob(pattern)):
                return skill
        return None

    @property
    def target(self) -> str | None:
        """A function that takes a question, as `module:function`, or a class whose objects have
        such a method; None if none is found.
        """
        if self._found is None:
            return None
        source, statement, _ = self._found
        return f"{source.module}:{statement.name}"

    @property
    def target_is_class(self) -> bool:
        """True if the target is a class, of which each run takes a new object."""
        return self._found is not None and isinstance(self._found[1], ast.ClassDef)

    @property
    def target_returns_text(self) -> bool:
        """True if the target is annotated to return text."""
        if self._found is None:
            return False
        returns = self._found[2].returns
        return returns is not None and ast.unparse(returns) in ("str", "'str'")

    @property
    def pythonpath(self) -> str | None:
        """The folder from which the target is imported; None if none has to be named."""
        if self._found is None or self._found[0].file.parts[0] != "src":
            return None
        folders = find_code_folders(self.folder, ())
        if (self.code / "src").resolve() in (*folders.named, *folders.usual):
            return None
        return "src"

    @cached_property
    def _found(self) -> tuple[Module, Definition | ast.ClassDef, Definition] | None:
        """The module with the target, the target, and what takes the question."""
        return self._find_function() or self._find_class()

    def _find_function(self) -> tuple[Module, Definition, Definition] | None:
        for source in self._modules():
            functions = {
                statement.name: statement
                for statement in source.tree.body
                if isinstance(statement, Definition) and self._takes_question(statement)
            }
            for name in self._FUNCTIONS:
                if name in functions:
                    return source, functions[name], functions[name]
        return None

    def _find_class(self) -> tuple[Module, ast.ClassDef, Definition] | None:
        """Return a class that is made without arguments, and its method for a question."""
        from ci_evals.providers.python import AGENT_METHODS

        for source in self._modules():
            for statement in source.tree.body:
                # What an inherited or a decorated `__init__` takes is not known.
                if not isinstance(statement, ast.ClassDef):
                    continue
                if statement.bases or statement.keywords or statement.decorator_list:
                    continue
                methods = {
                    inner.name: inner for inner in statement.body if isinstance(inner, Definition)
                }
                init = methods.get("__init__")
                if init is not None and len(self._required(init)) > 1:
                    continue
                for name in AGENT_METHODS:
                    if name in methods and self._takes_question(methods[name], is_method=True):
                        return source, statement, methods[name]
        return None

    def _modules(self) -> Iterator[Module]:
        """Yield the sources with a likely name, the likeliest first."""
        for module in self._MODULES:
            for source in self._sources:
                if source.module.rpartition(".")[2] == module:
                    yield source

    @cached_property
    def web_app(self) -> WebApp | None:
        """The web app in its sources; None if there is none."""
        return find_web_app(self._sources) or self._node_app

    @cached_property
    def _node_app(self) -> WebApp | None:
        return find_node_app(self.code)

    def _required(self, function: Definition) -> list[ast.arg]:
        """Return the positional parameters without a default."""
        positional = [*function.args.posonlyargs, *function.args.args]
        return positional[: len(positional) - len(function.args.defaults)]

    def _takes_question(self, function: Definition, *, is_method: bool = False) -> bool:
        """Return True if a function can be called with a text and nothing else."""
        if function.decorator_list or None in function.args.kw_defaults:
            return False
        required = self._required(function)
        if is_method:
            required = required[1:]
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
        if self.target is None and self.web_app is self._node_app:
            return install_command(self.code, shlex.quote(inside))
        if (self.code / "requirements.txt").is_file():
            path = PurePosixPath(inside, "requirements.txt").as_posix()
            return f"pip install -r {shlex.quote(path)}"
        # Into the Python of ci-evals, not an environment of their own, which it would not see.
        there = ""
        if inside != ".":
            there = f" --directory {shlex.quote(inside)}"
        if (self.code / "uv.lock").is_file():
            export = f"uv export{there} --frozen --no-emit-project --no-hashes"
            return f"pip install uv && {export} | pip install -r /dev/stdin"
        if "[tool.poetry" in self._needs or (self.code / "poetry.lock").is_file():
            poetry = f"POETRY_VIRTUALENVS_CREATE=false poetry install{there} --no-root"
            return f"pip install poetry && {poetry}"
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
