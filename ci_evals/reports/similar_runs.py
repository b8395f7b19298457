"""Merges runs of a cell whose answers differ in few words."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from rapidfuzz.distance import Indel

from ci_evals.model.result import every_grade
from ci_evals.reports.answer_forms import Piece, pieces_of, split_words
from ci_evals.reports.similar_answers import group_alike
from ci_evals.reports.view import RunView, group_by


def merge_similar(runs: Sequence[RunView]) -> list[RunView]:
    """Merge runs that ended for the same reason with answers that differ in few words.

    The first one of each kind is shown, and the others are its `variations`.
    """
    merged: list[RunView] = []
    for same_ending in group_by(runs, _ending):
        merged += map(_merge, group_alike(same_ending, lambda run: run.answer or ""))
    return merged


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
    ending: list[Hashable] = [result.status, result.error, result.recorded, result.reused]
    ending.append(run.confirming)
    for grade in every_grade(result.grades):
        ending += [grade.grader, grade.passed, grade.score]
        if not grade.passed:
            ending.append(grade.reason)
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
