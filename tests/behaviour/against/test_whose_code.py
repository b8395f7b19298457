"""Each side runs its own code, however the team lays out and installs it."""

import shutil
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled, report_in
from repositories import (
    APPLE,
    REAL,
    RESULTS,
    Repository,
    against_main,
    agent_of,
    repository_with_agent,
    sides,
)
from suites import AGENT, write_files, write_suite_file

import ci_evals

SETUPTOOLS = '[project]\nname = "bot"\nversion = "1"\n'
HELPED = """
import helper

def answer(question):
    return helper.reply(question)
"""
LAZY = """
def answer(question):
    from later import reply

    return reply(question)
"""
PROGRAM = """
import json, sys
print(json.load(sys.stdin)["input"] + ", says WHO")
"""
PROGRAM_WITH_PACKAGE = """
import json, sys
from bot import reply
print(reply(json.load(sys.stdin)["input"]))
"""
JAVASCRIPT = """
const who = require("./who.cjs");
module.exports = (question) => `${question}, says ${who}`;
"""
NODE = """
const { input } = JSON.parse(require("fs").readFileSync(0));
console.log(`${input}, says ${require("./who.cjs")}`);
"""
MOVING = """
import os
from pathlib import Path

os.chdir(Path(__file__).parent)
"""
FINDER = """
import sys
from importlib.machinery import all_suffixes
from importlib.util import spec_from_file_location
from itertools import chain
from pathlib import Path

MAPPING = {mapping!r}


class _EditableFinder:  # as setuptools writes it
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        for name, place in MAPPING.items():
            if fullname == name or fullname.startswith(f"{{name}}."):
                rest = fullname.replace(name, "", 1).strip(".").split(".")
                return cls._find_spec(fullname, Path(place, *rest))
        return None

    @classmethod
    def _find_spec(cls, fullname, candidate):
        init = candidate / "__init__.py"
        files = (candidate.with_suffix(suffix) for suffix in all_suffixes())
        for file in chain([init], files):
            if file.exists():
                return spec_from_file_location(fullname, file)
        return None


def install():
    sys.meta_path.append(_EditableFinder)
"""


def reply_of(who: str) -> str:
    return agent_of(who).replace("answer", "reply")


@dataclass(frozen=True)
class Layout:
    """Where a team has its code.

    Args:
        name: the test's.
        files: the files of one side.
        target: what the provider calls; empty if `provider` says it.
        suite: the path of the suite.
        folder: where the command runs, from the root.
        arguments: of the command; {root} is the repository.
        pythonpath: what `PYTHONPATH` has; {root} is the repository.
        mapping: the packages that setuptools has installed by an import hook.
    """

    name: str
    files: Callable[[str], Mapping[str, str]]
    target: str = "agent:answer"
    suite: str = "evals.yaml"
    folder: str = "."
    arguments: tuple[str, ...] = ()
    pythonpath: str = ""
    mapping: Mapping[str, str] | None = None
    provider: Mapping[str, Any] | None = None

    def write_into(self, repository: Repository, who: str) -> None:
        """Write what one side has."""
        provider = self.provider or {**AGENT, "target": self.target}
        write_suite_file(
            repository.folder / self.suite, name="shop", cases=[APPLE], providers=[provider]
        )
        repository.write(self.files(who))

    def environment(self, repository: Repository, outside: Path) -> Mapping[str, str]:
        """Return the variables that make the installed code found."""
        root = str(repository.folder)
        if self.mapping is None:
            return {"PYTHONPATH": self.pythonpath.format(root=root)} if self.pythonpath else {}
        mapping = {name: f"{root}/{place}" for name, place in self.mapping.items()}
        outside.mkdir()
        (outside / "__editable___bot_1_finder.py").write_text(FINDER.format(mapping=mapping))
        (outside / "sitecustomize.py").write_text(
            "import __editable___bot_1_finder\n__editable___bot_1_finder.install()\n"
        )
        return {"PYTHONPATH": str(outside)}


