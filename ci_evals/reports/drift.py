"""The drift of the base branch in sentences."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from ci_evals.format import name_of, number_of, percent
from ci_evals.gate.baseline import Drift, report_ref
from ci_evals.gate.drift import CellLoss, DriftAlarm, accepted, alarms, follow, is_unknown_level
from ci_evals.reports.summary import Note, Summary, once_per_summary

MOST_CELLS: Final = 3


@once_per_summary
def drift_alarms(summary: Summary) -> Sequence[DriftAlarm]:
    """Return the variants that pass less often on the base branch than before.

    A report of the default branch is counted, too. Any other report shows the drift of its
    baseline.
    """
    comparison = summary.compared
    if comparison is None:
        return ()
    report, baseline = summary.report, comparison.baseline
    drift: Drift | None
    # A pull request's runs are of code that may never be merged, so they are no evidence.
    if report.suite.on_default_branch:
        drift = follow(report, summary.cells, baseline, summary.gate)
    else:
        drift = accepted(baseline, summary.gate, report_ref(report))
    if drift is None:
        return ()
    # A renamed variant has its evidence under the name that it has on the base.
    variants = {*report.plan.variants, *map(comparison.base_variant, report.plan.variants)}
    return alarms(drift, variants)


def drift_notes(summary: Summary) -> Iterator[Note]:
    """Yield a note for each alarm, and one if `gate.drift_since` names an unknown commit.

    The alarms are brief on the default branch only, as no pull request can do anything about them.
    """
    brief = summary.report.suite.on_default_branch is True
    for alarm in drift_alarms(summary):
        day = datetime.fromtimestamp(alarm.since.started_at, UTC).date()
        parts = [drift_sentence(summary, alarm), *drift_details(alarm)]
        parts.append(f"gate.drift_since: {day.isoformat()} accepts the new level")
        yield Note("Drift", "; ".join(parts), brief, drift_command(alarm))
    comparison = summary.compared
    if comparison is None or summary.gate is None:
        return
    own = report_ref(summary.report)
    if is_unknown_level(comparison.baseline, summary.gate, own):
        base = comparison.baseline.label
        text = f"gate.drift_since has no effect: no known report of {base} is of commit"
        yield Note("Drift", f"{text} {summary.gate.drift_since}; name a day", brief=True)


def drift_sentence(summary: Summary, alarm: DriftAlarm) -> str:
    """`main passes about 5 points less than before 3 November (at least 2.9): no single report
    shows it`.
    """
    sentence = f"{summary.base} passes {_less(summary, alarm)} than before {_day(alarm)}"
    if alarm.loss is not None and alarm.loss.at_least > 0:
        sentence += f" (at least {_points(alarm.loss.at_least)})"
    if not alarm.shown:
        sentence += ": no single report shows it"
    return sentence


def drift_legend(summary: Summary, alarm: DriftAlarm) -> str:
    """`about 5 points less since 3 November`."""
    return f"{_less(summary, alarm)} since {_day(alarm)}"


def _less(summary: Summary, alarm: DriftAlarm) -> str:
    """`about 5 points less on gpt-4o`."""
    less = "less often"
    if alarm.loss is not None and alarm.loss.value > 0:
        less = f"about {_points(alarm.loss.value)} points less"
    if len(summary.report.plan.variants) > 1:
        less += f" on {name_of(alarm.variant)}"
    return less


def drift_details(alarm: DriftAlarm) -> Iterator[str]:
    """Yield `7 reports since then`, and `lost most: refund 98 % → 71 %, cancel 90 % → 75 %`."""
    reports = f"{number_of(alarm.reports, 'report')} since then"
    if _is_of_one_commit(alarm):
        reports += f", all of {alarm.newest.commit}"
    yield reports
    if alarm.cells:
        lost = ", ".join(_cell_loss(cell) for cell in alarm.cells[:MOST_CELLS])
        yield f"lost most: {lost}"


def drift_command(alarm: DriftAlarm) -> str:
    """Return the command that lists the commits since the last good report; empty without any."""
    after = alarm.after
    if after is None or not after.commit or not alarm.newest.commit or _is_of_one_commit(alarm):
        return ""
    return f"git log {after.commit}..{alarm.newest.commit}"


def _is_of_one_commit(alarm: DriftAlarm) -> bool:
    """Return True if the loss came without a commit, for example with a new version of a model."""
    return alarm.after is not None and alarm.after.revision == alarm.newest.revision


def _cell_loss(cell: CellLoss) -> str:
    before, since = cell.before.rate, cell.since.rate
    return f"{name_of(cell.case)} {percent(before, since)} → {percent(since, before)}"


def _points(share: float) -> str:
    """`5`, `2.9`: with a decimal below 10."""
    points = round(100 * share, 1)
    if points >= 10:
        points = round(points)
    return f"{points:g}"


def _day(alarm: DriftAlarm) -> str:
    """`3 November`, with the year if the newest report is from another one."""
    day = datetime.fromtimestamp(alarm.since.started_at, UTC)
    text = f"{day.day} {day:%B}"
    if day.year != datetime.fromtimestamp(alarm.newest.started_at, UTC).year:
        text += f" {day.year}"
    return text
