"""`python`: the team's own function judges."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_evals.errors import ConfigError, GradingError
from ci_evals.graders.functions import ObjectGrader
from ci_evals.graders.functions import grader as graded
from ci_evals.graders.python import PythonGrader
from ci_evals.graders.scoring import grade
from ci_evals.model.grading import Expectation
from ci_evals.model.request import Answer
from ci_evals.user_code.folders import importable

AnswerOf = Callable[..., Answer]

HINT = "set `threshold` to let lower scores pass"
SOURCE = """
import threading
from ci_evals import Finding

def is_paris(output): return output == "Paris"
def is_fast(output, answer): return answer.latency_s < 1
async def later(output, answer): return 0.75
def by_keyword(output, strict=False): return strict is False
def anything(*given): return len(given) == 2
def detailed(output): return {"passed": True, "score": 0.25, "reason": "as polite as it gets"}
def only_score(output): return {"score": 0.5}
def only_passed(output): return {"passed": False, "reason": "rude"}
def half(output): return 0.5
def in_a_thread(output): return threading.current_thread() is not threading.main_thread()
def nothing(output): return None
def too_much(output): return 7
def nan(output): return float("nan")
def misspelt(output): return {"pased": True}
def empty(output): return {}
def bad_passed(output): return {"passed": "true"}
def quoted(output): return "True"
def bad_reason(output): return {"passed": True, "reason": 5}
def bad_score(output): return {"score": True}
def low_finding(output): return Finding(True, 0.2, "fine")
def refused(output): return {"passed": False, "score": 0.9, "reason": "rude"}
def odd_finding(output): return Finding("no", 1.0, "fine")
def nan_finding(output): return Finding(True, float("nan"), "fine")
def big_finding(output): return Finding(True, 5, "fine")
def text_finding(output): return Finding(True, "1.0", "fine")
def finding_without_reason(output): return Finding(True, 1.0, None)
def crash(output): raise ZeroDivisionError("mine")

class Judge:
    async def __call__(self, output): return True

judge = Judge()
number = 5
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "own_graders.py").write_text(SOURCE)
    with importable(tmp_path):
        yield


@pytest.mark.parametrize(
    ("function", "passed", "score", "sentence"),
    [
        ("is_paris", True, 1.0, "own_graders:is_paris returned True"),
        ("is_fast", True, 1.0, "own_graders:is_fast returned True"),
        ("by_keyword", True, 1.0, "own_graders:by_keyword returned True"),
        ("anything", True, 1.0, "own_graders:anything returned True"),
        ("judge", True, 1.0, "own_graders:judge returned True"),
        ("in_a_thread", True, 1.0, "own_graders:in_a_thread returned True"),
        ("detailed", True, 0.25, "as polite as it gets"),
        ("only_passed", False, 0.0, "rude"),
        ("half", False, 0.5, f"own_graders:half gave 0.5, at least 1 needed ({HINT})"),
    ],
)
async def test_what_a_function_may_take_and_return(
    function: str, passed: bool, score: float, sentence: str, answer_of: AnswerOf
) -> None:
    finding = await PythonGrader(target=f"own_graders:{function}").grade(answer_of("Paris"))
    assert (finding.passed, finding.score, finding.text) == (passed, score, sentence)


@pytest.mark.parametrize(
    ("function", "threshold", "passed"),
    [
        ("later", 0.75, True),
        ("later", 0.8, False),
        ("only_score", 0.5, True),
        ("detailed", 0.25, True),
        ("detailed", 0.5, False),
        ("low_finding", 0.2, True),
        ("low_finding", 0.5, False),
        ("refused", 0.5, False),
    ],
)
async def test_a_score_passes_from_the_threshold_on(
    function: str, threshold: float, passed: bool, answer_of: AnswerOf
) -> None:
    finding = await PythonGrader(target=f"own_graders:{function}", threshold=threshold).grade(
        answer_of()
    )
    assert finding.passed is passed


async def test_a_verdict_below_the_threshold_fails_with_both_reasons(answer_of: AnswerOf) -> None:
    grader = PythonGrader(target="own_graders:detailed", threshold=0.5)
    finding = await grader.grade(answer_of())
    assert (finding.score, finding.text) == (
        0.25,
        "own_graders:detailed gave 0.25, at least 0.5 needed: as polite as it gets",
    )


@pytest.mark.parametrize(
    ("function", "reason", "returned"),
    [
        ("nothing", "must return a bool, a score from 0 to 1, or a mapping", "a NoneType, null"),
        ("too_much", "must return a score from 0 to 1", "7"),
        ("nan", "must return a score from 0 to 1", "NaN"),
        (
            "misspelt",
            "returned an unknown key 'pased'; known: passed, score",
            'a dict, {"pased": true}',
        ),
        (
            "empty",
            "returned a mapping with neither passed nor score: it must return a bool",
            "a dict, {}",
        ),
        ("bad_passed", "must return a bool as `passed`", '"true"'),
        ("bad_reason", "must return text as its reason", "5"),
        ("bad_score", "must return a number as its score", "true"),
        ("odd_finding", "must return a bool as `passed`", '"no"'),
        ("nan_finding", "must return a score from 0 to 1", "NaN"),
        ("big_finding", "must return a score from 0 to 1", "5"),
        ("text_finding", "must return a number as its score", '"1.0"'),
        ("finding_without_reason", "must return text as its reason", "a NoneType, null"),
        ("quoted", "returned a text: return the boolean without quotes", '"True"'),
    ],
)
async def test_a_function_that_does_not_judge_fails_even_under_not(
    function: str, reason: str, returned: str, answer_of: AnswerOf
) -> None:
    grader = PythonGrader(target=f"own_graders:{function}")
    plain = await grade(Expectation("python", grader), answer_of())
    negated = await grade(Expectation("not_python", grader, negated=True), answer_of())
    assert (plain.passed, negated.passed, negated.score) == (False, False, 0.0)
    assert plain.reason.startswith(f"own_graders:{function} {reason}")
    assert plain.text.endswith(f": it returned {returned}")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        ("crash", ZeroDivisionError, "mine"),
        ("crush", AttributeError, "there is no 'crush' in own_graders, did you mean 'crash'"),
    ],
)
async def test_a_function_that_raises_comes_through(
    function: str, error: type[Exception], message: str, answer_of: AnswerOf
) -> None:
    with pytest.raises(error, match=message):
        await PythonGrader(target=f"own_graders:{function}").grade(answer_of())


