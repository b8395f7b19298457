"""Cases from elsewhere: the team's functions, and the recipes of docs/data.md on fake sources."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled
from processes import ci_evals
from suites import run_to_verdict, write_suite

from ci_evals.suite.yaml import parse

DOCS = Path(__file__).parents[2] / "docs" / "data.md"


async def passed(folder: Path, cases: dict[str, Any], **settings: Any) -> list[tuple[str, bool]]:
    """The cases that were run, by id, and which of them passed."""
    write_suite(folder, cases, **settings)
    await run_to_verdict(folder, out="ci-evals-results")
    results = journaled(folder / "ci-evals-results")
    return sorted((each["case"], each["status"] == "passed") for each in results)


async def problems(folder: Path, **source: Any) -> list[str]:
    write_suite(folder, source)
    ended = await ci_evals(folder, "validate")
    return [
        line.removeprefix("evals.yaml:1: ")
        for line in ended.err.splitlines()
        if line.startswith("evals.yaml:")
    ]


async def test_a_generator_yields_mappings_and_cases(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "from ci_evals import Case\n"
        "from ci_evals.graders import Contains\n"
        "def load(count, *, word='hi'):\n"
        "    print('on stdout')\n"
        "    for n in range(count):\n"
        "        yield {'id': f'case {n}', 'input': f'{word} {n}', 'expect': [{'contains': '1'}]}\n"
        "    yield Case(input='an object', expect=[Contains('object')])\n"
    )
    cases = {"python": "data:load", "params": {"count": 2, "word": "hello"}}
    assert await passed(tmp_path, cases) == [
        ("an object", True),
        ("case 0", False),
        ("case 1", True),
    ]
    shown = await ci_evals(tmp_path, "run", "--format", "json", "-q")
    assert json.loads(shown.out)
    assert "on stdout" in shown.err


ECHO = [{"type": "mock", "default": "PARIS is the capital."}]


@pytest.mark.parametrize("name", ["cases.csv", "cases.tsv"])
async def test_the_answer_must_contain_the_column_expected(name: str, tmp_path: Path) -> None:
    rows = ("id,input,expected", "france,Capital of France?,Paris ", "italy,Of Italy?,Rome")
    text = "\n".join(rows)
    if name.endswith(".tsv"):
        text = text.replace(",", "\t")
    (tmp_path / name).write_text(text)
    cases = {"file": name}
    assert await passed(tmp_path, cases, providers=ECHO) == [("france", True), ("italy", False)]
    shown = await ci_evals(tmp_path, "explain", "italy")
    assert 'no "Rome" in the answer' in shown.out


async def test_the_right_answer_is_no_part_of_the_question(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("question,expected\nOf France?,paris\n")
    (tmp_path / "agent.py").write_text("def answer(asked): return f'Paris {asked}'\n")
    agent = {"name": "agent", "type": "python", "target": "agent:answer"}
    ran = await passed(tmp_path, {"file": "cases.csv"}, providers=[agent])
    assert ran == [("Of France?", True)]
    shown = await ci_evals(tmp_path, "explain", "Of France?")
    assert "answer: Paris {'question': 'Of France?'}" in shown.out


async def test_a_function_that_takes_text_is_not_asked_a_row_of_columns(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("question,expected\nOf France?,paris\n")
    (tmp_path / "texts.py").write_text("def answer(asked: str) -> str: return asked\n")
    agent = {"name": "agent", "type": "python", "target": "texts:answer"}
    write_suite(tmp_path, {"file": "cases.csv"}, providers=[agent])
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "is not text: write the question as `input`" in " ".join(ended.err.split())
    write_suite(
        tmp_path, {"file": "cases.csv"}, providers=[agent], prompts=["Paris or {{ question }}"]
    )
    assert (await ci_evals(tmp_path, "run")).code == 0


async def test_other_checks_win_over_the_column_expected(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text(
        "id,input,expected,expect\nfrance,Of France?,Rome,[contains: PARIS]\n"
    )
    assert await passed(tmp_path, {"file": "cases.csv"}, providers=ECHO) == [("france", True)]
    (tmp_path / "cases.csv").write_text("id,input,expected\nfrance,Of France?,Rome\n")
    expect = [{"not_contains": "{{ expected }}"}]
    ran = await passed(tmp_path, {"file": "cases.csv"}, providers=ECHO, expect=expect)
    assert ran == [("france", True)]
    validated = await ci_evals(tmp_path, "validate")
    assert "expected" not in validated.out


async def test_a_right_answer_that_no_check_looks_for_is_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("id,input,expected\nfrance,Of France?,Rome\n")
    expect = [{"not_empty": True}, {"latency": 5}]
    write_suite(tmp_path, {"file": "cases.csv"}, expect=expect)
    validated = await ci_evals(tmp_path, "validate")
    assert validated.code == 0
    assert "case 'france': no check looks for its `expected`: add `- contains" in validated.out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,input\nfrance,Of France?\n", 'such as `- contains: "{{ answer }}"`'),
        (
            "id,input,capital\nfrance,Of France?,Paris\n",
            "call the column with the right answer `expected`, or add `expect` to the suite",
        ),
        ("id,input,expected\nfrance,Of France?,\n", "the cell `expected` is empty"),
    ],
)
async def test_a_table_without_checks_is_refused_with_the_ways_to_add_them(
    text: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "cases.csv").write_text(text)
    write_suite(tmp_path, {"file": "cases.csv"})
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "cases.csv:2: no checks, so any answer would pass" in ended.err.replace("cases[0]: ", "")
    assert told in " ".join(ended.err.split())


async def test_cases_of_a_function_may_stand_among_others_and_rows_may_be_mapped(
    tmp_path: Path,
) -> None:
    (tmp_path / "data.py").write_text(
        "def rows():\n    return [{'q': 'one', 'n': 1}, {'q': 'two', 'n': 2}]\n"
    )
    source = {
        "python": "data:rows",
        "map": {"id": "n", "input": "q", "expect": [{"equals": "{{ row.q }}"}]},
    }
    own = {"id": "own", "input": "x", "expect": [{"equals": "x"}]}
    write_suite(tmp_path, [own, source])
    assert await passed(tmp_path, source) == [("1", True), ("2", True)]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"python": "data"}, "expected `module:function`, such as `cases:load`, got 'data'"),
        ({"python": "dta:load"}, "there is no module 'dta' in {folder} or installed"),
        ({"python": "data:laod"}, "there is no 'laod' in data, did you mean 'load'?"),
        ({"python": "data:load"}, "data:load raised KeyError: 'TOKEN' (data.py:2 in load)"),
        (
            {"python": "data:load", "params": {"n": 1}},
            "data:load raised TypeError: load() got an unexpected keyword",
        ),
        (
            {"python": "data:splits"},
            "data:splits returned a dict: expected a list of cases, or a plain generator",
        ),
        (
            {"python": "data:waits"},
            "data:waits returned a coroutine: expected a list of cases, or a plain generator",
        ),
        ({"python": "data:texts"}, "[1]: expected a Case or a mapping, got 'text'"),
        ({"python": "data:typos"}, "[0]: unknown key 'inptu', did you mean 'input'?"),
    ],
)
async def test_what_a_function_does_wrong_is_told_at_its_name(
    tmp_path: Path, source: dict[str, Any], problem: str
) -> None:
    (tmp_path / "data.py").write_text(
        "def load():\n    raise KeyError('TOKEN')\n"
        "def splits(): return {'test': []}\n"
        "async def waits(): return []\n"
        "def texts(): return [{'id': 'a', 'input': 'b', 'expect': [{'contains': 'x'}]}, 'text']\n"
        "def typos(): return [{'inptu': 'x'}]\n"
    )
    (found,) = await problems(tmp_path, **source)
    assert found.startswith(
        f"cases.python{': ' * (problem[0] != '[')}{problem.format(folder=tmp_path)}"
    )


# The recipes, with modules of the documented shape in place of the real ones.

STAND_INS = {
    "datasets.py": """
