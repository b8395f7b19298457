import json
from collections.abc import Sequence
from typing import Any

import pytest
from projects import CASE, Project

from ci_evals.graders import JsonSchema
from ci_evals.graders.equals import Equals
from ci_evals.graders.text import Contains, ContainsAll, ContainsAny
from ci_evals.model.case import Case, CaseOverrides

EXPECT = [{"contains": "x"}]


def line(case_id: str, **fields: object) -> str:
    return json.dumps({"id": case_id, "input": "q", "expect": EXPECT, **fields}) + "\n"


def read(project: Project, files: str | list[str]) -> Sequence[Case]:
    project.suite(cases={"file": files})
    return project.load().cases


def wrong(project: Project, files: str | list[str]) -> list[str]:
    project.suite(cases={"file": files})
    return project.problems()


def test_cases_share_what_is_expected_where_it_is_the_same(project: Project) -> None:
    one, true = ([{"equals": value}] for value in (1, True))
    project.write("c.jsonl", line("a", expect=one) + line("b", expect=true) + line("c", expect=one))
    first, other, again = (case.expect for case in read(project, "c.jsonl"))
    assert again[0] is first[0]
    assert [str(expect[0].grader) for expect in (first, other)] == [
        str(Equals(1)),
        str(Equals(True)),
    ]


def test_what_is_expected_wrongly_is_told_of_every_case(project: Project) -> None:
    project.write(
        "c.jsonl",
        line("a", expect=[{"regex": "("}]) + line("b") + line("c", expect=[{"regex": "("}]),
    )
    problems = wrong(project, "c.jsonl")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["c.jsonl:1", "expect[0].regex"],
        ["c.jsonl:3", "expect[0].regex"],
    ]


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
        (
            "evals.yaml:1: cases[1].id: the id 'a' is taken by the case at "
            f"{project.folder}/evals.yaml:1"
        )
    ]


@pytest.mark.parametrize("cases", [[], {"file": "empty.jsonl"}])
def test_no_cases_at_all_are_a_problem(project: Project, cases: object) -> None:
    project.write("empty.jsonl", "\n\n")
    project.suite(cases=cases)
    assert project.problems() == ["evals.yaml:1: cases: there are no cases"]


def test_a_case_must_ask_and_expect_something(project: Project) -> None:
    project.suite(
        cases=[
            {"id": "a", "expect": EXPECT},
            {"id": "b", "input": "q"},
            {"id": "c", "input": "q", "expect": []},
        ]
    )
    first, second, third = project.problems()
    assert first.startswith("evals.yaml:1: cases[0]: nothing is asked: give the case `input`, ")
    assert second.startswith("evals.yaml:1: cases[1]: nothing is expected of the answer")
    assert third.startswith("evals.yaml:1: cases[2]: nothing is expected of the answer")


def test_a_prompt_asks_something_even_of_a_case_that_says_nothing(project: Project) -> None:
    project.suite(prompts=["What is the capital of France?"], cases=[{"expect": EXPECT}])
    assert [case.id for case in project.load().cases] == ["case 1"]


def test_the_suites_expectations_come_first_and_suffice(project: Project) -> None:
    project.suite(
        expect=[{"not_empty": True}],
        cases=[{"id": "a", "input": "q"}, {"id": "b", "input": "q", "expect": EXPECT}],
    )
    first, second = project.load().cases
    assert [[e.name for e in case.expect] for case in (first, second)] == [
        ["not_empty"],
        ["not_empty", "contains"],
    ]


def test_the_suites_threshold_is_for_cases_without_one(project: Project) -> None:
    case = {"input": "q", "expect": EXPECT}
    project.suite(threshold=0.5, cases=[{"id": "a", **case}, {"id": "b", "threshold": 0.9, **case}])
    assert [case.threshold for case in project.load().cases] == [0.5, 0.9]


