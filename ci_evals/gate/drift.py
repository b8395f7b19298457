"""Drift of the base branch: a loss so slow that no single report shows it.

The evidence is handed on from report to report of the branch, see `Drift`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from ci_evals.gate.baseline import (
    NO_RUNS,
    Baseline,
    Drift,
    DriftBet,
    DriftCell,
    DriftVariant,
    ReportedCell,
    ReportRef,
    add_tallies,
    group_by_variant,
    report_ref,
)
from ci_evals.gate.cells import Matching, base_keys, match_cells
from ci_evals.gate.falls import planned_fall
from ci_evals.gate.outages import has_collapsed, is_outage, unanswered_runs
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.drift import (
    Loss,
    log_e_values,
    loss,
    total_evidence,
)
from ci_evals.stats.thresholds import DRIFT_ALARM, DRIFT_BETS, DRIFT_QUIET

MOST_CELLS = 10_000
"""The most cells that reports remember although newer ones do not have them."""


# Following a branch.


def may_count(report: SuiteReport) -> bool:
    """Return True if a report shows what its branch is like: it is complete, of a commit without
    changes, and not known to be of another branch than the default one.
    """
    suite = report.suite
    is_of_commit = suite.revision is not None and suite.dirty is False
    return is_of_commit and not report.interrupted and suite.on_default_branch is not False


def follow(
    report: SuiteReport, head: Sequence[ReportedCell], base: Baseline | None, gate: Gate | None
) -> Drift | None:
    """Return what the base branch's reports say of a slow loss, a further one included.

    A report that is not newer than those that count already changes nothing: it may be one of them.

    Args:
        report: the further report of the branch.
        head: its cells.
        base: what it was compared with.
        gate: its gate, which may accept a new level.
    """
    own = report_ref(report)
    earlier = accepted(base, gate, own)
    if not may_count(report):
        return earlier
    if earlier is None:
        earlier = Drift(newest=own)
    elif own.started_at <= earlier.newest.started_at:
        return earlier
    earlier = _under_own_names(earlier, head, base)
    further = _FurtherReport(report, head, base, (gate or Gate()).alpha, own, earlier.newest)
    known: dict[tuple[str, str | None], dict[CellKey, DriftCell]] = defaultdict(dict)
    for cell in earlier.cells:
        known[cell.key[1:]][cell.key] = cell
    states = {state.variant: state for state in earlier.variants}
    variants = []
    cells: list[DriftCell] = []
    absent: list[DriftCell] = []
    for variant, present in further.by_variant.items():
        names = variant.provider, variant.prompt
        new = DriftVariant(provider=variant.provider, prompt=variant.prompt)
        state = states.pop(variant, new)
        known_cells = known.pop(names, {})
        sums = [_sums_of(cell, known_cells) for cell in present]
        sums += [cell for key, cell in known_cells.items() if key not in further.runs]
        state, sums = _follow_variant(state, sums, further)
        variants.append(state)
        cells += sums[: len(present)]
        absent += sums[len(present) :]
    for left in known.values():
        absent += left.values()
    return replace(
        earlier,
        newest=own,
        variants=(*variants, *states.values()),
        cells=(*cells, *absent[:MOST_CELLS]),
    )


@dataclass(frozen=True)
class _FurtherReport:
    """A further report of the branch.

    Args:
        report: the report.
        head: its cells.
        base: its own baseline.
        alpha: the level at which a variant of it is below that baseline.
        own: the reference to the report.
        previous: the report before it that counts.
    """

    report: SuiteReport
    head: Sequence[ReportedCell]
    base: Baseline | None
    alpha: float
    own: ReportRef
    previous: ReportRef

    @cached_property
    def matching(self) -> Matching | None:
        """Its cells, matched with those of its baseline."""
        if self.base is None:
            return None
        return match_cells(self.head, self.base)

    @cached_property
    def by_variant(self) -> Mapping[Variant, Sequence[ReportedCell]]:
        """The cells of each of its variants."""
        return group_by_variant(self.head)

    @cached_property
    def runs(self) -> Mapping[CellKey, Tally]:
        """The graded runs of each cell that were made whatever their outcome: those of the first
        look.

        There are none where an outage hit the variant, its baseline is broken, or the case is in
        quarantine.
        """
        left_out = set(unanswered_runs(self.own, self.head))
        if self.base is not None:
            left_out.update(each.variant for each in self.base.broken)
        left_out.update(variant for variant in self.by_variant if self._has_collapsed(variant))
        rounds = None
        if self.report.looks is not None:
            rounds = self.report.looks.rounds[0]
        plan = self.report.plan
        cells = {plan.key(cell): cell for cell in range(len(plan))}
        runs = {}
        for each in self.head:
            counted = NO_RUNS
            if not each.is_quarantined and each.variant not in left_out:
                counted = _first_runs(self.report, cells[each.key], rounds)
            runs[each.key] = counted
        return runs

    def _has_collapsed(self, variant: Variant) -> bool:
        """Return True if a variant's runs look like an outage, and like no mere loss.

        It is held against the report before it alone: after a loss, that one has it, too.
        """
        if self.matching is None:
            return False
        cells = self.matching.by_variant.get(variant, ())
        planned = {number: cell.head.planned for number, cell in enumerate(cells)}
        newest = {number: cell.base.history.newest(1) for number, cell in enumerate(cells)}
        passed_somewhere = any(cell.planned.passed for cell in self.head)
        if not has_collapsed(planned, newest):
            return False
        return is_outage(planned, [newest], known_to_pass=passed_somewhere)

    def fell(self, variant: Variant) -> bool:
        """Return True if a variant is by itself below its own baseline, as a whole."""
        if self.matching is None or variant not in self.matching.by_variant:
            return False
        cells = self.matching.by_variant[variant]
        return planned_fall(self.matching, variant, cells).p <= self.alpha


def _sums_of(cell: ReportedCell, known: Mapping[CellKey, DriftCell]) -> DriftCell:
    """Return the sums of a cell; none if it is new or edited."""
    sums = known.get(cell.key)
    if sums is not None and sums.fingerprint == cell.fingerprint:
        return sums
    case, provider, prompt = cell.key
    return DriftCell(case=case, provider=provider, prompt=prompt, fingerprint=cell.fingerprint)


def _follow_variant(
    state: DriftVariant, sums: Sequence[DriftCell], further: _FurtherReport
) -> tuple[DriftVariant, list[DriftCell]]:
    """Return the evidence and the sums of a variant after one more report.

    Args:
        state: its evidence so far.
        sums: its cells, those included that the report does not have.
        further: the report.
    """
    logs = log_e_values((*further.runs.get(cell.key, NO_RUNS), *cell.runs) for cell in sums)
    restarted = [False] * len(DRIFT_BETS)
    if logs is not None:
        fell = max(logs) > 0 and further.fell(state.variant)
        restarted = [bet.evidence.best <= 0 for bet in state.bets]
        bets = []
        for bet, log_e in zip(state.bets, logs, strict=True):
            bets.append(_follow_bet(bet, log_e, further, fell=fell))
        total = total_evidence(bet.evidence for bet in bets)
        starts = total >= DRIFT_ALARM * len(further.by_variant)
        alarm = starts or (state.alarm and total >= DRIFT_QUIET)
        state = replace(state, bets=tuple(bets), alarm=alarm)
    after = []
    for cell in sums:
        before = list(cell.before)
        for number, is_new_start in enumerate(restarted):
            if is_new_start:
                before[number] = cell.runs
        more = add_tallies((cell.runs, further.runs.get(cell.key, NO_RUNS)))
        after.append(replace(cell, runs=more, before=tuple(before)))
    return state, after


def _follow_bet(bet: DriftBet, log_e: float, further: _FurtherReport, *, fell: bool) -> DriftBet:
    evidence = bet.evidence.update(log_e)
    if bet.evidence.best <= 0:
        return DriftBet(evidence, further.own, further.previous, reports=1, shown=fell)
    return replace(bet, evidence=evidence, reports=bet.reports + 1, shown=bet.shown or fell)


def _under_own_names(drift: Drift, head: Sequence[ReportedCell], base: Baseline | None) -> Drift:
    """Return what is known with cases and variants as a report names them."""
    if base is None:
        return drift
    cells = {}
    variants = {}
    for key, base_key in base_keys(head, base).items():
        if key != base_key:
            cells[base_key] = key
            variants[Variant(*base_key[1:])] = Variant(*key[1:])
    if not cells:
        return drift
    renamed_cells = []
    for cell in drift.cells:
        case, provider, prompt = cells.get(cell.key, cell.key)
        renamed_cells.append(replace(cell, case=case, provider=provider, prompt=prompt))
    renamed_variants = []
    for state in drift.variants:
        variant = variants.get(state.variant, state.variant)
        renamed_variants.append(replace(state, provider=variant.provider, prompt=variant.prompt))
    return replace(drift, cells=tuple(renamed_cells), variants=tuple(renamed_variants))


def _first_runs(report: SuiteReport, cell: int, rounds: int | None) -> Tally:
    """Return the graded runs of a cell in the first rounds, without those that are recorded."""
    passed = graded = 0
    for index in report.plan.indices(cell)[:rounds]:
        record = report.records.get(index)
        if record is not None and record.graded and not record.recorded:
            graded += 1
            if record.status == "passed":
                passed += 1
    return Tally(passed, graded)


# Accepting a level.


def accepted(base: Baseline | None, gate: Gate | None, own: ReportRef) -> Drift | None:
    """Return what is known of the base branch once a gate's `drift_since` is applied.

    The evidence restarts, and runs before that report or day do not count any more.

    Args:
        base: the baseline.
        gate: the gate of a report that was compared with it.
        own: that report.
    """
    drift = base.drift if base is not None else None
    since = gate.drift_since if gate is not None else None
    if base is None or drift is None or since is None or since == drift.accepted:
        return drift
    since_s = _started_at(since, base, drift, own)
    if since_s is None or since_s > own.started_at:
        return drift
    kept: dict[Variant, int] = {}
    for state in drift.variants:
        starts = []
        for number, bet in enumerate(state.bets):
            if bet.since is not None and bet.since.started_at >= since_s:
                starts.append((bet.since.started_at, number))
        if starts:
            _, kept[state.variant] = min(starts)
    cells = []
    for cell in drift.cells:
        start = kept.get(Variant(cell.provider, cell.prompt))
        if start is not None:
            restarted = DriftCell(
                case=cell.case,
                provider=cell.provider,
                prompt=cell.prompt,
                fingerprint=cell.fingerprint,
                runs=cell.runs_since(start),
            )
            cells.append(restarted)
    variants = [
        DriftVariant(provider=state.provider, prompt=state.prompt) for state in drift.variants
    ]
    return replace(drift, accepted=since, variants=tuple(variants), cells=tuple(cells))


def is_unknown_level(base: Baseline, gate: Gate | None, own: ReportRef) -> bool:
    """Return True if a gate accepts the level of a commit that no known report is of."""
    if gate is None or gate.drift_since is None or base.drift is None:
        return False
    if gate.drift_since == base.drift.accepted:
        return False
    return _started_at(gate.drift_since, base, base.drift, own) is None


def _started_at(since: str, base: Baseline, drift: Drift, own: ReportRef) -> float | None:
    """Return when a day begins, or when the report of a commit started; None if it is not known."""
    if "-" in since:
        return datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp()
    reports = [own, drift.newest, *(point.report for point in base.trend)]
    for state in drift.variants:
        for bet in state.bets:
            reports += [ref for ref in (bet.since, bet.after) if ref is not None]
    for ref in reports:
        if ref.revision is not None and ref.revision.startswith(since):
            return ref.started_at
    return None


# Alarms.


class CellLoss(NamedTuple):
    """A cell that passes less often than before."""

    case: str
    before: Tally
    since: Tally

    @property
    def missing(self) -> float:
        """The passes that it would have more at its old rate."""
        return self.since.graded * self.before.rate - self.since.passed


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftAlarm:
    """A variant passes less often than before, since some report of the base branch.

    Attributes:
        since: the first report of the lower level.
        after: the one before it.
        newest: the last one.
        reports: the number of reports from `since` on.
        shown: one of these is below its own baseline by itself.
        loss: by how much its mean pass rate fell; None if its cells are all new since.
        cells: those that fell, the most missing passes first.
    """

    provider: str
    prompt: str | None
    since: ReportRef
    after: ReportRef | None
    newest: ReportRef
    reports: int
    shown: bool
    loss: Loss | None
    cells: tuple[CellLoss, ...]

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)


def alarms(drift: Drift, variants: Collection[Variant]) -> list[DriftAlarm]:
    """Return an alarm for each of these variants that has lost, in order.

    Args:
        drift: what is known of the base branch.
        variants: as it names them.
    """
    found = []
    for state in drift.variants:
        if not state.alarm or state.variant not in variants:
            continue
        number = max(range(len(DRIFT_BETS)), key=lambda each: state.bets[each].evidence.best)
        bet = state.bets[number]
        if bet.since is None:
            continue
        cells = [cell for cell in drift.cells if cell.key[1:] == (state.provider, state.prompt)]
        losses = list(_losses(cells, number))
        found.append(
            DriftAlarm(
                provider=state.provider,
                prompt=state.prompt,
                since=bet.since,
                after=bet.after,
                newest=drift.newest,
                reports=bet.reports,
                shown=bet.shown,
                loss=loss((*cell.since, *cell.before) for cell in losses),
                cells=tuple(_worst_first(losses)),
            )
        )
    return found


def _losses(cells: Iterable[DriftCell], bet: int) -> Iterator[CellLoss]:
    """Yield the cells with runs before and since the loss began."""
    for cell in cells:
        before, since = cell.before[bet], cell.runs_since(bet)
        if before.graded and since.graded:
            yield CellLoss(cell.case, before, since)


def _worst_first(losses: Iterable[CellLoss]) -> list[CellLoss]:
    fallen = [cell for cell in losses if cell.missing > 0]
    fallen.sort(key=lambda cell: -cell.missing)
    return fallen