class Dataset(list):
    'Iterates over its rows.'
def load_dataset(path, name=None, *, split=None):
    assert (path, name, split) == ("openai/gsm8k", "main", "test[:50]")
    return Dataset([{"question": "What is 6 * 7? 42", "answer": "It is\\n#### 42"}])
""",
    "langfuse.py": """
from types import SimpleNamespace as S
def get_client():
    return S(get_dataset=lambda name: S(items=[
        S(id="i1", input="refund", expected_output="refund", metadata=None),
        S(id="i2", input={"q": "hours"}, expected_output="days", metadata={"source": name}),
    ]))
""",
    "langsmith.py": """
from types import SimpleNamespace as S
from uuid import UUID
class Client:
    def list_examples(self, *, dataset_name, splits):
        assert (dataset_name, splits) == ("support", ["test"])
        yield S(id=UUID(int=7), inputs={"question": "why"}, outputs={"answer": "why"})
""",
    "pandas.py": """
class DataFrame:
    def to_dict(self, orient):
        assert orient == "records"
        return [
            {"qid": 1, "question": "a", "answer": "a"},
            {"qid": 2, "question": "b", "answer": "c"},
        ]
def read_parquet(path):
    assert path.name == "questions.parquet"
    return DataFrame()
""",
    "mails/refund-1.txt": "my money",
    "mails/thanks-1.txt": "thanks",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Hugging Face", [("What is 6 * 7? 42", True)]),
        ("Langfuse", [("i1", True), ("i2", False)]),
        ("LangSmith", [("00000000-0000-0000-0000-000000000007", True)]),
        ("Parquet", [("1", True), ("2", False)]),
        ("A database, an API, a folder of e-mails", [("refund-1", False), ("thanks-1", True)]),
    ],
)
async def test_the_recipes_of_the_docs_run(
    tmp_path: Path, source: str, expected: list[tuple[str, bool]]
) -> None:
    text = re.search(
        rf"^## {re.escape(source)}\n(.*?)(?=^## |\Z)", DOCS.read_text(), re.MULTILINE | re.DOTALL
    )
    assert text
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text[1], re.MULTILINE | re.DOTALL):
        if language == "python":
            (tmp_path / re.findall(r'^"""(\w+\.py)', block)[0]).write_text(block)
        else:
            suite, _, _ = parse(block, source)
    (tmp_path / "mails").mkdir()
    for name, content in STAND_INS.items():
        (tmp_path / name).write_text(content)
    settings = {"prompts": ["{{ question }}"]} if source == "LangSmith" else {}
    assert await passed(tmp_path, suite["cases"], **settings) == expected
