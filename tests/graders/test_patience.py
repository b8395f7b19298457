"""A grader that computes and computes is ended."""

import re
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from factories import grade

from ci_evals.errors import GradingError
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.patience import Patience
from ci_evals.graders.regex import Regex
from ci_evals.graders.turn import OfTurn
from ci_evals.model import Answer, Expectation, Finding
from ci_evals.response import Response, Turn

AnswerOf = Callable[..., Answer]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer of the processor's time")

RUNAWAY = Regex(pattern="(a+)+$")
ALMOST = f"{'a' * 100}!"


class Endless(GraderOptions, frozen=True):
    """Computes without end, and within Python code of its own."""

    def grade(self, answer: Answer) -> Finding:
        while True:
            pass


@pytest.mark.parametrize("grader", [RUNAWAY, Endless()])
@pytest.mark.parametrize("of_a_turn", [False, True])
async def test_a_grade_that_is_computed_for_too_long_is_no_judgement(
    grader: Any, of_a_turn: bool, answer_of: AnswerOf
) -> None:
    answer = answer_of(ALMOST, turns=(Turn("Say a.", Response(ALMOST), 0.5, None),))
    judged = Expectation("regex", OfTurn(1, grader) if of_a_turn else grader)
    told = r"computing after 0\.1 s, and was stopped: let it look at less"
    with Patience(longest_s=0.1, tick_s=0.02).kept(), pytest.raises(GradingError, match=told):
        await grade(judged, answer)


async def test_many_short_grades_may_take_long_together(answer_of: AnswerOf) -> None:
    ticks = 0

    class Counting(Patience):
        def _look(self, number: int, frame: Any) -> None:
            nonlocal ticks
            ticks += 1
            super()._look(number, frame)

    short = Expectation("regex", Regex(pattern="(a+)+$"))
    with Counting(longest_s=0.02, tick_s=0.01).kept():
        while ticks < 10:
            assert not (await grade(short, answer_of(f"{'a' * 14}!"))).passed


async def test_in_a_hurry_it_is_ended_at_the_next_look(answer_of: AnswerOf) -> None:
    patience = Patience(longest_s=600, tick_s=0.01)
    patience.hurry()
    with patience.kept(), pytest.raises(GradingError, match="computing when the run was ended"):
        await grade(Expectation("regex", RUNAWAY), answer_of(ALMOST))


def test_computing_of_others_is_not_its_business() -> None:
    with Patience(longest_s=0.01, tick_s=0.01).kept():
        assert not re.search("(a+)+$", f"{'a' * 22}!")


def test_it_lasts_until_the_last_who_keeps_it_and_nothing_stays() -> None:
    patience = Patience()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(patience.kept())
        second.enter_context(patience.kept())
        first.close()
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[1] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def test_a_timer_that_somebody_uses_is_left_to_them() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 600)
    try:
        with Patience().kept():
            assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@pytest.mark.parametrize("timer_s", [None, 600.0])
def test_a_handler_and_a_timer_that_somebody_set_meanwhile_stay(timer_s: float | None) -> None:
    seen = signal.getsignal(signal.SIGVTALRM)
    mine = lambda *_: None  # noqa: E731  as a host's
    try:
        with Patience().kept():
            signal.signal(signal.SIGVTALRM, mine)
            if timer_s:
                signal.setitimer(signal.ITIMER_VIRTUAL, timer_s, timer_s)
        assert signal.getsignal(signal.SIGVTALRM) is mine
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[1] == (timer_s or 0)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, seen)


def test_a_signal_that_somebody_uses_is_left_to_them() -> None:
    seen = signal.signal(signal.SIGVTALRM, lambda *_: None)
    mine = signal.getsignal(signal.SIGVTALRM)
    try:
        with Patience().kept():
            assert signal.getsignal(signal.SIGVTALRM) is mine
            assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    finally:
        signal.signal(signal.SIGVTALRM, seen)
