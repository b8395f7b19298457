"""The rules for merging: counts in, verdict out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Literal, NamedTuple

from msgspec import Struct

from ci_evals.model import Gate
from ci_evals.report import Counts, Report
from ci_evals.stats.pass_rate import Bounds, pass_rate, population_rate
from ci_evals.verdict.metrics import measure, read_metric, tasks_of

ScopeKind = Literal["suite", "variant", "provider", "tag", "case", "metric"]
VerdictStatus = Literal["pass", "borderline", "fail", "error"]

_SEVERITY: Mapping[VerdictStatus, int] = {"pass": 0, "borderline": 1, "fail": 2, "error": 3}
_BAR_IS: Mapping[VerdictStatus, str] = {"pass": "met", "borderline": "in doubt", "fail": "missed"}
_LONGEST_NAME = 80


class ScopeVerdict(Struct, frozen=True, kw_only=True):
    """What the gate says of one part of the matrix. Rates are fractions in [0, 1]; None where no run was graded.

    A scope without a `bar` is there to be shown: it passes unless none of its runs was graded. `lower` and `upper`
    are one-sided bounds at the gate's confidence. `cases`, `graded` and `failed` are numbers of cases and of runs.
    """

    kind: ScopeKind
    name: str
    bar: float | None
    status: VerdictStatus
    rate: float | None
    lower: float | None
    upper: float | None
    cases: int
    graded: int
    failed: int


class Verdict(Struct, frozen=True, kw_only=True):
    """What the gate says. `reason` is one sentence for a reviewer; `scopes` starts with the whole suite."""

    status: VerdictStatus
    reason: str
    scopes: tuple[ScopeVerdict, ...]
    hint: str | None = None


def decide(report: Report, gate: Gate | None) -> Verdict:
    """Judge a report by its gate; without a bar for the suite, a provider or a tag, every run must pass.

    Even then, a case with a `min_pass_rate` is held to that instead. Too many errored runs, a run phase that was
    stopped before it could show that the bars are met, or a bar on what was never graded end in `error`.
    """
    rules = gate or Gate()
    tallies = [_tally(report.counts((cell,))) for cell in range(len(report.matrix))]
    scopes = tuple(_judge(scope, tallies, report, rules) for scope in _scopes(report, rules))
    scopes += tuple(_metric_scopes(report, rules))
    totals = report.totals
    if (problem := _lack_of_evidence(report, scopes, rules)) is not None:
        return Verdict(status="error", reason=problem + _stopped(totals), scopes=scopes)
    over = report.columns.budget_violations
    if rules.max_budget_violations is not None and over > rules.max_budget_violations:
        text = f"{over} runs took more than their budget, and the gate allows {rules.max_budget_violations}"
        return Verdict(status="fail", reason=text + _stopped(totals), scopes=scopes)
    barred = [scope for scope in scopes if scope.bar is not None]
    worst = max(barred, key=lambda scope: _SEVERITY[scope.status])
    if worst.status != "fail" and _share(totals.missing, totals.planned) > _exact(rules.max_error_rate):
        return Verdict(status="error", reason="too few runs for a verdict" + _stopped(totals), scopes=scopes)
    others = sum(scope.status == worst.status for scope in barred) - 1
    more = f"; {others} more {'bar is' if others == 1 else 'bars are'} {_BAR_IS[worst.status]}" if others else ""
    return Verdict(
        status=worst.status,
        reason=_name_of(worst, report) + _sentence(worst, rules) + more + _stopped(totals),
        scopes=scopes,
        hint=_hint(worst, rules),
    )


def exit_code(verdict: Verdict, gate: Gate | None) -> int:
    """0 pass, 1 fail, 3 no verdict; borderline is 0 unless the gate says `on_borderline: fail`."""
    borderline = 1 if gate is not None and gate.on_borderline == "fail" else 0
    return {"pass": 0, "borderline": borderline, "fail": 1, "error": 3}[verdict.status]


def scope_label(scope: ScopeVerdict, report: Report) -> str:
    """`suite`, or what precedes the name: `tag`. A suite without the cases that have their own bar says so."""
    return "suite, other cases" if scope.kind == "suite" and _leaves_cases_out(scope, report) else scope.kind


def population_bounds(report: Report, gate: Gate | None) -> Bounds | None:
    """Where the pass rate on new cases like these is, each bound at the gate's confidence; None with too few cases."""
    width = len(report.matrix.variants)
    rows = range(0, len(report.matrix), width)
    estimate = population_rate([_tally(report.counts((cell,))) for cell in range(row, row + width)] for row in rows)
    return estimate.bounds((gate or Gate()).confidence) if estimate else None


