"""Where main can't be run, that is one sentence; and nothing of the user's is touched."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from repositories import (
    APPLE,
    BREAD,
    REAL,
    RESULTS,
    Repository,
    Sides,
    against_main,
    agent_of,
    left_in,
    repository_with_agent,
    sides,
)
from suites import AGENT, write_suite, write_suite_file

ANSWERS = agent_of("main")
CHANGED = {"agent.py": agent_of("the change")}
OF_CHANGE = frozenset({"apple, says the change", "bread, says the change"})


def said(text: str) -> str:
    """A text without the line breaks that fit it to the terminal."""
    return " ".join(text.split())


async def ends_without_main(
    repository: Repository, sentence: str, *arguments: str, **options: Any
) -> None:
    """Run against main: it cannot be run for a reason, and the change's runs are all reported."""
    ended = await against_main(repository.folder, *arguments, **options)
    assert ended.code == 0, ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err
    (line,) = (line for line in ended.err.splitlines() if sentence in line)
    assert "with killed" not in line
    assert "2 of 2 runs passed" in said(ended.out)
    assert sides(repository.folder).change == OF_CHANGE


@pytest.mark.parametrize(
    ("main", "sentence"),
    [
        ({"evals.yaml": "providers: [{type: mokc}]\n"}, "could not be run: evals.yaml:1: "),
        ({"evals.yaml": "cases: [\n"}, "could not be run: evals.yaml:"),
        ({"agent.py": f"{ANSWERS}raise RuntimeError('no index')\n"}, "no index"),
        ({"agent.py": f"import generated\n{ANSWERS}"}, "No module named 'generated'"),
        ({"agent.py": f"import sys\n{ANSWERS}sys.exit('no key')\n"}, "no key"),
        (
            {"agent.py": "import os\n\ndef answer(question):\n    os._exit(7)\n"},
            "its process ended with exit status 7",
        ),
        (
            {"agent.py": "import os\n\ndef answer(question):\n    os.kill(os.getpid(), 9)\n"},
            "killed by SIGKILL",
        ),
        (
            {
                "agent.py": "import os\nprint('loading the index', flush=True)\n\n"
                "def answer(question):\n    os._exit(7)\n"
            },
            "its process ended with exit status 7: loading the index",
        ),
    ],
    ids=[
        "invalid suite",
        "no suite at all",
        "import error",
        "missing module",
        "exits on import",
        "exits",
        "is killed",
        "exits after its last words",
    ],
)
async def test_main_that_does_not_run_is_told_in_a_sentence(
    tmp_path: Path, main: Mapping[str, str], sentence: str
) -> None:
    shop = repository_with_agent(tmp_path, cases=[APPLE, BREAD])
    suite = (tmp_path / "evals.yaml").read_text()
    shop.commit(main)
    shop.write({"evals.yaml": suite, **CHANGED})
    await ends_without_main(shop, sentence)


async def test_a_new_suite_has_no_main(tmp_path: Path) -> None:
    shop = Repository.new(tmp_path)
    sha = shop.commit({"README.md": "a shop"})[:7]
    write_suite(tmp_path, [APPLE, BREAD], providers=[AGENT])
    shop.write(CHANGED)
    await ends_without_main(shop, f"main ({sha}) has no evals.yaml")


async def test_a_new_case_alone_has_no_main(tmp_path: Path) -> None:
    repository_with_agent(tmp_path)
    rice = {"id": "rice", "input": "rice", "expect": [{"contains": "rice"}]}
    write_suite(tmp_path, [APPLE, rice], name="shop", providers=[AGENT])
    ended = await against_main(tmp_path, "--case", "rice")
    assert ended.code == 0, ended.out + ended.err
    assert "could not be run: none of these cases is there" in ended.err


async def test_main_that_hangs_is_given_up(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path, cases=[APPLE, BREAD], timeout_s=600)
    shop.commit({"agent.py": "import time\n\ndef answer(question):\n    time.sleep(600)\n"})
    shop.write(CHANGED)
    ended = await against_main(tmp_path, constants={"ci_evals.alongside.MAIN_STARTS_WITHIN_S": 1.5})
    assert ended.code == 0, ended.out + ended.err
    assert "took too long: over" in ended.err
    assert sides(tmp_path) == (OF_CHANGE, frozenset())


