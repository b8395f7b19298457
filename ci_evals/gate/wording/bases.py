"""Sentences about the baseline: its age, its gaps, and the reason for a missing comparison."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ci_evals.format import name_of, number_of, percent
from ci_evals.gate.baseline import (
    Baseline,
    BrokenVariant,
    LostReport,
    ReportRef,
    add_tallies,
)
from ci_evals.gate.compare import (
    Change,
    Comparison,
    NoComparison,
)


class SourceSentence(NamedTuple):
    """A sentence about the baseline: `compared with main` `0123456` `, 3 hours older`.

    `commit` is a part of its own for formats that mark it up; it is empty if not known.
    """

    start: str
    commit: str
    rest: str

    def __str__(self) -> str:
        at = " at " if self.commit else ""
        return f"{self.start}{at}{self.commit}{self.rest}"


def baseline_sentence(comparison: Comparison, started_at: float) -> SourceSentence:
    """`compared with main at 0123456, 3 hours older, and 5 reports before it (30 runs per case)`.

    Args:
        comparison: the comparison with that baseline.
        started_at: when the head was run, in seconds since the epoch.
    """
    if not comparison.compared:
        return SourceSentence(not_compared_sentence(comparison), "", "")
    runs = {cell.base.graded for cell in comparison.cells if cell.base.graded}
    return source_sentence(comparison.baseline, started_at, runs)


def source_sentence(
    baseline: Baseline, started_at: float, runs: Collection[int], place: str = ""
) -> SourceSentence:
    """`compared with main at 0123456 (the merge base), 3 hours older (30 runs per case)`.

    A base that ran alongside: `compared with main at 0123456, which ran alongside (3 runs per
    case)`.

    Args:
        baseline: the baseline.
        started_at: when the head was run, in seconds since the epoch.
        runs: the numbers of graded runs that cases have in the baseline.
        place: the relation of the newest report's commit to the head's.
    """
    newest = baseline.reports[0]
    older = [report for report in baseline.pooled_reports if report != newest]
    rest = ""
    if place:
        rest += f" ({place})"
    age_s = started_at - newest.started_at
    if baseline.alongside:
        rest += ", which ran alongside"
    elif age_s >= 1:
        rest += f", {_age(age_s)} older"
    if older:
        rest += f", and {number_of(len(older), 'report')} before it"
    most = number_of(max(runs, default=0), "run")
    if len(runs) > 1:
        most = f"up to {most}"
    rest += f" ({most} per case)"
    return SourceSentence(f"compared with {baseline.label}", newest.commit, rest)


def _age(age_s: float) -> str:
    """`40 seconds`, `3 minutes`, `5 hours`, `2 days`."""
    if round(age_s) >= 2 * 86400:
        return number_of(round(age_s / 86400), "day")
    if round(age_s) >= 3600:
        return number_of(round(age_s / 3600), "hour")
    if round(age_s) >= 60:
        return number_of(round(age_s / 60), "minute")
    return number_of(round(age_s), "second")


def lost_report_sentences(baseline: Baseline) -> Iterator[str]:
    """`2 of 120 runs on main at 0123456 passed: likely an outage, so these runs do not count`."""
    alike: dict[tuple[ReportRef, bool], list[LostReport]] = defaultdict(list)
    for each in baseline.lost:
        if each.variant not in baseline.broken_variants:  # other sentences say so
            alike[each.report, each.unanswered > 0].append(each)
    for (report, unanswered), found in alike.items():
        total = add_tallies(each.runs for each in found)
        runs = number_of(total.graded, "run")
        if len(found) < len(baseline.variants):
            runs += f" of {', '.join(name_of(each.variant) for each in found)}"
        runs += f" on {baseline.label}"
        if report.commit:
            runs += f" at {report.commit}"
        if unanswered:
            count = sum(each.unanswered for each in found)
            yield f"{count:,} of {runs} failed without an answer, and do not count"
        else:
            passed = f"{total.passed:,} of {runs} passed"
            yield f"{passed}: likely an outage, so these runs do not count"


def broken_sentence(comparison: Comparison) -> str:
    """`main itself passes 3 % since 0123456: not compared`."""
    of_all = _all_are_broken(comparison)
    return "; ".join(_broken_sentences(comparison.baseline, comparison.broken, of_all=of_all))


def _all_are_broken(comparison: Comparison) -> bool:
    return len(comparison.broken) == len(comparison.base_variants)


def broken_base_sentences(baseline: Baseline) -> Iterator[str]:
    """`main itself passes 3 % on gpt since 0123456: not compared`."""
    return _broken_sentences(baseline, baseline.broken, of_all=baseline.is_broken)


def _broken_sentences(
    baseline: Baseline, broken: Sequence[BrokenVariant], *, of_all: bool
) -> Iterator[str]:
    for since, found in _broken_since(broken):
        rate = percent(add_tallies(each.runs for each in found).rate)
        where = ""
        if not of_all:
            where = f" on {_names(found)}"
        yield f"{baseline.label} itself passes {rate}{where} since {since}: not compared"


def broken_remarks(comparison: Comparison) -> Iterator[str]:
    """`6 of 60 runs passed in the reports of main since 0123456; the next good one ends this`."""
    for since, found in _broken_since(comparison.broken):
        total = add_tallies(each.runs for each in found)
        runs = f"{total.passed:,} of {number_of(total.graded, 'run')}"
        if not _all_are_broken(comparison):
            runs += f" of {_names(found)}"
        reports = f"in the reports of {comparison.baseline.label} since {since}"
        yield f"{runs} passed {reports}; the next good one ends this"


def _names(variants: Sequence[BrokenVariant]) -> str:
    return ", ".join(name_of(each.variant) for each in variants)


def _broken_since(broken: Sequence[BrokenVariant]) -> Iterator[tuple[str, list[BrokenVariant]]]:
    """Yield variants that broke in the same report, with its commit, or its date."""
    alike: dict[ReportRef, list[BrokenVariant]] = defaultdict(list)
    for each in broken:
        alike[each.since].append(each)
    for since, found in alike.items():
        name = since.commit
        if not name:
            name = datetime.fromtimestamp(since.started_at, UTC).date().isoformat()
        yield name, found


def no_regression_sentence(comparison: Comparison) -> str:
    """`no regression against main: 40 cases compared, 1 probably worse, can't tell about 2`."""
    base = comparison.baseline.label
    compared = {cell.case for cell in comparison.cells if cell.p is not None}
    regressed = len({cell.case for cell in comparison.select("regressed")})
    suspects: dict[Change, set[str]] = {"probably worse": set(), "can't tell": set()}
    for cell in comparison.select("suspect"):
        suspects[comparison.change(cell)].add(cell.case)
    probable = suspects["probably worse"]
    unclear = suspects["can't tell"] - probable
    found = f"no regression against {base}"
    parts = [f"{number_of(len(compared), 'case')} compared"]
    if regressed:
        found = f"no more regressions against {base} than the gate allows"
        parts.append(f"{regressed} regressed")
    if probable:
        parts.append(f"{len(probable)} probably worse")
    if unclear:
        parts.append(f"can't tell about {len(unclear)}")
    return f"{found}: {', '.join(parts)}"


def not_compared_sentence(comparison: Comparison | NoComparison | None) -> str:
    """Return the reason why there is no comparison, or why it compared nothing."""
    if comparison is None:
        comparison = NoComparison("none was given with --baseline")
    if isinstance(comparison, NoComparison):
        return comparison.sentence
    base = comparison.baseline
    if comparison.broken:
        return broken_sentence(comparison)
    if base.variants and not comparison.base_variants:
        theirs = ", ".join(name_of(variant) for variant in base.variants)
        return f"nothing to compare: {base.label} has other providers or prompts ({theirs})"
    same = f"the same here and on {base.label}"
    return f"nothing to compare: no case that is {same} was graded on both"


def removed_suites_sentence(baseline: Baseline) -> str:
    """`the suite refunds of main is gone, so nothing is compared with it`."""
    names = ", ".join(name_of(name) for name in baseline.removed_suites)
    if len(baseline.removed_suites) == 1:
        return f"the suite {names} of {baseline.label} is gone, so nothing is compared with it"
    return f"the suites {names} of {baseline.label} are gone, so nothing is compared with them"
