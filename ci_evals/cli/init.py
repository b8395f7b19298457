"""`ci-evals init`: the first suite and workflow of a project, made to fit what is there."""

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import distribution
from importlib.util import find_spec
from io import StringIO
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from urllib.parse import urlsplit
from urllib.request import url2pathname

import click
from dotenv import dotenv_values
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ci_evals import templating
from ci_evals.cli.console import Console, environment, git
from ci_evals.errors import ConfigError, StorageError
from ci_evals.files import write_atomically
from ci_evals.providers.model_api import ModelOptions
from ci_evals.registry import IMPORTING, PROVIDERS
from ci_evals.release import ACTION
from ci_evals.suite.configs import DEFAULT_NAMES, FOREIGN_NAMES
from ci_evals.suite.load import load_suite
from ci_evals.suite.types import RESULTS

_WORKFLOW = Path(".github/workflows/evals.yml")
_MODELS = {"openai": "gpt-4o-mini", "anthropic": "claude-haiku-4-5", "gemini": "gemini-2.5-flash"}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(folder: Path) -> None:
    """Write a suite and a workflow that fit the project.

    evals.yaml and a GitHub workflow go into FOLDER (default: here), the results folder into
    .gitignore. A promptfooconfig.yaml found there is imported, a function such as `answer` in
    agent.py is called, and the workflow gets the keys that the project names. If there is neither,
    the suite uses a mock provider, so that it runs at once without a key or a network.

    No file is overwritten.
    """
    project = _Project(folder)
    workflow = project.root / _WORKFLOW
    try:
        for each in (folder, workflow.parent):
            each.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{each}: this folder cannot be made: {error.strerror}") from error

    suite = project.suite or folder / DEFAULT_NAMES[0]
    if project.suite:
        _say(f"kept: {suite.as_posix()}")
    else:
        _write_suite(suite, project)
    _ignore_results(folder / ".gitignore")
    named = _keys_of(suite) + project.keys
    keys = list(dict.fromkeys(named))
    is_kept = workflow.exists()
    if is_kept:
        _say(f"kept: {workflow.as_posix()}")
    else:
        _write_workflow(workflow, project, keys)

    problems = _problems(suite)
    if problems:
        _say("\n  ".join(["still to do before it runs:", *problems]))
    steps = ["next:"]
    if folder != Path():
        steps.append(f'cd "{folder.as_posix()}"')
    steps.append("ci-evals run")
    if project.has_pytest:
        steps.append(f"pytest {suite.relative_to(folder).as_posix()}   (its cases as tests)")
    _say("\n  ".join(steps))
    if keys and not is_kept:
        _say(f"before you push, make these secrets of the repository:\n  {', '.join(keys)}")
    if ACTION in _read(workflow):
        _say(
            f"before you push, replace this placeholder in {workflow.as_posix()}\n"
            f"with the repository of ci-evals and a commit of it:\n  {ACTION}"
        )


def _say(text: str) -> None:
    Console.of_process().print(text)


