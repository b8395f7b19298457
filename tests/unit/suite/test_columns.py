import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from projects import Project

from ci_evals.graders.equals import Equals
from ci_evals.graders.text import Contains
from ci_evals.model.case import Case

CSV = """\
ID,Question,Right answer,Topic,n
1,What is 1+1?,2,math; easy,3
2,"Who wrote {{ it }}?",{{ nobody }},,1
"""


def read(
    project: Project, name: str, columns: Mapping[str, Any], **settings: Any
) -> Sequence[Case]:
    project.suite(cases={"file": name, "map": columns}, prompts=["{{ question }}"], **settings)
    return project.load().cases


def test_columns_of_a_csv_become_cases(project: Project) -> None:
    project.write("x.csv", CSV)
    first, second = read(
        project,
        "x.csv",
        {
            "id": "ID",
            "vars": {"question": "Question", "loud": "{{ row.Question | upper }}", "n": 5},
            "tags": ["Topic", "{{ 'all' }}"],
            "metadata": {"topics": {"raw": "Topic"}},
            "runs": "{{ row.n | int }}",
            "expect": [{"equals": "{{ row['Right answer'] }}"}, {"contains": "Topic"}],
        },
    )
    assert first.vars == {"question": "What is 1+1?", "loud": "WHAT IS 1+1?", "n": 5}
    assert (first.id, first.tags, first.runs, first.line) == ("1", ("math", "easy", "all"), 3, 2)
    assert first.metadata == {"topics": {"raw": "math; easy"}}
    assert [each.grader for each in first.expect] == [Equals("2"), Contains("Topic")]
    assert (second.vars["question"], second.tags) == ("Who wrote {{ it }}?", ("all",))
    assert second.expect[0].grader == Equals("{{ nobody }}")


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.yaml"])
def test_values_of_json_stay_what_they_are_and_ids_are_made_of_what_is_asked(
    project: Project, name: str
) -> None:
    rows = [
        {
            "q": "How many?",
            "answers": ["two", "2"],
            "deep": {"n": 7},
            "evil": {"file": "/etc/passwd"},
        },
        {"q": "How many?", "answers": [1], "deep": {"n": 8}, "evil": None},
    ]
    text = "\n".join(map(json.dumps, rows)) if name == "x.jsonl" else json.dumps(rows)
    project.write(name, text)
    columns = {
        "vars": {
            "question": "q",
            "n": "{{ row.deep.n }}",
            "evil": "evil",
            "own": {"file": "own/{{ row.deep.n }}"},
        }
    }
    for number in (7, 8):
        project.write(f"own/{number}", str(number))
    first, second = read(project, name, {**columns, "expect": [{"equals": "{{ row.answers }}"}]})
    assert first.vars == {
        "question": "How many?",
        "n": 7,
        "evil": {"file": "/etc/passwd"},
        "own": "7",
    }
    assert first.expect[0].grader == Equals(["two", "2"])
    assert first.id != second.id
    assert first.id.startswith("question=How many? n=7 ")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"id": "Id"}, "map.id: unknown column 'Id', did you mean 'ID'? (x.csv:2 and 1 more)"),
        (
            {"vars": {"q": ["Qestion"]}},
            "map.vars.q[0]: unknown column 'Qestion', did you mean 'Question'? (x.csv:2 and 1",
        ),
        ({"tgas": "Topic"}, "map: unknown key 'tgas', did you mean 'tags'?"),
        (
            {"expect": [{"equals": "{{ row.Answer }}"}]},
            (
                "map.expect: there is no 'Answer'; known: ID, Question, Right answer, Topic, n "
                "(x.csv:2 and"
            ),
        ),
        (
            {"expect": [{"equals": "{{ Question }}"}]},
            (
                "map.expect: 'Question' is undefined, did you mean 'row.Question'? (x.csv:2 and "
                "1 more)"
            ),
        ),
        ({"input": "{{ row.ID }"}, "map.input: not a valid template: unexpected '}'"),
        (
            {"vars": {"doc": {"file": "{{ row.ID }}.md"}}},
            "map.vars.doc: 1.md: no such file (looked in ",
        ),
        ("ID", "map: expected a mapping, got 'ID'"),
    ],
)
def test_a_wrong_map_is_told_once(project: Project, columns: Any, problem: str) -> None:
    project.write("x.csv", CSV.replace("2,", "1,", 1) if "doc" in str(columns) else CSV)
    whole = {"input": "Question", **columns} if isinstance(columns, dict) else columns
    project.suite(cases=[{"file": "x.csv", "map": whole}], expect=[{"contains": "x"}])
    assert (
        project.problems()[0]
        .replace(f"{project.folder}/", "")
        .startswith(f"evals.yaml:1: cases[0].{problem}")
    )
    assert len(project.problems()) == (2 if "doc" in str(columns) else 1)


def test_what_a_row_makes_of_a_field_is_checked_with_its_place(project: Project) -> None:
    project.write("x.csv", CSV)
    project.suite(
        cases={"file": "x.csv", "map": {"input": "Question", "runs": "{{ row.ID }}"}},
        expect=[{"contains": "x"}],
    )
    assert project.problems() == [
        "x.csv:2: runs: expected a whole number, got '1'",
        "x.csv:3: runs: expected a whole number, got '2'",
    ]


def test_rows_must_have_columns(project: Project) -> None:
    project.write("x.json", '["a", {"q": "b"}]')
    project.suite(cases={"file": "x.json", "map": {"input": "q"}}, expect=[{"contains": "x"}])
    (problem,) = project.problems()
    assert problem.startswith(
        "evals.yaml:1: cases.map: expected rows with columns: a mapping for each ("
    )