def percent(rate: float, *marks: float) -> str:
    """A fraction as a percentage with one decimal, or the more it takes to stay off 0 %, 100 % and the `marks`.

    So a rate is never shown as equal to a bar that it misses. Trailing zeros go when the figure is exact.
    """
    exact = Decimal(str(rate)) * 100
    edges = (Decimal(0), Decimal(100), *(Decimal(str(mark)) * 100 for mark in marks))
    for places in count(1):
        shown = round(exact, places)
        if shown == exact:
            return f"{shown.normalize():f} %"
        if all(shown.compare(edge) == exact.compare(edge) for edge in edges):
            break
    return f"{shown:f} %"


class _Scope(NamedTuple):
    """A part of the matrix that is judged by itself; a `bar` of None asks for nothing."""

    kind: ScopeKind
    name: str
    bar: float | None
    cells: Sequence[int]


class _Tally(NamedTuple):
    """The graded runs of one cell."""

    passed: int
    graded: int


def _tally(counts: Counts) -> _Tally:
    return _Tally(counts.passed, counts.graded)


def _scopes(report: Report, rules: Gate) -> Iterator[_Scope]:
    """Everything that is judged, the suite first."""
    matrix = report.matrix
    yield _suite_scope(report, rules)
    if rules.per_variant and rules.min_pass_rate is not None:
        for variant in matrix.variants:
            yield _Scope("variant", str(variant), rules.min_pass_rate, report.cells_of(variant))
    for provider, bar in rules.providers.items():
        cells = [cell for cell in range(len(matrix)) if matrix.variant(cell).provider == provider]
        yield _Scope("provider", provider, bar, cells)
    rows_of: dict[str, list[int]] = {tag: [] for tag in rules.tags}
    for row, case in enumerate(matrix.cases):
        for tag in rows_of.keys() & case.tags:
            rows_of[tag].append(row)
    for tag, bar in rules.tags.items():
        yield _Scope("tag", tag, bar, _cells(report, rows_of[tag]))
    for row, case in enumerate(matrix.cases):
        if case.min_pass_rate is not None:
            yield _Scope("case", case.id, case.min_pass_rate, _cells(report, (row,)))


def _suite_scope(report: Report, rules: Gate) -> _Scope:
    """All cells; or, where every run must pass only by default, those of the cases without a bar of their own."""
    everything = range(len(report.matrix))
    if _has_bars(rules):
        return _Scope("suite", report.suite.name, rules.min_pass_rate, everything)
    rest = [row for row, case in enumerate(report.matrix.cases) if case.min_pass_rate is None]
    if rest:
        return _Scope("suite", report.suite.name, 1.0, _cells(report, rest))
    return _Scope("suite", report.suite.name, None, everything)


def _has_bars(rules: Gate) -> bool:
    return rules.min_pass_rate is not None or bool(rules.tags or rules.providers or rules.metrics)


def _cells(report: Report, rows: Iterable[int]) -> list[int]:
    """The cells of some cases on all their variants."""
    width = len(report.matrix.variants)
    return [cell for row in rows for cell in range(row * width, (row + 1) * width)]


