"""Which answers are alike: they differ in few words."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from rapidfuzz.distance import Indel

from ci_evals.reports.answer_forms import MAX_WORDS, word_diff

T = TypeVar("T")

LEAST_SIMILAR: Final = 0.7
"""The share of words, in the same order, that two answers must have in common to be alike."""

_MAX_KINDS = 20  # the most kinds that a further answer is compared with
_WORD = re.compile(r"\w+|[^\w\s]")


def group_alike(items: Iterable[T], answer: Callable[[T], str]) -> list[list[T]]:
    """Group items whose answers are alike, in the order of the first item of each group.

    Answers without words and very long ones are alike only if they are equal.
    """
    groups: list[list[T]] = []
    by_answer: dict[str, list[T]] = {}
    comparable: list[tuple[Sequence[str], list[T]]] = []
    for item in items:
        text = answer(item)
        if text not in by_answer:
            words = _WORD.findall(text)
            is_comparable = 0 < len(words) <= MAX_WORDS
            group = None
            if is_comparable:
                group = _find_alike(words, comparable)
            if group is None:
                group = []
                groups.append(group)
                if is_comparable and len(comparable) < _MAX_KINDS:
                    comparable.append((words, group))
            by_answer[text] = group
        by_answer[text].append(item)
    return groups


def common_text(answers: Iterable[str]) -> str:
    """Return what alike answers have in common, with `…` for words in which they differ."""
    first, *others = answers
    common = first
    for other in others:
        if other == first:
            continue
        pieces = word_diff(common, other) or ()
        common = ""
        for piece in pieces:
            if piece.kind == "same":
                common += piece.text
            elif not common.endswith("…"):
                common += "…"
    return common


def _find_alike(
    words: Sequence[str], groups: Iterable[tuple[Sequence[str], list[T]]]
) -> list[T] | None:
    """Return the first group whose first answer is like the one with these words."""
    for first, group in groups:
        if _similarity(first, words) >= LEAST_SIMILAR:
            return group
    return None


def nearest(answers: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return the positions of the answer and of the other one that have most words in common.

    Args:
        answers: at least one.
        others: at least one.
    """
    words_of_others = [_WORD.findall(other)[:MAX_WORDS] for other in others]
    best = 0, 0
    highest = -1.0
    for position, answer in enumerate(answers):
        words = _WORD.findall(answer)[:MAX_WORDS]
        for other, words_of_other in enumerate(words_of_others):
            similarity = _similarity(words, words_of_other)
            if similarity > highest:
                best, highest = (position, other), similarity
    return best


def _similarity(words: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of words that two answers have in common, in the same order."""
    return Indel.normalized_similarity(words, others)
