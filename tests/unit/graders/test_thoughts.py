"""Thoughts in the text of an answer: where they begin and end, and what only looks like them."""

import pytest

from ci_evals.graders.thoughts import settle_thoughts, split_thoughts, without_tags
from ci_evals.model.response import Response, Turn


@pytest.mark.parametrize(
    ("thoughts", "answer"),
    [
        ("<think>\nIt asks for the capital.\n</think>\n\n", "Paris"),
        ("  <Thinking>Hm.</thinking> ", "Paris"),
        ("<thought>Hm.</thought>", "Paris"),
        ("<reasoning>Hm.</reasoning>\n", "<answer>Paris</answer>"),
        ("<seed:think>Hm.</seed:think>", "Paris"),
        ('<think time="3">Hm.</think>', "Paris"),
        ("[THINK]Hm.[/THINK]", "Paris"),
        ("<think></think>\n<think>Hm.</think>\n", "Paris"),
        ("<think>\n\n</think>\n\n", '{"city": "Paris"}'),
        ("<think>Hm.</think>", ""),
        ("It asks for the capital.\n</think>\n\n", "Paris"),  # the template has opened the tag
        ("Hm.[/THINK]", "Paris"),
        ("<think>It asks for the capital. But", ""),
        ("[THINK]It asks", ""),
        ("<think>Hm.</think> ", "Models end their thoughts with </think> and go on."),
        ("", "Paris"),
        ("", ""),
        ("", "Paris <think>Hm.</think>"),
        ("", "It writes <think> first, and </think> at the end."),
        ("", "End your thoughts with `</think>`."),
        ("", '{"text": "Hm.</think>"}'),
        ("", '```json\n"Hm.</think>"\n```'),
        ("", "<thinker>Rodin</thinker>"),
        ("", "[Thoughts] Paris"),
    ],
)
def test_an_answer_begins_after_the_thoughts(thoughts: str, answer: str) -> None:
    assert split_thoughts(thoughts + answer) == (thoughts, answer)


def test_a_person_reads_thoughts_without_their_tags() -> None:
    assert (
        without_tags("<think>\nIs 1 < 2?\n</think>\n\n<think>Yes.</think>") == "Is 1 < 2?\n\n\nYes."
    )
    assert without_tags("Hm.\n[/THINK]") == "Hm."


def test_thoughts_that_were_taken_off_can_be_put_back() -> None:
    said = Response("<think>Hm.</think>\nParis")
    whole = Response("<think>Hi!</think>Hello.", turns=(Turn("Capital?", said),))
    apart = settle_thoughts(whole)
    assert (apart.thoughts, apart.output) == ("<think>Hi!</think>", "Hello.")
    assert apart.turns[0].response == Response("Paris", thoughts="<think>Hm.</think>\n")
    assert settle_thoughts(apart) == apart
    assert settle_thoughts(apart, keep=True) == whole
    assert settle_thoughts(whole, keep=True) == whole


def test_thoughts_that_were_never_in_the_text_stay_out_of_it() -> None:
    response = Response("Paris", thoughts="It asks for the capital.")
    assert settle_thoughts(response, keep=True) == response
    assert settle_thoughts(response) == response
