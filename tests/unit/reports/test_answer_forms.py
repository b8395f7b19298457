"""The elements of an answer: no character in them acts, even one that only decoding makes."""

import pytest

from ci_evals.reports.answer_forms import elements_of, text_of


@pytest.mark.parametrize(
    "answer",
    [
        '{"order": "42 \\u202e", "state": "paid", "by": "card"}',
        '[{"order": "42 \\u202e", "state": "paid"}]',
        '[{"order\\u202e": 42, "state": "paid"}]',
        "# Order 42 &#x202e;",
        "- `42` &#x1b;[2J\n- paid &#x202e;",
    ],
)
def test_what_is_decoded_is_visible(answer: str) -> None:
    elements = elements_of(answer)
    assert elements is not None
    text = text_of(elements)
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "\\u202e" in text
