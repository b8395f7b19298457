"""report.json, `--format json` and `compare --format json`: the types of the document, for writing
and for reading.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ci_evals.gate.bars import ScopeVerdict, VerdictStatus
from ci_evals.gate.baseline import (
    UNMEASURED,
    BrokenVariant,
    Drift,
    DriftCell,
    DriftVariant,
    Evidence,
    LostReport,
    PerRun,
    ReportRef,
    TrendPoint,
    evidence_to_keep,
)
from ci_evals.gate.cases import CaseComparison, MetricComparison, TagComparison
from ci_evals.gate.cells import KINDS, CellComparison, CellKind
from ci_evals.gate.compare import Comparison, NoComparison, VariantComparison
from ci_evals.gate.rules import RuleName, RuleVerdict
from ci_evals.gate.verdict import Verdict
from ci_evals.gate.wording.bases import baseline_sentence
from ci_evals.gate.wording.comparisons import cell_sentence, variant_sentence
from ci_evals.model.case import Quarantine, Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import (
    Looks,
    MainCost,
    Resumption,
    SuiteInfo,
    SuiteReport,
    Tally,
)
from ci_evals.model.result import Judging, Result
from ci_evals.model.ruler import Ruler
from ci_evals.model.rules import ConfirmRuns, Gate
from ci_evals.model.settings import ChangedSettings
from ci_evals.reports.files import Format
from ci_evals.reports.groups import error_groups
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import VariantReport, variant_reports
from ci_evals.reports.view import CellOutcome, CellView, Failures, cell_views
from ci_evals.stats.differences import ScoreSums
from ci_evals.stats.drift import MOST_EVIDENCE
from ci_evals.stats.thresholds import DRIFT_BETS

REPORT = "report.json"
SCHEMA_VERSION: Final = 2

MOST_RUNS: Final = 2_000_000
"""A report with more runs is refused: a few digits in a file must not take up all memory."""

YEAR_10000: Final = 253_402_300_800

MOST_OF_A_RUN: Final = 1e12
"""Seconds, USD, tokens or score of one run: sums of such amounts stay numbers."""


Counted = TypeVar("Counted", Tally, Evidence)


def check_runs(runs: Counted) -> Counted:
    """Refuse counts of passed and graded runs that are impossible, and such sums of scores."""
    possible = 0 <= runs.passed <= runs.graded <= MOST_RUNS
    if possible and isinstance(runs, Evidence):
        if runs.scores is not None:
            possible = runs.scores.runs == runs.graded and _is_possible(runs.scores)
        for _, scores in runs.metrics:
            possible = possible and 0 < scores.runs <= runs.graded and _is_possible(scores)
    if not possible:
        raise ValueError("a count of runs makes no sense")
    return runs


def _is_possible(scores: ScoreSums) -> bool:
    runs, total, squares = scores
    if runs <= 0:
        return runs == total == squares == 0
    # By Cauchy-Schwarz, the sum of squares is at least the square of the sum per run.
    rounding = 1e-6
    return 0 <= total <= runs * (1 + rounding) and (
        total * total / runs * (1 - rounding) <= squares <= total * (1 + rounding)
    )


def _check_averages(per_run: PerRun) -> PerRun:
    possible = _is_possible(per_run.scores)
    for amount in (per_run.cost_usd, per_run.tokens, per_run.latency_median_s):
        possible = possible and (amount is None or 0 <= amount <= MOST_OF_A_RUN)
    if not possible:
        raise ValueError("the averages of a cell are impossible")
    return per_run


def _check_drift(drift: Drift) -> Drift:
    """Refuse impossible sums and evidence."""
    for cell in drift.cells:
        if not _has_possible_sums(cell):
            raise ValueError("the sums of a cell are impossible")
        check_runs(cell.runs)
    refs = [drift.newest]
    for variant in drift.variants:
        if not _has_possible_evidence(variant):
            raise ValueError("the evidence for a loss is impossible")
        for bet in variant.bets:
            refs += [ref for ref in (bet.since, bet.after) if ref is not None]
    for ref in refs:
        if not 0 <= ref.started_at < YEAR_10000:
            raise ValueError("the evidence for a loss is impossible")
    return drift


def _has_possible_sums(cell: DriftCell) -> bool:
    """Return True if a cell has no more runs from before a loss than in all."""
    if len(cell.before) != len(DRIFT_BETS):
        return False
    failed = cell.runs.graded - cell.runs.passed
    for before in cell.before:
        if not 0 <= before.passed <= cell.runs.passed:
            return False
        if not 0 <= before.graded - before.passed <= failed:
            return False
    return True


def _has_possible_evidence(variant: DriftVariant) -> bool:
    if len(variant.bets) != len(DRIFT_BETS):
        return False
    for bet in variant.bets:
        if not 0 <= bet.evidence.s <= MOST_EVIDENCE:
            return False
        if not abs(bet.evidence.best) <= MOST_OF_A_RUN:
            return False
        if not 0 <= bet.reports <= MOST_RUNS:
            return False
    return True


def _check_main_cost(cost: MainCost) -> MainCost:
    for amount in (cost.runs, cost.judge_calls, cost.cost_usd, cost.tokens):
        if not 0 <= amount <= MOST_OF_A_RUN:
            raise ValueError("the cost of main's runs is impossible")
    return cost


FollowedDrift = Annotated[Drift, AfterValidator(_check_drift)]
RunCount = Annotated[int, Field(ge=0, le=MOST_RUNS)]
RunsOfReport = Annotated[Evidence, AfterValidator(check_runs)]
Averages = Annotated[PerRun, AfterValidator(_check_averages)]
StartedAt = Annotated[float, Field(ge=0, lt=YEAR_10000)]
"""Seconds since 1970, before the year 10000, which `datetime` cannot represent."""


# The parts of a document.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparisonEntry(CellComparison):
    """A cell compared with its base, in numbers and in words."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantComparisonEntry(VariantComparison):
    """A variant compared with its base, in numbers and in words."""

    sentence: str


class CellLossEntry(NamedTuple):
    """A cell that passes less often: its runs before the loss, and since then."""

    case: str
    before: Tally
    since: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEntry:
    """A variant that passes less often on the base branch than before, in numbers and in words.

    Attributes:
        since: the first report of the lower level.
        after: the report before it.
        newest: the last report that counts.
        reports: the number of reports since then.
        shown: a single one of these reports is worse than its own baseline.
        loss: the fall of the mean pass rate, with its lower bound `at_least`; None if not known.
        cells: the cells that lost most.
    """

    provider: str
    prompt: str | None
    since: ReportRef
    after: ReportRef | None
    newest: ReportRef
    reports: int
    shown: bool
    loss: float | None
    at_least: float | None
    cells: tuple[CellLossEntry, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonEntry:
    """The comparison of the report with its baseline. Each cell has its own comparison.

    Attributes:
        sentence: the baseline and its age in words.
        name: the name of the baseline in sentences.
        baseline: the reports of the baseline, newest first.
        lost: newer reports that look like an outage, and are not counted.
        broken: variants that fail on the base branch itself, which were not compared.
        confirm_runs: how often suspects were to be run again.
        alpha: the accepted chance of a false alarm.
        counts: the number of cells of each kind.
        variants: the comparison of each variant.
        cases: the cases that got worse over their variants.
        tags: the comparison of each tag that only some cases have, the surest drop first.
        metrics: the comparison of each metric that graders name, the surest drop first.
        removed: the cells that only the baseline has.
        drift: the variants that pass less often over several reports of the base branch.
    """

    sentence: str
    name: str
    baseline: tuple[ReportRef, ...]
    lost: tuple[LostReport, ...]
    broken: tuple[BrokenVariant, ...]
    confirm_runs: ConfirmRuns
    alpha: float
    counts: Mapping[CellKind, int]
    variants: tuple[VariantComparisonEntry, ...]
    cases: tuple[CaseComparison, ...]
    tags: tuple[TagComparison, ...]
    metrics: tuple[MetricComparison, ...]
    removed: tuple[CellComparisonEntry, ...]
    drift: tuple[DriftEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsEntry:
    """The counts of all runs, the mean over cells of their share of passed runs, and the mean
    score.

    `recorded` counts runs that were answered from a journal instead of by the provider, and
    `budget_violations` counts runs that exceeded `budget.per_run`. `judging` has the calls of
    judges; None if there were none. `cost_usd` is the total cost of all calls with a known price,
    including confirm runs and judges; None if there are no such calls.
    """

    passed: int
    failed: int
    errored: int
    planned: int
    pass_rate: float | None
    match_rate: float | None
    recorded: int
    reused: int
    budget_violations: int
    judging: Judging | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MainEntry:
    """Main's code: the branch and its commit, and why it could not be run; empty if it could."""

    name: str
    lack: str = ""


class MainRun(NamedTuple):
    """A run of main, made with a run here. Its score is None if it was not graded."""

    run: RunCount
    passed: bool | None
    score: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEntry:
    """The plan of a cell and the rules for it.

    Attributes:
        planned: the number of its runs, without confirm runs.
        confirm_runs: the number of further runs that were planned for it as a suspect.
        main_now: the runs here that main made, too, in the same minutes: the number of the run,
            whether main's passed, and its score; null for one without a grade.
        fingerprint: identifies the question of the case and its grading, as `asked.judged`.
        critical: a regression always makes the gate red.
        threshold: the score that a run needs to pass; None if all graders must pass.
        min_pass_rate: the case's own bar, if it has one.
    """

    case: str
    provider: str
    prompt: str | None
    planned: RunCount
    confirm_runs: RunCount
    main_now: tuple[MainRun, ...] = ()
    fingerprint: str
    tags: tuple[str, ...]
    file: str
    line: int | None
    critical: bool
    quarantine: Quarantine | None
    threshold: Share | None
    min_pass_rate: Share | None

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCell(CellEntry):
    """A cell with its outcome and its comparison.

    Attributes:
        bar: the share of its runs that must pass.
    """

    outcome: CellOutcome
    bar: Share
    passed: int
    failed: int
    errored: int
    comparison: CellComparisonEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCellEntry:
    """A cell of the baseline.

    Attributes:
        fingerprint: identifies the question of its case and its grading.
        history: its runs in each report that may be pooled, newest first: id, passed, graded,
            and the number of scores, their sum and the sum of their squares: of all graders, null
            if passes say the same, and of each metric.
        outages: the ids of reports that are not counted, as the provider was down.
        per_run: the averages of its runs in the newest report that counts: the number of scores,
            their sum and the sum of their squares; mean cost and tokens; median latency.
        quarantined: its case was in quarantine.
        bar: the share of its runs that had to pass; None if it is not known.
        answer: its answer, if the cell changed or failed since.
        answered_now: the answer is from main's runs in the same minutes.
        missed: what that answer missed; empty if it passed.
    """

    case: str
    provider: str
    prompt: str | None
    fingerprint: str
    history: tuple[RunsOfReport, ...]
    outages: tuple[str, ...] = ()
    per_run: Averages = UNMEASURED
    quarantined: bool = False
    bar: Share | None = None
    answer: str | None = None
    answered_now: bool = False
    missed: str = ""

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEntry:
    """The baseline, with all that is needed to repeat the comparison.

    Attributes:
        name: its name in sentences.
        reports: its reports, newest first.
        lost: newer reports that look like an outage, and are not counted.
        broken: the variants that fail on the base branch itself.
        gate: the rules of the newest report; None if they are not known.
        confirm_runs: how often suspects of this report were to be run again.
        trend: the figures of each report, newest first.
        cells: its cells, in the order of the newest report.
        removed_suites: the suites that were run with it, but that the change no longer has.
        drift: the evidence of its reports for a slow loss.
        alongside: it is no stored report, but was run together with this one.
        run_url: the page of the run that left its newest report; None if that is not known.
    """

    name: str
    reports: Annotated[tuple[ReportRef, ...], Field(min_length=1)]
    lost: tuple[LostReport, ...]
    gate: Gate | None
    confirm_runs: ConfirmRuns
    trend: tuple[TrendPoint, ...]
    cells: tuple[BaseCellEntry, ...]
    broken: tuple[BrokenVariant, ...] = ()
    removed_suites: tuple[str, ...] = ()
    drift: FollowedDrift | None = None
    alongside: bool = False
    run_url: Annotated[str, Field(pattern="^https?://")] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEntry:
    """The verdict of one rule."""

    rule: RuleName
    status: VerdictStatus
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictEntry:
    """The decision of the gate. `reason` is one sentence for a reviewer.

    `scopes` lists the parts of the matrix with their bars, the whole suite first. `rules` lists the
    rules that the comparison with the baseline broke, the worst first. `warning` is true if such a
    rule, and not a bar, made the verdict `borderline`. `unchecked` is true if the verdict is
    `error` because the code under test was not run.
    """

    status: VerdictStatus
    reason: str
    scopes: tuple[ScopeVerdict, ...]
    rules: tuple[RuleEntry, ...] = ()
    hint: str | None = None
    warning: bool = False
    unchecked: bool = False

    @classmethod
    def of(cls, verdict: Verdict) -> "VerdictEntry":
        """Return the entry of a verdict."""
        rules = (
            RuleEntry(rule=each.rule, status=each.status, sentence=each.sentence)
            for each in verdict.rules
        )
        of_rule = isinstance(verdict.leading, RuleVerdict)
        return cls(
            status=verdict.status,
            reason=verdict.reason,
            scopes=verdict.scopes,
            rules=tuple(rules),
            hint=verdict.hint,
            warning=of_rule and verdict.status == "borderline",
            unchecked=verdict.unchecked,
        )


# The document.


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured part of a report.json, which is read back: the suite, its plan (`looks`,
    `settled`, `gate`, `variants`, `cells`), the baseline (`base`) and the `results`.

    Attributes:
        looks: the rounds after which the run could have ended early.
        settled: the verdict that no further run could have changed, if the run ended early.
        ruler: main's grades of answers whose checks the change has edited.
        changed_settings: the settings that differ from main's.
        main: main's code, which ran what would be red, too; None if it had no part.
        main_cost: what main's code has cost, its whole plan and its judges included; None if it has
            called nothing.
        results: the lines of the journal in plan order, confirm runs last.
    """

    schema_version: Literal[2]
    suite: SuiteInfo
    started_at: StartedAt
    duration_s: float
    interrupted: str | None
    resumption: Resumption | None
    looks: Looks | None
    settled: Literal["pass", "borderline", "fail"] | None
    ruler: Ruler | None
    changed_settings: ChangedSettings | None
    main: MainEntry | None
    main_cost: Annotated[MainCost, AfterValidator(_check_main_cost)] | None = None
    gate: Gate | None
    base: BaseEntry | NoComparison | None
    variants: tuple[Variant, ...]
    cells: tuple[CellEntry, ...]
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument(Measured):
    """report.json.

    ci-evals reads back only the inherited fields. All others are derived from them, and are written
    for other programs.
    """

    id: str
    verdict: VerdictEntry
    comparison: ComparisonEntry | NoComparison | None
    totals: TotalsEntry
    variants: tuple[VariantReport, ...]
    cells: tuple[WrittenCell, ...]


# Writing.


def render(summary: Summary) -> Iterator[bytes]:
    """Yield report.json: a variant, a cell or a result per line, results as in the journal."""
    report = summary.report
    # Results are copied as lines of the journal, neither parsed nor held in memory all at once.
    lines = report.lines(sorted(report.records))
    if (confirmation := report.confirmation) is not None:
        lines = chain(lines, confirmation.lines(sorted(confirmation.records)))
    yield from _lay_out(_document(summary), lines)
    yield b"\n"


_LONG: Final = ("base", "cells", "results")


def _lay_out(value: Any, results: Iterable[bytes] = ()) -> Iterator[bytes]:
    if isinstance(value, ReportDocument | BaseEntry | Drift):
        separator = b"{"
        # Long fields come last, so that a person finds the others.
        for field in sorted(fields(value), key=lambda field: field.name in _LONG):
            yield separator + encode(field.name) + b": "
            if field.name == "results":
                yield from _one_to_the_line(results)
            else:
                yield from _lay_out(getattr(value, field.name))
            separator = b",\n"
        yield b"}"
    elif isinstance(value, tuple):
        yield from _one_to_the_line(map(encode, value))
    else:
        yield encode(value)


def _one_to_the_line(items: Iterable[bytes]) -> Iterator[bytes]:
    separator = b"[\n"
    for item in items:
        yield separator + item
        separator = b",\n"
    yield b"[\n\n]" if separator == b"[\n" else b"\n]"


def render_brief(summary: Summary) -> str:
    """Return the output of `--format json`: the verdict, and all that a script needs to act on it.

    `failing` lists the cells that did not simply pass, each with the reasons of its runs, the most
    frequent first. `errors` groups errored runs by variant and reason.
    """
    failing = []
    for cell in cell_views(summary):
        if cell.outcome == "passed":
            continue
        failures = cell.failures
        if cell.outcome == "errored":
            failures = Failures.of(cell.results("errored"))
        why = [reason.text for reason, _ in failures.reasons]
        failing.append(_cell_fields(summary, cell) | {"why": why})
    errors = [
        {
            "provider": group.variant.provider,
            "prompt": group.variant.prompt,
            "runs": group.runs,
            "message": group.message,
        }
        for group in error_groups(summary.report)
    ]
    return stdout_json(_run_fields(summary) | {"failing": failing, "errors": errors})


def render_comparison(summary: Summary) -> str:
    """Return the output of `compare --format json`, with every cell of either side."""
    cells = []
    if (comparison := summary.compared) is not None:
        cells = [_cell_comparison(comparison, cell) for cell in comparison.cells]
    document = {
        "schema_version": SCHEMA_VERSION,
        "suite": summary.report.suite,
        "started_at": summary.report.started_at,
        "verdict": VerdictEntry.of(summary.verdict),
        "comparison": _comparison(summary),
        "cells": cells,
    }
    return stdout_json(document)


def schema() -> bytes:
    """Return the JSON Schema of report.json."""
    document = TypeAdapter(ReportDocument).json_schema() | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ci-evals report, schema version {SCHEMA_VERSION}",
    }
    names = dict.fromkeys(("$schema", "title", *document))
    ordered = {name: document[name] for name in names}
    return json.dumps(ordered, indent=2).encode() + b"\n"


def encode(value: Any) -> bytes:
    """Return one line of JSON in UTF-8. A lone surrogate, which UTF-8 cannot encode, becomes a
    question mark.
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        plain = to_jsonable_python(value, inf_nan_mode="null")
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def stdout_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON for stdout: one line, or indented.

    A CI runner obeys `##[command]` anywhere in a log line. In JSON, `#` only occurs inside strings,
    so it can always be escaped.
    """
    text = encode(value).decode()
    if indent is not None:
        text = json.dumps(json.loads(text), indent=indent, ensure_ascii=False)
    return text.replace("#", "\\u0023") + "\n"


def _document(summary: Summary) -> ReportDocument:
    """Return the document without its results, which `render` writes one by one."""
    report = summary.report
    return ReportDocument(
        **_run_fields(summary),
        id=report.id,
        looks=report.looks,
        settled=report.settled,
        ruler=report.ruler,
        changed_settings=report.changed_settings,
        main=_main(report),
        main_cost=report.main_cost,
        gate=summary.gate,
        base=_base(summary),
        cells=tuple(_written_cells(summary)),
        results=(),
    )


def _run_fields(summary: Summary) -> dict[str, Any]:
    """Return the figures of a run that report.json and the brief output share."""
    report = summary.report
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": report.suite,
        "started_at": report.started_at,
        "duration_s": report.duration_s,
        "interrupted": report.interrupted,
        "resumption": report.resumption,
        "verdict": VerdictEntry.of(summary.verdict),
        "comparison": _comparison(summary),
        "totals": _totals(report),
        "variants": variant_reports(summary),
    }


def _totals(report: SuiteReport) -> TotalsEntry:
    totals, judging = report.totals, report.judging
    return TotalsEntry(
        passed=totals.passed,
        failed=totals.failed,
        errored=totals.errored,
        planned=totals.planned,
        pass_rate=report.pass_rate,
        match_rate=report.match_rate,
        recorded=report.recorded,
        reused=report.reused,
        budget_violations=report.budget_violations,
        judging=judging if judging.calls else None,
        cost_usd=report.spent.total_usd,
    )


def _written_cells(summary: Summary) -> Iterator[WrittenCell]:
    report = summary.report
    for cell in cell_views(summary):
        confirm_runs = 0
        if report.confirmation is not None:
            confirm_runs = report.confirmation.plan.runs(cell.cell)
        yield WrittenCell(
            **_cell_fields(summary, cell),
            fingerprint=report.fingerprints[report.plan.row(cell.cell)],
            critical=cell.case.critical,
            threshold=cell.case.threshold,
            min_pass_rate=cell.case.min_pass_rate,
            confirm_runs=confirm_runs,
            main_now=_main_runs(report, cell.cell),
        )


def _main(report: SuiteReport) -> MainEntry | None:
    if report.main_now is None:
        return None
    return MainEntry(name=report.main_now.name, lack=report.main_now.lack)


def _main_runs(report: SuiteReport, cell: int) -> tuple[MainRun, ...]:
    if report.main_now is None:
        return ()
    runs = report.main_now.runs.get(cell, {})
    return tuple(MainRun(number, *(runs[number] or (None, None))) for number in sorted(runs))


def _cell_fields(summary: Summary, cell: CellView) -> dict[str, Any]:
    """Return a cell with its outcome and its comparison."""
    comparison = None
    if summary.compared is not None and cell.found is not None:
        comparison = _cell_comparison(summary.compared, cell.found)
    return {
        "case": cell.case.id,
        "provider": cell.variant.provider,
        "prompt": cell.variant.prompt,
        "outcome": cell.outcome,
        "bar": cell.bar,
        "passed": cell.counts.passed,
        "failed": cell.counts.failed,
        "errored": cell.counts.errored,
        "planned": cell.counts.planned,
        "tags": cell.case.tags,
        "file": cell.case.file,
        "line": cell.case.line,
        "quarantine": cell.case.quarantine,
        "comparison": comparison,
    }


def _cell_comparison(comparison: Comparison, cell: CellComparison) -> CellComparisonEntry:
    return CellComparisonEntry(**_values(cell), sentence=cell_sentence(comparison, cell))


def drift_entries(summary: Summary) -> Iterator[DriftEntry]:
    """Yield the base branch's alarms."""
    from ci_evals.reports.drift import MOST_CELLS, drift_alarms, drift_sentence

    for alarm in drift_alarms(summary):
        loss = at_least = None
        if alarm.loss is not None:
            loss, at_least = alarm.loss
        cells = [CellLossEntry(*cell) for cell in alarm.cells[:MOST_CELLS]]
        yield DriftEntry(
            provider=alarm.provider,
            prompt=alarm.prompt,
            since=alarm.since,
            after=alarm.after,
            newest=alarm.newest,
            reports=alarm.reports,
            shown=alarm.shown,
            loss=loss,
            at_least=at_least,
            cells=tuple(cells),
            sentence=drift_sentence(summary, alarm),
        )


def _comparison(summary: Summary) -> ComparisonEntry | NoComparison | None:
    comparison = summary.comparison
    if not isinstance(comparison, Comparison):
        return comparison
    variants = [
        VariantComparisonEntry(**_values(each) | {"sentence": variant_sentence(comparison, each)})
        for each in comparison.variants
    ]
    removed = [_cell_comparison(comparison, cell) for cell in comparison.select("removed")]
    return ComparisonEntry(
        sentence=str(baseline_sentence(comparison, summary.report.started_at)),
        name=comparison.baseline.name,
        baseline=comparison.baseline.reports,
        lost=comparison.baseline.lost,
        broken=tuple(comparison.broken),
        confirm_runs=comparison.confirm_runs,
        alpha=comparison.alpha,
        counts={kind: comparison.counts[kind] for kind in KINDS if kind in comparison.counts},
        variants=tuple(variants),
        cases=comparison.cases,
        tags=comparison.tags,
        metrics=comparison.metrics,
        removed=tuple(removed),
        drift=tuple(drift_entries(summary)),
    )


def _base(summary: Summary) -> BaseEntry | NoComparison | None:
    comparison = summary.comparison
    if not isinstance(comparison, Comparison):
        return comparison
    baseline = comparison.baseline
    answers = {comparison.base_key(key): answer for key, answer in summary.before.items()}
    cells = []
    for key, cell in baseline.cells.items():
        case, provider, prompt = key
        history = evidence_to_keep(cell, cell.fingerprint)
        answer = answers.get(key)
        entry = BaseCellEntry(
            case=case,
            provider=provider,
            prompt=prompt,
            fingerprint=cell.fingerprint,
            history=history,
            outages=tuple(each.report for each in history if each.report in cell.history.lost),
            per_run=cell.per_run,
            quarantined=cell.quarantined,
            bar=cell.bar,
            answer=answer.text if answer else None,
            answered_now=answer is not None and answer.is_now,
            missed=answer.missed if answer else "",
        )
        cells.append(entry)
    return BaseEntry(
        name=baseline.name,
        reports=baseline.reports,
        lost=baseline.lost,
        broken=baseline.broken,
        gate=baseline.gate,
        confirm_runs=comparison.confirm_runs,
        trend=baseline.trend,
        cells=tuple(cells),
        removed_suites=baseline.removed_suites,
        drift=baseline.drift,
        alongside=baseline.alongside,
        run_url=baseline.run_url,
    )


def _values(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, to build an entry that inherits them."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


JSON = Format("report.json", render, rb'\{"schema_version": \d')
