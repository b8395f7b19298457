"""Cases that broke alike: they give answers that are alike, or failed for the same reason."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ci_evals.reports.view import MANY, CaseView, group_by

FEWEST_ALIKE: Final = 3
"""Cases that broke alike share an entry from this number on."""


@dataclass(frozen=True, slots=True)
class AlikeCases:
    """Cases that share an entry, or a single one.

    Attributes:
        cases: at least one.
        answer: what their answers have in common, if these are alike; None if they differ.
    """

    cases: Sequence[CaseView]
    answer: str | None = None


def alike_cases(cases: Sequence[CaseView]) -> Iterator[AlikeCases]:
    """Group cases by the likeness of their answers, and the others by the reason why they failed.

    A group has at least `FEWEST_ALIKE` cases; each other case is alone.
    """
    kinds = kinds_of_answers(cases)

    def key(case: CaseView) -> Hashable:
        kind = kinds.get(case.case.id)
        if kind is None:
            return _cause_of_case(case)
        return kind, case.critical

    for alike in group_by(cases, key):
        first = alike[0]
        if len(alike) < FEWEST_ALIKE:
            yield from (AlikeCases([case]) for case in alike)
        elif first.case.id in kinds:
            yield AlikeCases(alike, _common_answer(alike))
        else:
            yield AlikeCases(alike)


def cases_by_grader(cases: Sequence[CaseView]) -> Iterator[AlikeCases]:
    """Group cases that the same graders failed: the coarser choice for a list still too long."""
    for alike in group_by(cases, _graders_of_case):
        if len(alike) < FEWEST_ALIKE:
            yield from (AlikeCases([case]) for case in alike)
        else:
            yield AlikeCases(alike)


def kinds_of_answers(cases: Sequence[CaseView]) -> Mapping[str, int]:
    """Number the kinds of answers that at least `FEWEST_ALIKE` cases give, by the id of the case.

    A case counts only if its variants give answers of one kind.
    """
    cells = [cell for case in cases for cell in case.cells]
    answers = [
        (cell.key, cell.failures.answer) for cell in cells if cell.failures.answer is not None
    ]
    if len(answers) < FEWEST_ALIKE:
        return {}
    from ci_evals.reports.similar_answers import group_alike

    kind_of_cell = {}
    for kind, members in enumerate(group_alike(answers, lambda each: each[1])):
        for key, _ in members:
            kind_of_cell[key] = kind
    kind_of_case = {}
    for case in cases:
        first, *others = [kind_of_cell.get(cell.key) for cell in case.cells]
        if first is not None and all(other == first for other in others):
            kind_of_case[case.case.id] = first
    sizes = Counter(kind_of_case.values())
    return {id_: kind for id_, kind in kind_of_case.items() if sizes[kind] >= FEWEST_ALIKE}


def _common_answer(cases: Sequence[CaseView]) -> str:
    from ci_evals.reports.similar_answers import common_text

    # More answers would hardly have less in common.
    return common_text([case.cells[0].failures.answer or "" for case in cases[:MANY]])


def _cause_of_case(case: CaseView) -> Hashable:
    causes = {cell.cause for cell in case.cells}
    if len(causes) > 1 or None in causes:
        return case.case.id  # a key that no other case has
    return causes.pop(), case.critical


def _graders_of_case(case: CaseView) -> Hashable:
    graders = {cell.failures.graders for cell in case.cells}
    if len(graders) > 1 or () in graders:
        return case.case.id
    return graders.pop(), case.critical
