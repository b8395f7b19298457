import json
import tracemalloc
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from projects import Project

from ci_evals.graders.text import Contains
from ci_evals.model.case import Case

EXPECT = [{"contains": "x"}]


def line(case_id: str, **fields: object) -> str:
    return json.dumps({"id": case_id, "input": "q", "expect": EXPECT, **fields}) + "\n"


def read(project: Project, files: str | list[str]) -> Sequence[Case]:
    project.suite(cases={"file": files})
    return project.load().cases


def wrong(project: Project, files: str | list[str]) -> list[str]:
    project.suite(cases={"file": files})
    return project.problems()


YAML = """# comment
- id: a
  input: q
  expect:
    - contains: x
- {id: b, input: q, expect: [contains: x]}
"""

CSV = """id, question ,vars.topic,tags,runs,min_pass_rate,threshold,timeout_s,description,expect
a,"two
lines",geo,"x; y,z",3,0.5,0.8,1.5,about,"[{contains: x}, \
{not_contains: {value: y, ignore_case: true}}]"

b,short,,,,,,,,"[{""contains"": ""x""}]"
"""


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("c.yaml", YAML, [2, 6]),
        ("c.yml", "cases:\n" + YAML, [3, 7]),
        ("c.json", "[\n" + line("a") + "," + line("b") + "]", [2, 3]),
        ("c.jsonl", "\ufeff" + line("a") + "\n" + line("b"), [1, 3]),
        ("c.ndjson", line("a") + line("b").rstrip(), [1, 2]),
        ("c.csv", 'id,input,expect\r\na,q,contains: x\r\nb,q,"[contains: x]"\r\n', [2, 3]),
    ],
)
def test_cases_come_from_files_with_their_lines(
    project: Project, name: str, text: str, lines: list[int]
) -> None:
    if name == "c.csv":
        text = text.replace("contains: x\r", '"[{contains: x}]"\r')
    project.write(name, text)
    cases = read(project, name)
    assert [(case.id, case.input, case.line) for case in cases] == [
        ("a", "q", lines[0]),
        ("b", "q", lines[1]),
    ]
    assert all(Path(case.file) == project.folder / name for case in cases)
    assert [case.expect[0].grader for case in cases] == [Contains(value="x")] * 2


def test_inline_cases_and_files_keep_the_order_of_the_config(project: Project) -> None:
    project.write("b.jsonl", line("b1") + line("b2"))
    inline = {"input": "q", "expect": EXPECT}
    project.suite(cases=[{"id": "a", **inline}, {"file": "b.jsonl"}, {"id": "c", **inline}])
    assert [case.id for case in project.load().cases] == ["a", "b1", "b2", "c"]


def test_a_glob_reads_its_files_sorted_and_each_once(project: Project) -> None:
    for name in ("b", "a", "sub/c"):
        project.write(f"cases/{name}.jsonl", line(name))
    cases = read(
        project, ["cases/**/*.jsonl", "cases/a.jsonl", str(project.folder / "cases" / "*.jsonl")]
    )
    assert [case.id for case in cases] == ["a", "b", "sub/c"]


@pytest.mark.parametrize(
    "pattern",
    ["nope.jsonl", "nope/*.yaml", "", ".", "a**b", "x\0y", "z" * 5000, "/nope/*.yaml", "["],
)
def test_a_pattern_without_files_is_a_problem(project: Project, pattern: str) -> None:
    (problem,) = wrong(project, pattern)
    assert (
        problem
        == f"evals.yaml:1: cases.file: no such file: {pattern!r} (looked in {project.folder})"
    )


def test_a_file_of_another_kind_is_refused(project: Project) -> None:
    project.write("cases.txt", "x")
    assert wrong(project, "cases.txt") == [
        "cases.txt: cannot read cases from .txt: use .yaml, .json, .jsonl, .csv or .xlsx"
    ]


def test_every_wrong_line_of_a_jsonl_file_is_told(project: Project) -> None:
    rows = [
        "{",
        "[1]",
        '{"id": "a", "input": 1e999}',
        "[" * 9999,
        '{"id": "b", "bogus": 1, "vars": ' + '{"v":' * 500 + "1" + "}" * 501,
    ]
    rows += [
        '{"id": "c", "input": "q", "tags": [1], "runs": 0}',
        line("e"),
    ]
    project.write("c.jsonl", b"\n".join([b'{"id": "\xff"}', *(row.encode() for row in rows)]))
    problems = wrong(project, "c.jsonl")
    assert [problem.split(":")[1] for problem in problems] == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "7",
    ]
    assert all("c.jsonl:" in problem for problem in problems)
    assert (
        problems[2]
        == "c.jsonl:3: expected a mapping with keys such as id, description, input, got a list"
    )
    assert problems[-1] == "c.jsonl:7: runs: expected a whole number >= 1, got 0"


