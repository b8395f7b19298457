"""A judge measured against people: it is asked about answers that have been labelled."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ci_evals.columns import Columns
from ci_evals.engine.asked import ask_each
from ci_evals.engine.lanes import opened
from ci_evals.errors import GradingError, StorageError, UsageError
from ci_evals.graders.llm_judge import LlmJudge
from ci_evals.graders.turn import judging
from ci_evals.matrix import Matrix
from ci_evals.model import Answer, Case, Judging, Request
from ci_evals.response import Response
from ci_evals.stats.agreement import Confusion, cohen_kappa, confusion
from ci_evals.stats.intervals import Estimate
from ci_evals.suite import Suite

FEWEST_LABELS = 30
BAR = 0.6
"""Kappa from which on agreement is called substantial: J. R. Landis, G. G. Koch, Biometrics 33 (1977) 159-174."""

_SHAPE = 'expected {"output": …, "label": "pass" or "fail"}'
_VERDICTS: Mapping[str, str] = {
    **dict.fromkeys(("true", "pass", "passed", "1"), "pass"),
    **dict.fromkeys(("false", "fail", "failed", "0"), "fail"),
}


class Row(Struct, frozen=True):
    """One labelled answer: `label` is a person's verdict, `pass` or `fail` (or true or false)."""

    output: str
    label: bool | str
    input: Any = None
    reference: Any = None
    context: Any = None
    case: str | None = None


class Checked(Struct, frozen=True):
    """What became of the check: the table has people's verdicts in rows, the judge's in columns."""

    table: Confusion
    kappa: Estimate | None
    unanswered: Sequence[str]
    judging: Judging

    @property
    def fit(self) -> bool | None:
        """Whether it is fit to gate; None if there is too little to tell.

        It is with at least `FEWEST_LABELS` labels, both verdicts among them, and a kappa whose interval lies from `BAR`
        on; it is not if the interval lies below, or if it gave one verdict to everything.
        """
        interval = self.kappa.interval if self.kappa else None
        if self.table.size < FEWEST_LABELS:
            return None
        if interval is None:
            return False if self.table.is_one_sided else None
        if interval.lower >= BAR:
            return True
        return False if interval.upper < BAR else None


def read_rows(path: Path) -> list[Row]:
    """Labelled answers of a JSONL file.

    Raises:
        StorageError: it cannot be read.
        UsageError: a line is no labelled answer.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path}: cannot be read: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(msgspec.json.decode(line, type=Row))
            except msgspec.DecodeError as error:
                raise UsageError(f"{path}:{number}: {_SHAPE}: {error}") from error
            if _verdict(rows[-1].label) is None:
                raise UsageError(f"{path}:{number}: the label {rows[-1].label!r} is neither pass nor fail")
    if not rows:
        raise UsageError(f"{path}: there are no labelled answers in it: {_SHAPE}, one to the line")
    return rows


def judge_of(suite: Suite, rubric: str | None) -> LlmJudge:
    """The judge of a suite: the only one, or the one with the given rubric.

    Raises:
        UsageError: there is none, or several.
    """
    found: dict[str, LlmJudge] = {}
    for case in suite.cases:
        for each in case.expect:
            grader = judging(each.grader)
            if isinstance(grader, LlmJudge):
                found.setdefault(grader.rubric, grader)
    known = ", ".join(map(repr, found))
    if not found:
        raise UsageError(f"{suite.file} has no judge to check: add one to `expect`, as in `- judge: polite`")
    if rubric is None and len(found) > 1:
        raise UsageError(f"{suite.file} has several judges: name one with --rubric: {known}")
    chosen = next(iter(found)) if rubric is None else rubric
    if chosen not in found:
        raise UsageError(f"{suite.file} has no judge with the rubric {chosen!r}; it has: {known}")
    return found[chosen]


async def check(suite: Suite, judge: LlmJudge, rows: Sequence[Row]) -> Checked:
    """Ask a judge about labelled answers, as many at a time as the suite allows.

    Raises:
        ConfigError: the judge's model cannot be opened.
    """
    matrix = Matrix(suite.cases, suite.variants, suite.runs)
    async with opened(suite, matrix, Columns(0), calls=False) as ready:
        assert ready.judges is not None  # the suite has a judge, and its model was found when it was loaded
        meter = ready.judges.meter()

        async def ask(numbered: tuple[int, Row]) -> str | GradingError:
            number, row = numbered
            try:
                finding = await _for(judge, row).grade_with(_answer(row, number), meter)
            except GradingError as error:
                return error
            return "pass" if finding.passed else "fail"

        told = await ask_each(enumerate(rows, 1), ask, at_once=suite.max_concurrency)
    answered = ((row, verdict) for row, verdict in zip(rows, told, strict=True) if isinstance(verdict, str))
    table = confusion(((str(_verdict(row.label)), verdict) for row, verdict in answered), ("pass", "fail"))
    unanswered = [error.message for error in told if isinstance(error, GradingError)]
    return Checked(table, cohen_kappa(table), unanswered, meter.judging)


def _for(judge: LlmJudge, row: Row) -> LlmJudge:
    """The judge with what the row is to be judged by."""
    given = {name: value for name in ("reference", "context") if (value := getattr(row, name)) is not None}
    return msgspec.structs.replace(judge, **given) if given else judge


def _answer(row: Row, number: int) -> Answer:
    case = Case(id=row.case or f"row {number}", input=row.input)
    request = Request(row.input, (), case, 1, timeout_s=0.0)
    return Answer(request, Response(row.output), 0.0, None)


def _verdict(label: object) -> str | None:
    return _VERDICTS.get(str(label).strip().casefold())
