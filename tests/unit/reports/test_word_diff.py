"""The difference of two answers: its pieces make up both answers, and the work is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.reports.answer_forms import MAX_WORDS, Piece, word_diff

TEXT = st.text(st.sampled_from("abé \n.,→"), max_size=40)


@given(TEXT, TEXT)
def test_its_pieces_are_both_answers_again(old: str, new: str) -> None:
    pieces = word_diff(old, new)
    if pieces is not None:
        assert "".join(piece.text for piece in pieces if piece.kind != "new") == old
        assert "".join(piece.text for piece in pieces if piece.kind != "old") == new
        assert all(piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("old", "new", "pieces"),
    [
        ("we pay back", "we pay back", [("same", "we pay back")]),
        (
            "We refund $42.00 to your card.",
            "We issue store credit of $42.00 to your card.",
            [
                ("same", "We "),
                ("old", "refund"),
                ("new", "issue store credit of"),
                ("same", " $42.00 to your card."),
            ],
        ),
        ("a, b, c, d", "a, b, c", [("same", "a, b, c"), ("old", ", d")]),
    ],
)
def test_changed_words_stand_together(old: str, new: str, pieces: list[tuple[str, str]]) -> None:
    found = word_diff(old, new)
    assert found is not None
    joined: list[Piece] = []
    for piece in found:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(piece.kind, joined[-1].text + piece.text)
        else:
            joined.append(piece)
    assert [tuple(piece) for piece in joined] == pieces


def test_answers_with_little_in_common_and_very_long_ones_are_not_compared() -> None:
    assert word_diff("It is fine.", "Leave me alone, please!") is None
    assert word_diff("a " * MAX_WORDS, "a " * MAX_WORDS) is None