NOISY = """
import os, sys

print('{"ran": {"suite": "shop", "report": "/dev/null", "interrupted": null, "foreign": []}}')
os.write(1, b'{"problem": "none at all"}\\n' * 10_000)

def answer(question):
    print("thinking", flush=True)
    os.system("echo from a program")
    return f"{question}, says {sys.stdin.read()!r}"
"""


async def test_what_mains_code_prints_and_reads_confuses_nobody(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path)
    shop.commit({"agent.py": NOISY})
    shop.write(CHANGED)
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out, ended.err
    assert sides(tmp_path) == Sides(
        frozenset({"apple, says the change"}), frozenset({"apple, says ''"})
    )
    assert "thinking" not in ended.out + ended.err


MEDDLING = """
import glob, os, tempfile
from pathlib import Path

(found,) = glob.glob(f"{tempfile.gettempdir()}/ci-evals-main-*/tree/WHAT")
Path(found).write_text("def answer(question):\\n    return 'no idea'\\n")

def answer(question):
    return f"{question}, says the change"
"""


@pytest.mark.parametrize("what", ["agent.py", "src/bot.py", "checks.py"])
async def test_files_of_main_that_the_changes_code_writes_are_no_evidence(
    tmp_path: Path, what: str
) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD])
    shop.commit({"pyproject.toml": "[project]\n", "src/bot.py": "", "checks.py": ""})
    shop.write({"agent.py": MEDDLING.replace("WHAT", what)})
    await ends_without_main(
        shop,
        "its files were changed by what ran in this job",
        command=REAL,
        environ={"TMPDIR": str(temp)},
    )
    assert left_in(temp) == []


WRITING = """
import glob, tempfile
from pathlib import Path

(tree,) = glob.glob(f"{tempfile.gettempdir()}/ci-evals-main-*/tree")
place = Path(tree) / "WHAT"
place.parent.mkdir(parents=True, exist_ok=True)
place.write_text("def passes(output):\\n    return True\\n")

def answer(question):
    return f"{question}, says the change"
"""


@pytest.mark.parametrize(
    "what",
    [
        "src/checks.py",
        "src/checks/__init__.py",
        "evals/json.py",
        "evals/node_modules/who/index.js",
        "package.json",
    ],
)
async def test_files_of_main_in_any_folder_are_no_evidence_once_they_are_others(
    tmp_path: Path, what: str
) -> None:
    """The command runs in the folder of the suite, and the checks are elsewhere."""
    temp = tmp_path / "temp"
    temp.mkdir()
    shop = Repository.new(tmp_path / "shop")
    case = {**APPLE, "expect": [{"python": "checks:passes"}]}
    write_suite_file(shop.folder / "evals" / "evals.yaml", cases=[case], providers=[AGENT])
    checks = "def passes(output):\n    return 'apple' in output\n"
    shop.commit(
        {
            "pyproject.toml": "[project]\n",
            "src/checks.py": checks,
            "evals/agent.py": ANSWERS,
            ".gitignore": "node_modules/\n",
        }
    )
    shop.write({"evals/agent.py": WRITING.replace("WHAT", what)})
    ended = await against_main(shop.folder / "evals", command=REAL, environ={"TMPDIR": str(temp)})
    assert ended.code == 0, ended.out + ended.err
    named = "evals/node_modules" if "node_modules" in what else what
    assert f"its files were changed by what ran in this job: {named}" in said(ended.err)
    assert "which ran alongside" not in ended.out


async def test_files_that_mains_code_writes_are_its_own(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path)
    writes = "from pathlib import Path\n\nPath('state.json').write_text('{}')\n"
    shop.commit({"agent.py": writes + ANSWERS})
    shop.write(CHANGED)
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out, ended.err


