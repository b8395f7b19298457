from collections.abc import Mapping
from typing import Any

import pytest
from projects import CASE, Project

from ci_evals.model.case import Prompt
from ci_evals.model.fingerprint import digest
from ci_evals.suite.fingerprint import provider_identity, question_fingerprint
from ci_evals.suite.rendering import Templates

MODEL = {
    "type": "openai",
    "name": "m",
    "model": "gpt",
    "base_url": "http://localhost/v1",
    "params": {"a": 1, "b": 2},
}


def fingerprint(project: Project, environ: Mapping[str, str] | None = None, **settings: Any) -> str:
    project.suite(**({"providers": [MODEL]} | settings))
    return project.load(environ).fingerprint


def test_a_fingerprint_is_the_same_for_the_same_suite_however_it_is_written(
    project: Project,
) -> None:
    first = fingerprint(project)
    reordered = dict(reversed(MODEL.items())) | {"params": {"b": 2, "a": 1}}
    assert fingerprint(project, name="other", providers=[reordered], max_concurrency=2) == first
    assert len(first) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"runs": 2},
        {"prompts": ["{{ input }}"]},
        {"providers": [MODEL | {"model": "other"}]},
        {"providers": [MODEL | {"params": {"a": 2, "b": 2}}]},
        {"providers": [MODEL | {"name": "other"}]},
        {"cases": [CASE | {"id": "other"}]},
        {"cases": [CASE | {"input": "other"}]},
        {"cases": [CASE | {"vars": {"a": 1}}]},
        {"cases": [CASE | {"metadata": {"a": 1}}]},
        {"cases": [CASE | {"threshold": 0.5}]},
        {"cases": [CASE | {"expect": [{"not_contains": "Paris"}]}]},
        {"cases": [CASE | {"expect": [{"contains": {"value": "Paris", "ignore_case": True}}]}]},
        {"cases": [CASE | {"expect": [{"contains": {"value": "Paris", "weight": 2}}]}]},
        {"expect": [{"not_empty": True}]},
        {"threshold": 0.5},
    ],
)
def test_a_fingerprint_changes_with_what_is_asked_of_whom_and_how_it_is_judged(
    project: Project, change: dict[str, Any]
) -> None:
    assert fingerprint(project, **change) != fingerprint(project)


@pytest.mark.parametrize(
    "change",
    [
        {"timeout_s": 5, "retries": 1, "settings": {"seed": 3}},
        {
            "providers": [
                MODEL | {"timeout_s": 5, "retries": 1, "max_concurrency": 1, "on_error": "fail"}
            ]
        },
        {"providers": [MODEL | {"price": {"input_per_mtok": 1, "output_per_mtok": 2}}]},
        {"cases": [CASE | {"description": "about", "tags": ["t"]}]},
        {"gate": {"min_pass_rate": 0.5}},
    ],
)
def test_pace_price_patience_and_gate_leave_a_fingerprint_as_it_is(
    project: Project, change: dict[str, Any]
) -> None:
    assert fingerprint(project, **change) == fingerprint(project)


def test_the_patience_with_a_grader_leaves_a_fingerprint_as_it_is(project: Project) -> None:
    project.write("own.py", "def judge(output):\n    return True\n")

    def judged_by(**options: Any) -> str:
        grader = {"python": {"target": "own:judge", **options}}
        turns = {
            "id": "talk",
            "turns": [{"user": "hi", "expect": [grader]}],
            "expect": [{"not_empty": True}],
        }
        return fingerprint(project, cases=[CASE | {"expect": [grader]}, turns])

    assert judged_by(timeout_s=5, retries=2) == judged_by()
    assert judged_by(threshold=0.5) != judged_by()


def test_a_secret_takes_no_part_in_a_fingerprint(project: Project) -> None:
    providers = [MODEL | {"api_key": "${KEY}"}]
    assert fingerprint(project, {"KEY": "one"}, providers=providers) == fingerprint(
        project, {"KEY": "two"}, providers=providers
    )


def test_providers_of_two_types_with_the_same_settings_are_not_the_same(project: Project) -> None:
    identities = []
    for kind in ("openai", "anthropic"):
        project.suite(providers=[MODEL | {"type": kind}])
        identities.append(digest(provider_identity(project.load().providers[0])))
    assert identities[0] != identities[1]


def test_the_fingerprint_of_a_cell_changes_with_the_rendered_prompt(project: Project) -> None:
    project.suite()
    suite = project.load()
    identity, (case,) = provider_identity(suite.providers[0]), suite.cases
    texts = ["{{ input }}", "{{ input }}!", "{{ input ~ '' }}"]
    prints = [
        question_fingerprint(
            case, Templates().render(Prompt("p", (("user", text),)), case), identity
        )
        for text in texts
    ]
    assert prints[0] == prints[2]
    assert prints[0] != prints[1]


def test_overrides_take_part_in_the_fingerprint_and_the_time_does_not(project: Project) -> None:
    def overridden(**overrides: object) -> str:
        return fingerprint(project, cases=[CASE | {"overrides": overrides}])

    assert overridden(model="x") != overridden(model="y") != overridden()
    assert overridden(model="x") == overridden(model="x", timeout_s=3)