def test_the_suites_expectations_may_be_templates_over_a_cases_vars(project: Project) -> None:
    expect = [
        {"not_empty": True},
        {"contains_all": ["{{ answer }}", "plain {{ input | upper }}"]},
        {"latency": 5},
    ]
    project.suite(expect=expect, cases=[{"id": "a", "input": "q", "vars": {"answer": "Paris"}}])
    (case,) = project.load().cases
    assert [expectation.name for expectation in case.expect] == [
        "not_empty",
        "contains_all",
        "latency",
    ]
    assert case.expect[1].grader == ContainsAll(("Paris", "plain Q"))


def test_a_cases_own_expectations_may_be_templates_too(project: Project) -> None:
    expect = [
        {"contains": "{{ input }} {{ n }}"},
        {"contains_any": "{{ all }}"},
        {"equals": "{{ n }}"},
    ]
    turns = [{"user": "hi", "expect": [{"contains": "{{ n }}"}]}]
    case = {"id": "a", "vars": {"n": 5, "all": ["x", "y"]}, "expect": expect}
    project.suite(cases=[{**case, "input": "q"}, {**case, "id": "b", "turns": turns, "expect": []}])
    first, second = project.load().cases
    assert [each.grader for each in first.expect] == [
        Contains("q 5"),
        ContainsAny(("x", "y")),
        Equals("5"),
    ]
    assert second.expect[0].grader == Contains("5")


def test_a_template_that_does_not_fit_its_own_case_is_told_at_its_place(project: Project) -> None:
    project.suite(
        cases=[
            {"id": "a", "input": "q", "expect": [{"not_empty": True}, {"contains": "{{ anwser }}"}]}
        ]
    )
    assert project.problems() == [
        "evals.yaml:1: cases[0].expect[1]: 'anwser' is undefined; known: input"
    ]
    project.suite(cases=[{"id": "a", "input": "q", "expect": [{"equals": "{{ output }}"}]}])
    undefined = "evals.yaml:1: cases[0].expect[0]: 'output' is undefined"
    hint = "in `transform`, write an expression without braces"
    assert project.problems() == [f"{undefined}; {hint}"]


def test_the_suites_vars_are_every_cases_unless_it_has_its_own(project: Project) -> None:
    project.write("policy.md", "30 days")
    project.suite(
        vars={"policy": {"file": "policy.md"}, "tone": "${TONE:-kind}", "lang": "en"},
        prompts=["{{ policy }} {{ tone }} {{ lang }}"],
        expect=[{"contains": "{{ tone }}"}],
        cases=[{"id": "a"}, {"vars": {"tone": "rude"}}, {"id": "c", "matrix": {"lang": ["de"]}}],
    )
    first, second, third = project.load().cases
    assert first.vars == {"policy": "30 days", "tone": "kind", "lang": "en"}
    assert (second.id, second.vars["tone"], second.expect[0].grader) == (
        "rude",
        "rude",
        Contains("rude"),
    )
    assert (third.id, third.vars["lang"], third.vars["policy"]) == ("c lang=de", "de", "30 days")
    before = project.load().case_fingerprint(0)
    project.write("policy.md", "14 days")
    assert project.load().case_fingerprint(0) != before


