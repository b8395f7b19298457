"""`ci-evals init`: writes the first suite and workflow of a project, to fit its code."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distribution
from pathlib import Path, PurePath, PurePosixPath
from pkgutil import resolve_name
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import click
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ci_evals import templating
from ci_evals.cli.console import Console, environment
from ci_evals.cli.project import GITLAB_FILE, Project, key_variables, read_file
from ci_evals.cli.web_apps import WebApp
from ci_evals.errors import ConfigError, Problem, StorageError
from ci_evals.files import write_atomically
from ci_evals.git import ask_git
from ci_evals.model.report import STAND_IN
from ci_evals.registry import IMPORTING, is_installed, missing_clause
from ci_evals.release import ACTION
from ci_evals.suite.configs import DEFAULT_NAMES
from ci_evals.suite.load import load_suite
from ci_evals.suite.types import RESULTS
from ci_evals.user_code.targets import target_parts

_GITHUB_FILE = Path(".github/workflows/evals.yml")
_GITLAB_INCLUDED = Path(".gitlab/evals.yml")
# Small models: a first run should cost next to nothing.
_MODELS = {"openai": "gpt-4o-mini", "anthropic": "claude-haiku-4-5", "gemini": "gemini-2.5-flash"}
_QUESTION = f"""\
What should the evals call? There is no function such as `answer` in agent.py and no web app here.
  a function: support.agent:answer
  a service:  http://localhost:8000/chat
  a command:  node agent.js
  a model:    {", ".join(_MODELS)}
  nothing yet: press Enter for canned answers
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(folder: Path) -> None:
    """Write a suite and a workflow that fit the project.

    evals.yaml goes into FOLDER (default: here), a workflow into the repository's .github (on
    GitLab, a job into .gitlab-ci.yml), and the results folder into .gitignore. A
    promptfooconfig.yaml in FOLDER is imported, a function such as `answer` in agent.py is called, a
    FastAPI, Flask or Node.js app is started and sent the questions, skills of an agent (SKILL.md)
    get their evals, and the workflow gets the keys that the project names. If there is none of
    these, init asks in a terminal what to call. Without a reply, the suite gets canned answers: it
    runs at once, but the workflow fails until you replace them.

    No file is overwritten.
    """
    project = Project(folder)
    kind = _find_workflow(project)
    workflow = project.root / kind.file
    try:
        for needed in (folder, workflow.parent):
            needed.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{needed}: cannot create this folder: {error.strerror}") from error

    suite = project.suite or folder / DEFAULT_NAMES[0]
    target = None
    is_demo = False
    if project.suite:
        _say(f"kept: {suite.as_posix()}")
    elif source := _find_source(project):
        _import_suite(suite, source, folder)
    else:
        target = _find_target(project) or _ask_for_target()
        is_demo = target is None
        _write_suite(suite, project, target)
    _ignore_results(folder / ".gitignore")
    named = _keys_of(suite) + project.keys
    keys = list(dict.fromkeys(named))
    is_kept = workflow.exists()
    if is_kept:
        _say(f"kept: {workflow.as_posix()}")
    else:
        _write_workflow(workflow, kind.template, project, keys, is_demo=is_demo)

    problems = _problems(suite)
    if target is not None and target.to_do:
        problems.insert(0, f"{suite.as_posix()}:{_line_of('url:', suite)}: {target.to_do}")
    if problems:
        _say("\n  ".join(["still to do before it runs:", *problems]))
    _say_next_steps(suite, project)
    if is_demo:
        _warn_of_canned_answers(suite, has_own_workflow=is_kept)
    if kind.to_do and not is_kept:
        _say(f"before you push, {kind.to_do}")
    if keys and not is_kept:
        _say(f"before you push, add these {kind.place_of_keys}:\n  {', '.join(keys)}")
    if ACTION in read_file(workflow):
        _say(
            f"before you push, replace this placeholder in {workflow.as_posix()}\n"
            f"with the repository of ci-evals and a commit of it:\n  {ACTION}"
        )


@dataclass(frozen=True, slots=True)
class _Workflow:
    """The file that runs the evals on the CI system of a project.

    Args:
        file: its path from the root of the repository.
        template: the file of `templates/init` that it is made of.
        place_of_keys: what keys are there, and where they are added.
        to_do: what must be completed by hand; empty if nothing.
    """

    file: Path
    template: str
    place_of_keys: str
    to_do: str = ""