CLEARING = """
import glob, shutil, tempfile

def clear():
    for place in glob.glob(f"{tempfile.gettempdir()}/ci-evals-main-*"):
        shutil.rmtree(place)
"""


async def test_code_that_clears_temporary_folders_is_told_so(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD])
    shop.write({"agent.py": f"{CLEARING}\nclear()\n\n{agent_of('the change')}"})
    await ends_without_main(shop, "its files are gone", command=REAL, environ={"TMPDIR": str(temp)})


CLEARING_LATE = """
import os
from pathlib import Path

def answer(question):
    calls = Path(os.environ["TMPDIR"]) / "calls"
    with calls.open("a") as file:
        file.write(".")
    if len(calls.read_text()) > 6:  # main's plan has been run
        clear()
    return "apple" if question == "apple" else "nothing"
"""


async def test_code_that_clears_temporary_folders_late_is_told_so(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    shop.write({"agent.py": CLEARING + CLEARING_LATE})
    ended = await against_main(shop.folder, command=REAL, environ={"TMPDIR": str(temp)})
    assert ended.code == 1, ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err
    assert "bug" not in ended.err
    assert "its files are gone" in ended.unwrapped + said(ended.err)


async def test_nothing_of_the_repository_is_touched_and_no_hook_runs(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path / "shop")
    shop.git("branch", "other")
    shop.write(CHANGED)
    marks = f"#!/bin/sh\ntouch '{tmp_path}/hook-ran'\n"
    for folder in (tmp_path / "template" / "hooks", tmp_path / "hooks"):
        folder.mkdir(parents=True)
        for name in ("post-checkout", "post-index-change", "reference-transaction"):
            (folder / name).write_text(marks)
            (folder / name).chmod(0o755)
    (tmp_path / "gitconfig").write_text(
        f"[init]\ntemplateDir = {tmp_path}/template\n[core]\nhooksPath = {tmp_path}/hooks\n"
    )
    # Results are not there yet, and git need not say that they are new.
    (shop.folder / ".git" / "info" / "exclude").write_text(f"{RESULTS}/\n__pycache__/\n")
    before = shop.state
    ended = await against_main(
        shop.folder, environ={"GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig")}
    )
    assert "which ran alongside" in ended.out, ended.err
    assert shop.state == before
    assert not (tmp_path / "hook-ran").exists()


async def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    shop = repository_with_agent(tmp_path / "shop")
    shop.write(CHANGED)
    ended = await against_main(shop.folder, command=REAL, environ={"TMPDIR": str(temp)})
    assert "which ran alongside" in ended.out, ended.err
    assert left_in(temp) == []


async def test_an_object_that_git_has_lost_is_told_in_a_sentence(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path, cases=[APPLE, BREAD])
    blob = shop.git("rev-parse", "HEAD:agent.py")
    shop.git("checkout", "--quiet", "-b", "feature")
    shop.commit(CHANGED)
    (tmp_path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    await ends_without_main(shop, "could not be checked out: ")


async def test_without_git_there_is_no_main(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path)
    shop.write(CHANGED)
    ended = await against_main(tmp_path, environ={"PATH": str(tmp_path)})
    assert ended.code == 2
    assert "git cannot be started" in ended.err
    assert "Traceback" not in ended.err


async def test_modules_of_the_change_that_main_imports_are_named(tmp_path: Path) -> None:
    """The change's module is where main's code finds it, and main has none of that name."""
    shop = Repository.new(tmp_path / "shop")
    write_suite(shop.folder, [APPLE, BREAD], providers=[AGENT])
    lazy = "def answer(question):\n    import new\n    return new.reply(question)\n"
    shop.commit({"agent.py": lazy})
    reply = agent_of("the change").replace("answer", "reply")
    shop.write({"lib/new.py": reply, "agent.py": f"{lazy}# changed\n"})
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(shop.folder / 'lib')!r})\n"
    )
    await ends_without_main(
        shop,
        "it would use files of this branch: lib/new.py",
        environ={"PYTHONPATH": str(site)},
    )
