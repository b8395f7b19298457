"""Measures a suite's judge against people's labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ci_evals.engine.judges import ask_each
from ci_evals.engine.setup import open_suite
from ci_evals.errors import GradingError, StorageError, UsageError
from ci_evals.executors import LOCAL
from ci_evals.graders.judge import LlmJudge
from ci_evals.graders.scoring import model_graders
from ci_evals.graders.thoughts import settle_thoughts
from ci_evals.model.case import Case
from ci_evals.model.fields import first_problem
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Passage, Response
from ci_evals.model.result import Judging
from ci_evals.stats.classification import Confusion, cohen_kappa, confusion
from ci_evals.stats.rates import Estimate
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import CheckedSuite

FEWEST_LABELS = 30
BAR = 0.6
"""The kappa from which agreement is called substantial: J. R. Landis, G. G. Koch, Biometrics 33
(1977) 159-174.
"""

_SHAPE = 'expected {"output": …, "label": "pass" or "fail"}'
_VERDICTS: Mapping[str, str] = {
    **dict.fromkeys(("true", "pass", "passed", "1"), "pass"),
    **dict.fromkeys(("false", "fail", "failed", "0"), "fail"),
}


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer with a person's verdict: `label` is `pass` or `fail`, or true or false.

    `reference` and `context` replace the judge's own; `retrieved` has the texts that were retrieved
    for the answer.
    """

    output: str
    label: bool | str
    input: Any = None
    reference: Any = None
    context: Any = None
    retrieved: tuple[str, ...] | None = None
    case: str | None = None

    @property
    def verdict(self) -> str | None:
        return _VERDICTS.get(str(self.label).strip().casefold())


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer on which people and the judge disagree: both verdicts, and the judge's reason."""

    case: str
    label: str
    judge: str
    reason: str


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """The agreement of a judge with people. The table has people's verdicts in rows and the judge's
    in columns. `left_out` counts answers to cases that the judge does not grade.
    """

    table: Confusion
    kappa: Estimate | None
    disagreements: Sequence[Disagreement]
    unanswered: Sequence[str]
    left_out: int
    judging: Judging

    @property
    def fit(self) -> bool | None:
        """True if the judge is fit to gate, False if it is not, None if there is too little
        evidence.

        A decision takes at least `FEWEST_LABELS` labels. The judge is fit if the interval of kappa
        is at or above `BAR`, and unfit if all of it is below, or if the judge gave the same verdict
        to everything.
        """
        if self.table.size < FEWEST_LABELS:
            return None
        if self.kappa is None or self.kappa.interval is None:
            # People or the judge gave the same label to everything, so that kappa is undefined. If
            # only people did, it says nothing about the judge.
            return False if self.table.is_one_sided else None
        interval = self.kappa.interval
        if interval.lower >= BAR:
            return True
        if interval.upper < BAR:
            return False
        return None


def read_labelled_answers(path: Path) -> list[LabelledAnswer]:
    """Read a JSONL file of labelled answers.

    Raises:
        StorageError: it cannot be read.
        UsageError: a line is not a labelled answer, or there is none.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path}: cannot be read: {error}") from error
    adapter, answers = TypeAdapter(LabelledAnswer), []
    lines = text.split("\n")  # not by `splitlines`: JSON may have U+2028 in a text
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            answer = adapter.validate_json(line)
        except ValidationError as error:
            raise UsageError(f"{path}:{number}: {_SHAPE}: {first_problem(error)}") from error
        if answer.verdict is None:
            raise UsageError(
                f"{path}:{number}: the label {answer.label!r} is neither pass nor fail"
            )
        answers.append(answer)
    if not answers:
        raise UsageError(f"{path}: has no labelled answers: {_SHAPE}, one per line")
    return answers


def find_judge(suite: CheckedSuite, rubric: str | None) -> LlmJudge:
    """Return the judge of a suite with the given rubric, or its only judge if `rubric` is None.

    Raises:
        UsageError: the judge does not exist, or there are several.
    """
    judges: dict[str, LlmJudge] = {}
    for case in suite.cases:
        for judge in _judges_of(case):
            judges.setdefault(judge.rubric, judge)
    if not judges:
        raise UsageError(
            f"{suite.file} has no judge to check: add one to `expect`, as in `- judge: polite`"
        )
    if rubric is None and len(judges) > 1:
        known = ", ".join(map(repr, judges))
        raise UsageError(f"{suite.file} has several judges: name one with --rubric: {known}")
    chosen = next(iter(judges)) if rubric is None else rubric
    if chosen not in judges:
        raise UsageError(f"{suite.file}: {unknown('rubric', chosen, judges)}")
    return judges[chosen]


def _judges_of(case: Case) -> Iterator[LlmJudge]:
    for grader in model_graders(case.expect):
        if isinstance(grader, LlmJudge):
            yield grader


async def check_judge(
    suite: CheckedSuite, judge: LlmJudge, answers: Sequence[LabelledAnswer]
) -> JudgeCheck:
    """Ask a judge about labelled answers, `max_concurrency` at a time, and compare its verdicts
    with the labels.

    An answer to a case of the suite is judged as the suite judges that case, with the case's own
    reference and context.

    Raises:
        ConfigError: the judge's model cannot be opened.
    """
    settings = replace(suite.settings, executor=LOCAL)  # none of the team's own code runs
    suite = replace(suite, settings=settings)
    judges: dict[str | None, LlmJudge | None] = {}
    for case in suite.cases:
        same = (of_case for of_case in _judges_of(case) if of_case.rubric == judge.rubric)
        judges[case.id] = next(same, None)
    judged = []
    for number, labelled in enumerate(answers, 1):
        if judges.get(labelled.case, judge) is not None:
            judged.append(replace(labelled, case=labelled.case or f"row {number}"))
    async with open_suite(suite, calls=False) as opened:
        assert opened.judges is not None  # its model was found when the suite was loaded
        meter = opened.judges.meter()

        async def ask(labelled: LabelledAnswer) -> Finding | GradingError:
            informed = judges.get(labelled.case) or judge
            if labelled.reference is not None:
                informed = replace(informed, reference=labelled.reference)
            if labelled.context is not None:
                informed = replace(informed, context=labelled.context)
            case = Case(id=str(labelled.case), input=labelled.input)
            request = Request(labelled.input, (), case, 1, timeout_s=0.0)
            passages = None
            if labelled.retrieved is not None:
                passages = tuple(Passage(text) for text in labelled.retrieved)
            response = settle_thoughts(Response(labelled.output, context=passages))
            answer = Answer(request, response, 0.0, None)
            try:
                return await informed.grade_with(answer, meter)
            except GradingError as error:
                return error

        findings = await ask_each(judged, ask, at_once=suite.max_concurrency)
    pairs, disagreements, unanswered = [], [], []
    for labelled, finding in zip(judged, findings, strict=True):
        if isinstance(finding, GradingError):
            unanswered.append(finding.message)
            continue
        label = str(labelled.verdict)
        verdict = "pass" if finding.passed else "fail"
        pairs.append((label, verdict))
        if verdict != label:
            disagreements.append(Disagreement(str(labelled.case), label, verdict, finding.reason))
    table = confusion(pairs, ("pass", "fail"))
    left_out = len(answers) - len(judged)
    kappa = cohen_kappa(table)
    return JudgeCheck(table, kappa, disagreements, unanswered, left_out, meter.judging)