def test_a_wrong_var_of_the_suite_is_told_once(project: Project) -> None:
    project.suite(vars={"policy": {"file": "polcy.md"}}, cases=[CASE, {**CASE, "id": "other"}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: vars.policy.file: polcy.md: no such file (looked in ")
    project.suite(vars=["policy"])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: vars: expected a mapping, got a list")


def test_a_template_that_does_not_fit_one_case_is_told_at_that_case(project: Project) -> None:
    project.write(
        "c.jsonl", line("a", vars={"pattern": "ok"}) + line("b") + line("c", vars={"pattern": "("})
    )
    project.suite(
        cases={"file": "c.jsonl"}, expect=[{"not_empty": True}, {"regex": "{{ pattern }}"}]
    )
    second, third = project.problems()
    assert second == (
        "c.jsonl:2: the suite's expect[1] does not fit this case: 'pattern' is undefined; "
        "known: input"
    )
    assert third.startswith(
        "c.jsonl:3: the suite's expect[1].regex does not fit this case: bad regular expression '('"
    )


def test_a_wrong_expectation_of_the_suite_is_told_once_at_its_line(project: Project) -> None:
    project.write(
        "evals.yaml",
        "providers: [{type: mock}]\ncases: [{id: a, input: q}, {id: b, input: q}]\n"
        "expect:\n  - not_empty: true\n  - contians: x\n",
    )
    assert project.problems() == [
        "evals.yaml:5: expect[1]: unknown grader 'contians', did you mean 'contains'?"
    ]


def test_a_case_with_a_taken_id_is_checked_further(project: Project) -> None:
    case = {"id": "a", "input": "q"}
    typo = {"contains": {"value": "x", "weigth": 2}}
    project.suite(
        cases=[{**case, "expect": EXPECT}, {**case, "expect": [typo]}], prompts=["{{ topic }}"]
    )
    problems = [problem.removeprefix("evals.yaml:1: ") for problem in project.problems()]
    assert "cases[1].expect[0].contains: unknown key 'weigth', did you mean 'weight'?" in problems
    assert len(problems) == 3


def test_a_case_that_asks_nothing_is_checked_further(project: Project) -> None:
    project.suite(cases=[{"id": "a", "expect": [{"contians": "x"}]}])
    assert [problem.split(": ")[1:3] for problem in project.problems()] == [
        ["cases[0].expect[0]", "unknown grader 'contians', did you mean 'contains'?"],
        ["cases[0]", "nothing is asked"],
    ]


OPENAI = {"type": "openai", "model": "m", "base_url": "http://localhost"}

SUITE = """\
providers: [{type: openai, model: m, base_url: "http://localhost"}]
cases:
  - id: a
    input: hi
    expect: [{contains: x}]
    overrides:
      modle: large
"""


def test_overrides_are_read_with_the_case(project: Project) -> None:
    project.suite(
        providers=[OPENAI],
        cases=[{**CASE, "overrides": {"model": "x", "params": {"n": 1}, "timeout_s": 3}}],
    )
    (case,) = project.load().cases
    assert case.overrides == CaseOverrides(model="x", params={"n": 1}, timeout_s=3)
    assert case.timeout_s == 3


def test_an_unknown_setting_is_shown_with_its_line_and_what_was_meant(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    assert project.problems() == [
        "evals.yaml:7: cases[0].overrides: unknown key 'modle', did you mean 'model'?",
    ]


# Matrix, files and ids.


def test_a_matrix_makes_a_case_of_every_combination(project: Project) -> None:
    matrix = {"lang": ["en", "de"], "doc": [{"file": "long.md"}, "none", None, ["a"]]}
    project.write("long.md", "Policy\n" * 50)
    project.suite(
        cases=[
            {
                "id": "greet",
                "input": "q",
                "vars": {"list": [1, 2]},
                "matrix": matrix,
                "expect": EXPECT,
            }
        ]
    )
    cases = project.load().cases
    assert [case.id for case in cases[:4]] == [
        *(
            "greet lang=en doc=long.md",
            "greet lang=en doc=none",
            "greet lang=en doc=null",
            'greet lang=en doc=["a"]',
        ),
    ]
    assert cases[4].id == "greet lang=de doc=long.md"
    assert cases[4].vars == {"list": [1, 2], "lang": "de", "doc": "\n".join(["Policy"] * 50)}
    assert cases[3].vars["doc"] == ["a"]


def test_the_cases_of_a_matrix_have_the_same_ids_whatever_stands_beside_them(
    project: Project,
) -> None:
    texts = ["word " * 100, "word " * 99]
    project.suite(
        prompts=["{{ text }}"], cases=[{"matrix": {"text": texts, "n": [1]}, "expect": EXPECT}]
    )
    first, second = (case.id for case in project.load().cases)
    assert first != second
    project.suite(
        prompts=["{{ text }}"], cases=[{"matrix": {"text": texts[1:], "n": [1]}, "expect": EXPECT}]
    )
    assert [case.id for case in project.load().cases] == [second]


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({"matrix": {"lang": "en"}}, "matrix.lang: expected a list, got 'en': write"),
        ({"matrix": {"lang": []}}, "matrix.lang: expected at least 1 entry, got 0"),
        (
            {"matrix": {"lang": ["en"]}, "vars": {"lang": "de"}},
            "matrix.lang: is also in the case's `vars`: remove",
        ),
        (
            {"matrix": {key: [*range(10)] for key in "abcd"}},
            "matrix: makes 10,000 cases of one; the limit is 1,000: leave",
        ),
        (
            {"matrix": {"doc": ["x", {"file": "no.md"}]}},
            "matrix.doc[1].file: no.md: no such file (looked in ",
        ),
        ({"vars": {"doc": {"file": "no.md"}}}, "vars.doc.file: no.md: no such file (looked in "),
    ],
)
def test_a_wrong_matrix_or_file_is_told_at_its_place(
    project: Project, case: dict[str, object], problem: str
) -> None:
    project.suite(cases=[{"id": "a", "input": "q", "expect": EXPECT, **case}])
    (found,) = project.problems()
    assert found.startswith(f"evals.yaml:1: cases[0].{problem}")


def test_a_var_in_a_file_is_what_the_file_holds_and_so_is_a_schema(project: Project) -> None:
    project.write("policy.md", "30 days\n")
    project.write("facts.yaml", "days: 30\n")
    project.write("schema.json", '{"type": "object"}')
    values = {
        "policy": {"file": "policy.md"},
        "facts": {"file": "facts.yaml"},
        "raw": {"file": "x", "mode": "r"},
    }
    schemas = [
        {"json_schema": {"file": "schema.json"}},
        {"not_json_schema": {"schema": {"file": "schema.json"}}},
    ]
    project.suite(
        expect=schemas[:1], cases=[{"id": "a", "vars": values, "input": "q", "expect": schemas[1:]}]
    )
    (case,) = project.load().cases
    assert case.vars == {
        "policy": "30 days",
        "facts": {"days": 30},
        "raw": {"file": "x", "mode": "r"},
    }
    assert [each.grader for each in case.expect] == [JsonSchema({"type": "object"})] * 2
    before = project.load().case_fingerprint(0)
    project.write("policy.md", "14 days\n")
    assert project.load().case_fingerprint(0) != before
    project.write("schema.json", '{"type": "obj"}')
    project.write("facts.yaml", "a: 1\na: 2\n")
    assert [problem.split(": ")[:2] for problem in project.problems()] == [
        ["evals.yaml:1", "expect[0].json_schema"],
        ["evals.yaml:1", "cases[0].expect[0].not_json_schema"],
        ["facts.yaml:2", "a"],
    ]


def test_a_recording_that_is_not_there_is_a_problem_with_its_line(project: Project) -> None:
    project.write("evals.yaml", SUITE.replace("modle: large", "recorded: none.json"))
    (problem,) = project.problems()
    assert problem.startswith(
        "evals.yaml:7: cases[0].overrides.recorded: the recording 'none.json' cannot be read: No"
    )


def test_graders_that_decide_nothing_are_told_where_they_stand(project: Project) -> None:
    light = {"contains": {"value": "x", "weight": 0}}
    text = (
        "all graders have weight 0, so any answer would pass: give one a weight, or a `metric` "
        "to count for"
    )
    cases = [{"id": name, "input": "q"} for name in "ab"]
    project.suite(cases=cases, expect=[light, {"any_of": {"of": [{"contains": "y"}], "weight": 0}}])
    assert project.problems() == [f"evals.yaml:1: expect: {text}"]
    project.suite(
        cases=[{**cases[0], "expect": [light]}, {**cases[1], "expect": [{"not_empty": True}]}]
    )
    assert project.problems() == [f"evals.yaml:1: cases[0]: {text}"]
    project.suite(cases=cases, expect=[light, {"contians": "x"}])
    assert len(project.problems()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0.5},
        {"expect": [{"contains": {"value": "x", "weight": 0, "metric": "tone"}}]},
        {"expect": [{"classify": {"label": "a", "weight": 0}}]},
    ],
)
def test_graders_without_weight_may_decide_all_the_same(
    project: Project, settings: dict[str, Any]
) -> None:
    project.suite(
        **{"expect": [{"contains": {"value": "x", "weight": 0}}], **settings},
        cases=[{"input": "q"}],
    )
    assert project.load().cases
