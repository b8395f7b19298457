"""report.json, `--format json` and `compare --format json`: the types of the document, which are
written and read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import chain
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ci_evals.gate.bars import ScopeVerdict, VerdictStatus
from ci_evals.gate.baseline import (
    TREND_POINTS,
    UNMEASURED,
    Evidence,
    LostReport,
    PerRun,
    ReportRef,
    TrendPoint,
    evidence_to_keep,
    head_cells,
    trend_point,
)
from ci_evals.gate.compare import (
    KINDS,
    CellComparison,
    CellKind,
    Comparison,
    NoComparison,
    VariantComparison,
)
from ci_evals.gate.rules import RuleName
from ci_evals.gate.verdict import Verdict
from ci_evals.gate.wording import baseline_sentence, cell_sentence, variant_sentence
from ci_evals.model.case import Quarantine
from ci_evals.model.fields import Share
from ci_evals.model.report import Looks, Resumption, SuiteInfo, Tally
from ci_evals.model.result import Judging, Result
from ci_evals.model.rules import ConfirmRuns, Gate
from ci_evals.reports.files import Format
from ci_evals.reports.groups import error_groups
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import VariantReport, variant_reports
from ci_evals.reports.view import CellOutcome, CellView, Failures, cell_views

REPORT = "report.json"
SCHEMA_VERSION: Final = 1

MOST_RUNS: Final = 2_000_000
"""A report that claims more runs than this is not believed: a few digits must not take all
memory.
"""

MOST_OF_A_RUN: Final = 1e12
"""Seconds, USD, tokens or score of one run: sums of such amounts stay numbers."""


def _possible(tally: Tally) -> Tally:
    if not 0 <= tally.passed <= tally.graded <= MOST_RUNS:
        raise ValueError("a count of runs makes no sense")
    return tally


def _possible_per_run(per_run: PerRun) -> PerRun:
    (runs, total, squares), *amounts = per_run
    rounding = 1e-6
    if runs <= 0:
        possible = runs == total == squares == 0
    else:
        possible = 0 <= total <= runs * (1 + rounding) and squares >= total * total / runs * (
            1 - rounding
        )
    if not possible or any(
        amount is not None and not 0 <= amount <= MOST_OF_A_RUN for amount in amounts
    ):
        raise ValueError("what a run came to is impossible")
    return per_run


RunCount = Annotated[int, Field(ge=0, le=MOST_RUNS)]
Runs = Annotated[Tally, AfterValidator(_possible)]
Averages = Annotated[PerRun, AfterValidator(_possible_per_run)]


# The parts of a document.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparisonEntry(CellComparison):
    """A cell beside its base, in numbers and in words.

    `base_fingerprint`, `base_per_run`, `base_quarantined` and `base_bar` are what the base's newest
    report has of it. `before` is what the baseline answered to a cell that looks worse, if its file
    was at hand.
    """

    head: Runs
    base: Runs
    base_fingerprint: str = ""
    base_per_run: Averages = UNMEASURED
    base_quarantined: bool = False
    base_bar: Share | None = None
    sentence: str
    before: str | None = None

    def __post_init__(self) -> None:
        """Refuse a p-value without runs on both sides."""
        if self.p is not None and not (self.head.graded and self.base.graded):
            raise ValueError("a cell was tested without graded runs on both sides")


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantComparisonEntry(VariantComparison):
    """A variant beside its base, in numbers and in words."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonEntry:
    """The report beside its baseline, but for the cells of the report. `removed` are cells that
    only the base has.

    `name` is what sentences call the baseline, whose reports are `baseline`, newest first; `lost`
    is what looks like an outage in the newest reports, and does not count; `base_gate` are the
    rules of the newest one, as far as they are known.
    """

    sentence: str
    name: str
    baseline: Annotated[tuple[ReportRef, ...], Field(min_length=1)]
    lost: tuple[LostReport, ...] = ()
    confirm_runs: ConfirmRuns
    alpha: Annotated[float, Field(gt=0, lt=0.5)]
    counts: Mapping[CellKind, int]
    variants: tuple[VariantComparisonEntry, ...]
    removed: tuple[CellComparisonEntry, ...]
    base_gate: Gate | None = None

    @property
    def references(self) -> Iterable[ReportRef]:
        """Every report that there is evidence of, newest first, those that do not count
        included.
        """
        return {
            ref.id: ref for ref in (*(each.report for each in self.lost), *self.baseline)
        }.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsEntry:
    """The counts of all runs, the mean over cells of their share of passed runs, and the mean
    score.

    `recorded` runs were answered by a journal instead of the provider; `budget_violations` are runs
    that took more than `budget.per_run` allows. `judging` are the calls of models that judge; None
    if there were none. `cost_usd` is what all calls of known price cost together, those of confirm
    runs and of judges included; None if there are none.
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
class CellEntry:
    """One case on one variant. `bar` is the share of its runs that must pass for it not to be a
    failed cell.
    """

    case: str
    provider: str
    prompt: str | None
    outcome: CellOutcome
    bar: Share
    passed: RunCount
    failed: RunCount
    errored: RunCount
    planned: RunCount
    tags: tuple[str, ...]
    file: str
    line: int | None
    quarantine: Quarantine | None = None
    comparison: CellComparisonEntry | None

    @property
    def key(self) -> tuple[str, str, str | None]:
        """The name of the cell, the same in every report."""
        return self.case, self.provider, self.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCellEntry(CellEntry):
    """A cell with what later reports compare themselves with.

    `fingerprint` identifies what the case asks and how it is judged. `evidence` are its passed and
    graded runs without those that repeat a record, `unanswered` of them failed without an answer.
    `confirming` are the further ones that it got as a suspect, `confirmed` whether these are all
    there, `history` the counts of earlier reports, newest first: the id of the report, passed,
    graded. `threshold` is the score with which a run passes; None where all graders must pass.
    """

    fingerprint: str
    critical: bool
    threshold: Share | None = None
    evidence: Runs
    unanswered: RunCount = 0
    confirming: Runs
    confirmed: bool
    per_run: Averages
    history: tuple[Evidence, ...]

    def __post_init__(self) -> None:
        """Refuse what no run leaves behind: a decision is made of it."""
        for _, passed, graded in self.history:
            _possible(Tally(passed, graded))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEntry:
    """The verdict of one rule. A `borderline` one warns and never blocks."""

    rule: RuleName
    status: VerdictStatus
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictEntry:
    """The decision of the gate. `reason` is one sentence for a reviewer.

    `scopes` are the parts of the matrix with their bars, the whole suite first; `rules` those that
    the comparison with the baseline broke, the worst first. `warning` marks a `borderline` that
    never blocks, because the gate asked for a warning only; `unchecked` an `error` whose cause is
    that the code under test was not run.
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
        return cls(
            status=verdict.status,
            reason=verdict.reason,
            scopes=verdict.scopes,
            rules=tuple(rules),
            hint=verdict.hint,
            warning=verdict.warning,
            unchecked=verdict.unchecked,
        )


# The documents.


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument:
    """The output of `compare --format json`; `cells` has every cell that either side has."""

    schema_version: Literal[1]
    suite: SuiteInfo
    started_at: Annotated[
        float, Field(ge=0, lt=253_402_300_800)
    ]  # the year 10000, which no calendar has
    verdict: VerdictEntry
    comparison: ComparisonEntry | NoComparison | None
    cells: tuple[CellComparisonEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunDocument:
    """The figures of a run."""

    schema_version: Literal[1]
    suite: SuiteInfo
    started_at: Annotated[
        float, Field(ge=0, lt=253_402_300_800)
    ]  # the year 10000, which no calendar has
    duration_s: float
    interrupted: str | None
    resumption: Resumption | None
    verdict: VerdictEntry
    comparison: ComparisonEntry | NoComparison | None
    totals: TotalsEntry
    variants: tuple[VariantReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingEntry(CellEntry):
    """A cell that did not simply pass, with the reasons of its runs, the most frequent first."""

    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEntry:
    """Errored runs of one variant with the same reason."""

    provider: str
    prompt: str | None
    runs: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefDocument(_RunDocument):
    """The output of `--format json`: the verdict, and all that a script needs to act on it."""

    failing: tuple[FailingEntry, ...]
    errors: tuple[ErrorEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument(_RunDocument):
    """report.json as a whole. `results` are the lines of the journal in plan order, those of
    confirm runs last.

    `looks` says after which rounds it could have ended, `settled` the verdict that the runs which
    were left out could not have changed. `trend` has the figures of this report and of those before
    it, newest first.
    """

    id: str
    looks: Looks | None
    settled: Literal["pass", "borderline", "fail"] | None
    gate: Gate | None
    trend: tuple[TrendPoint, ...]
    cells: tuple[SavedCellEntry, ...]
    results: tuple[Result, ...]

    @property
    def compared(self) -> ComparisonEntry | None:
        """The comparison, where there is one."""
        return self.comparison if isinstance(self.comparison, ComparisonEntry) else None


# Writing.


def render(summary: Summary) -> Iterator[bytes]:
    """Yield report.json, one variant, one cell and one result to the line, results as the journal
    has them.
    """
    report = summary.report
    document = document_of(summary)
    for field in fields(document):
        name, value = field.name, getattr(document, field.name)
        if name == "results":
            continue
        yield b"{" if name == "schema_version" else b",\n"
        yield encode(name) + b": "
        yield from (
            _one_to_the_line(map(encode, value)) if isinstance(value, tuple) else [encode(value)]
        )
    yield b',\n"results": '
    lines = report.lines(sorted(report.records))
    if (confirmation := report.confirmation) is not None:
        lines = chain(lines, confirmation.lines(sorted(confirmation.records)))
    yield from _one_to_the_line(lines)
    yield b"}\n"


def _one_to_the_line(items: Iterable[bytes]) -> Iterator[bytes]:
    separator = b"[\n"
    for item in items:
        yield separator + item
        separator = b",\n"
    yield b"[\n\n]" if separator == b"[\n" else b"\n]"


def render_brief(summary: Summary) -> str:
    """Return one line of JSON for scripts that read stdout; see `BriefDocument`."""
    report = summary.report
    failing = []
    for cell in cell_views(summary):
        if cell.outcome == "passed":
            continue
        failures = cell.failures
        if cell.outcome == "errored":
            failures = Failures.of(cell.results("errored"))
        why = tuple(reason for reason, _ in failures.reasons)
        failing.append(FailingEntry(**_cell_fields(summary, cell), why=why))
    errors = tuple(
        ErrorEntry(
            provider=group.variant.provider,
            prompt=group.variant.prompt,
            runs=group.runs,
            message=group.message,
        )
        for group in error_groups(report)
    )
    return stdout_json(BriefDocument(**_run_fields(summary), failing=tuple(failing), errors=errors))


def render_comparison(summary: Summary) -> str:
    """Return one line of JSON; see `ComparisonDocument`."""
    compared = summary.compared
    return stdout_json(
        ComparisonDocument(
            schema_version=SCHEMA_VERSION,
            suite=summary.report.suite,
            started_at=summary.report.started_at,
            verdict=VerdictEntry.of(summary.verdict),
            comparison=_comparison(summary),
            cells=tuple(_cell_comparison(compared, cell) for cell in compared.cells)
            if compared
            else (),
        )
    )


def schema() -> bytes:
    """Return the JSON Schema of report.json."""
    title = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ci-evals report, schema version 1",
    }
    generated = TypeAdapter(ReportDocument).json_schema()
    return (
        json.dumps(
            title | {key: value for key, value in generated.items() if key != "title"}, indent=2
        ).encode()
        + b"\n"
    )


def encode(value: Any) -> bytes:
    """Return one line of JSON in UTF-8. A lone surrogate, which no encoding has, becomes a question
    mark.
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        plain = to_jsonable_python(value, inf_nan_mode="null")
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


def stdout_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON for stdout: one line, or indented.

    A CI runner obeys `##[command]` anywhere in a log line; JSON has `#` only inside strings, where
    it may be escaped.
    """
    text = encode(value).decode()
    if indent is not None:
        text = json.dumps(json.loads(text), indent=indent, ensure_ascii=False)
    return text.replace("#", "\\u0023") + "\n"


def document_of(summary: Summary) -> ReportDocument:
    """Return the document without its results, which are written one by one."""
    report, comparison = summary.report, summary.compared
    earlier = (
        [point for point in comparison.baseline.trend if point.report.id != report.id]
        if comparison
        else []
    )
    return ReportDocument(
        **_run_fields(summary),
        id=report.id,
        looks=report.looks,
        settled=report.settled,
        gate=summary.gate,
        trend=(trend_point(report), *earlier)[:TREND_POINTS],
        cells=tuple(_saved_cells(summary)),
        results=(),
    )


def _run_fields(summary: Summary) -> dict[str, Any]:
    """Return the fields of a `_RunDocument`."""
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
        "totals": TotalsEntry(
            **asdict(report.totals),
            pass_rate=report.pass_rate,
            match_rate=report.match_rate,
            recorded=report.recorded,
            reused=report.reused,
            budget_violations=report.budget_violations,
            judging=report.judging if report.judging.calls else None,
            cost_usd=report.spent.total_usd,
        ),
        "variants": variant_reports(summary),
    }


def _saved_cells(summary: Summary) -> Iterator[SavedCellEntry]:
    comparison, own = summary.compared, summary.report.id
    for cell, head in zip(
        cell_views(summary), head_cells(summary.report, summary.gate), strict=True
    ):
        earlier = (
            evidence_to_keep(comparison.base_of(head.key), head.fingerprint) if comparison else ()
        )
        yield SavedCellEntry(
            **_cell_fields(summary, cell),
            fingerprint=head.fingerprint,
            critical=head.critical,
            threshold=cell.case.threshold,
            evidence=head.planned,
            unanswered=head.unanswered,
            confirming=head.confirming,
            confirmed=head.confirmed,
            per_run=head.per_run,
            history=tuple(evidence for evidence in earlier if evidence.report != own),
        )


def _cell_fields(summary: Summary, cell: CellView) -> dict[str, Any]:
    """Return the fields of a `CellEntry`."""
    comparison = summary.compared
    return {
        "case": cell.case.id,
        "provider": cell.variant.provider,
        "prompt": cell.variant.prompt,
        "outcome": cell.outcome,
        "bar": cell.bar,
        "tags": cell.case.tags,
        "file": cell.case.file,
        "line": cell.case.line,
        "quarantine": cell.case.quarantine,
        "comparison": _cell_comparison(comparison, cell.found, summary.before.get(cell.key))
        if comparison and cell.found
        else None,
        **asdict(cell.counts),
    }


def _cell_comparison(
    comparison: Comparison, cell: CellComparison, before: str | None = None
) -> CellComparisonEntry:
    base = (
        comparison.baseline.cells.get(cell.key)
        if cell.kind == "removed"
        else comparison.base_of(cell.key)
    )
    return CellComparisonEntry(
        **_values(cell),
        base_fingerprint=base.fingerprint if base else "",
        base_per_run=base.per_run if base else UNMEASURED,
        base_quarantined=base is not None and base.quarantined,
        base_bar=base.bar if base else None,
        sentence=cell_sentence(comparison, cell),
        before=before,
    )


def _comparison(summary: Summary) -> ComparisonEntry | NoComparison | None:
    if not isinstance(comparison := summary.comparison, Comparison):
        return comparison
    return ComparisonEntry(
        sentence=str(baseline_sentence(comparison, summary.report.started_at)),
        name=comparison.baseline.name,
        baseline=comparison.baseline.reports,
        lost=comparison.baseline.lost,
        confirm_runs=comparison.confirm_runs,
        alpha=comparison.alpha,
        counts={kind: count for kind in KINDS if (count := comparison.counts.get(kind, 0))},
        variants=tuple(
            VariantComparisonEntry(
                **_values(each) | {"sentence": variant_sentence(comparison, each)}
            )
            for each in comparison.variants
        ),
        removed=tuple(_cell_comparison(comparison, cell) for cell in comparison.select("removed")),
        base_gate=comparison.baseline.gate,
    )


def _values(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, to make an entry of them."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


JSON = Format("report.json", render, rb'\{"schema_version": \d')
