"""What is said of cells, variants and the baseline itself."""

import pytest
from verdict.sides import base_of, compared, head_of, key_of

from ci_evals.verdict.sentences import baseline_sentence, cell_sentence, variant_sentence


@pytest.mark.parametrize(
    ("head", "more", "base", "sentence"),
    [
        (
            (0, 3),
            (4, 7),
            (30, 30),
            "a: 30 of 30 on main, 4 of 10 here; a drop like this happens by chance once in 18,000 comparisons",
        ),
        (
            (2, 3),
            None,
            (30, 30),
            (
                "a: 30 of 30 on main, 2 of 3 here: possible, within noise; "
                "a drop like this happens by chance once in 11 comparisons"
            ),
        ),
        ((2, 3), None, (20, 30), "a: 20 of 30 on main, 2 of 3 here: answers vary from run to run, no change is shown"),
        ((0, 1), None, (1, 1), "a: 1 of 1 on main, 0 of 1 here: too few runs to call it a change"),
        ((3, 3), None, (30, 30), "a: 30 of 30 on main, 3 of 3 here: unchanged"),
        ((0, 0), None, (30, 30), "a: not compared: no run of its own was graded here"),
        ((3, 3), None, (0, 0), "a: not compared: no run of its own was graded on main"),
    ],
)
def test_every_kind_has_its_sentence(
    head: tuple[int, int], more: tuple[int, int] | None, base: tuple[int, int], sentence: str
) -> None:
    comparison = compared(head_of({"a": head}, {} if more is None else {"a": more}), base_of({"a": base}))
    assert cell_sentence(comparison, comparison.by_key[key_of("a")]) == sentence


def test_cases_of_one_side_and_renamed_ones() -> None:
    comparison = compared(head_of({"new": (3, 3), "q/2": (3, 3)}), base_of({"old": (2, 3), "q/1": (3, 3)}))
    assert [cell_sentence(comparison, cell) for cell in comparison.cells] == [
        "q/2 (was q/1): 3 of 3 on main, 3 of 3 here: unchanged",
        "new: new, 3 of 3 here",
        "old: removed, 2 of 3 on main",
    ]


def test_a_variant_is_named_where_there_are_several() -> None:
    head = head_of({"a": (3, 3)}, provider="one") + head_of({"a": (3, 3)}, provider="two")
    comparison = compared(head, base_of({"a": (3, 3)}, provider="one"))
    assert cell_sentence(comparison, comparison.cells[0]).startswith("a on one: ")
    text = variant_sentence(comparison, comparison.variants[0])
    assert text == "one: pass rate 100 % on main, 100 % here over 1 case: within noise"


def test_the_baseline_is_told_with_its_age_and_depth() -> None:
    comparison = compared(head_of({"a": (3, 3)}), base_of({"a": [(3, 3)] * 6}))
    text = "compared with 0123456 of main, 3 h older, and 5 reports before it: up to 18 runs a case"
    assert baseline_sentence(comparison, 1000.0 + 3 * 3600) == text


def test_a_comparison_of_nothing_says_why() -> None:
    others = compared(head_of({"a": (3, 3)}) + head_of({"a": (3, 3)}, provider="b"), base_of({"a": (3, 3)}, "old"))
    assert baseline_sentence(others, 0) == "nothing to compare: main has other providers or prompts (old)"
    ungraded = compared(head_of({"a": (0, 0)}), base_of({"a": (3, 3)}))
    expected = "nothing to compare: no case that is the same here and on main was graded on both"
    assert baseline_sentence(ungraded, 0) == expected