def _read(path: Path) -> str:
    """Return the text of a file; empty if it is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class _Project:
    """A project's folder, known by its files only: none of its code is run."""

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
        here = folder.resolve()
        home = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
        self.name = here.name or "my app"
        self.inside = here.relative_to(home).as_posix()
        self.root = Path(os.path.normpath(folder / os.path.relpath(home, here)))
        self._needs = "\n".join(_read(folder / name) for name in self._DEPENDENCIES)

    @property
    def suite(self) -> Path | None:
        """The suite that exists already."""
        for folder in (self.folder, self.folder / ".github"):
            for name in DEFAULT_NAMES:
                if (folder / name).exists():
                    return folder / name
        return None

    @property
    def foreign(self) -> Path | None:
        """The config of another tool."""
        for name in FOREIGN_NAMES:
            if (self.folder / name).is_file():
                return self.folder / name
        return None

    @cached_property
    def target(self) -> str | None:
        """A function that takes a question, as `module:function`."""
        for module, file in self._modules():
            try:
                statements = ast.parse(file.read_bytes()).body
            except (OSError, SyntaxError, ValueError):
                continue
            functions = {
                statement.name
                for statement in statements
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
                and self._takes_question(statement)
            }
            for name in self._FUNCTIONS:
                if name in functions:
                    return f"{module}:{name}"
        return None

    def _modules(self) -> Iterator[tuple[str, Path]]:
        """Yield the modules that may hold the target, and their files, which need not exist."""
        for name in self._MODULES:
            yield name, self.folder / f"{name}.py"
        packages = [*self.folder.glob("*/__init__.py"), *self.folder.glob("src/*/__init__.py")]
        for package in sorted(packages):
            folder = package.parent
            if not folder.name.isidentifier():
                continue
            # A package in `src` can be imported only once it is installed.
            if folder.parent.name == "src" and not find_spec(folder.name):
                continue
            for name in self._MODULES:
                yield f"{folder.name}.{name}", folder / f"{name}.py"

    def _takes_question(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
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
        """The variables with keys that the project names."""
        keys: list[str] = []
        for end in (".example", ".sample", ".template", ""):
            text = _read(self.folder / f".env{end}")
            names = dotenv_values(stream=StringIO(text), interpolate=False)
            keys += filter(self._KEY_NAME.fullmatch, names)
        for vendor in self.vendors:
            keys += _key_variables(vendor)
        return keys

    @property
    def install(self) -> str | None:
        """The command that installs what its code needs."""
        if self.target is None:
            return None
        if (self.folder / "requirements.txt").is_file():
            path = PurePosixPath(self.inside, "requirements.txt").as_posix()
            return f"pip install -r {shlex.quote(path)}"
        if not re.search(r"^\[(project|build-system)\]", self._needs, re.MULTILINE):
            return None
        if self.inside == ".":
            return "pip install ."
        return f"pip install {shlex.quote(f'./{self.inside}')}"

    @property
    def has_pytest(self) -> bool:
        if "pytest" in self._needs:
            return True
        files = ("pytest.ini", "conftest.py", "tests/conftest.py")
        return any((self.folder / name).exists() for name in files)

    @property
    def branch(self) -> str:
        """The default branch: the remote's, else main or master, else the current branch."""
        remote = git("symbolic-ref", "--short", "refs/remotes/origin/HEAD", folder=self.folder)
        branch = remote.removeprefix("origin/")
        if not branch:
            names = ("refs/heads/main", "refs/heads/master")
            usual = git("for-each-ref", "--format=%(refname:short)", *names, folder=self.folder)
            branch = usual.partition("\n")[0]
        if not branch:
            branch = git("symbolic-ref", "--short", "HEAD", folder=self.folder)
        if not re.fullmatch(r"[\w./-]+", branch):
            return "main"
        return branch


def _installed_action() -> str | None:
    """Return the action for a workflow to use, `OWNER/NAME@COMMIT`.

    It is where this ci-evals was installed from; None if that is not a commit on GitHub.
    """
    origin = json.loads(distribution("ci-evals").read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    if url.startswith("file:"):
        clone = Path(url2pathname(urlsplit(url).path))
        url = git("remote", "get-url", "origin", folder=clone)
        commit = git("rev-parse", "HEAD", folder=clone)
        if not git("branch", "--remotes", "--contains", commit, folder=clone):
            return None  # the commit was never pushed
    repository = re.fullmatch(
        r"(?:(?:https|ssh)://(?:[^/@]+@)?|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?", url
    )
    if repository is None or not re.fullmatch(r"[0-9a-f]{40}", commit):
        return None
    return f"{repository[1]}@{commit}"


def _write_suite(path: Path, project: _Project) -> None:
    if project.foreign:
        import_suite = resolve_name(IMPORTING["import"])
        suite_text = resolve_name(IMPORTING["write"])
        draft = import_suite([project.foreign], project.folder)
        text = suite_text(draft, [project.foreign])
        _write(path, text, f"from {project.foreign.name}")
        for name, text in draft.files.items():
            if not (path.parent / name).exists():
                _write(path.parent / name, text)
        for lost in draft.lost:
            _say(f"not imported: {lost}")
        return
    vendor = "openai"
    if project.vendors:
        vendor = project.vendors[0]
    (key,) = _key_variables(vendor)
    model = {"type": vendor, "model": _MODELS[vendor], "key": key}
    name = json.dumps(project.name, ensure_ascii=False)
    text = _render("evals.yaml", name=name, target=project.target, model=model)
    target = project.target or "a table of answers"
    _write(path, text, f"asks {target}")


def _write_workflow(path: Path, project: _Project, keys: Sequence[str]) -> None:
    text = _render(
        "workflow.yml",
        branch=project.branch,
        inside=project.inside,
        install=project.install,
        keys=keys,
    )
    action = _installed_action()
    if action is None:
        _write(path, text)
    else:
        _write(path, text.replace(ACTION, action), f"uses {action}")


def _write(path: Path, text: str, remark: str = "") -> None:
    write_atomically(path, [text.encode()])
    line = f"written: {path.as_posix()}"
    if remark:
        line += f" ({remark})"
    _say(line)


def _render(template: str, **values: object) -> str:
    """Render a file of `templates/init`. Their syntax doesn't collide with YAML's or GitHub's."""
    environment = Environment(  # noqa: S701  makes no HTML
        loader=FileSystemLoader(templating.folder() / "init"),
        undefined=StrictUndefined,
        line_statement_prefix="#%",
        variable_start_string="<<",
        variable_end_string=">>",
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)


def _ignore_results(path: Path) -> None:
    """Add the results folder to .gitignore, once."""
    text = _read(path)
    lines = [line.strip().strip("/") for line in text.splitlines()]
    if RESULTS in lines or git("check-ignore", f"{RESULTS}/report.json", folder=path.parent):
        return
    addition = f"{RESULTS}/\n"
    if text and not text.endswith("\n"):
        addition = f"\n{addition}"
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(addition)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    if text:
        _say(f"added to: {path.as_posix()} ({RESULTS}/)")
    else:
        _say(f"written: {path.as_posix()} ({RESULTS}/)")


def _keys_of(suite: Path) -> list[str]:
    """Return the variables that a suite names, and those that its model APIs read by default."""
    named: list[str] = []
    used: list[str] = []
    for line in _read(suite).splitlines():
        content, _, _ = line.partition("#")
        named += re.findall(r"\$\{([A-Z][A-Z0-9_]*)", content)
        for kind in re.findall(r"\btype: ([\w-]+)", content):
            used += _key_variables(kind)
    return named + used


def _key_variables(kind: str) -> list[str]:
    """Return the variable from which a provider of this type reads its key; none if it needs none.

    Imports that provider alone.
    """
    options = PROVIDERS.get(kind)
    if options is None or not issubclass(options, ModelOptions):
        return []
    return [options.default_key_variable]


def _problems(suite: Path) -> list[str]:
    try:
        load_suite(suite, environment())
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []
