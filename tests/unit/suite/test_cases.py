import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from projects import Project

from ci_evals.graders.text import Contains, ContainsAll, Equals
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


YAML = "# comment\n- id: a\n  input: q\n  expect:\n    - contains: x\n- {id: b, input: q, expect: [contains: x]}\n"


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
def test_cases_come_from_files_with_their_lines(project: Project, name: str, text: str, lines: list[int]) -> None:
    if name == "c.csv":
        text = text.replace("contains: x\r", '"[{contains: x}]"\r')
    project.write(name, text)
    cases = read(project, name)
    assert [(case.id, case.input, case.line) for case in cases] == [("a", "q", lines[0]), ("b", "q", lines[1])]
    assert all(Path(case.file) == project.folder / name for case in cases)
    assert [case.expect[0].grader for case in cases] == [Contains(value="x")] * 2


def test_cases_share_what_is_expected_where_it_is_the_same(project: Project) -> None:
    one, true = ([{"equals": value}] for value in (1, True))
    project.write("c.jsonl", line("a", expect=one) + line("b", expect=true) + line("c", expect=one))
    first, other, again = (case.expect for case in read(project, "c.jsonl"))
    assert again[0] is first[0]
    assert [str(expect[0].grader) for expect in (first, other)] == [str(Equals(1)), str(Equals(True))]


def test_what_is_expected_wrongly_is_told_of_every_case(project: Project) -> None:
    project.write("c.jsonl", line("a", expect=[{"regex": "("}]) + line("b") + line("c", expect=[{"regex": "("}]))
    problems = wrong(project, "c.jsonl")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["c.jsonl:1", "expect[0].regex"],
        ["c.jsonl:3", "expect[0].regex"],
    ]


def test_inline_cases_and_files_keep_the_order_of_the_config(project: Project) -> None:
    project.write("b.jsonl", line("b1") + line("b2"))
    inline = {"input": "q", "expect": EXPECT}
    project.suite(cases=[{"id": "a", **inline}, {"file": "b.jsonl"}, {"id": "c", **inline}])
    assert [case.id for case in project.load().cases] == ["a", "b1", "b2", "c"]


def test_a_glob_reads_its_files_sorted_and_each_once(project: Project) -> None:
    for name in ("b", "a", "sub/c"):
        project.write(f"cases/{name}.jsonl", line(name))
    cases = read(project, ["cases/**/*.jsonl", "cases/a.jsonl", str(project.folder / "cases" / "*.jsonl")])
    assert [case.id for case in cases] == ["a", "b", "sub/c"]


@pytest.mark.parametrize(
    "pattern", ["nope.jsonl", "nope/*.yaml", "", ".", "a**b", "x\0y", "z" * 5000, "/nope/*.yaml", "["]
)
def test_a_pattern_without_files_is_a_problem(project: Project, pattern: str) -> None:
    (problem,) = wrong(project, pattern)
    assert problem == f"evals.yaml:1: cases.file: no such file: {pattern!r} (looked in {project.folder})"


def test_a_file_of_another_kind_is_refused(project: Project) -> None:
    project.write("cases.txt", "x")
    assert wrong(project, "cases.txt") == ["cases.txt: cannot read cases from .txt: use .yaml, .json, .jsonl or .csv"]


def test_a_taken_id_names_both_places(project: Project) -> None:
    project.write("a.jsonl", line("x") + line("y") + line("x"))
    project.write("b.yaml", "- input: q\n  id: y\n  expect: [contains: x]\n")
    assert wrong(project, ["a.jsonl", "b.yaml"]) == [
        f"a.jsonl:3: id: the id 'x' is taken by the case at {project.folder}/a.jsonl:1",
        f"b.yaml:2: [0].id: the id 'y' is taken by the case at {project.folder}/a.jsonl:2",
    ]


def test_an_id_is_taken_even_on_the_same_line(project: Project) -> None:
    project.suite(cases=[{"id": "a", "input": "q", "expect": EXPECT}] * 2)
    assert project.problems() == [
        f"evals.yaml:1: cases[1].id: the id 'a' is taken by the case at {project.folder}/evals.yaml:1"
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
    assert [problem.split(":")[1] for problem in problems] == ["1", "2", "3", "4", "5", "6", "7", "7"]
    assert all("c.jsonl:" in problem for problem in problems)
    assert problems[2] == "c.jsonl:3: expected a mapping with keys such as id, description, input, got a list"
    assert problems[-1] == "c.jsonl:7: runs: expected a whole number >= 1, got 0"


def test_ten_thousand_rows_are_read_without_holding_the_file(project: Project) -> None:
    path = project.folder / "c.jsonl"
    with path.open("w") as file:
        for number in range(10_000):
            file.write(line(f"case-{number}").rstrip() + " " * 8000 + "\n")  # white space is read and dropped
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


CSV = """id, question ,vars.topic,tags,runs,min_pass_rate,threshold,timeout_s,description,expect
a,"two
lines",geo,"x; y,z",3,0.5,0.8,1.5,about,"[{contains: x}, {not_contains: {value: y, ignore_case: true}}]"

b,short,,,,,,,,"[{""contains"": ""x""}]"
"""


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
        ("name,input\na,q\n", ["1: a column `id` is missing: results are compared by it, so it must be stable"]),
        ("", ["1: a column `id` is missing: results are compared by it, so it must be stable"]),
        ("id,q,q\na,b,c\n", ["1: the column 'q' is there twice: rename one of them"]),
        (
            "id,q\na,b,c\nb\nc,d\n",
            [
                "2: 3 cells under 2 columns: put quotes round a cell that has a comma in it",
                "3: 1 cells under 2 columns: put quotes round a cell that has a comma in it",
            ],
        ),
        ('id,q\na,"b"c\n', ["2: not valid CSV: ',' expected after '\"'"]),
        ('id,q\na,"b\n', ["2: not valid CSV: unexpected end of data"]),
        ("id,q,runs\na,b,many\n", ["2: runs: expected a whole number, got 'many'"]),
        ("id,q,runs\n,b,\n", ["2: id: expected text of length >= 1, got ''"]),
        ("id,q,runs\na,b,'1\nb,c,[\n", ["2: runs: not valid YAML", "3: runs: not valid YAML"]),
        ("id,q,expect\na,b,Paris\n", ["2: expect: expected a list of graders, as in `- contains: Paris`"]),
        ("id,q,expect\na,b,[contians: x]\n", ["2: expect[0]: unknown grader 'contians', did you mean 'contains'?"]),
    ],
)
def test_a_wrong_csv_is_told_line_by_line(project: Project, text: str, problems: list[str]) -> None:
    project.write("c.csv", text)
    project.suite(cases={"file": "c.csv"}, expect=EXPECT, prompts=["{{ q }}"])
    found = project.problems()
    assert len(found) == len(problems)
    assert all(got.startswith(f"c.csv:{problem}") for got, problem in zip(found, problems, strict=True))


def test_a_csv_that_is_not_utf8_names_the_line(project: Project) -> None:
    project.write("c.csv", b"id,q\na,b\nc,caf\xe9\n")
    assert wrong(project, "c.csv")[-1] == "c.csv:3: not UTF-8: save the file as UTF-8"


@pytest.mark.parametrize("text", ["", "just text", "a: 1", "cases: 5"])
def test_a_case_file_that_holds_no_list_is_a_problem(project: Project, text: str) -> None:
    project.write("c.yaml", text)
    (problem,) = wrong(project, "c.yaml")
    assert "expected a list of cases" in problem


@pytest.mark.parametrize("cases", [[], {"file": "empty.jsonl"}])
def test_no_cases_at_all_are_a_problem(project: Project, cases: object) -> None:
    project.write("empty.jsonl", "\n\n")
    project.suite(cases=cases)
    assert project.problems() == ["evals.yaml:1: cases: there are no cases"]


@pytest.mark.parametrize("cases", ["cases.yaml", 5, None, True])
def test_cases_must_be_a_list_or_a_file(project: Project, cases: object) -> None:
    project.suite(cases=cases)
    assert project.problems() == ["evals.yaml:1: cases: expected a list of cases, or `file:` with a path or glob"]


def test_a_case_must_ask_and_expect_something(project: Project) -> None:
    project.suite(
        cases=[{"id": "a", "expect": EXPECT}, {"id": "b", "input": "q"}, {"id": "c", "input": "q", "expect": []}]
    )
    first, second, third = project.problems()
    assert first.startswith("evals.yaml:1: cases[0]: nothing is asked: give the case `input`, ")
    assert second.startswith("evals.yaml:1: cases[1]: nothing is expected of the answer")
    assert third.startswith("evals.yaml:1: cases[2]: nothing is expected of the answer")


def test_the_suites_expectations_come_first_and_suffice(project: Project) -> None:
    project.suite(
        expect=[{"not_empty": True}], cases=[{"id": "a", "input": "q"}, {"id": "b", "input": "q", "expect": EXPECT}]
    )
    first, second = project.load().cases
    assert [[e.name for e in case.expect] for case in (first, second)] == [["not_empty"], ["not_empty", "contains"]]


def test_the_suites_threshold_is_for_cases_without_one(project: Project) -> None:
    case = {"input": "q", "expect": EXPECT}
    project.suite(threshold=0.5, cases=[{"id": "a", **case}, {"id": "b", "threshold": 0.9, **case}])
    assert [case.threshold for case in project.load().cases] == [0.5, 0.9]


def test_the_suites_expectations_may_be_templates_over_a_cases_vars(project: Project) -> None:
    expect = [{"not_empty": True}, {"contains_all": ["{{ answer }}", "plain {{ input | upper }}"]}, {"latency": 5}]
    project.suite(expect=expect, cases=[{"id": "a", "input": "q", "vars": {"answer": "Paris"}}])
    (case,) = project.load().cases
    assert [expectation.name for expectation in case.expect] == ["not_empty", "contains_all", "latency"]
    assert case.expect[1].grader == ContainsAll(("Paris", "plain Q"))


def test_a_cases_own_expectations_are_no_templates(project: Project) -> None:
    project.suite(cases=[{"id": "a", "input": "q", "expect": [{"contains": "{{ input }}"}]}])
    assert project.load().cases[0].expect[0].grader == Contains(value="{{ input }}")


def test_a_template_that_does_not_fit_one_case_is_told_at_that_case(project: Project) -> None:
    project.write("c.jsonl", line("a", vars={"pattern": "ok"}) + line("b") + line("c", vars={"pattern": "("}))
    project.suite(cases={"file": "c.jsonl"}, expect=[{"not_empty": True}, {"regex": "{{ pattern }}"}])
    second, third = project.problems()
    assert second == "c.jsonl:2: the suite's expect[1] does not fit this case: 'pattern' is undefined"
    assert third.startswith("c.jsonl:3: the suite's expect[1].regex does not fit this case: bad regular expression '('")


def test_a_wrong_expectation_of_the_suite_is_told_once_at_its_line(project: Project) -> None:
    project.write(
        "evals.yaml",
        "providers: [{type: mock}]\ncases: [{id: a, input: q}, {id: b, input: q}]\n"
        "expect:\n  - not_empty: true\n  - contians: x\n",
    )
    assert project.problems() == ["evals.yaml:5: expect[1]: unknown grader 'contians', did you mean 'contains'?"]


def test_a_conversation_is_decoded_with_all_its_problems(project: Project) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "usr"}, {"role": "tool", "content": 5, "x": 1}]
    project.suite(cases=[{"id": "a", "messages": messages, "expect": EXPECT}])
    assert project.problems() == [
        "evals.yaml:1: cases[0].messages[1].role: expected system, user, assistant or tool, got 'usr'",
        'evals.yaml:1: cases[0].messages[2].content: expected text, got 5: put quotes round it, as in "5"',
        "evals.yaml:1: cases[0].messages[2]: unknown key 'x', known: content, role, tool_call_id, tool_calls",
    ]


def test_every_problem_of_a_row_has_its_line(project: Project) -> None:
    bad = {"inputt": "x", "vars": 5, "messages": [{"rol": "user"}], "expect": [{"contains": {"valeu": "x"}}, 5]}
    project.write("c.jsonl", line("a") + line("b", **bad))
    problems = wrong(project, "c.jsonl")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["c.jsonl:2", "unknown key 'inputt', did you mean 'input'?"],
        ["c.jsonl:2", "vars"],
        ["c.jsonl:2", "messages[0]"],
        ["c.jsonl:2", "messages[0]"],
        ["c.jsonl:2", "expect[0].contains"],
        ["c.jsonl:2", "expect[0].contains"],
        ["c.jsonl:2", "expect[1]"],
    ]


def test_a_case_with_a_taken_id_is_checked_further(project: Project) -> None:
    case = {"id": "a", "input": "q"}
    typo = {"contains": {"value": "x", "weigth": 2}}
    project.suite(cases=[{**case, "expect": EXPECT}, {**case, "expect": [typo]}], prompts=["{{ topic }}"])
    problems = [problem.removeprefix("evals.yaml:1: ") for problem in project.problems()]
    assert "cases[1].expect[0].contains: unknown key 'weigth', did you mean 'weight'?" in problems
    assert len(problems) == 3


def test_a_case_that_asks_nothing_is_checked_further(project: Project) -> None:
    project.suite(cases=[{"id": "a", "expect": [{"contians": "x"}]}])
    assert [problem.split(": ")[1:3] for problem in project.problems()] == [
        ["cases[0].expect[0]", "unknown grader 'contians', did you mean 'contains'?"],
        ["cases[0]", "nothing is asked"],
    ]


def test_a_misspelt_way_to_name_cases_is_told_with_all_that_there_are(project: Project) -> None:
    project.suite(cases={"taks": "tasks/**/task.toml"})
    assert project.problems() == ["evals.yaml:1: cases: unknown key 'taks', did you mean 'tasks'?"]
    project.suite(cases={"zzz": "x"})
    assert project.problems() == ["evals.yaml:1: cases: unknown key 'zzz', known: file, tasks"]