def test_ten_thousand_rows_are_read_without_holding_the_file(project: Project) -> None:
    path = project.folder / "c.jsonl"
    with path.open("w") as file:
        for number in range(10_000):
            file.write(
                line(f"case-{number}").rstrip() + " " * 8000 + "\n"
            )  # white space is read and dropped
    project.suite(cases={"file": "c.jsonl"})
    tracemalloc.start()
    try:
        cases = project.load().cases
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cases) == 10_000
    assert peak < path.stat().st_size


def test_a_file_of_broken_rows_stops_after_a_thousand_problems(project: Project) -> None:
    project.write("c.jsonl", "{\n" * 5000)
    assert 1 <= len(wrong(project, "c.jsonl")) <= 1001


def test_a_csv_row_has_settings_and_vars(project: Project) -> None:
    project.write("c.csv", CSV)
    project.suite(cases={"file": "c.csv"}, prompts=["{{ question }}"])
    first, second = project.load().cases
    assert first.vars == {"question": "two\nlines", "topic": "geo"}
    assert (first.tags, first.runs, first.min_pass_rate) == (("x", "y", "z"), 3, 0.5)
    assert (first.threshold, first.timeout_s, first.description) == (0.8, 1.5, "about")
    assert [expectation.name for expectation in first.expect] == ["contains", "not_contains"]
    assert (second.vars, second.tags, second.runs) == ({"question": "short", "topic": ""}, (), None)
    assert (first.line, second.line) == (2, 5)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "ID,q\na,b\n",
            ["1: rename the column 'ID' to `id`, or map it with `map: {id: ID, …}`"],
        ),
        ("id,q,q\na,b,c\n", ["1: the column 'q' appears twice: rename one of them"]),
        (
            "id,q\na,b,c\nb\nc,d\n",
            [
                "2: 3 cells under 2 columns: put quotes round a cell that has a comma in it",
                "3: 1 cell under 2 columns: put quotes round a cell that has a comma in it",
            ],
        ),
        ('id,q\na,"b"c\n', ["2: not valid CSV: ',' expected after '\"'"]),
        ('id,q\na,"b\n', ["2: not valid CSV: unexpected end of data"]),
        ("id,q,runs\na,b,many\n", ["2: runs: expected a whole number, got 'many'"]),
        ("id,q,runs\na,b,'1\nb,c,[\n", ["2: runs: not valid YAML", "3: runs: not valid YAML"]),
        (
            "id,q,expect\na,b,Paris\n",
            ["2: expect: expected a list of graders, as in `- contains: Paris`"],
        ),
        (
            "id,q,expect\na,b,[contians: x]\n",
            ["2: expect[0]: unknown grader 'contians', did you mean 'contains'?"],
        ),
    ],
)
def test_a_wrong_csv_is_told_line_by_line(project: Project, text: str, problems: list[str]) -> None:
    project.write("c.csv", text)
    project.suite(cases={"file": "c.csv"}, expect=EXPECT, prompts=["{{ q }}"])
    found = project.problems()
    assert len(found) == len(problems)
    assert all(
        got.startswith(f"c.csv:{problem}") for got, problem in zip(found, problems, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("c.csv", "id,input,note\na,one; two,x\n", {}),
        ("c.csv", 'id;input;note\na;"one; two";x\n', {}),
        ("c.csv", "id\tinput\tnote\na\tone; two\tx\n", {}),
        ("c.tsv", "id\tinput\tnote\na\tone; two\tx\n", {}),
        ("c.csv", "id|input|note\na|one; two|x\n", {"delimiter": "|"}),
        ("c.csv", 'id;input;note\na;"one; two";x\n', {"delimiter": ";"}),
    ],
)
def test_cells_are_between_commas_semicolons_or_tabs(
    project: Project, name: str, text: str, settings: dict[str, str]
) -> None:
    project.write(name, text)
    project.suite(cases={"file": name, **settings}, expect=EXPECT)
    (case,) = project.load().cases
    assert (case.id, case.input, case.vars) == ("a", "one; two", {"note": "x"})


def test_a_header_of_one_column_is_not_split_at_what_its_name_has(project: Project) -> None:
    project.write("c.csv", "id,what; where\na,here\n")
    project.suite(cases={"file": "c.csv"}, expect=EXPECT, prompts=["Where?"])
    assert project.load().cases[0].vars == {"what; where": "here"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "id;q\na;b;c\n",
            "3 cells under 2 columns: put quotes round a cell that has a semicolon in it",
        ),
        (
            "id\tq\na\tb\tc\n",
            "3 cells under 2 columns: put quotes round a cell that has a tab in it",
        ),
        (
            "id|q\na|b, c\n",
            (
                "2 cells under 1 column: put quotes round a cell that has a comma in it, "
                "or set `delimiter` if a comma is not what separates cells"
            ),
        ),
    ],
)
def test_a_row_that_is_too_long_names_what_is_between_its_cells(
    project: Project, text: str, says: str
) -> None:
    project.write("c.csv", text)
    (problem,) = wrong(project, "c.csv")
    assert problem == f"c.csv:2: {says}"


def test_a_delimiter_that_no_table_has_is_refused(project: Project) -> None:
    project.write("c.csv", "id,q\n")
    project.suite(cases={"file": "c.csv", "delimiter": "::"})
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: cases.delimiter: expected ")