LAYOUTS = (
    Layout("flat", lambda who: {"agent.py": agent_of(who)}),
    Layout(
        "two modules",
        lambda who: {"agent.py": HELPED, "helper.py": reply_of(who)},
    ),
    Layout(
        "src",
        lambda who: {"pyproject.toml": SETUPTOOLS, "src/bot/__init__.py": agent_of(who)},
        target="bot:answer",
    ),
    Layout(
        "a package below the root",
        lambda who: {"app/__init__.py": "", "app/bot/agent.py": agent_of(who)},
        target="app.bot.agent:answer",
        suite="evals/evals.yaml",
        arguments=("evals/evals.yaml",),
    ),
    Layout(
        "a program",
        lambda who: {"agent.py": PROGRAM.replace("WHO", who)},
        provider={"name": "agent", "type": "command", "command": [sys.executable, "agent.py"]},
    ),
    Layout(
        "a program that imports an installed package",
        lambda who: {"agent.py": PROGRAM_WITH_PACKAGE, "lib/bot.py": reply_of(who)},
        provider={"name": "agent", "type": "command", "command": [sys.executable, "agent.py"]},
        pythonpath="{root}/lib",
    ),
    Layout(
        "a JavaScript file",
        lambda who: {"agent.cjs": JAVASCRIPT, "who.cjs": f"module.exports = '{who}';"},
        provider={"name": "agent", "type": "javascript", "file": "agent.cjs"},
    ),
    Layout(
        "a program of Node.js",
        lambda who: {"agent.cjs": NODE, "who.cjs": f"module.exports = '{who}';"},
        provider={"name": "agent", "type": "command", "command": ["node", "agent.cjs"]},
    ),
    Layout(
        "on the path, as an editable install by .pth",
        lambda who: {"lib/bot/__init__.py": agent_of(who)},
        target="bot:answer",
        pythonpath="{root}/lib",
    ),
    Layout(
        "an editable package by an import hook",
        lambda who: {
            "lib/bot/__init__.py": "",
            "lib/bot/agent.py": agent_of(who),
        },
        target="bot.agent:answer",
        mapping={"bot": "lib/bot"},
    ),
    Layout(
        "an editable module by an import hook",
        lambda who: {"lib/bot.py": agent_of(who)},
        target="bot:answer",
        mapping={"bot": "lib/bot"},  # setuptools leaves out the suffix
    ),
    Layout(
        "run in the suite's folder",
        lambda who: {"evals/agent.py": agent_of(who)},
        suite="evals/evals.yaml",
        folder="evals",
    ),
    Layout(
        "a suite with another name",
        lambda who: {"evals/agent.py": agent_of(who)},
        suite="evals/smoke.yaml",
        arguments=("evals/smoke.yaml",),
    ),
    Layout(
        "named by its path, from elsewhere",
        lambda who: {"evals/agent.py": agent_of(who)},
        suite="evals/evals.yaml",
        folder="..",
        arguments=("{root}/evals/evals.yaml",),
    ),
    Layout(
        "imported while it answers",
        lambda who: {"agent.py": LAZY, "later.py": reply_of(who)},
    ),
    Layout(
        "a module that changes the working folder",
        lambda who: {"app/agent.py": MOVING + agent_of(who)},
        target="app.agent:answer",
    ),
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name.replace(" ", "-"))
async def test_each_side_answers_by_its_own_code(layout: Layout, tmp_path: Path) -> None:
    if "agent.cjs" in layout.files("main") and shutil.which("node") is None:
        pytest.skip("needs Node.js")
    repository = Repository.new(tmp_path / "shop")
    layout.write_into(repository, "main")
    repository.commit()
    layout.write_into(repository, "the change")
    root = repository.folder
    folder = (root / layout.folder).resolve()
    ended = await against_main(
        folder,
        *(word.format(root=root) for word in layout.arguments),
        environ=layout.environment(repository, tmp_path / "site"),
    )
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out, ended.err
    assert sides(folder) == ({"apple, says the change"}, {"apple, says main"})


INSTALLS = {
    "a path": "{root}/lib\n",
    "an import hook": "import __editable___bot_1_finder; __editable___bot_1_finder.install()\n",
}
"""The lines of `.pth` files that editable installs leave in an environment."""


