"""JSON that is printed: one line in UTF-8 that no CI runner obeys."""

import json

from ci_evals.reports import pairwise
from ci_evals.reports.json_text import encode, printed
from ci_evals.verdict.pairwise import Pair, preference

EVIL = "##[error]owned"


def test_what_is_printed_commands_no_runner_and_says_the_same() -> None:
    text = printed({EVIL: [EVIL]})
    assert "##[" not in text
    assert text.count("\n") == 1
    assert json.loads(text) == {EVIL: [EVIL]}


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert encode({"name": "a \ud800"}).decode() == '{"name": "a ?"}'


def test_reasons_of_judges_command_no_runner_either() -> None:
    pairs = [Pair(EVIL, run, "first", "second", EVIL) for run in (1, 2)]
    assert "##[" not in pairwise.render_json(pairwise.Comparison("a", "b", preference(pairs)))
