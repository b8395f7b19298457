"""One ruler for both sides: what main's suite expects, and main's grades of the change's answers.

A change that edits the checks edits what it is measured with. So its answers are graded by main's
checks, too, and these grades are compared with main's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.rules import Gate
from ci_evals.model.settings import SuiteSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MainRules:
    """What main's suite asks and expects: what answers its cases, its gate, if it has one, the
    settings that decide how strictly it measures, its cases among them, and the digests of the
    files of code that grades.
    """

    variants: tuple[Variant, ...]
    gate: Gate | None
    settings: SuiteSettings
    grader_files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswers:
    """Answers of the change that main's checks are to grade.

    Attributes:
        journal: the journal that they are in.
        cells: of each answer, the cell of main's suite whose checks grade it.
        offsets: of each answer, the start of its line in the journal, in bytes.
        checks: the fingerprints of the checks that have graded the answers so far, in order, by the
            case of main's suite; cases without any are left out.
    """

    journal: Path
    cells: Sequence[CellKey]
    offsets: Sequence[int]
    checks: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledCell:
    """A cell of the report whose answers main's checks have graded, as the change has edited them.

    Attributes:
        case: the id of the case in the report.
        fingerprint: identifies the question, and the grading as main has it.
        passed: whether the answer of each run passes main's checks, by the number of the run; those
            that main's checks could not grade are left out.
    """

    case: str
    provider: str
    prompt: str | None
    fingerprint: str
    passed: Mapping[int, bool]

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedCase:
    """A case of main that the change has deleted or reworded, asked as main has it.

    Attributes:
        case: its id in main's suite.
        fingerprint: identifies its question and its grading there.
        critical: its regression is always red, on main.
        passed: how many answers of the change pass main's checks, over all variants.
        graded: how many main's checks have graded.
    """

    case: str
    fingerprint: str
    critical: bool
    passed: int
    graded: int


@dataclass(frozen=True, kw_only=True)
class Ruler:
    """Main's grades of the answers of a report, where its checks are others than the report's own.

    Attributes:
        main: the branch and its commit: `main (0123456)`.
        gate: main's rules for merging; None if it has none.
        cells: the cells that main's checks have graded.
        files: the files of code that grades which the change has edited or added.
        dropped: cases of main that the change no longer has as they were.
        dropped_unasked: how many more of these there are, which were not asked.
        problem: why not all of this is known; empty if it is.
    """

    main: str
    gate: Gate | None = None
    cells: tuple[RuledCell, ...] = ()
    files: tuple[str, ...] = ()
    dropped: tuple[DroppedCase, ...] = ()
    dropped_unasked: int = 0
    problem: str = ""

    @cached_property
    def by_key(self) -> Mapping[CellKey, RuledCell]:
        return {cell.key: cell for cell in self.cells}