def test_the_first_sheet_of_a_workbook_has_cases(project: Project) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    rows: list[list[object]] = [
        ["id", "input", "runs", "day", "price", "expect", None],
        ["a", "q", 3, date(2026, 5, 1), 2.5, "[contains: x]"],
        [],
        ["b", 7.0, None, None, True, None],
    ]
    for row in rows:
        sheet.append(row)
    sheet.insert_rows(3)
    workbook.create_sheet("other").append(["not read"])
    workbook.save(project.folder / "c.xlsx")
    project.suite(cases={"file": "c.xlsx"}, expect=EXPECT)
    first, second = project.load().cases
    assert (first.id, first.input, first.runs, first.line) == ("a", "q", 3, 2)
    assert first.vars == {"day": "2026-05-01", "price": "2.5"}
    assert (second.id, second.input, second.runs) == ("b", "7", None)
    assert second.vars == {"day": "", "price": "true"}


def test_a_workbook_is_mapped_as_any_table(project: Project) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    workbook.active.append(["Question", "Answer"])
    workbook.active.append(["Capital of France?", "Paris"])
    workbook.save(project.folder / "c.xlsx")
    columns = {"input": "Question", "expect": [{"contains": "{{ row.Answer }}"}]}
    project.suite(cases={"file": "c.xlsx", "map": columns})
    (case,) = project.load().cases
    assert case.input == "Capital of France?"
    assert case.expect[0].grader == Contains(value="Paris")


def test_a_file_that_is_no_workbook_is_a_problem(project: Project) -> None:
    pytest.importorskip("openpyxl")
    project.write("c.xlsx", "id,q")
    assert wrong(project, "c.xlsx") == ["c.xlsx: not a workbook: File is not a zip file"]


def test_a_csv_that_is_not_utf8_names_the_line(project: Project) -> None:
    project.write("c.csv", b"id,q\na,b\nc,caf\xe9\n")
    assert wrong(project, "c.csv")[-1] == "c.csv:3: not UTF-8: save the file as UTF-8"


@pytest.mark.parametrize("text", ["", "just text", "a: 1", "cases: 5"])
def test_a_case_file_that_holds_no_list_is_a_problem(project: Project, text: str) -> None:
    project.write("c.yaml", text)
    (problem,) = wrong(project, "c.yaml")
    assert "expected a list of cases" in problem


@pytest.mark.parametrize("cases", ["cases.yaml", 5, None, True])
def test_cases_must_be_a_list_or_a_file(project: Project, cases: object) -> None:
    project.suite(cases=cases)
    (problem,) = project.problems()
    assert problem.startswith(
        "evals.yaml:1: cases: expected a list of cases, or `file:` with a path or glob"
    )


def test_a_misspelt_way_to_name_cases_is_told_with_all_that_there_are(project: Project) -> None:
    project.suite(cases={"taks": "tasks/**/task.toml"})
    assert project.problems() == ["evals.yaml:1: cases: unknown key 'taks', did you mean 'tasks'?"]
    project.suite(cases={"zzz": "x"})
    assert project.problems() == [
        "evals.yaml:1: cases: unknown key 'zzz', known: file, python, tasks"
    ]


def test_every_problem_of_a_row_has_its_line(project: Project) -> None:
    bad = {
        "inputt": "x",
        "vars": 5,
        "messages": [{"rol": "user"}],
        "expect": [{"contains": {"valeu": "x"}}, 5],
    }
    project.write("c.jsonl", line("a") + line("b", **bad))
    problems = wrong(project, "c.jsonl")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["c.jsonl:2", "unknown key 'inputt', did you mean 'input'?"],
        ["c.jsonl:2", "vars"],
        ["c.jsonl:2", "messages[0]"],
        ["c.jsonl:2", "expect[0].contains"],
        ["c.jsonl:2", "expect[1]"],
    ]


def test_a_conversation_is_decoded_with_all_its_problems(project: Project) -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "usr"},
        {"role": "tool", "content": 5, "x": 1},
    ]
    project.suite(cases=[{"id": "a", "messages": messages, "expect": EXPECT}])
    assert project.problems() == [
        (
            "evals.yaml:1: cases[0].messages[1].role: expected system, user, assistant or tool, "
            "got 'usr'"
        ),
        (
            "evals.yaml:1: cases[0].messages[2].content: expected text or a list, got 5: put "
            'quotes round it, as in "5"'
        ),
        (
            "evals.yaml:1: cases[0].messages[2]: unknown key 'x', known: content, role, "
            "tool_call_id, tool_calls"
        ),
    ]


OPENAI = {"type": "openai", "model": "m", "base_url": "http://localhost"}


def test_a_row_of_a_dataset_may_have_overrides_too(project: Project) -> None:
    project.write(
        "cases.csv", 'id,input,expect,overrides\na,hi,"[{contains: x}]","{model: large}"\n'
    )
    project.suite(providers=[OPENAI], cases={"file": "cases.csv"})
    (case,) = project.load().cases
    assert case.overrides.model == "large"
