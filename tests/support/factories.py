"""Reports, cases and results with sane defaults."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    Evidence,
    History,
    join,
    report_ref,
    reported_cells,
    trend_point,
)
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import RunPlan, plan_further_runs, plan_runs
from ci_evals.model.report import Looks, RunRecord, SuiteInfo, SuiteReport
from ci_evals.model.response import Message, Response, Usage
from ci_evals.model.result import Grade, Result, RunError, Status, encode_result
from ci_evals.model.rules import Gate

T = TypeVar("T")

Outcome = str | tuple[int, int]
"""How a cell's runs ended: "PPFE." (passed, failed, errored, never run), or (passed, graded)."""

STARTED_AT = 1_750_000_000.0
AGENT = Variant("agent")
QUESTION, RIGHT, WRONG = "Capital of France?", "Paris", "Lyon"
"""The text of cases and answers that say nothing of their own: never in a picture of the docs."""
_STATUSES: Mapping[str, Status] = {"P": "passed", "F": "failed", "E": "errored"}


def case_of(id: str = "capital", **changes: Any) -> Case:  # noqa: A002  the field's own name
    """A case that asks for the capital of France, written on line 10 of evals.yaml."""
    defaults: dict[str, Any] = {
        "vars": {"question": QUESTION},
        "file": "evals.yaml",
        "line": 10,
    }
    return Case(id=id, **(defaults | changes))


def result_of(case: str = "capital", status: Status = "passed", **changes: Any) -> Result:
    """A case's first run on the provider `agent`: graded by `contains`, or a 429 if `errored`."""
    defaults: dict[str, Any] = {
        "provider": AGENT.provider,
        "run": 1,
        "started_at": STARTED_AT,
        "latency_s": 0.5,
        "cost_usd": 0.001,
        "messages": (Message("user", QUESTION),),
    }
    if status == "errored":
        defaults |= {
            "attempts": 5,
            "cost_usd": None,
            "error": RunError("rate_limit", "429: slow down", status=429),
        }
    else:
        output = RIGHT if status == "passed" else WRONG
        defaults |= {
            "score": float(status == "passed"),
            "response": Response(
                output=output, usage=Usage(input_tokens=20, output_tokens=5), model="test-model"
            ),
            "grades": (grade_of(passed=status == "passed"),),
        }
    values = defaults | changes
    fingerprint = f"{case}/{values['provider']}/{values.get('prompt')}/{values['run']}"
    return Result(**({"fingerprint": fingerprint} | values), case=case, status=status)


def checked(options: Mapping[str, Any], cls: type[T]) -> T:
    """The options of a grader, as a file has them."""
    return TypeAdapter(cls).validate_python(options)


def grade_of(*, passed: bool = True, **changes: Any) -> Grade:
    """What `contains: Paris` found."""
    defaults: dict[str, Any] = {"grader": "contains", "passed": passed, "score": float(passed)}
    if passed:
        defaults |= {"reason": f'"{RIGHT}" is in the answer'}
    elif "reason" not in changes:
        defaults |= {"reason": f'no "{RIGHT}" in the answer'}
    return Grade(**(defaults | changes))


def with_own_reason(result: Result) -> Result:
    """The result; if it failed, with a reason and an answer that no other case has."""
    if result.status != "failed":
        return result
    number = "".join(filter(str.isdigit, result.case))
    return replace(
        result,
        response=Response(number or result.case),
        grades=(grade_of(passed=False, reason=f'no "{result.case}" in the answer'),),
    )


def many(*kinds: tuple[int, Outcome], prefix: str = "case") -> dict[str, Outcome]:
    """Cells by kind: `(34, "PPP")` makes 34 cases, each of which passed thrice."""
    outcomes = [outcome for number, outcome in kinds for _ in range(number)]
    return {f"{prefix} {number}": outcome for number, outcome in enumerate(outcomes, start=1)}


