"""Merges runs of a cell whose answers differ in few words."""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rapidfuzz.distance import Indel

from ci_evals.model.result import every_grade
from ci_evals.reports.answer_forms import MAX_WORDS, Piece, pieces_of, split_words
from ci_evals.reports.view import RunView, reason_of

LEAST_SIMILAR: Final = 0.8
"""The share of words, in the same order, that two answers must have in common to be merged."""

_MAX_KINDS = 20  # the most kinds that a further answer is compared with
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(slots=True)
class _Kind:
    """Runs whose answers differ from the first one in few words."""

    words: Sequence[str]
    runs: list[RunView]


def merge_similar(runs: Sequence[RunView]) -> list[RunView]:
    """Merge runs that ended for the same reason with answers that differ in few words.

    The first one of each kind is shown, and the others are its `variations`.
    """
    kinds: dict[Hashable, list[_Kind]] = {}
    for number, run in enumerate(runs):
        words = _WORD.findall(run.answer or "")
        if not words or len(words) > MAX_WORDS:
            kinds[number] = [_Kind(words, [run])]  # a key that no ending has, so it stays alone
            continue
        known = kinds.setdefault(_ending(run), [])
        for kind in known[:_MAX_KINDS]:
            if Indel.normalized_similarity(kind.words, words) >= LEAST_SIMILAR:
                kind.runs.append(run)
                break
        else:
            known.append(_Kind(words, [run]))
    return [_merge(kind.runs) for same_ending in kinds.values() for kind in same_ending]


def difference(run: RunView, other: RunView) -> Iterator[Piece]:
    """Yield the pieces that turn the answer of `run` into the answer of `other`."""
    before, after = split_words(run.answer or ""), split_words(other.answer or "")
    steps = [
        (step.tag, step.src_start, step.src_end, step.dest_start, step.dest_end)
        for step in Indel.opcodes(before, after)
    ]
    yield from pieces_of(steps, before, after)


def _ending(run: RunView) -> Hashable:
    """Return a key that is equal for runs that ended for the same reason, answers aside."""
    result, response = run.first, run.first.response
    ending: list[Hashable] = [result.status, result.recorded, result.reused, run.confirming]
    for grade in every_grade(result.grades):
        ending += [grade.grader, grade.passed, grade.score]
        if not grade.passed:
            ending.append(reason_of(grade).missed)
    if response is not None:
        ending += [response.model, response.finish_reason]
        ending += [(passage.id, passage.text) for passage in response.passages or ()]
    return tuple(ending)


def _merge(runs: Sequence[RunView]) -> RunView:
    first, *others = runs
    if not others:
        return first
    results = sorted((result for run in runs for result in run.results), key=lambda each: each.run)
    return replace(first, results=tuple(results), variations=tuple(others))
