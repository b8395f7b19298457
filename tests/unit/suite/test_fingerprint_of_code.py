"""The code that judges is part of a fingerprint: the function, and what it imports from the
repository.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from projects import CASE, Project
from suites import write_files

from ci_evals import Suite
from ci_evals.suite.load import check_suite
from ci_evals.user_code.folders import importable
from ci_evals.user_code.targets import load_module

PYTHON = {"python": "checks:judge"}
JUDGE = "def judge(output):\n    return 'Paris' in output\n"
LENIENT = "def judge(output):\n    return True\n"


def judgement(folder: Path, *expect: Any, **settings: Any) -> str:
    """Return the fingerprint of how the one case of a suite is judged."""
    project = Project(folder)
    project.folder.mkdir(exist_ok=True)
    project.suite(cases=[CASE | {"expect": list(expect)}], **settings)
    return project.load().judgement_fingerprint(0)


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        ({"evals/checks.py": JUDGE}, {"evals/checks.py": LENIENT}),
        ({"checks.py": JUDGE}, {"checks.py": LENIENT}),
        ({"src/checks.py": JUDGE}, {"src/checks.py": LENIENT}),
        ({"evals/checks.py": "from words import judge"}, {"evals/words.py": LENIENT}),
        ({"evals/checks.py": "import words\n"}, {"src/words.py": LENIENT}),
        (
            {"evals/checks.py": "import words", "evals/words.py": "import deeper"},
            {"evals/deeper.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "def judge(o):\n  try:\n    pass\n  except E:\n    import words"},
            {"evals/words.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "match a:\n  case 1:\n    from pack.words import word"},
            {"evals/pack/words.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "import pack.words", "evals/pack/words.py": ""},
            {"evals/pack/__init__.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "from pack import words", "evals/pack/__init__.py": ""},
            {"evals/pack/words.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "import pack", "evals/pack/__init__.py": "from . import words"},
            {"evals/pack/words.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "import a.b.c", "evals/a/b/c.py": "from ..words import word"},
            {"evals/a/words.py": "word = 'Lyon'"},
        ),
        (
            {"evals/checks.py": "import words", "evals/words.py": "import checks"},
            {"evals/words.py": "import checks\nword = 'Lyon'"},
        ),
        (  # a namespace package with two places
            {"evals/checks.py": "import parts.b", "evals/parts/a.py": "", "src/parts/b.py": ""},
            {"src/parts/b.py": "word = 'Lyon'"},
        ),
    ],
)
def test_code_that_judges_and_what_it_imports_is_part_of_it(
    files: Mapping[str, str], changed: Mapping[str, str], tmp_path: Path
) -> None:
    dynamic = "\nglobals()"  # the function may be defined while the module runs
    write_files(tmp_path, {".git/HEAD": ""})
    write_files(tmp_path, {path: text + dynamic for path, text in files.items()})
    expect = {"any_of": [PYTHON, {"contains": "Paris"}]}
    before = judgement(tmp_path / "evals", expect)
    assert judgement(tmp_path / "evals", expect) == before
    write_files(tmp_path, {path: text + dynamic for path, text in changed.items()})
    assert judgement(tmp_path / "evals", expect) != before


@pytest.mark.parametrize("broken", [b"def judge(:", b"\xff\x00", b"(" * 10_000])
def test_code_that_cannot_be_parsed_counts_by_its_bytes(broken: bytes, tmp_path: Path) -> None:
    expect = {"python": "import checks\nreturn checks.judge(output)"}
    write_files(tmp_path, {"checks.py": JUDGE})
    prints = {judgement(tmp_path, expect)}
    for content in (broken, broken + b"\n"):
        (tmp_path / "checks.py").write_bytes(content)
        prints.add(judgement(tmp_path, expect))
    (tmp_path / "checks.py").unlink()
    prints.add(judgement(tmp_path, expect))
    assert len(prints) == 4


@pytest.mark.parametrize(
    "unrelated",
    [
        {"agent.py": "import checks"},
        {"evals/words.py": "word = 'Lyon'"},
        {"src/checks.py": LENIENT},  # the one in the suite's folder hides it
        {".venv/lib/python3.12/site-packages/requests/__init__.py": "get = 1"},
        {"evals/node_modules/requests.py": "get = 1"},
        {".venv/src/requests/requests.py": "get = 1"},
        {"evals/json.py": "loads = 1"},  # Python's own is imported
        {"evals/data.json": "[1]"},
    ],
)
def test_other_files_leave_it_as_it_is(unrelated: Mapping[str, str], tmp_path: Path) -> None:
    imports = "import json, requests\n"
    write_files(tmp_path, {".git/HEAD": "", "evals/checks.py": imports + JUDGE})
    before = judgement(tmp_path / "evals", PYTHON)
    write_files(tmp_path, unrelated)
    assert judgement(tmp_path / "evals", PYTHON) == before


def test_an_installed_package_takes_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "env/lib/site-packages"
    write_files(tmp_path, {".git/HEAD": "", "evals/checks.py": f"import tallies\n{JUDGE}"})
    write_files(packages, {"tallies.py": "", "more.py": JUDGE})
    monkeypatch.syspath_prepend(packages)
    before = judgement(tmp_path / "evals", PYTHON)
    of_package = judgement(tmp_path / "evals", {"python": "more:judge"})
    write_files(packages, {"tallies.py": "tally = 1", "more.py": LENIENT})
    assert judgement(tmp_path / "evals", PYTHON) == before
    assert judgement(tmp_path / "evals", {"python": "more:judge"}) == of_package


def test_a_package_that_is_installed_from_the_repository_counts_as_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {".git/HEAD": "", "src/own_bot/checks.py": JUDGE})
    write_files(
        tmp_path / "env/site-packages", {"own_bot/__init__.py": "", "own_bot/checks.py": JUDGE}
    )
    monkeypatch.syspath_prepend(tmp_path / "env/site-packages")
    expect = {"python": "own_bot.checks:judge"}
    before = judgement(tmp_path / "evals", expect)
    write_files(tmp_path, {"src/own_bot/checks.py": LENIENT})
    assert judgement(tmp_path / "evals", expect) != before


def test_a_folder_that_the_suite_names_counts_without_a_repository(tmp_path: Path) -> None:
    write_files(tmp_path, {"lib/checks.py": f"import words\n{JUDGE}", "lib/words.py": ""})
    before = judgement(tmp_path / "evals", PYTHON, settings={"pythonpath": "../lib"})
    write_files(tmp_path, {"lib/words.py": "word = 'Lyon'"})
    assert judgement(tmp_path / "evals", PYTHON, settings={"pythonpath": "../lib"}) != before


def test_it_is_the_same_in_every_checkout_and_with_every_line_ending(tmp_path: Path) -> None:
    files = {".git/HEAD": "", "evals/checks.py": f"import words\n{JUDGE}", "words.py": "a = 1\n"}
    write_files(tmp_path / "one", files)
    write_files(tmp_path / ".venv/src/node_modules/two", files)
    before = judgement(tmp_path / "one/evals", PYTHON)
    assert judgement(tmp_path / ".venv/src/node_modules/two/evals", PYTHON) == before
    (tmp_path / "one/words.py").write_bytes(b"a = 1\r\n")
    assert judgement(tmp_path / "one/evals", PYTHON) == before


def test_two_modules_cannot_be_swapped(tmp_path: Path) -> None:
    checks = {"checks.py": "import strict, lenient\nglobals()"}
    write_files(tmp_path, {**checks, "strict.py": JUDGE, "lenient.py": LENIENT})
    before = judgement(tmp_path, PYTHON)
    write_files(tmp_path, {"strict.py": LENIENT, "lenient.py": JUDGE})
    assert judgement(tmp_path, PYTHON) != before


@pytest.mark.parametrize(
    ("transform", "changed"),
    [
        ("views:last", {"views.py": "def last(output):\n    return 'Paris'\n"}),
        ("views:last", {"words.py": "word = 'Lyon'"}),
        ("view.mjs", {"view.mjs": "export default () => 'Paris'"}),
        ("view.mjs:last", {"words.mjs": "export const word = 'Lyon'"}),
    ],
)
@pytest.mark.parametrize("whole_suite", [True, False])
def test_the_body_of_a_transform_is_part_of_it(
    transform: str, changed: Mapping[str, str], *, whole_suite: bool, tmp_path: Path
) -> None:
    write_files(
        tmp_path,
        {
            "views.py": "import words\ndef last(output):\n    return output\n",
            "words.py": "",
            "view.mjs": (
                "import {word} from './words.mjs'\n"
                "export const last = (output) => output\nexport default last"
            ),
            "words.mjs": "export const word = 'Paris'",
        },
    )

    def of_transform() -> str:
        if whole_suite:
            return judgement(tmp_path, {"contains": "Paris"}, transform=transform)
        return judgement(tmp_path, {"contains": {"value": "Paris", "transform": transform}})

    before = of_transform()
    write_files(tmp_path, changed)
    assert of_transform() != before


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("const {word} = require('./words')", "words.js"),
        ("const {word} = require( `./words` )", "words.cjs"),
        ("import {word} from './words.mjs'", "words.mjs"),
        ("import './words.mjs'", "words.mjs"),
        ('import{word}from"../words.mjs"', "../words.mjs"),
        ("export {word} from './words.mjs'", "words.mjs"),
        ("export * from './words/index.js'", "words/index.js"),
        ("const words = require('./words')", "words/index.js"),
        ("const words = require('./words')", "words.json"),
        ("const words = await import('./words.ts')", "words.ts"),
        ("const words = require('./package')", "package/lib/main.js"),
        ("const words = require('./deep')", "deeper.js"),
    ],
)
def test_javascript_and_what_it_imports_is_part_of_it(
    statement: str, imported: str, tmp_path: Path
) -> None:
    write_files(
        tmp_path,
        {
            "evals/checks.mjs": f"{statement}\nexport default (output) => output === word",
            "evals/package/package.json": '{"main": "lib/main"}',
            "evals/deep.js": "require('./deeper'); require('./circle')",
            "evals/circle/package.json": '{"main": "."}',
            f"evals/{imported}": "Paris",
            "evals/node_modules/words/index.js": "",
        },
    )
    # What is read in the sandbox is loaded, too, and these files only look like code.
    expect = {"javascript": {"file": "checks.mjs", "sandbox": False}}
    before = judgement(tmp_path / "evals", expect)
    write_files(tmp_path, {"evals/node_modules/words/index.js": "1", "evals/other.js": "1"})
    assert judgement(tmp_path / "evals", expect) == before
    write_files(tmp_path, {f"evals/{imported}": "Lyon"})
    changed = judgement(tmp_path / "evals", expect)
    assert changed != before
    write_files(tmp_path, {"evals/checks.mjs": f"{statement}\nexport default () => true"})
    assert judgement(tmp_path / "evals", expect) != changed


@pytest.mark.parametrize(
    ("expect", "changed"),
    [
        ({"python": "import checks\nreturn checks.judge(output)"}, {"checks.py": LENIENT}),
        ({"python": "  import checks\n  return checks.judge(output)"}, {"checks.py": LENIENT}),
        ({"javascript": "require('./checks.js')(output)"}, {"checks.js": "module.exports = 1"}),
    ],
)
def test_code_in_the_suite_counts_with_what_it_imports(
    expect: Mapping[str, Any], changed: Mapping[str, str], tmp_path: Path
) -> None:
    write_files(tmp_path, {"checks.py": JUDGE, "checks.js": "module.exports = (o) => o === 'a'"})
    before = judgement(tmp_path, expect)
    write_files(tmp_path, {"other.py": "", "other.js": ""})
    assert judgement(tmp_path, expect) == before
    write_files(tmp_path, changed)
    assert judgement(tmp_path, expect) != before


@pytest.mark.parametrize(
    "judge",
    [
        {"type": "python", "target": "judges:answer"},
        {"type": "javascript", "file": "judges.mjs"},
    ],
)
def test_code_that_answers_as_a_judge_is_part_of_it(
    judge: Mapping[str, Any], tmp_path: Path
) -> None:
    code = {"judges.py": "def answer(question): ...", "judges.mjs": "export default () => ''"}
    expect = {"judge": "Is it polite?"}
    write_files(tmp_path, code)
    before = judgement(tmp_path, expect, judges=[judge])
    write_files(tmp_path, {name: f"{text}\n" for name, text in code.items()})
    assert judgement(tmp_path, expect, judges=[judge]) != before
    of_agent = judgement(tmp_path, {"contains": "Paris"}, providers=[judge], judges=...)
    write_files(tmp_path, code)
    unchanged = judgement(tmp_path, {"contains": "Paris"}, providers=[judge], judges=...)
    assert unchanged == of_agent, "what answers is under test: it does not judge"


@pytest.mark.parametrize(
    ("file", "expect"),
    [
        ("schema.json", {"json_schema": {"file": "schema.json"}}),
        ("schema.json", {"is_json": {"schema": {"file": "schema.json"}}}),
        ("prompt.md", {"judge": {"rubric": "Is it polite?", "prompt": {"file": "prompt.md"}}}),
        ("rubric.md", {"judge": "{{ rubric }}"}),
    ],
)
def test_the_content_of_files_that_graders_name_is_part_of_it(
    file: str, expect: Mapping[str, Any], tmp_path: Path
) -> None:
    contents = {
        "schema.json": ('{"type": "object"}', '{"type": "array"}'),
        "prompt.md": ("{{ reply }}", "{{ rubric }} {{ reply }}"),
        "rubric.md": ("Is it polite?", "Is it an answer?"),
    }
    write_files(tmp_path, {name: text for name, (text, _) in contents.items()})
    settings: dict[str, Any] = {"judges": [{"type": "mock"}]}
    if file == "rubric.md":
        settings["vars"] = {"rubric": {"file": file}}
    before = judgement(tmp_path, expect, **settings)
    write_files(tmp_path, {file: contents[file][1]})
    assert judgement(tmp_path, expect, **settings) != before


# Objects of Python.


def of_object(expect: Any, folder: Path) -> str:
    suite = Suite(cases=["Capital?"], providers=[str.upper], expect=[expect], folder=folder)
    return check_suite(suite, {}).judgement_fingerprint(0)


OBJECTS = """
from functools import lru_cache, partial
from ci_evals import grader
from own_words import within

