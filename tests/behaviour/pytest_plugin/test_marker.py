"""Tests with the `evals` marker, run by pytest itself."""

import json

import pytest
from sessions import session

CONFTEST = """
    import pytest

    calls = []

    def agent(question):
        calls.append(question)
        return question.upper()

    @pytest.fixture
    def evals_target():
        return agent
"""
HEAD = """
    import pytest
    from ci_evals import Case, Gate
    from ci_evals.graders import Contains
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose agent answers in capital letters."""
    pytester.makeconftest(CONFTEST)
    return pytester


def run(
    project: pytest.Pytester,
    test: str,
    *arguments: str,
    plugins: tuple[str, ...] = (),
    ini: str = "",
) -> pytest.RunResult:
    project.makepyfile(test_agent=HEAD + test)
    return session(project, *arguments, plugins=plugins, ini=ini)


def test_a_setup_gives_vars_to_each_run(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    ups = []

    def order(request):
        ups.append(request.run)
        yield {"order_id": f"A{request.run}"}
        ups.remove(request.run)

    def has_order(output, answer):
        return answer.request.case.vars["order_id"] == f"A{answer.request.run}"

    @pytest.mark.evals(prompt="hello", expect=[has_order], setup=order, runs=3)
    def test_hello(evals_result):
        assert evals_result.all_passed, evals_result.summary()
        assert ups == []
    """,
    )
    done.assert_outcomes(passed=1)


def test_a_test_takes_the_result_and_decides(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    @pytest.mark.evals(prompts=["hello", "bye"], expect=[Contains("HELLO")], runs=3)
    def test_it(evals_result):
        assert (evals_result.total, evals_result.passed) == (6, 3)
        assert evals_result.pass_rate == evals_result.match_rate == 0.5
        assert [(run.case, run.run, run.score) for run in evals_result.runs][0] == ("hello", 1, 1.0)
        assert "bye: 0 of 3 runs" in evals_result.summary()
    """,
    )
    done.assert_outcomes(passed=1)


def test_a_test_that_does_not_look_fails_by_the_gate_in_the_words_of_the_command_line(
    project: pytest.Pytester,
) -> None:
    done = run(
        project,
        """
    @pytest.mark.evals(prompt="hello", expect=[Contains("Hello")], runs=2)
    def test_bad():
        pass

    @pytest.mark.evals(prompt="hello", expect=[Contains("HELLO")])
    def test_good():
        pass

    @pytest.mark.evals(
        cases=[Case(id="c", input="hello", expect=[Contains("x")])], gate=Gate(min_pass_rate=0.0)
    )
    def test_with_a_gate():
        pass
    """,
    )
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines([
        "*Failing (1)*",
        "*hello: 0 of 2 runs passed*test_agent.py:*",
        '*no "Hello" in the answer',
        "✗ FAIL  1 case failed · 0 of 2 runs passed*",
        "*= evals =*",
        "test_agent.py::test_bad: FAIL  2 of 2 runs failed, and every run must pass",
        "test_agent.py::test_good: PASS *",
        'FAILED test_agent.py::test_bad - Failed: hello: no "Hello" in the answer*',
    ])  # fmt: skip
    failure = done.stdout.str().partition("= evals =")[0]
    assert failure.count("2 of 2 runs failed, and every run must pass") == 1