@pytest.mark.skipif(sys.platform == "win32", reason="an environment is laid out otherwise")
@pytest.mark.parametrize("install", INSTALLS)
async def test_an_editable_install_in_the_checkouts_own_environment_is_mains_for_main(
    tmp_path: Path, install: str
) -> None:
    """A real `.venv`, whose interpreter both sides are run by."""
    repository = Repository.new(tmp_path / "shop")
    root = repository.folder
    environment = root / ".venv"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/*/site-packages")
    # What runs the tests is installed there, too: its own `.pth` files would not be read there.
    installed = [sysconfig.get_path("purelib"), str(Path(ci_evals.__file__).parents[1])]
    (packages / "_tools.pth").write_text("\n".join(installed))
    (packages / "__editable__.bot-1.pth").write_text(INSTALLS[install].format(root=root))
    finder = FINDER.format(mapping={"bot": f"{root}/lib/bot"})
    (packages / "__editable___bot_1_finder.py").write_text(finder)

    def write(who: str) -> None:
        provider = {**AGENT, "target": "bot.agent:answer"}
        write_suite_file(root / "evals.yaml", name="shop", cases=[APPLE], providers=[provider])
        repository.write({"lib/bot/__init__.py": "", "lib/bot/agent.py": agent_of(who)})

    write("main")
    repository.commit({".gitignore": ".venv/\n__pycache__/\n"})
    write("the change")
    command = (str(environment / "bin" / "python"), "-m", "ci_evals")
    ended = await against_main(root, command=command)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out, ended.err
    assert sides(root) == ({"apple, says the change"}, {"apple, says main"})


def graded_agent_of(who: str) -> Mapping[str, str]:
    checking = "import words\ndef judge(output):\n    return True\n"
    return {"agent.py": agent_of(who), "lib/checking.py": checking, "lib/words.py": ""}


GRADED = (
    Layout("on the path", graded_agent_of, pythonpath="{root}/lib"),
    Layout(
        "by an import hook",
        graded_agent_of,
        mapping={"checking": "lib/checking", "words": "lib/words"},
    ),
)


@pytest.mark.parametrize("layout", GRADED, ids=lambda layout: layout.name.replace(" ", "-"))
async def test_a_grader_is_the_same_on_both_sides_until_its_code_changes(
    layout: Layout, tmp_path: Path
) -> None:
    repository = Repository.new(tmp_path / "shop")
    repository.write(layout.files("main"))
    suite = repository.folder / layout.suite
    case = {**APPLE, "expect": [{"python": "checking:judge"}]}
    write_suite_file(suite, name="shop", cases=[case], providers=[AGENT])
    repository.commit()
    repository.write(layout.files("the change"))
    environ = layout.environment(repository, tmp_path / "site")

    async def is_graded_by_main() -> bool:
        ended = await against_main(repository.folder, environ=environ)
        assert ended.code == 0, ended.out + ended.err
        ruler = report_in(repository.folder / RESULTS)["ruler"]
        return ruler is not None and bool(ruler["cells"])

    assert not await is_graded_by_main()
    repository.write({"lib/words.py": "word = 'apple'"})
    assert await is_graded_by_main()


async def test_a_checkout_that_is_reached_by_a_link_is_the_same_checkout(tmp_path: Path) -> None:
    """As temporary folders are on macOS, and home folders on some servers."""
    layout = next(layout for layout in LAYOUTS if layout.pythonpath)
    repository = Repository.new(tmp_path / "shop")
    layout.write_into(repository, "main")
    repository.commit()
    layout.write_into(repository, "the change")
    link = tmp_path / "link"
    link.symlink_to(repository.folder)
    ended = await against_main(link, environ={"PYTHONPATH": str(link / "lib")})
    assert ended.code == 0, ended.out + ended.err
    assert sides(link) == ({"apple, says the change"}, {"apple, says main"})


async def test_a_checkout_may_be_below_a_folder_with_the_name_of_an_environment(
    tmp_path: Path,
) -> None:
    """As editable installs from git are, in `.venv/src`."""
    layout = next(layout for layout in LAYOUTS if layout.pythonpath)
    repository = Repository.new(tmp_path / ".venv" / "src" / "shop")
    layout.write_into(repository, "main")
    repository.commit()
    layout.write_into(repository, "the change")
    environ = layout.environment(repository, tmp_path)
    ended = await against_main(repository.folder, environ=environ)
    assert ended.code == 0, ended.out + ended.err
    assert sides(repository.folder) == ({"apple, says the change"}, {"apple, says main"})


async def test_every_provider_and_prompt_is_run_on_both_sides(tmp_path: Path) -> None:
    def write(who: str) -> None:
        write_suite_file(
            tmp_path / "evals.yaml",
            cases=[APPLE],
            prompts=[
                {"name": "short", "user": f"{{{{ input }}}}, asks {who}"},
                {"name": "long", "user": f"please: {{{{ input }}}}, asks {who}"},
            ],
            providers=[AGENT, {**AGENT, "name": "other", "target": "other:answer"}],
        )
        repository.write({"agent.py": agent_of(who), "other.py": agent_of(f"another of {who}")})

    repository = Repository.new(tmp_path)
    write("main")
    repository.commit()
    write("the change")
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out

    def expected(who: str) -> set[str]:
        return {
            f"{question}, asks {who}, says {answers}"
            for question in ("apple", "please: apple")
            for answers in (who, f"another of {who}")
        }

    assert sides(tmp_path) == (expected("the change"), expected("main"))


async def test_the_providers_of_the_command_line_are_those_of_both_sides(tmp_path: Path) -> None:
    repository = Repository.new(tmp_path)
    providers = [AGENT, {**AGENT, "name": "other", "target": "other:answer"}]
    write_suite_file(tmp_path / "evals.yaml", cases=[APPLE], providers=providers)
    repository.commit({"agent.py": agent_of("main"), "other.py": "import nothing_of_the_kind"})
    repository.write({"agent.py": agent_of("the change")})
    ended = await against_main(tmp_path, "--providers", "agent")
    assert ended.code == 0, ended.out + ended.err
    assert sides(tmp_path) == ({"apple, says the change"}, {"apple, says main"})
    assert len(journaled(tmp_path / RESULTS)) == 1


EXECUTOR = """
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from ci_evals.engine.resources import LocalExecutor
from ci_evals.executors import ExecutorOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere(ExecutorOptions):
    @asynccontextmanager
    async def open(self, suite, portable, files):
        yield OnCluster()


class OnCluster(LocalExecutor):
    def open(self, options, resources):
        return Answering(super().open(options, resources))


class Answering:
    def __init__(self, provider):
        self.provider = provider

    async def answer(self, request):
        answer = await self.provider.answer(request)
        return replace(answer, output=f"{answer.output} on a cluster")
"""


async def test_main_runs_on_this_machine_where_an_executor_runs_the_change(tmp_path: Path) -> None:
    site = tmp_path / "site"
    information = "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n"
    entry = "[ci_evals.executors]\nelsewhere = elsewhere:Elsewhere\n"
    metadata = "elsewhere-1.dist-info"
    write_files(
        site,
        {
            "elsewhere.py": EXECUTOR,
            f"{metadata}/METADATA": information,
            f"{metadata}/entry_points.txt": entry,
        },
    )
    shop = repository_with_agent(tmp_path / "shop", settings={"executor": "elsewhere"})
    shop.write({"agent.py": agent_of("the change")})
    ended = await against_main(shop.folder, command=REAL, environ={"PYTHONPATH": str(site)})
    assert ended.code == 0, ended.out + ended.err
    assert sides(shop.folder) == ({"apple, says the change on a cluster"}, {"apple, says main"})


async def test_a_worktree_of_the_user_is_a_checkout_too(tmp_path: Path) -> None:
    repository = Repository.new(tmp_path / "shop")
    flat = LAYOUTS[0]
    flat.write_into(repository, "main")
    repository.commit()
    repository.git("worktree", "add", "--quiet", "-b", "feature", "../feature")
    feature = Repository(tmp_path / "feature")
    flat.write_into(feature, "the change")
    ended = await against_main(feature.folder)
    assert ended.code == 0, ended.out + ended.err
    assert sides(feature.folder) == ({"apple, says the change"}, {"apple, says main"})


async def test_variables_of_a_git_hook_do_not_lead_to_another_repository(tmp_path: Path) -> None:
    """As in a pre-push hook."""
    repository = Repository.new(tmp_path / "shop")
    other = Repository.new(tmp_path / "other")
    other.commit({"evals.yaml": "{}"})
    flat = LAYOUTS[0]
    flat.write_into(repository, "main")
    repository.commit()
    flat.write_into(repository, "the change")
    environ = {
        "GIT_DIR": str(other.folder / ".git"),
        "GIT_WORK_TREE": str(other.folder),
        "GIT_INDEX_FILE": str(other.folder / ".git" / "index"),
    }
    before = other.state
    ended = await against_main(repository.folder, environ=environ)
    assert ended.code == 0, ended.out + ended.err
    assert sides(repository.folder) == ({"apple, says the change"}, {"apple, says main"})
    assert other.state == before