def _find_workflow(project: Project) -> _Workflow:
    if not project.is_on_gitlab:
        return _Workflow(_GITHUB_FILE, "workflow.yml", "secrets to the repository")
    file = Path(GITLAB_FILE)
    to_do = ""
    existing = project.root / GITLAB_FILE
    if existing.exists() and "ci-evals" not in read_file(existing):
        file = _GITLAB_INCLUDED
        to_do = f"add this to {GITLAB_FILE}:\n  include: {{local: {file.as_posix()}}}"
    keys = "masked CI/CD variables to the project"
    return _Workflow(file, "gitlab-ci.yml", keys, to_do)


def _say_next_steps(suite: Path, project: Project) -> None:
    steps = ["next:"]
    if project.folder != Path():
        steps.append(f'cd "{project.folder.as_posix()}"')
    steps.append("ci-evals run")
    if project.has_pytest:
        steps.append(
            f"pytest {suite.relative_to(project.folder).as_posix()}   (its cases as tests)"
        )
    _say("\n  ".join(steps))


def _warn_of_canned_answers(suite: Path, *, has_own_workflow: bool) -> None:
    consequence = "so the workflow fails until you replace them"
    if has_own_workflow:
        consequence = "so replace them before you push"
    line = _line_of("type: mock", suite)
    remedy = "write your function, service or command here"
    place = f"{suite.as_posix()}:{line}"
    _say(f"canned answers don't test your code, {consequence}:\n  {place}: {remedy}")


def _say(text: str) -> None:
    Console.of_process().print(text)


