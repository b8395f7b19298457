"""The seam of graders: a grader *is* its options, its fields are the YAML keys."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, ClassVar, Self

from msgspec import Meta, Struct

from ci_evals.model import Answer, Finding, Grader


class GraderOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grader with its options.

    `- contains: Paris` sets the field named by `short`; `- contains: {value: Paris, ignore_case: true}` sets fields
    by name. `weight` is one of them.
    """

    short: ClassVar[str] = "value"
    needs_more: ClassVar[bool] = False  # whether it needs something beside the answer: a function, a model

    weight: Annotated[float, Meta(ge=0)] = 1.0

    def problems(self) -> list[str]:
        """What can be seen to be wrong before any call: a regex that does not compile."""
        return []

    def lacks(self, folder: Path) -> str | None:
        """What it needs beside an answer and cannot be found from the config's folder: a module."""
        return None

    def prepare(self) -> None:
        """Get ready once, before any call is paid for, while the config's folder is importable.

        Raises:
            ConfigError: the grader cannot work: its function cannot be imported.
        """

    def opposed(self) -> Self:
        """The grader that `not_` turns around: itself, unless its opposite is not simply "did not pass"."""
        return self

    def deciding(self) -> Self:
        """The same without what decides only how long it is waited for."""
        return self

    def grade(self, answer: Answer) -> Finding | Awaitable[Finding]:
        raise NotImplementedError


class AlwaysTrue(GraderOptions, frozen=True):
    """A grader that is there or not: `value` is always true."""

    instead: ClassVar[str]  # what to write for `false`

    value: bool = True

    def problems(self) -> list[str]:
        return [] if self.value else [f"`false` says nothing: {self.instead}"]


def at_once(grader: Grader, answer: Answer) -> Finding | Awaitable[Finding]:
    """What a grader finds without waiting; `patience` looks for this function on the stack."""
    return grader.grade(answer)


def all_or_nothing(passed: bool, reason: str) -> Finding:  # noqa: FBT001  reads as all_or_nothing(a == b, "why")
    """A finding of all or nothing."""
    return Finding(passed, float(passed), reason)
