"""Cells made ready to run: the rendered prompt and the fingerprint, made once for all runs of a cell."""

from msgspec import Struct

from ci_evals.matrix import Matrix
from ci_evals.model import Case, Request, Variant
from ci_evals.suite import (
    Rendered,
    Suite,
    Templates,
    asked_fingerprint,
    provider_identity,
)

MAX_KEPT = 10_000  # cells beyond these are rendered anew for each run: memory stays bounded whatever the plan


class PreparedCell(Struct, frozen=True, eq=False):
    """What every run of one cell shares.

    `asked` identifies the question; run 1 is, or would be, in `first_slot`; a call may take `timeout_s` seconds.
    """

    case: Case
    variant: Variant
    rendered: Rendered
    asked: str
    fingerprint: str
    first_slot: int
    timeout_s: float

    def run_of(self, slot: int) -> int:
        """The run number, from 1, of one of the cell's slots."""
        return slot - self.first_slot + 1

    def request(self, run: int) -> Request:
        """What a provider is sent for a run by its number."""
        return Request(self.rendered.input, self.rendered.messages, self.case, run, self.timeout_s)


class Cells:
    """Prepares cells of a suite and keeps the first ones."""

    def __init__(self, suite: Suite, matrix: Matrix) -> None:
        self._suite = suite
        self._matrix = matrix
        self._templates = Templates()
        self._prompts = {prompt.name: prompt for prompt in suite.prompts}
        self._identities = {str(options.name): provider_identity(options) for options in suite.providers}
        self._timeouts_s = {str(options.name): options.timeout_s or suite.timeout_s for options in suite.providers}
        self._kept: dict[int, PreparedCell] = {}

    def of_slot(self, slot: int) -> PreparedCell:
        """The cell that a slot belongs to."""
        return self.cell(self._matrix.cell_of(slot))

    def cell(self, number: int) -> PreparedCell:
        """A cell by its number in the matrix."""
        cell = self._kept.get(number)
        if cell is None:
            cell = self._prepare(number)
            if self._matrix.runs(number) > 1 and len(self._kept) < MAX_KEPT:
                self._kept[number] = cell
        return cell

    def _prepare(self, number: int) -> PreparedCell:
        case, variant = self._matrix.case(number), self._matrix.variant(number)
        rendered = self._templates.render(self._prompts[variant.prompt] if variant.prompt else None, case)
        asked = asked_fingerprint(case, rendered, self._identities[variant.provider])
        fingerprint = f"{asked}.{self._suite.judged_fingerprint(self._matrix.row(number))}"
        first_slot = self._matrix.first_slots[number] - (self._matrix.first_run(number) - 1)
        timeout_s = case.timeout_s or self._timeouts_s[variant.provider]
        return PreparedCell(case, variant, rendered, asked, fingerprint, first_slot, timeout_s)