def _installed_action() -> str | None:
    """Return the action for a workflow to use, `OWNER/NAME@COMMIT`.

    It is the source from which this ci-evals was installed; None if that is not a commit on GitHub.
    """
    origin = json.loads(distribution("ci-evals").read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    if url.startswith("file:"):
        clone = Path(url2pathname(urlsplit(url).path))
        url = ask_git("remote", "get-url", "origin", folder=clone)
        commit = ask_git("rev-parse", "HEAD", folder=clone)
        if not ask_git("branch", "--remotes", "--contains", commit, folder=clone):
            return None  # the commit was never pushed
    repository = re.fullmatch(
        r"(?:(?:https|ssh)://(?:[^/@]+@)?|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?", url
    )
    if repository is None or not re.fullmatch(r"[0-9a-f]{40}", commit):
        return None
    return f"{repository[1]}@{commit}"


@dataclass(frozen=True, slots=True)
class _Target:
    """The provider of the new suite.

    Args:
        name: its name for people.
        remark: a comment for the suite file.
        settings: the entry in `providers`.
        pythonpath: the folder to import it from; None if none has to be named.
        to_do: what must be completed by hand; empty if nothing.
    """

    name: str
    remark: str
    settings: Mapping[str, Any]
    pythonpath: str | None = None
    to_do: str = ""


_FUNCTION = "Your own code: it is called with the input of a case, and returns the answer."
_SERVICE = "Your own service: it is started for the run, and sent the input of a case."
_COMPLETE_ROUTE = "write the path, `body` and `output` of the route that answers"


def _find_source(project: Project) -> Path | None:
    """Return a file to import the suite from: a config of another tool, or a skill where no code
    answers.
    """
    if project.foreign is not None:
        return project.foreign
    skill = project.skill
    if skill is not None and _find_target(project) is None:
        return skill
    return None


def _find_target(project: Project) -> _Target | None:
    """Return the function or web app of a project that can be asked; None if none is found.

    A web app's route is preferred to a function without annotations, because it shows more of what
    an answer is.
    """
    app = project.web_app
    has_route = app is not None and app.has_route
    if project.target is not None and (project.target_returns_text or not has_route):
        found = _call(project.target, project.pythonpath)
        if project.target_is_class:
            return replace(found, settings={**found.settings, "factory": True})
        return found
    if app is not None:
        return _start(app, os.path.relpath(project.code, project.folder))
    return None


def _ask_for_target() -> _Target | None:
    """Ask the user what to call; None without a terminal or a reply."""
    if not sys.stdin.isatty():
        return None
    _say(_QUESTION)
    text: str = click.prompt("what to call", default="", show_default=False, err=True).strip()
    if not text:
        return None
    if target_parts(text) is not None:
        return _call(text, None)
    if text in _MODELS:
        (key,) = key_variables(text)
        settings = {"type": text, "model": _MODELS[text], "api_key": f"${{{key}}}"}
        return _Target(text, "A model API.", {"name": text, **settings})
    if text.startswith(("http://", "https://")):
        settings = {"name": "service", "type": "http", "url": text}
        remark = "Your own service: it is sent the input of a case."
        return _Target(text, remark, settings, to_do=_COMPLETE_ROUTE)
    remark = "Your own program: it gets the case as JSON on stdin, and prints the answer."
    return _Target(text, remark, {"name": "program", "type": "command", "command": text})


def _call(target: str, pythonpath: str | None) -> _Target:
    settings = {"name": "agent", "type": "python", "target": target}
    return _Target(target, _FUNCTION, settings, pythonpath)


def _start(app: WebApp, cwd: str) -> _Target:
    to_do = ""
    if not app.has_route:
        to_do = _COMPLETE_ROUTE
    url = f"http://127.0.0.1:{app.port}"
    settings: dict[str, Any] = {"name": "service", "type": "http", "url": f"{url}{app.path}"}
    if app.method != "POST":
        settings["method"] = app.method
    if app.body is not None:
        settings["body"] = app.body
    if app.output is not None:
        settings["output"] = app.output
    serve: dict[str, Any] = {"command": app.command, "url": url}
    if cwd != ".":
        serve["cwd"] = PurePath(cwd).as_posix()
    if app.env:
        serve["env"] = dict(app.env)
    settings["serve"] = serve
    return _Target(app.name, _SERVICE, settings, to_do=to_do)


def _import_suite(path: Path, foreign: Path, folder: Path) -> None:
    """Write a suite and its files from the config of another tool."""
    if not is_installed(IMPORTING["import"]):
        text = f"importing it {missing_clause(IMPORTING['import'])}"
        raise ConfigError([Problem(foreign.as_posix(), None, "", text)])
    import_suite = resolve_name(IMPORTING["import"])
    suite_text = resolve_name(IMPORTING["write"])
    draft = import_suite([foreign], folder)
    _write(path, suite_text(draft, [foreign]), f"from {foreign.name}")
    for name, text in draft.files.items():
        if not (path.parent / name).exists():
            _write(path.parent / name, text)
    for lost in draft.lost:
        _say(f"not imported: {lost}")


def _write_suite(path: Path, project: Project, target: _Target | None) -> None:
    vendor = "openai"
    if project.vendors:
        vendor = project.vendors[0]
    (key,) = key_variables(vendor)
    model = {"type": vendor, "model": _MODELS[vendor], "key": key}
    asked = STAND_IN
    settings = {}
    if target is not None:
        asked = target.name
        for name, value in target.settings.items():
            settings[name] = _on_one_line(value)
    name = json.dumps(project.name, ensure_ascii=False)
    text = _render(
        "evals.yaml",
        name=name,
        target=target,
        settings=settings,
        model=model,
        stand_in=STAND_IN,
    )
    _write(path, text, f"asks {asked}")


def _on_one_line(value: Any) -> str:
    """Return a value as YAML."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=sys.maxsize
    )
    return text.removesuffix("...\n").strip()  # PyYAML ends a document of one scalar with `...`


def _line_of(text: str, suite: Path) -> int:
    """Return the number of the first line of a suite that has a text."""
    lines = read_file(suite).splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def _write_workflow(
    path: Path, template: str, project: Project, keys: Sequence[str], *, is_demo: bool
) -> None:
    demo = ""
    if is_demo:
        demo = shlex.quote(PurePosixPath(project.inside, DEFAULT_NAMES[0]).as_posix())
    text = _render(
        template,
        branch=project.branch,
        inside=project.inside,
        quoted=shlex.quote(project.inside),
        results=PurePosixPath(project.inside, RESULTS).as_posix(),
        install=project.install,
        keys=keys,
        demo=demo,
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
    """Render a file of `templates/init`.

    The delimiters differ from Jinja2's, because `{{ … }}` is used by suites and by GitHub.
    """
    environment = Environment(  # noqa: S701  makes no HTML
        loader=FileSystemLoader(templating.folder() / "init"),
        undefined=StrictUndefined,
        block_start_string="#%",
        block_end_string="%#",
        trim_blocks=True,
        variable_start_string="<<",
        variable_end_string=">>",
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)


def _ignore_results(path: Path) -> None:
    """Add the results folder to .gitignore, once."""
    text = read_file(path)
    lines = [line.strip().strip("/") for line in text.splitlines()]
    if RESULTS in lines or ask_git("check-ignore", f"{RESULTS}/report.json", folder=path.parent):
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
    """Return the variables that a suite names, and the ones that its model APIs read by default."""
    named: list[str] = []
    used: list[str] = []
    for line in read_file(suite).splitlines():
        content, _, _ = line.partition("#")
        named += re.findall(r"\$\{([A-Z][A-Z0-9_]*)", content)
        for kind in re.findall(r"\btype: ([\w-]+)|([a-z]+):\S", content):
            used += key_variables("".join(kind))
    return named + used


def _problems(suite: Path) -> list[str]:
    try:
        load_suite(suite, environment())
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []
