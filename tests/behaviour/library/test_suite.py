"""A suite written in Python: objects in, the same checks as for a file."""

import ast
import asyncio
import dataclasses
import inspect
import math
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from projects import schema

import ci_evals
from ci_evals import (
    Answer,
    Case,
    ConfigError,
    Finding,
    Gate,
    Not,
    ProviderError,
    Report,
    Request,
    Response,
    Suite,
    check_suite,
    evaluate,
    evaluate_sync,
    grader,
    graders,
    provider,
    providers,
)
from ci_evals.graders import GRADERS, Contains, ContainsAll, Equals, Latency, LlmJudge
from ci_evals.model.case import UserTurn
from ci_evals.providers import PROVIDERS, Mock, OpenAI


def echo(question: str) -> str:
    return question


def echo_last(messages: list[dict[str, str]]) -> str:
    return messages[-1]["content"]


FUNCTION: Any = "a method".upper


def problems(**changes: Any) -> list[str]:
    values: dict[str, Any] = {
        "cases": ["hello"],
        "providers": [echo],
        "expect": [Contains("hello")],
        **changes,
    }
    with pytest.raises(ConfigError) as caught:
        check_suite(Suite(**values))
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_a_grader_whose_function_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "own_checks.py").write_text("def polite(output): return True\n")
    wrong = graders.PythonGrader("own_checks:polit")
    lack = "there is no 'polit' in own_checks, did you mean 'polite'?"
    assert problems(folder=tmp_path, expect=[wrong]) == [f"expect[0]: {lack}"]
    assert problems(folder=tmp_path, expect=[Not(wrong)]) == [f"expect[0]: {lack}"]


async def test_cases_graders_and_providers_are_objects() -> None:
    suite = Suite(
        name="greetings",
        cases=[
            Case(input="hello", expect=[Contains("hell")]),
            Case(id="bye", input="bye", tags=["rude"]),
        ],
        providers=[Mock(name="mock"), echo],
        expect=[Not(Contains("sorry")), Latency(5)],
        runs=2,
    )
    report = await evaluate(suite)
    assert (report.suite.name, report.total, report.passed) == ("greetings", 8, 8)
    assert report.by_variant.keys() == {"mock", "echo"}
    assert [grade.grader for grade in report.runs[0].grades] == [
        "not_contains",
        "latency",
        "contains",
    ]
    assert report.all_passed


async def test_texts_are_cases_and_run_times_each_in_one_call() -> None:
    report = await evaluate(
        Suite(cases=["one", "two"], providers=echo, expect=[Contains("o")]), runs=3
    )
    assert [(run.case, run.run) for run in report.runs] == [
        (case, run) for case in ("one", "two") for run in (1, 2, 3)
    ]


@pytest.mark.parametrize("package", [ci_evals, graders, providers])
def test_type_checkers_see_the_names_that_there_are(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text("utf-8"))
    seen = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                seen[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    # The core does not import plug-ins, not even for type checkers: their names are untyped here.
    of_plugins = {
        name
        for name in package.__all__
        if str(getattr(getattr(package, name), "__module__", "")).startswith("ci_evals.plugins.")
    }
    typed = set(package.__all__) - of_plugins
    assert typed <= seen.keys()
    for name in typed:
        assert getattr(package, name) is pkgutil.resolve_name(seen[name]), name


def test_every_grader_and_provider_is_public() -> None:
    assert {cls.__name__ for cls in GRADERS.values()} <= set(graders.__all__)
    assert {cls.__name__ for cls in PROVIDERS.values()} <= set(providers.__all__)


def test_a_suite_takes_every_key_of_a_file() -> None:
    arguments = inspect.signature(Suite).parameters.keys() - {"folder", "file", "line"}
    assert arguments == schema()["properties"].keys()


async def test_variants_and_formats_are_those_of_a_file(tmp_path: Path) -> None:
    suite = Suite(
        cases=["one"],
        providers=[{"name": "mock", "type": "mock", "grid": {"default": ["a one", "a two"]}}],
        expect=[Contains("one")],
        report={"formats": ["junit"]},
    )
    report = await evaluate(suite, runs=1, out=tmp_path)
    assert sorted(counts.passed for counts in report.by_variant.values()) == [0, 1]
    assert (tmp_path / "junit.xml").exists()
    assert not (tmp_path / "summary.md").exists()


def test_a_suite_is_shown_with_its_sizes() -> None:
    suite = Suite(
        name="s", cases=["one"], providers=[echo, Mock(name="mock")], expect=[Contains("o")], runs=1
    )
    assert repr(check_suite(suite)) == "<CheckedSuite 's': 1 case × 2 variants × 1 run>"


def test_a_suite_and_a_report_are_shown_in_a_line() -> None:
    suite = Suite(name="s", cases=["one"], providers=echo, expect=Contains("one"))
    assert re.fullmatch(r"<Suite 's' of .*test_suite\.py:\d+>", repr(suite))
    assert repr(Suite(cases=[], providers=echo, file="own.py")) == "<Suite of own.py>"
    assert repr(evaluate_sync(suite, runs=1)) == "<Report 's': pass, 1 of 1 run passed (100 %)>"


@pytest.mark.parametrize("expect", [Contains("x"), {"contains": "x"}, lambda output: "x" in output])
def test_one_grader_needs_no_list(expect: Any) -> None:
    assert evaluate_sync(Suite(cases=["x", "y"], providers=echo, expect=expect), runs=1).passed == 1
    assert evaluate_sync(Suite(cases=Case(input="x", expect=expect), providers=echo)).all_passed
    turns = Case(id="talk", turns=[UserTurn(user="x", expect=expect)])
    assert evaluate_sync(Suite(cases=[turns], providers=echo_last)).all_passed


def test_ids_are_made_of_what_is_asked_and_stay_apart() -> None:
    cases = [
        *(Case(input="Hi!", expect=[Contains("x")]) for _ in range(2)),
        Case(vars={"lang": "en", "n": 1, "long": "many words " * 9}, expect=[Contains("x")]),
        Case(vars={"question": "Why?"}, expect=[Contains("x")]),
        Case(turns=[UserTurn(user="first line\nsecond")], expect=[Contains("x")]),
        Case(input=object(), expect=[Contains("x")]),
        Case(id="Hi! (2)", input="taken", expect=[Contains("x")]),
    ]
    ids = [case.id for case in check_suite(Suite(cases=cases, providers=echo)).cases]
    assert ids[:2] == ["Hi!", "Hi! (3)"]
    assert re.fullmatch(r"lang=en n=1 long=(many words )+many wor… [0-9a-f]{6}", ids[2])
    assert ids[3] == "Why?"
    assert re.fullmatch(r"first line… [0-9a-f]{6}", ids[4])
    assert ids[5:] == ["case 6", "Hi! (2)"]
    assert [case.id for case in check_suite(Suite(cases=cases[2:5], providers=echo)).cases] == ids[
        2:5
    ]


def test_a_case_knows_where_it_is_written() -> None:
    (case,) = check_suite(
        Suite(cases=[Case(input="here", expect=[Contains("x")])], providers=echo)
    ).cases
    assert Path(case.file).name == "test_suite.py"
    assert case.line is not None
    assert "here" in Path(__file__).read_text("utf-8").splitlines()[case.line - 1]


@pytest.mark.parametrize("name", GRADERS)
def test_the_value_of_a_grader_may_stand_without_its_name(name: str) -> None:
    cls: Any = GRADERS[name]
    assert next(field.name for field in dataclasses.fields(cls) if not field.kw_only) == cls.short
    assert getattr(cls("value"), cls.short) == "value"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"expect": [Contains("")]}, "expect[0].value: expected text"),
        ({"expect": [ContainsAll(3)]}, "expect[0].value: expected a list"),  # type: ignore[arg-type]
        ({"expect": [{"contians": "x"}]}, "unknown grader 'contians', did you mean 'contains'?"),
        (
            {"expect": [object()]},
            "expect[0]: expected a grader, a function, or an object with a method `grade`",
        ),
        ({"expect": [Contains]}, "got the class Contains"),
        (
            {"expect": [grader(threshold=7)(echo)]},
            "the threshold of echo is 7, and a score is from 0 to 1",
        ),
        ({"expect": [grader(weight=-1)(echo)]}, "the weight of echo is -1"),
        ({"expect": ()}, "nothing is expected of the answer"),
        ({"cases": [Case(input="a", id="x"), Case(input="b", id="x")]}, "the id 'x' is taken"),
        ({"cases": [Case(expect=[Contains("x")])]}, "nothing is asked"),
        ({"cases": [Case(input="a", runs=0)]}, "cases[0].runs: expected a whole number >= 1"),
        (
            {"expect": "x"},
            """expect: expected a list of graders, as in [Contains("Paris")], got 'x'""",
        ),
        ({"expect": ["x"]}, """expect[0]: expected a grader, as in Contains("Paris"), got 'x'"""),
        (
            {"cases": [Case(input="a", expect="x")]},
            "cases[0].expect: expected a list of graders, as in [Contains(",
        ),
        ({"expect": None}, "add `expect`, such as expect=[NotEmpty()]"),
        (
            {"expect": LlmJudge("polite", provider=FUNCTION)},
            "expected the name of a judge: add the object to the suite",
        ),
        ({"cases": []}, "there are no cases"),
        ({"cases": None}, "cases: expected a list of cases, or Path(…) of a dataset, got None"),
        ({"cases": 5}, "cases: expected a list of cases, or Path(…) of a dataset, got 5"),
        ({"cases": [5]}, "cases[0]: expected a Case, or the text of its input, got 5"),
        (
            {"prompts": "{{ input }}"},
            'prompts: expected a list of templates, as in ["{{ question }}"]',
        ),
        (
            {"providers": Mock(before=[FUNCTION])},
            (
                "providers[0].before: stages are given by name, which the cache needs: "
                "write before=[…] with 'module:function', 'module:object.method' or the name"
            ),
        ),
        (
            {"providers": Mock(after=FUNCTION)},
            "providers[0].after: stages are given by name, which the cache needs",
        ),
        (
            {"providers": None},
            "expected a provider, a function, or an object with a method `answer`, got None",
        ),
        ({"providers": []}, "expected a list with at least one provider"),
        (
            {"providers": [3.5]},
            "expected a provider, a function, or an object with a method `answer`, got 3.5",
        ),
        (
            {"providers": [object()]},
            "expected a provider, a function, or an object with a method `answer`",
        ),
        ({"providers": [echo, echo]}, "a second provider called 'echo'"),
        (
            {"providers": [Mock(max_concurrency=0)]},
            "providers[0].max_concurrency: expected a whole number >= 1",
        ),
        (
            {"gate": Gate(tags={"crtical": 1.0}), "cases": [Case(input="a", tags=["critical"])]},
            "unknown tag 'crtical'",
        ),
        ({"prompts": ["{{ nothing }}"]}, "does not fit this case"),
        ({"runs": 0}, "runs: expected a whole number >= 1"),
    ],
)
def test_what_is_wrong_is_told_as_for_a_file(changes: dict[str, Any], says: str) -> None:
    assert any(says in problem for problem in problems(**changes)), problems(**changes)


def test_every_problem_is_told_at_once_with_its_place() -> None:
    suite = Suite(
        cases=[Case(input="a", timeout_s=-1), Case(input="b", threshold=7)],
        providers=echo,
        retries=99,
    )
    with pytest.raises(ConfigError) as caught:
        check_suite(suite)
    assert len(caught.value.problems) == 3
    assert {Path(problem.file).name for problem in caught.value.problems} == {"test_suite.py"}
    assert all(problem.line for problem in caught.value.problems)


async def test_a_missing_key_is_told_when_the_suite_is_evaluated() -> None:
    suite = Suite(cases=["hi"], providers=OpenAI(model="gpt"), expect=[Contains("hi")])
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        await evaluate(suite, environ={})


def test_text_in_code_is_not_filled_in_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME_TOWN", "Lyon")
    suite = Suite(
        cases=["a"],
        prompts=["${HOME_TOWN} {{ input }}"],
        providers=echo,
        expect=[Contains("${HOME_TOWN}")],
    )
    assert evaluate_sync(suite).all_passed


def test_cases_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(
        '{"id": "a", "input": "hello", "expect": [{"contains": "hello"}]}\n'
    )
    assert (
        evaluate_sync(
            Suite(cases=Path("cases.jsonl"), providers=echo, folder=tmp_path), runs=1
        ).passed
        == 1
    )


# The caller's own graders and providers.


@grader
def is_polite(output: str) -> bool:
    return "please" in output


@grader(name="length", threshold=0.5)
async def is_brief(output: str, answer: Answer) -> float:
    return len(output) / len(answer.request.input)


class Strict:
    """A grader by its one method."""

    name = "strict"

    async def grade(self, answer: Answer) -> Finding:
        return Finding(answer.response.output == "please", 0.25, "strictly")


def test_functions_and_objects_are_graders() -> None:
    suite = Suite(
        cases=["please"],
        providers=echo,
        expect=[is_polite, is_brief, Strict(), len_is_six, Not(is_polite)],
    )
    (run,) = evaluate_sync(suite, runs=1).runs
    assert {grade.grader: (grade.passed, grade.score) for grade in run.grades} == {
        "is_polite": (True, 1.0),
        "length": (True, 1.0),
        "strict": (True, 0.25),
        "len_is_six": (True, 1.0),
        "not_is_polite": (False, 0.0),
    }


def len_is_six(output: str) -> bool:
    return len(output) == 6


def test_a_grader_that_was_decorated_is_still_a_function() -> None:
    assert is_polite("please") is True
    assert is_polite.__doc__ == is_polite.function.__doc__


def test_an_exception_of_a_grader_is_a_failed_check_even_under_not() -> None:
    def broken(output: str) -> bool:
        raise LookupError(output)

    suite = Suite(cases=["hi"], providers=echo, expect=[broken, Not(broken)])
    (run,) = evaluate_sync(suite, runs=1).runs
    assert run.status == "failed"
    assert [grade.passed for grade in run.grades] == [False, False]
    assert run.grades[0].reason.startswith("raised LookupError: hi (")


