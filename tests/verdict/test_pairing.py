"""Which cell is compared with which."""

from collections import Counter

import msgspec
import pytest
from verdict.sides import base_of, compared, head_of, key_of

from ci_evals.model import Variant
from ci_evals.verdict.history import BaseCell, Baseline, Evidence, History
from ci_evals.verdict.pairing import VariantKey, matched_variants

A, B, C, D = ("a", None), ("b", None), ("c", None), ("a", "short")


@pytest.mark.parametrize(
    ("head", "base", "matched"),
    [
        ([A, B], [A, B], {A: A, B: B}),
        ([A], [B], {A: B}),
        ([D], [A], {D: A}),
        ([A, C], [A, B], {A: A, C: B}),
        ([A, B], [C], {}),
        ([A], [B, C], {}),
        ([A], [A, B], {A: A}),
        ([A, B], [A], {A: A}),
        ([], [A], {}),
        ([A, A], [A, A], {A: A}),
    ],
)
def test_variants_are_matched_by_name_and_a_single_one_left_on_both_sides_by_that(
    head: list[VariantKey], base: list[VariantKey], matched: dict[VariantKey, VariantKey]
) -> None:
    assert matched_variants(head, base) == matched


def asked_as(fingerprint: str | None) -> Baseline:
    """A baseline whose only case has this fingerprint."""
    cell = BaseCell(fingerprint, History((Evidence("r", 30, 30),)))
    return msgspec.structs.replace(base_of({"a": (30, 30)}), cells={key_of("a"): cell})


def kinds(head: dict[str, tuple[int, int]], base: dict[str, tuple[int, int]]) -> dict[str, str]:
    return {cell.case: cell.kind for cell in compared(head_of(head), base_of(base)).cells}


def test_what_only_one_side_has_is_new_or_removed() -> None:
    assert kinds({"a": (3, 3), "b": (3, 3)}, {"a": (3, 3), "c": (3, 3)}) == {
        "a": "unchanged",
        "b": "new",
        "c": "removed",
    }


def test_a_case_of_the_same_question_under_another_id_is_renamed() -> None:
    comparison = compared(head_of({"q/new": (3, 3)}), base_of({"q/old": (3, 3)}))
    [cell] = comparison.cells
    assert (cell.kind, cell.renamed_from) == ("unchanged", "q/old")
    assert comparison.base_of(cell.key) is comparison.baseline.cells[key_of("q/old")]


def test_renamed_cases_of_the_same_question_are_paired_in_order_and_each_once() -> None:
    comparison = compared(
        head_of({"q/x": (3, 3), "q/y": (3, 3), "q/z": (3, 3)}), base_of({"q/1": (3, 3), "q/2": (3, 3)})
    )
    assert {cell.case: cell.renamed_from for cell in comparison.cells} == {"q/x": "q/1", "q/y": "q/2", "q/z": None}
    assert comparison.counts == Counter(unchanged=2, new=1)


def test_a_copy_of_a_case_that_is_still_there_is_new() -> None:
    assert kinds({"q/1": (3, 3), "q/2": (3, 3)}, {"q/1": (3, 3)}) == {"q/1": "unchanged", "q/2": "new"}


def test_an_edited_case_is_not_compared() -> None:
    base = asked_as("other")
    [cell] = compared(head_of({"a": (0, 3)}), base).cells
    assert (cell.kind, cell.p, cell.base) == ("edited", None, (30, 30))


def test_a_report_that_does_not_know_what_was_asked_is_taken_at_its_word() -> None:
    base = asked_as(None)
    assert [cell.kind for cell in compared(head_of({"a": (0, 3)}), base, confirm_runs=0).cells] == ["regressed"]


@pytest.mark.parametrize(("head", "base"), [((0, 0), (3, 3)), ((3, 3), (0, 0)), ((0, 0), (0, 0))])
def test_a_cell_without_graded_runs_on_a_side_is_not_compared(head: tuple[int, int], base: tuple[int, int]) -> None:
    comparison = compared(head_of({"a": head}), base_of({"a": base}))
    assert [cell.kind for cell in comparison.cells] == ["not compared"]
    assert (comparison.compared, comparison.variants) == (0, ())


def test_a_renamed_variant_is_compared_cell_by_cell() -> None:
    comparison = compared(head_of({"a": (3, 3)}, provider="new"), base_of({"a": (3, 3)}, provider="old"))
    assert comparison.counts == {"unchanged": 1}
    assert comparison.variants[0].renamed
    assert comparison.base_of(key_of("a", "new")) is comparison.baseline.cells[key_of("a", "old")]


def test_a_cell_is_found_by_whatever_the_baseline_calls_its_case_and_its_variant() -> None:
    head, base = head_of({"a/new": (3, 3)}, provider="new"), base_of({"a/old": (3, 3)}, provider="old")
    comparison = compared(head, base)
    assert comparison.base_key(key_of("a/new", "new")) == key_of("a/old", "old")
    assert comparison.base_of(key_of("a/new", "new")) is base.cells[key_of("a/old", "old")]
    assert comparison.base_variant(Variant("new")) == ("old", None)
    assert comparison.base_key(key_of("elsewhere", "new")) == key_of("elsewhere", "old")
    assert comparison.base_of(key_of("elsewhere", "new")) is None
