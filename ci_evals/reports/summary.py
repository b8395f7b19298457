"""What every renderer is given."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ci_evals.model import Gate
from ci_evals.report import Report
from ci_evals.verdict.gate import Verdict


class Summary(NamedTuple):
    """A report with its verdict."""

    report: Report
    verdict: Verdict
    gate: Gate | None


class Renderer(Protocol):
    """One format: chunks of UTF-8, made while they are read. Opens no file, prints nothing."""

    def __call__(self, summary: Summary) -> Iterable[bytes]: ...