def test_an_assertion_that_fails_shows_what_was_found(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    @pytest.mark.evals(prompt="hello", expect=[Contains("Hello")])
    def test_it(evals_result):
        assert evals_result.all_passed
    """,
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*assert evals_result.all_passed*", '*no "Hello" in the answer*'])


@pytest.mark.parametrize(
    ("marker", "arguments", "runs"),
    [
        ("", (), 3),
        ("", ("--evals-runs=4",), 4),
        (", runs=2", ("--evals-runs=4",), 2),
        (", runs=2", (), 2),
    ],
)
def test_a_markers_runs_win_over_the_options(
    marker: str, arguments: tuple[str, ...], runs: int, project: pytest.Pytester
) -> None:
    done = run(
        project,
        f"""
    @pytest.mark.evals(prompt="hello", expect=[Contains("HELLO")]{marker})
    def test_it(evals_result):
        assert evals_result.total == {runs}
    """,
        *arguments,
    )
    done.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "option", "peak"), [("", "2", 2), (", max_concurrency=3", "2", 3)]
)
def test_concurrency_is_bounded(
    marker: str, option: str, peak: int, project: pytest.Pytester
) -> None:
    done = run(
        project,
        f"""
    import asyncio
    under_way, highest, everyone = 0, 0, asyncio.Event()

    async def agent(question):
        global under_way, highest
        under_way += 1
        highest = max(highest, under_way)
        if highest == {peak}:
            everyone.set()
        await everyone.wait()
        under_way -= 1
        return question

    @pytest.mark.evals(prompt="a", expect=[Contains("a")], target=agent, runs=8{marker})
    def test_it():
        assert highest == {peak}
    """,
        f"--evals-max-concurrency={option}",
    )
    done.assert_outcomes(passed=1)


def test_a_marker_on_a_class_or_module_holds_for_its_tests(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    pytestmark = pytest.mark.evals(prompt="hello", expect=[Contains("nowhere")])

    def test_of_the_module():
        pass

    @pytest.mark.evals(prompt="hello", expect=[Contains("HELLO")])
    class TestIt:
        def test_of_the_class(self, evals_result):
            assert evals_result.passed == 3
    """,
    )
    done.assert_outcomes(passed=1, failed=1)


def test_markers_on_class_and_test_are_merged_and_the_closest_wins(
    project: pytest.Pytester,
) -> None:
    done = run(
        project,
        """
    pytestmark = pytest.mark.evals(expect=[Contains("HELLO")], runs=2)

    @pytest.mark.evals(prompts=["hello", "hello there"])
    class TestIt:
        def test_of_the_class(self, evals_result):
            assert (evals_result.total, evals_result.all_passed) == (4, True)

        @pytest.mark.evals(prompt="hello again", runs=3)
        def test_own(self, evals_result):
            assert (evals_result.total, evals_result.all_passed) == (3, True)

        @pytest.mark.evals(expect=[Contains("BYE")])
        def test_strict(self, evals_result):
            assert evals_result.failed == 4
    """,
    )
    done.assert_outcomes(passed=3)


def test_a_marker_of_one_parameter_is_evaluated(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    def asking(text, answer):
        return pytest.param(text, marks=pytest.mark.evals(prompt=text, expect=Contains(answer)))

    @pytest.mark.parametrize("text", [asking("hello", "HELLO"), asking("hello", "BYE"), "unmarked"])
    def test_by_the_gate(text):
        pass

    @pytest.mark.parametrize("text", [asking("hello", "HELLO")])
    def test_taken(text, evals_result):
        assert evals_result.all_passed
    """,
    )
    done.assert_outcomes(passed=3, failed=1)


def test_what_is_asked_may_be_made_of_parameters_and_fixtures(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    @pytest.fixture
    def greeting():
        return "hello"

    @pytest.mark.parametrize("name", ["Ann", "Bob"])
    @pytest.mark.evals(prompt=lambda greeting, name: f"{greeting} {name}", expect=Contains("HELLO"))
    def test_prompt(name, evals_result):
        run = evals_result.runs[0]
        assert (run.case, run.status) == (f"hello {name}", "passed")

    @pytest.mark.parametrize("name", ["Ann", "Bob"])
    @pytest.mark.evals(cases=lambda name: [Case(input=name, expect=[Contains(name.upper())])])
    def test_cases(name):
        pass

    class TestTargets:
        @pytest.fixture(params=["a", "b"])
        def evals_target(self, request):
            return lambda question: request.param

        @pytest.mark.evals(prompt="q", expect=Contains("a"))
        def test_target(self):
            pass
    """,
    )
    done.assert_outcomes(passed=5, failed=1)


