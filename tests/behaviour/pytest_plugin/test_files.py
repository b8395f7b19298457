"""Suite files as tests."""

import json
from typing import Any

import pytest
from sessions import session

CASES = [
    {"id": "good", "input": "hello", "expect": [{"equals": "hello"}]},
    {"id": "bad", "input": "bye", "expect": [{"equals": "good bye"}]},
]


AGENT = """
    def answer(text):
        with open("calls", "a") as file:
            file.write(text + " ")
        return text
"""


def run(
    pytester: pytest.Pytester,
    *arguments: str,
    plugins: tuple[str, ...] = (),
    ini: str = "",
    **settings: Any,
) -> pytest.RunResult:
    suite = {
        "name": "greetings",
        "runs": 1,
        "providers": [{"name": "echo", "type": "mock"}],
        "cases": CASES,
        **settings,
    }
    (pytester.path / "evals.yaml").write_text(json.dumps(suite))
    return session(pytester, *arguments, plugins=plugins, ini=ini)


def test_a_suite_that_is_named_is_one_test_for_each_case(pytester: pytest.Pytester) -> None:
    done = run(pytester, "-v", "evals.yaml", runs=2)
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines([
        "evals.yaml::good PASSED*",
        "evals.yaml::bad FAILED*",
        'the answer is "bye", expected "good bye"',
        "0 of 2 runs passed  *evals.yaml:1",
        '    the answer is "bye", expected "good bye"',
        "    answer of run 1: bye",
        "*= evals =*",
        "evals.yaml::good: 2 of 2 runs passed",
        "evals.yaml::bad: 0 of 2 runs passed",
        "FAILED evals.yaml::bad - Failed: the answer is *",
    ])  # fmt: skip


def test_a_setup_is_run_and_its_failure_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop="""
    def order(request):
        if request.case.id == "bad":
            raise KeyError("no database")
        return {"name": "hello"}
    """
    )
    cases = [
        {"id": name, "vars": {"x": 1}, "expect": [{"equals": "{{ name }}"}]}
        for name in ("good", "bad")
    ]
    done = run(
        pytester, "-v", "evals.yaml", cases=cases, prompts=["{{ name }}"], setup="shop:order"
    )
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*setup shop:order raised KeyError: 'no database'*"])


def test_a_suite_that_nobody_named_is_not_run(pytester: pytest.Pytester) -> None:
    assert run(pytester).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert run(pytester, ".").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_projects_configuration_may_name_suites(pytester: pytest.Pytester) -> None:
    run(pytester, ini="evals_files = evals*.yaml").assert_outcomes(passed=1, failed=1)


def test_cases_are_selected_like_tests(pytester: pytest.Pytester) -> None:
    run(pytester, "evals.yaml::good").assert_outcomes(passed=1)
    run(pytester, "evals.yaml", "-k", "good", "--evals-report=out").assert_outcomes(
        passed=1, deselected=1
    )
    (report,) = (pytester.path / "out").glob("*/report.json")
    assert {result["case"] for result in json.loads(report.read_bytes())["results"]} == {"good"}


@pytest.mark.parametrize("arguments", [(), ("-n2",), ("--maxfail=5",)])
def test_every_case_is_run_once(arguments: tuple[str, ...], pytester: pytest.Pytester) -> None:
    pytester.makepyfile(agent=AGENT)
    provider = {"type": "python", "target": "agent:answer", "name": "agent"}
    plugins = ("xdist",) if "-n2" in arguments else ()
    run(pytester, "evals.yaml", *arguments, plugins=plugins, providers=[provider]).assert_outcomes(
        passed=1, failed=1
    )
    assert sorted((pytester.path / "calls").read_text().split()) == ["bye", "hello"]


def test_a_case_below_its_bar_on_one_variant_fails_and_one_within_it_passes(
    pytester: pytest.Pytester,
) -> None:
    providers = [
        {"name": name, "type": "mock", "default": said}
        for name, said in (("a", "hello"), ("b", "no"))
    ]
    done = run(pytester, "evals.yaml", providers=providers, cases=CASES[:1])
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        ["b: 0 of 1 run passed*", "*evals.yaml::good: a: 1 of 1 run passed, b: 0 of 1 run*"]
    )
    run(
        pytester, "evals.yaml", providers=providers, cases=[{**CASES[0], "min_pass_rate": 0}]
    ).assert_outcomes(passed=1)


def test_a_wrong_suite_is_told_with_its_place(pytester: pytest.Pytester) -> None:
    done = run(pytester, "evals.yaml", runs=0)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*evals.yaml:1: runs: expected a whole number >= 1*"])


def test_keys_are_needed_only_when_a_case_is_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    providers = [{"type": "openai", "model": "gpt"}]
    assert (
        run(pytester, "evals.yaml", "--collect-only", providers=providers).ret == pytest.ExitCode.OK
    )
    done = run(pytester, "evals.yaml", "-k", "good", providers=providers)
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(["*no key: set the variable OPENAI_API_KEY*"])


def test_a_case_that_is_worse_than_its_baseline_fails_in_a_sentence(
    pytester: pytest.Pytester,
) -> None:
    other = {"id": "other", "input": "bye", "expect": [{"equals": "bye"}]}
    cases = [
        {"id": "hello", "input": "hi", "min_pass_rate": 0.0, "expect": [{"equals": "hello"}]},
        other,
    ]

    def session_of(says: str, *arguments: str) -> pytest.RunResult:
        provider = {
            "name": "agent",
            "type": "mock",
            "default": "{{ input }}",
            "answers": {"hello": says},
        }
        return run(pytester, "evals.yaml", *arguments, providers=[provider], cases=cases, runs=8)

    session_of("hello", "--evals-report=main").assert_outcomes(passed=2)
    done = session_of("hello?", "--evals-baseline=main")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines([
        "hello: 8 of 8 on the baseline, 0 of * here; p *, adjusted for 2 cases",
        "evals.yaml::hello:   regressed: hello: 8 of 8 on the baseline, *",
    ])  # fmt: skip


@pytest.mark.parametrize(("on_regression", "failed"), [("fail", 1), ("net", 0)])
def test_a_case_that_an_upgrade_makes_worse_fails_unless_it_is_waived(
    pytester: pytest.Pytester, on_regression: str, failed: int
) -> None:
    ids = ["lost", *[f"gain {number}" for number in range(6)], "steady"]
    cases = [
        {"id": id_, "input": id_, "min_pass_rate": 0.0, "expect": [{"equals": id_}]} for id_ in ids
    ]

    def session_of(wrong: list[str], *arguments: str) -> pytest.RunResult:
        answers = dict.fromkeys(wrong, "no idea")
        provider = {"name": "a", "type": "mock", "default": "{{ input }}", "answers": answers}
        gate = {"on_regression": on_regression, "min_pass_rate": 0.1}
        settings: dict[str, Any] = {"cases": cases, "gate": gate, "runs": 8}
        return run(pytester, "evals.yaml", *arguments, providers=[provider], **settings)

    session_of(ids[1:7], "--evals-report=main").assert_outcomes(passed=8)
    done = session_of(["lost"], "--evals-baseline=main")
    done.assert_outcomes(passed=8 - failed, failed=failed)
    done.stdout.fnmatch_lines(["evals.yaml::lost:   regressed: lost: 8 of 8 on the baseline, *"])