def judge(output): return True
def judge_by(word, output): return True
@grader
def listed(output): return True
@within
def wrapped(output): return True
class Judge:
    def grade(self, answer): return True
    def check(self, output): return True
    def __call__(self, output): return True
class Holder:
    def __init__(self, check): self.check = check
    def grade(self, answer): return self.check(answer.output)
"""


@pytest.mark.parametrize(
    "expression",
    [
        "judge",
        "listed",
        "wrapped",
        "lambda output: True",
        "partial(judge_by, 'Paris')",
        "Judge()",
        "Judge().check",
        "Judge().__call__",
        "lru_cache(judge)",
    ],
)
def test_the_source_of_an_object_and_what_it_imports_is_part_of_it(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = "def within(function):\n    return lambda output: function(output)\n"
    objects = f"{OBJECTS}\nused = {expression}\n"
    write_files(tmp_path, {"own_objects.py": objects, "own_words.py": within})
    monkeypatch.delitem(sys.modules, "own_objects", raising=False)
    monkeypatch.delitem(sys.modules, "own_words", raising=False)
    with importable(tmp_path):
        used = load_module("own_objects").used
    before = of_object(used, tmp_path)
    write_files(tmp_path, {"other.py": ""})
    assert of_object(used, tmp_path) == before
    write_files(tmp_path, {"own_words.py": f"{within}\nword = 'Paris'"})
    helped = of_object(used, tmp_path)
    assert helped != before
    write_files(tmp_path, {"own_objects.py": objects.replace("True", "False")})
    assert of_object(used, tmp_path) != helped


@pytest.mark.parametrize("expression", ["Holder(check)", "partial(judge_by, check)"])
def test_a_function_that_an_object_holds_is_part_of_it(
    expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"from own_checks import check\nfrom own_objects import *\nused = {expression}\n"
    check = "def check(output): return True\n"
    within = "def within(function): return function\n"
    write_files(tmp_path, {"own_program.py": program, "own_objects.py": OBJECTS})
    write_files(tmp_path, {"own_checks.py": check, "own_words.py": within})
    for name in ("own_program", "own_objects", "own_checks", "own_words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with importable(tmp_path):
        used = load_module("own_program").used
    before = of_object(used, tmp_path)
    write_files(tmp_path, {"own_checks.py": f"{check}\n"})
    assert of_object(used, tmp_path) != before


def test_objects_without_a_source_of_the_teams_are_known_by_name(tmp_path: Path) -> None:
    assert of_object(str.isdigit, tmp_path) == of_object(str.isdigit, tmp_path)
    assert of_object(str.isdigit, tmp_path) != of_object(str.isalpha, tmp_path)
    assert of_object(os.path.isabs, tmp_path) == of_object(os.path.isabs, tmp_path)
    made: dict[str, Any] = {}
    exec("def judge(output): return True", made)
    assert of_object(made["judge"], tmp_path) == of_object(made["judge"], tmp_path)


def test_many_cases_with_one_grader_read_its_code_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"checks.py": f"import words\n{JUDGE}", "words.py": ""})
    project = Project(tmp_path)
    project.suite(cases=[CASE | {"id": str(n), "expect": [PYTHON]} for n in range(50)])
    suite = project.load()
    read: list[Path] = []
    read_bytes = Path.read_bytes

    def note(path: Path) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", note)
    assert len({suite.judgement_fingerprint(row) for row in range(50)}) == 1
    assert sorted(path.name for path in read) == ["checks.py", "words.py"]


def test_a_suite_without_code_that_judges_reads_none(tmp_path: Path) -> None:
    loaded = "ci_evals.user_code.sources"
    before = sys.modules.pop(loaded, None)
    try:
        judgement(tmp_path, {"contains": "Paris"}, {"is_json": True})
        assert loaded not in sys.modules
    finally:
        if before is not None:
            sys.modules[loaded] = before