def test_a_marker_may_name_judges(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    from ci_evals.graders import LlmJudge

    def strict(question):
        return '{"reason": "so it is", "verdict": "pass"}'

    @pytest.mark.evals(prompt="hello", expect=LlmJudge("polite"), judges=strict)
    def test_it(evals_result):
        assert evals_result.all_passed
    """,
    )
    done.assert_outcomes(passed=1)


def test_a_marker_that_comes_late_is_no_reason_to_pass(project: pytest.Pytester) -> None:
    project.makeconftest(
        CONFTEST
        + """
    def pytest_collection_modifyitems(items):
        for item in items:
            item.add_marker(pytest.mark.evals(prompt="hello", expect="HELLO"))
    """
    )
    done = run(project, "\n    def test_unseen(): pass")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*let the test take `evals_result`*"])


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("", "pass one of prompt, prompts, cases and config, got nothing"),
        ("prompt='a', cases=['b']", "got prompt and cases"),
        ("promt='a'", "unknown argument 'promt', did you mean 'prompt'?"),
        ("'a'", "name its arguments"),
        ("prompt='a', expect=[Contains('a')], runs=0", "runs=0: expected a whole number"),
        ("prompt='a'", "nothing is expected of the answer"),
        ("prompt='a', target=3.5", "expected a provider, a function, or an object"),
        ("config='nowhere.yaml'", "no such file"),
        ("config='evals.yaml', expect=[]", "expect: belongs in the suite that config names"),
    ],
)
def test_what_is_wrong_with_a_marker_is_told(
    marker: str, says: str, project: pytest.Pytester
) -> None:
    test = f"""
    @pytest.mark.evals({marker})
    def test_it():
        pass
    """
    done = run(project, test)
    done.assert_outcomes(errors=1)
    assert says in done.stdout.str()
    assert "Traceback" not in done.stdout.str()


def test_without_a_target_it_says_how_to_give_one(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        "\n    @pytest.mark.evals(prompt='a', expect=[Contains('a')])\n    def test_it(): pass",
    )
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(
        ["*evals(target=…), or define a fixture `evals_target` that returns it*"]
    )


def test_a_marker_may_name_a_suite(project: pytest.Pytester) -> None:
    suite = {
        "providers": [{"type": "mock"}],
        "cases": [{"id": "a", "input": "hi", "expect": [{"equals": "hi"}]}],
    }
    (project.path / "evals.yaml").write_text(json.dumps(suite))
    done = run(
        project,
        """
    @pytest.mark.evals(config="evals.yaml", runs=3)
    def test_it(evals_result):
        assert evals_result.passed == 3
    """,
    )
    done.assert_outcomes(passed=1)


def test_each_test_has_a_folder_of_reports(project: pytest.Pytester) -> None:
    done = run(
        project,
        """
    @pytest.mark.parametrize("town", ["Paris", "a/b"])
    @pytest.mark.evals(prompt="hello", expect=[Contains("HELLO")])
    def test_it(town):
        pass
    """,
        "--evals-report=reports",
    )
    done.assert_outcomes(passed=2)
    folders = list((project.path / "reports").iterdir())
    assert len(folders) == 2
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        assert names == {"report.json", "report.html", "junit.xml", "summary.md", "results.jsonl"}


@pytest.mark.parametrize("value", ["0", "many", "-1"])
def test_a_count_that_makes_no_sense_is_a_usage_error(value: str, project: pytest.Pytester) -> None:
    done = run(project, "", f"--evals-runs={value}")
    assert done.ret == pytest.ExitCode.USAGE_ERROR


# Beside other plug-ins.


@pytest.mark.parametrize(
    ("mark", "plugin", "ini"),
    [
        ("asyncio", "asyncio", "asyncio_mode = strict"),
        ("anyio", "anyio", ""),
        (None, "asyncio", "asyncio_mode = auto"),
    ],
)
def test_async_tests_take_the_result(
    mark: str | None, plugin: str, ini: str, project: pytest.Pytester
) -> None:
    done = run(
        project,
        f"""
    import asyncio

    {f"@pytest.mark.{mark}" if mark else ""}
    @pytest.mark.evals(prompt="hello", expect=[Contains("HELLO")], runs=2)
    async def test_it(evals_result):
        await asyncio.sleep(0)
        assert evals_result.passed == 2

    @pytest.fixture
    def anyio_backend():
        return "asyncio"
    """,
        plugins=(plugin,),
        ini=f"{ini}\nasyncio_default_fixture_loop_scope = function" if plugin == "asyncio" else "",
    )
    done.assert_outcomes(passed=1)


def test_workers_of_xdist_compare_with_the_baseline_and_tell_the_summary(
    project: pytest.Pytester,
) -> None:
    test = """
    @pytest.mark.parametrize("number", range(4))
    @pytest.mark.evals(prompt="hello", expect=[Contains("HELLO")])
    def test_it(number):
        pass
    """
    run(project, test, "--evals-report=main").assert_outcomes(passed=4)
    done = run(
        project, test, "-n1", "--evals-report=reports", "--evals-baseline=main", plugins=("xdist",)
    )
    done.assert_outcomes(passed=4)
    assert done.stdout.str().count(": PASS  3 of 3 runs") == 4
    done.stdout.no_fnmatch_line("*no baseline*")
    assert len(list((project.path / "reports").iterdir())) == 4


def test_without_a_marker_nothing_is_said_of_evaluations(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    done = session(pytester)
    done.assert_outcomes(passed=1)
    assert "evals" not in done.stdout.str().replace("ci-evals", "")


WORSE = """
    import os

    def agent(question):
        return os.environ["SAYS"] if question == "hello" else question

    @pytest.mark.evals(prompts=["hello", "bye"], expect=[Contains("e")], target=agent, runs=8)
    def test_by_the_gate():
        pass

    @pytest.mark.evals(
        prompt="hello", expect=[Contains("e")], target=agent, runs=8, gate=Gate(min_pass_rate=0.0)
    )
    def test_low_bar():
        pass

    @pytest.mark.evals(
        prompt="hello", expect=[Contains("e")], target=agent, runs=8, gate=Gate(min_pass_rate=0.0)
    )
    def test_decides(evals_result):
        worse = evals_result.comparison.select("regressed") if evals_result.comparison else ()
        assert [cell.case for cell in worse] == ["hello"] * (os.environ["SAYS"] != "hello")
"""


def test_beside_a_baseline_a_regression_fails_and_is_told(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYS", "hello")
    before = run(project, WORSE, "--evals-report=main")
    before.assert_outcomes(passed=3)
    monkeypatch.setenv("SAYS", "goodby")
    done = run(project, WORSE, "--evals-report=here", "--evals-baseline=main")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines([
        "test_agent.py::test_by_the_gate: FAIL *",
        "test_agent.py::test_by_the_gate:   regressed: *",
        "test_agent.py::test_low_bar: FAIL  *hello: 8 of 8 on the baseline, 0 of * here; p *",
        "test_agent.py::test_low_bar:   regressed: hello: 8 of 8 on the baseline, 0 of * here*",
        "test_agent.py::test_decides: 0 of 8 runs passed*",
        "test_agent.py::test_decides:   regressed: hello: *",
    ])  # fmt: skip


def test_beside_a_baseline_like_itself_nothing_is_worse(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYS", "hello")
    run(project, WORSE, "--evals-report=reports", "-k", "low_bar").assert_outcomes(
        passed=1, deselected=2
    )
    done = run(
        project, WORSE, "--evals-report=reports", "--evals-baseline=reports", "-k", "low_bar"
    )
    done.assert_outcomes(passed=1, deselected=2)
    done.stdout.no_fnmatch_line("*regressed*")


def test_a_baseline_that_is_not_there_is_a_warning_and_the_test_runs_all_the_same(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYS", "hello")
    done = run(project, WORSE, "--evals-baseline=nowhere", "-k", "low_bar")
    done.assert_outcomes(passed=1, deselected=2, warnings=1)
    done.stdout.fnmatch_lines(
        ["*--evals-baseline: there is no report at nowhere: nothing is compared"]
    )


def test_without_a_report_at_the_baseline_the_test_runs_all_the_same(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYS", "hello")
    project.mkdir("empty")
    done = run(project, WORSE, "--evals-baseline=empty", "-k", "low_bar")
    done.assert_outcomes(passed=1, deselected=2)
    done.stdout.fnmatch_lines(
        ["test_agent.py::test_low_bar:   no baseline: there is no report at *empty"]
    )
