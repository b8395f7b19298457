"""Runs that ended alike, which reports show as one: what tells them apart, and what is said of all of them."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ci_evals.model import Grade, Status
from ci_evals.reports.figures import run_numbers


def verdicts_of(grades: Iterable[Grade]) -> tuple[tuple[str, str | None], ...]:
    """What grades tell runs apart by: each grader, and why it failed. What was said in favour of one may differ."""
    return tuple((each.grader, None if each.passed else each.reason) for each in grades)


def common_grades(of_each: Iterable[Sequence[Grade]]) -> list[Grade]:
    """The grades of runs that have the same verdicts, without a reason that is not that of all."""
    each = zip(*of_each, strict=True)
    return [same[0] if len({grade.reason for grade in same}) == 1 else replace(same[0], reason="") for same in each]


def ended(numbers: Sequence[int], status: Status) -> str:
    """`run 2 failed`, `runs 1, 2 and 3 failed alike`; of rising numbers."""
    return f"{run_numbers(numbers)} {status}{' alike' if len(numbers) > 1 else ''}"