def report_of(
    cells: Mapping[str, Outcome | list[Outcome]],
    *,
    variants: Sequence[Variant] = (AGENT,),
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    edit: Callable[[Result], Result] = lambda result: result,
    suite: Mapping[str, Any] | None = None,
    duration_s: float = 12.5,
    interrupted: str | None = None,
    started_at: float = STARTED_AT,
    asks: Mapping[str, str] | None = None,
    confirming: Mapping[str, Outcome | list[Outcome]] | None = None,
    looks: Looks | None = None,
    settled: Literal["pass", "borderline", "fail"] | None = None,
) -> SuiteReport:
    """A report whose journal is in memory.

    Args:
        cells: case id to outcome, `{"capital": "PPF"}`; a list has one outcome for each variant, a
            single one is that of every variant. Cells of one case are filled up to equal length
            with runs that never happened.
        variants: the columns of the matrix.
        cases: case id to fields that differ from `case_of`: `{"capital": {"tags": ("critical",)}}`.
        edit: the last word on each result: other responses, grades, errors, latencies.
        suite: fields of `SuiteInfo` that differ from the default.
        duration_s: wall time of the run phase.
        interrupted: why it ended early.
        started_at: in seconds since the epoch; reports of the same suite and time have the same id.
        asks: case id to what identifies its question, where that is not its id: `{"new name": "old
            name"}` for a renamed case, `{"capital": "other"}` for an edited one.
        confirming: how the further runs of suspects ended, as in `cells`; all get as many as the
            longest has.
        looks: what was agreed on looks.
        settled: the verdict that was settled early.
    """
    outcomes = {name: _per_variant(given, len(variants)) for name, given in cells.items()}
    longest = {name: max(map(len, columns)) for name, columns in outcomes.items()}
    planned = tuple(
        case_of(
            name,
            **({"runs": longest[name], "line": 10 * number} | dict((cases or {}).get(name, {}))),
        )
        for number, name in enumerate(outcomes, start=1)
    )
    plan = plan_runs(planned, tuple(variants), runs=1)
    info = _suite(max(longest.values(), default=1), suite or {})
    questions = [(asks or {}).get(name, name) for name in outcomes]

    def report(plan: RunPlan, outcomes: Mapping[str, Sequence[str]], **more: Any) -> SuiteReport:
        records, journal = _run(plan, outcomes, edit)

        return SuiteReport(
            info,
            plan,
            records,
            lines=lambda indices: (journal[index] for index in indices),
            started_at=started_at,
            duration_s=duration_s,
            fingerprints=[f"{question!a}.graders" for question in questions],
            **more,
        )

    further = {
        name: _per_variant(given, len(variants)) for name, given in (confirming or {}).items()
    }
    confirmation = report(_further(plan, further), further) if further else None
    return report(
        plan,
        outcomes,
        interrupted=interrupted,
        looks=looks,
        settled=settled,
        confirmation=confirmation,
    )


def baseline_of(*reports: SuiteReport, gate: Gate | None = None, name: str = "main") -> Baseline:
    """Reports as the side to compare with, the newest by its `started_at` first."""
    baseline = join([_baseline(report, gate) for report in reports])
    return replace(baseline, name=name)


def _baseline(report: SuiteReport, gate: Gate | None) -> Baseline:
    cells = {
        head.key: BaseCell(
            head.fingerprint,
            History((Evidence(report.id, *head.planned),)),
            {report.id: head.per_run},
        )
        for head in reported_cells(report, gate)
    }
    return Baseline(
        suite=report.suite.name,
        reports=(report_ref(report),),
        cells=cells,
        trend=(trend_point(report),),
    )


def _further(plan: RunPlan, outcomes: Mapping[str, Sequence[str]]) -> RunPlan:
    """The runs that are added for the cells that have an outcome."""
    width = len(plan.variants)
    runs = max(len(letters) for columns in outcomes.values() for letters in columns)
    further = {
        row * width + column: runs
        for row, case in enumerate(plan.cases)
        for column, letters in enumerate(outcomes.get(case.id, ()))
        if letters
    }
    return plan_further_runs(plan, further)


def _run(
    plan: RunPlan, outcomes: Mapping[str, Sequence[str]], edit: Callable[[Result], Result]
) -> tuple[Mapping[int, RunRecord], Mapping[int, bytes]]:
    records: dict[int, RunRecord] = {}
    journal: dict[int, bytes] = {}
    for cell in range(len(plan)):
        case, variant = plan.case(cell), plan.variant(cell)
        letters = outcomes[case.id][cell % len(plan.variants)] if case.id in outcomes else ""
        runs = enumerate(
            zip(plan.indices(cell), letters, strict=False), start=plan.first_runs[cell]
        )
        for run, (index, letter) in runs:
            if letter == ".":
                continue
            result = result_of(
                case.id,
                _STATUSES[letter],
                provider=variant.provider,
                prompt=variant.prompt,
                run=run,
            )
            journal[index] = encode_result(edited := edit(result))
            records[index] = RunRecord.of(edited, offset=index)
    return records, journal


def _suite(runs: int, changes: Mapping[str, Any]) -> SuiteInfo:
    defaults: dict[str, Any] = {
        "name": "capitals",
        "file": "evals.yaml",
        "fingerprint": "5e1f",
        "runs": runs,
        "version": "0.1.0",
        "revision": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
    }
    return SuiteInfo(**(defaults | dict(changes)))


def _per_variant(given: Outcome | list[Outcome], variants: int) -> list[str]:
    """The letters of each variant's runs."""
    several = given if isinstance(given, list) else [given] * variants
    assert len(several) == variants, f"{given!r} is not one outcome for each of {variants} variants"
    return [_letters(outcome) for outcome in several]


def _letters(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    passed, graded = outcome
    return "P" * passed + "F" * (graded - passed)