def _judge(scope: _Scope, tallies: Sequence[_Tally], report: Report, rules: Gate) -> ScopeVerdict:
    chosen = [tallies[cell] for cell in scope.cells]
    graded = sum(tally.graded for tally in chosen)
    estimate = pass_rate(chosen)
    bounds = estimate.bounds(rules.confidence) if estimate else None
    return ScopeVerdict(
        kind=scope.kind,
        name=scope.name,
        bar=scope.bar,
        status=_status(estimate.rate, bounds, scope.bar, rules) if estimate and bounds else "error",
        rate=float(estimate.rate) if estimate else None,
        lower=bounds.lower if bounds else None,
        upper=bounds.upper if bounds else None,
        cases=len({cell // len(report.matrix.variants) for cell in scope.cells}),
        graded=graded,
        failed=graded - sum(tally.passed for tally in chosen),
    )


def _metric_scopes(report: Report, rules: Gate) -> Iterator[ScopeVerdict]:
    """Every metric that has a bar, on every variant; it is not graded where it is not defined."""
    for name, bar in rules.metrics.items():
        metric = read_metric(name)
        for variant in report.matrix.variants:
            labelled = tasks_of(report, variant).get(metric.task) if metric else None
            found = measure(labelled, metric, rules.confidence) if labelled and metric else None
            known = found is not None and found.value is not None
            rate = found.value if found is not None else None
            lower, upper = (found.lower, found.upper) if found is not None else (None, None)
            bounds = Bounds(lower, upper) if lower is not None and upper is not None else None
            yield ScopeVerdict(
                kind="metric",
                name=f"{name} on {variant}" if len(report.matrix.variants) > 1 else name,
                bar=bar,
                status=_status(_exact(rate), bounds, bar, rules) if rate is not None and bounds else "error",
                rate=rate,
                lower=lower,
                upper=upper,
                cases=len(report.matrix.cases),
                graded=found.runs if found is not None and known else 0,
                failed=0,
            )


def _status(rate: Fraction, bounds: Bounds, bar: float | None, rules: Gate) -> VerdictStatus:
    """A bar of 100 % is about the runs that were seen, which leaves no room for doubt in either direction."""
    if bar is None:
        return "pass"
    if bar >= 1:
        return "pass" if rate >= 1 else "fail"
    if rate < _exact(bar):
        return "fail" if bounds.upper < bar else "borderline"
    return "borderline" if rules.prove and bounds.lower < bar else "pass"


def _lack_of_evidence(report: Report, scopes: Iterable[ScopeVerdict], rules: Gate) -> str | None:
    """Why there can be no verdict, if so."""
    totals = report.totals
    ended = totals.graded + totals.errored
    if not totals.graded:
        return f"no run was graded, {totals.errored} errored" if totals.errored else "no run was graded"
    if (errors := _share(totals.errored, ended)) > (allowed := _exact(rules.max_error_rate)):
        share, limit = percent(float(errors), rules.max_error_rate), percent(float(allowed), rules.max_error_rate)
        return f"{totals.errored} of {_runs(ended)} errored ({share}), more than the {limit} that the gate allows"
    for scope in scopes:
        if scope.bar is not None and not scope.graded:
            lack = "no run was graded" if scope.cases else "it has a bar, but nothing like it was run"
            return _name_of(scope, report) + lack
    return None


def _sentence(scope: ScopeVerdict, rules: Gate) -> str:
    """How a scope stands to its bar."""
    assert scope.bar is not None
    assert scope.rate is not None
    assert scope.lower is not None
    assert scope.upper is not None
    what = "" if scope.kind == "metric" else "pass rate "
    if scope.bar >= 1 and scope.kind != "metric":
        if scope.status == "fail":
            return f"{scope.failed} of {_runs(scope.graded)} failed, and every run must pass"
        return f"{scope.graded} of {_runs(scope.graded)} passed"
    rate, bar = percent(scope.rate, scope.bar), percent(scope.bar, scope.bar)
    sure = f"{percent(rules.confidence, rules.confidence)} sure"
    at_most = f"({sure}: at most {percent(scope.upper, scope.bar)})"
    at_least = f"({sure}: at least {percent(scope.lower, scope.bar)})"
    if scope.status == "fail":
        return f"{what}{rate} is below the bar of {bar} {at_most}"
    if scope.status == "pass":
        return f"{what}{rate} meets the bar of {bar}" + (f" {at_least}" if rules.prove else "")
    if scope.rate < scope.bar:
        return f"{what}{rate} is below the bar of {bar}, but within the noise between runs {at_most}"
    return f"{what}{rate} meets the bar of {bar}, but more runs are needed to prove it {at_least}"


def _hint(worst: ScopeVerdict, rules: Gate) -> str | None:
    if worst.status == "fail" and worst.kind == "suite" and not _has_bars(rules):
        return "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"
    return None


def _name_of(scope: ScopeVerdict, report: Report) -> str:
    """What a sentence about a scope starts with; names come from datasets, and may hold anything."""
    if scope.kind == "suite":
        return "other cases: " if _leaves_cases_out(scope, report) else ""
    name = scope.name if scope.name.isprintable() else repr(scope.name)
    shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return f"{scope.kind} {shown}: "


def _leaves_cases_out(scope: ScopeVerdict, report: Report) -> bool:
    return scope.cases < len(report.matrix.cases)


def _stopped(totals: Counts) -> str:
    ended = totals.planned - totals.missing
    return f"; stopped after {ended} of {_runs(totals.planned)}" if totals.missing else ""


def _runs(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"


def _share(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)


def _exact(bar: float) -> Fraction:
    """The decimal that the user wrote: 9 of 10 passed runs meet a bar of 0.9, although the double is a bit above."""
    return Fraction(str(bar))