@pytest.mark.parametrize(
    "target", ["graders", "graders.py:check()", ":check", "graders:", "a-b:c", "/a/b.py:c"]
)
def test_a_malformed_target_is_a_problem(target: str) -> None:
    (message,) = PythonGrader(target=target).problems()
    assert "expected `module:function`" in message


def test_a_target_may_have_dots() -> None:
    assert PythonGrader(target="own.graders:Judge.check").problems() == []


def test_a_missing_module_is_seen_without_running_anything(tmp_path: Path) -> None:
    (tmp_path / "loud_graders.py").write_text(
        "def check(output): ...\nraise RuntimeError('validate runs no code')"
    )
    assert PythonGrader(target="loud_graders:check").missing(tmp_path) is None
    lack = (
        f"there is no module 'loud_grader' in {tmp_path} or installed, did you mean 'loud_graders'?"
    )
    assert PythonGrader(target="loud_grader:check").missing(tmp_path) == lack
    (tmp_path / "loud_grader.py").write_text("check = print")
    assert PythonGrader(target="loud_grader:check").missing(tmp_path) is None


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("own_graders:is_pari", "there is no 'is_pari' in own_graders, did you mean 'is_paris'?"),
        ("own_graders:number", "'number' is of type int, which cannot be called"),
        ("leaving_graders:check", "importing it raised SystemExit: bye"),
    ],
)
def test_a_function_that_cannot_be_used_names_its_place(
    target: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "leaving_graders.py").write_text("raise SystemExit('bye')")
    with pytest.raises(ConfigError) as caught:
        PythonGrader(target=target).prepare()
    (problem,) = caught.value.problems
    assert problem.message == f"target {target!r}: {why}"
    assert problem.file.endswith(f"{target.partition(':')[0]}.py")


FLAKY = """
calls = []

def check(output):
    calls.append(output)
    if len(calls) < 3:
        raise ConnectionError(f"lost {len(calls)}")
    return True
"""


@pytest.mark.parametrize(("retries", "calls"), [(2, 3), (5, 3), (1, 2), (0, 1)])
async def test_a_function_that_raises_is_called_again_as_often_as_allowed(
    retries: int, calls: int, answer_of: AnswerOf, tmp_path: Path
) -> None:
    name = f"flaky_graders_{retries}"
    (tmp_path / f"{name}.py").write_text(FLAKY)
    grader = PythonGrader(target=f"{name}:check", retries=retries)
    if calls == 3:
        assert (await grader.grade(answer_of())).passed
    else:
        with pytest.raises(ConnectionError, match=f"lost {calls}"):
            await grader.grade(answer_of())
    assert len(sys.modules[name].calls) == calls


async def test_a_decorated_function_that_raises_is_called_again_too(answer_of: AnswerOf) -> None:
    calls: list[str] = []

    @graded(retries=2)
    def lost_twice(output: str) -> bool:
        calls.append(output)
        if len(calls) < 3:
            raise ConnectionError
        return True

    assert (await lost_twice.grade(answer_of())).passed
    assert len(calls) == 3


def hangs(output: str) -> bool:
    return threading.Event().wait()  # for ever, and the thread with it


async def hangs_later(output: str) -> bool:
    return await asyncio.Event().wait()


class Hanging:
    """A grader as an object, of either sort."""

    def __init__(self, judge: Callable[[str], object]) -> None:
        self.judge = judge

    def grade(self, answer: Answer) -> object:
        return self.judge(answer.response.output)


@pytest.mark.parametrize("judge", [hangs, hangs_later])
async def test_a_function_that_hangs_is_left_when_its_time_is_up(
    judge: Callable[..., object], answer_of: AnswerOf
) -> None:
    for grader in (graded(timeout_s=0.01)(judge), graded(timeout_s=0.01, retries=1)(judge)):
        with pytest.raises(
            GradingError, match=r"no verdict within 0\.01 s; raise the grader's `timeout_s`"
        ):
            await grader.grade(answer_of())


@pytest.mark.parametrize("judge", [hangs, hangs_later])
async def test_without_a_time_of_its_own_a_grader_has_that_of_the_run(
    judge: Callable[[str], object], answer_of: AnswerOf
) -> None:
    answer = answer_of()
    hurried = replace(answer, request=replace(answer.request, timeout_s=0.2))
    for grader in (graded(judge), ObjectGrader(Hanging(judge))):
        with pytest.raises(GradingError, match=r"no verdict within 0\.2 s"):
            await grader.grade(hurried)


async def test_a_time_out_within_a_function_is_its_own_failure(answer_of: AnswerOf) -> None:
    @graded
    def lost(output: str) -> bool:
        raise TimeoutError("the service")

    with pytest.raises(TimeoutError, match="the service"):
        await lost.grade(answer_of())
