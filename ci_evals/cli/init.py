"""`ci-evals init`: the first suite and workflow of a project, made to fit what is there."""

import ast
import json
import os
import re
import shlex
from functools import cached_property
from importlib.metadata import distribution
from importlib.util import find_spec
from io import StringIO
from pathlib import Path, PurePosixPath
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
_KEYS = {
    kind: cls.default_key_variable
    for kind, cls in PROVIDERS.items()
    if issubclass(cls, ModelOptions)
}
_MODELS = {"openai": "gpt-4o-mini", "anthropic": "claude-haiku-4-5", "gemini": "gemini-2.5-flash"}
_VARIABLE = re.compile(r"^[^#\n]*?\$\{([A-Z][A-Z0-9_]*)", re.MULTILINE)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(folder: Path) -> None:
    """Write a suite and a workflow that fit the project.

    evals.yaml and a GitHub workflow go into FOLDER (default: here), the results folder into
    .gitignore. What is found there decides: a promptfooconfig.yaml is imported, a function such as
    `answer` in agent.py is called, and the workflow gets the keys that the project names. Where
    there is neither, a table of answers is asked, so that the suite runs at once: no key, no
    network.

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
    keys = list(dict.fromkeys((*_keys_of(suite), *project.keys)))
    if is_kept := workflow.exists():
        _say(f"kept: {workflow.as_posix()}")
    else:
        text = _render(
            "workflow.yml",
            branch=project.branch,
            inside=project.inside,
            install=project.install,
            keys=keys,
        )
        action = _installed_action()
        _write(workflow, text.replace(ACTION, action or ACTION), f"uses {action}" if action else "")

    if problems := _problems(suite):
        _say("\n  ".join(["still to do before it runs:", *problems]))
    there = [] if folder == Path() else [f'cd "{folder.as_posix()}"']
    tests = (
        [f"pytest {suite.relative_to(folder).as_posix()}   (its cases as tests)"]
        if project.has_pytest
        else []
    )
    _say("\n  ".join(["next:", *there, "ci-evals run", *tests]))
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
    """Return a text; that of a file which cannot be read, and of none, is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class _Project:
    """A folder, as far as its files tell; none of its code is run."""

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
        """The suite that is there already."""
        places = (
            place / name
            for place in (self.folder, self.folder / ".github")
            for name in DEFAULT_NAMES
        )
        return next((each for each in places if each.exists()), None)

    @property
    def foreign(self) -> Path | None:
        """The config of another tool."""
        return next(
            (self.folder / name for name in FOREIGN_NAMES if (self.folder / name).is_file()), None
        )

    @cached_property
    def target(self) -> str | None:
        """A function that takes a question, as `module:function`."""
        files = {name: self.folder / f"{name}.py" for name in self._MODULES}
        for package in sorted(
            (*self.folder.glob("*/__init__.py"), *self.folder.glob("src/*/__init__.py"))
        ):
            name = package.parent.name
            in_place = (
                package.parent.parent.name != "src"
            )  # from there it is imported once it is installed
            if name.isidentifier() and (in_place or find_spec(name)):
                files |= {
                    f"{name}.{each}": package.with_name(f"{each}.py") for each in self._MODULES
                }
        for module, file in files.items():
            try:
                defined = ast.parse(file.read_bytes()).body
            except (OSError, SyntaxError, ValueError):
                continue
            functions = (
                each for each in defined if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            known = {each.name for each in functions if self._takes_question(each)}
            if found := next((each for each in self._FUNCTIONS if each in known), None):
                return f"{module}:{found}"
        return None

    def _takes_question(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Return True if a function can be called with a text and nothing else."""
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        required = positional[: len(positional) - len(given.defaults)]
        if function.decorator_list or len(required) != 1 or None in given.kw_defaults:
            return False
        kind = ast.unparse(required[0].annotation) if required[0].annotation else "str"
        return required[0].arg not in self._NO_QUESTIONS and kind.strip("\"'").startswith(
            ("str", "Any", "object")
        )

    @cached_property
    def vendors(self) -> list[str]:
        """The provider types of the model APIs that it depends on."""
        found = self._PACKAGES.findall(self._needs)
        return list(dict.fromkeys(openai or anthropic or "gemini" for openai, anthropic in found))

    @property
    def keys(self) -> list[str]:
        """The variables with keys that the project names."""
        texts = (
            _read(self.folder / f".env{end}") for end in (".example", ".sample", ".template", "")
        )
        named = [
            name
            for text in texts
            for name in dotenv_values(stream=StringIO(text), interpolate=False)
        ]
        return [*filter(self._KEY_NAME.fullmatch, named), *(_KEYS[each] for each in self.vendors)]

    @property
    def install(self) -> str | None:
        """The command that installs what its code needs."""
        if self.target is None:
            return None
        if (self.folder / "requirements.txt").is_file():
            return f"pip install -r {shlex.quote((PurePosixPath(self.inside) / 'requirements.txt').as_posix())}"
        is_package = re.search(r"^\[(project|build-system)\]", self._needs, re.MULTILINE)
        return (
            f"pip install {'.' if self.inside == '.' else shlex.quote(f'./{self.inside}')}"
            if is_package
            else None
        )

    @property
    def has_pytest(self) -> bool:
        files = ("pytest.ini", "conftest.py", "tests/conftest.py")
        return "pytest" in self._needs or any((self.folder / name).exists() for name in files)

    @property
    def branch(self) -> str:
        """The default branch: the remote's, else a usual one that exists, else the one that is
        checked out.
        """
        remote = git(
            "symbolic-ref", "--short", "refs/remotes/origin/HEAD", folder=self.folder
        ).removeprefix("origin/")
        usual = git(
            "for-each-ref",
            "--format=%(refname:short)",
            "refs/heads/main",
            "refs/heads/master",
            folder=self.folder,
        )
        found = (
            remote
            or usual.partition("\n")[0]
            or git("symbolic-ref", "--short", "HEAD", folder=self.folder)
        )
        return found if re.fullmatch(r"[\w./-]+", found) else "main"


def _installed_action() -> str | None:
    """Return where this ci-evals was installed from, if that is a commit on GitHub: what a workflow
    can `use`.
    """
    origin = json.loads(distribution("ci-evals").read_text("direct_url.json") or "{}")
    url, commit = origin.get("url", ""), origin.get("vcs_info", {}).get("commit_id", "")
    if url.startswith("file:"):
        clone = Path(url2pathname(urlsplit(url).path))
        url, commit = (
            git("remote", "get-url", "origin", folder=clone),
            git("rev-parse", "HEAD", folder=clone),
        )
        if not git("branch", "--remotes", "--contains", commit, folder=clone):
            return None  # nobody else has it
    named = re.fullmatch(
        r"(?:(?:https|ssh)://(?:[^/@]+@)?|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?", url
    )
    return f"{named[1]}@{commit}" if named and re.fullmatch(r"[0-9a-f]{40}", commit) else None


def _write_suite(path: Path, project: _Project) -> None:
    if project.foreign:
        draft = IMPORTING["import"]([project.foreign], project.folder)
        text = IMPORTING["write"](draft, [project.foreign])
        _write(path, text, f"from {project.foreign.name}")
        for name, text in draft.files.items():
            if not (path.parent / name).exists():
                _write(path.parent / name, text)
        for lost in draft.lost:
            _say(f"not imported: {lost}")
        return
    vendor = next(iter(project.vendors), "openai")
    model = {"type": vendor, "model": _MODELS[vendor], "key": _KEYS[vendor]}
    name = json.dumps(project.name, ensure_ascii=False)
    text = _render("evals.yaml", name=name, target=project.target, model=model)
    _write(path, text, f"asks {project.target}" if project.target else "asks a table of answers")


def _write(path: Path, text: str, remark: str = "") -> None:
    write_atomically(path, [text.encode()])
    _say(f"written: {path.as_posix()}{f' ({remark})' if remark else ''}")


def _render(template: str, **values: object) -> str:
    """Render a file of `templates/init`, whose syntax leaves that of YAML and GitHub alone."""
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
    if RESULTS in (line.strip().strip("/") for line in text.splitlines()) or git(
        "check-ignore", f"{RESULTS}/report.json", folder=path.parent
    ):
        return
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{RESULTS}/\n" if text.endswith("\n") or not text else f"\n{RESULTS}/\n")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    _say(f"{'added to' if text else 'written'}: {path.as_posix()} ({RESULTS}/)")


def _keys_of(suite: Path) -> list[str]:
    """Return the variables that a suite names, and those that its model APIs read."""
    text = _read(suite)
    used = [
        name
        for kind, name in _KEYS.items()
        if re.search(rf"^[^#\n]*\btype: {kind}\b", text, re.MULTILINE)
    ]
    return [*_VARIABLE.findall(text), *used]


def _problems(suite: Path) -> list[str]:
    try:
        load_suite(suite, environment())
    except ConfigError as error:
        return list(map(str, error.problems))
    return []
