"""Which answers are alike, and what they have in common."""

import pytest

from ci_evals.reports.similar_answers import common_text, group_alike, nearest


@pytest.mark.parametrize(
    ("answers", "sizes"),
    [
        (["We refund $4 now.", "We refund $5 now.", "No."], [2, 1]),
        (["Paris", "Lyon", "Paris"], [2, 1]),
        (["", "", "  "], [2, 1]),
        (["a b c d e f g h i j", "a b c d e f g x y z"], [2]),
        (["a b c d e f g h i j", "a b c d e f w x y z"], [1, 1]),
        (["word " * 2000, "word " * 2000, "word " * 1999], [2, 1]),
    ],
)
def test_answers_with_seven_of_ten_words_in_common_are_alike(
    answers: list[str], sizes: list[int]
) -> None:
    assert [len(group) for group in group_alike(answers, str)] == sizes


@pytest.mark.parametrize(
    ("answers", "common"),
    [
        (["We refund $4.", "We refund $5.", "We refund $66."], "We refund $…."),
        (["Sure! We refund.", "Of course. We refund."], "… We refund."),
        (["No.", "No."], "No."),
        (["No."], "No."),
    ],
)
def test_common_text_leaves_out_what_differs(answers: list[str], common: str) -> None:
    assert common_text(answers) == common


def test_the_nearest_answers_are_those_with_most_words_in_common() -> None:
    base = ["Sure! We refund.", "Of course. We refund."]
    here = ["No idea.", "Of course. We keep it."]
    assert nearest(base, here) == (1, 1)
    assert nearest(["a"], ["b", "c"]) == (0, 0)