@provider(name="agent", max_concurrency=1)
async def decorated(question: str, request: Request) -> Response:
    return Response(output=f"{question} {request.run}")


class Client:
    """A provider by its one method."""

    name = "client"

    def answer(self, request: Request) -> str:
        if request.input == "refuse":
            raise ProviderError("rate_limit", "slow down")
        return f"client: {request.input}"


def test_functions_and_objects_are_providers() -> None:
    suite = Suite(
        cases=["hi"], providers=[decorated, Client(), {"type": "mock"}], expect=[Contains("hi")]
    )
    assert [run.response.output for run in evaluate_sync(suite, runs=1).runs if run.response] == [
        "hi 1",
        "client: hi",
        "hi",
    ]


def test_what_kind_of_failure_it_is_may_be_told_by_the_provider_itself() -> None:
    (run,) = evaluate_sync(
        Suite(cases=["refuse"], providers=Client(), expect=[Contains("hi")], runs=1)
    ).runs
    assert (run.status, run.error and run.error.kind) == ("errored", "rate_limit")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (ProviderError("no seat left"), "no seat left"),
        (ProviderError("overbooked", "no seat left"), "overbooked: no seat left"),
        (ProviderError("crash", KeyError("seat"), status="500"), "'seat'"),  # type: ignore[arg-type]
    ],
)
def test_a_failure_of_no_known_kind_is_a_crash_in_the_journal_too(
    raised: ProviderError, message: str, tmp_path: Path
) -> None:
    def broken(question: str) -> str:
        raise raised

    report = evaluate_sync(
        Suite(cases=["hi"], providers=broken, expect=[Contains("hi")], runs=1), out=tmp_path
    )
    for (run,) in (report.runs, Report.load(tmp_path).runs):
        assert run.status == "failed"
        assert run.error is not None
        assert (run.error.kind, run.error.message, run.error.status) == ("crash", message, None)


def test_a_function_that_crashes_fails_its_run() -> None:
    def broken(question: str) -> str:
        raise LookupError(question)

    (run,) = evaluate_sync(
        Suite(cases=["hi"], providers=broken, expect=[Contains("hi")], runs=1)
    ).runs
    assert (run.status, run.error and run.error.kind) == ("failed", "crash")


def test_a_factory_makes_an_agent_for_each_run() -> None:
    made: list[Any] = []

    @provider(factory=True)
    def make() -> Any:
        made.append(agent := lambda question: f"{question} {len(made)}")
        return agent

    report = evaluate_sync(Suite(cases=["hi"], providers=make, expect=[Contains("hi")]), runs=3)
    assert (report.passed, len(made)) == (3, 3)


@dataclass
class Trip:
    start: str
    end: str


def test_an_input_may_be_of_any_type() -> None:
    def plan(trip: Trip) -> str:
        return f"{trip.start}-{trip.end}"

    suite = Suite(
        cases=[Case(input=Trip("Paris", "Lyon"), expect=[Equals("Paris-Lyon")])], providers=plan
    )
    assert evaluate_sync(suite).all_passed


def test_results_of_functions_can_be_compared_between_processes() -> None:
    def suite() -> Suite:
        return Suite(cases=["hi"], providers=[echo, Client()], expect=[is_polite, Strict()])

    fingerprints = [
        msgspec.json.encode(evaluate_sync(suite()).runs[0].fingerprint) for _ in range(2)
    ]
    assert fingerprints[0] == fingerprints[1]


# Concurrency.


@pytest.mark.parametrize(("most", "peak"), [(3, 3), (math.inf, 40)])
async def test_concurrency_holds_for_graders_that_wait_and_may_be_without_limit(
    most: float, peak: int
) -> None:
    under_way = highest = 0
    everyone = asyncio.Event()

    async def waits(output: str) -> bool:
        nonlocal under_way, highest
        under_way += 1
        highest = max(highest, under_way)
        if under_way == peak:
            everyone.set()
        await everyone.wait()
        under_way -= 1
        return True

    suite = Suite(cases=["hi"], providers=echo, expect=[waits], runs=40)
    assert (await evaluate(suite, max_concurrency=most)).passed == 40
    assert highest == peak


def test_the_suites_own_limit_may_be_none() -> None:
    suite = Suite(cases=["hi"], providers=echo, expect=[Contains("hi")], max_concurrency=math.inf)
    assert evaluate_sync(suite).all_passed


async def test_judges_are_asked_by_graders_and_are_no_columns() -> None:
    def judge(_: str) -> str:
        return '{"reason": "Fine.", "verdict": "pass"}'

    suite = Suite(
        cases=[Case(input="x", expect=[{"judge": "polite"}])], providers=echo, judges=judge
    )
    report = await evaluate(suite)
    assert [str(variant) for variant in report.plan.variants] == ["echo"]
    assert report.runs[0].grades[0].reason == "judged pass: Fine."
