"""Drift of the base branch: what a chain of written reports says of a slow loss."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import STARTED_AT, Outcome, report_of

from ci_evals.gate.baseline import Baseline, Drift
from ci_evals.gate.drift import DriftAlarm
from ci_evals.model.case import Quarantine, Variant
from ci_evals.model.report import Looks, SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.redaction import Redactor
from ci_evals.reports.drift import drift_alarms, drift_notes
from ci_evals.reports.read import baseline_of, decode_report
from ci_evals.reports.report_json import drift_entries, render
from ci_evals.reports.summary import Summary, summarize
from ci_evals.stats.drift import total_evidence

DAY_S = 24 * 60 * 60.0
ENTRIES = json.loads(
    (Path(__file__).parents[2] / "data" / "drift_histories.json").read_text("utf-8")
)["entries"]
HISTORIES: Mapping[str, Any] = {entry["id"]: entry for entry in ENTRIES}
MAIN = {"dirty": False, "on_default_branch": True}
STEP: Sequence[Any] = HISTORIES["step"]["reports"]


def commit(number: int) -> str:
    return f"{number:07x}" + "0" * 33


def report(number: int, cells: Mapping[str, Any] | Sequence[Any], **changes: Any) -> SuiteReport:
    """The report of main's commit `number`: the (passed, graded) of each case."""
    if not isinstance(cells, Mapping):
        cells = {f"case-{cell}": tuple(counts) for cell, counts in enumerate(cells)}
    suite = MAIN | {"revision": commit(number)} | changes.pop("suite", {})
    return report_of(cells, suite=suite, started_at=STARTED_AT + number * DAY_S, **changes)


def follow(
    reports: Sequence[SuiteReport], gate: Gate | None = None, baseline: Baseline | None = None
) -> tuple[Summary, Baseline]:
    """Judge each report by the one before it, as written; return the last one both ways."""
    for each in reports:
        summary = summarize(each, gate, baseline)
        saved = decode_report(b"".join(render(summary)))
        found = baseline_of([saved], saved.suite.name, "main")
        assert isinstance(found, Baseline), found
        baseline = found
    assert baseline is not None
    return summary, baseline


def drift_in(baseline: Baseline) -> Drift:
    assert baseline.drift is not None
    return baseline.drift


def evidence_in(baseline: Baseline) -> float:
    (variant,) = drift_in(baseline).variants
    return total_evidence(bet.evidence for bet in variant.bets)


def sums_in(baseline: Baseline) -> Mapping[str, tuple[int, int]]:
    return {cell.case: (cell.runs.passed, cell.runs.graded) for cell in drift_in(baseline).cells}


def steps(count: int = len(STEP)) -> list[SuiteReport]:
    """The first reports of a history that falls by half with report 8."""
    return [report(number, cells) for number, cells in enumerate(STEP[:count])]


@pytest.mark.parametrize("name", HISTORIES)
def test_a_chain_of_written_reports_has_the_evidence_of_a_known_history(name: str) -> None:
    history = HISTORIES[name]
    alarmed: list[int] = []
    evidence = []
    summary, baseline = None, None
    for number, cells in enumerate(history["reports"]):
        summary, baseline = follow([report(number, cells)], baseline=baseline)
        evidence.append(evidence_in(baseline))
        if drift_alarms(summary):
            alarmed.append(number)
    assert evidence == pytest.approx(history["s"], rel=1e-12)
    assert summary is not None
    if history["alarm"] is None:
        assert alarmed == []
    else:
        assert alarmed == list(range(history["alarm"], len(history["reports"])))
        (entry,) = drift_entries(summary)
        assert entry.since.revision == commit(history["since"])
        assert entry.loss == pytest.approx(history["loss"], rel=1e-12)
        assert entry.at_least == pytest.approx(history["at_least"], rel=1e-12)


def test_an_alarm_says_what_was_lost_since_when_in_which_commits_and_cases() -> None:
    summary, _ = follow(steps())
    (entry,) = drift_entries(summary)
    assert entry.sentence == (
        "main passes about 48 points less than before 22 June (at least 41)"
    ), "single reports show it, too"
    (note,) = drift_notes(summary)
    assert note.label == "Drift"
    assert note.brief
    first, reports, lost, remedy = note.text.split("; ")
    assert first == entry.sentence
    assert reports == "7 reports since then"
    assert note.command == "git log 0000006..000000d"
    assert remedy == "gate.drift_since: 2025-06-22 accepts the new level"
    since = entry.since.started_at
    assert datetime.fromtimestamp(since, UTC).date().isoformat() == "2025-06-22"
    names = [cell.case for cell in entry.cells]
    assert lost.startswith(f"lost most: {names[0]} ")
    missing = {}
    for case in range(6):
        before = [each[case] for each in STEP[:7]]
        after = [each[case] for each in STEP[7:]]
        rate = sum(p for p, _ in before) / sum(n for _, n in before)
        missing[f"case-{case}"] = sum(n for _, n in after) * rate - sum(p for p, _ in after)
    assert names == sorted(missing, key=lambda name: -missing[name])[:3]


def test_a_loss_without_a_commit_says_so() -> None:
    summary, _ = follow(
        [report(number, cells, suite={"revision": commit(7)}) for number, cells in enumerate(STEP)]
    )
    (note,) = drift_notes(summary)
    assert "; 7 reports since then, all of 0000007; " in note.text
    assert note.command == ""


def test_a_single_report_that_shows_a_loss_is_not_said_to_hide_it() -> None:
    quiet = [report(number, [(29, 30)] * 6) for number in range(4)]
    summary, _ = follow([*quiet, report(4, [(18, 30)] * 6)])
    (entry,) = drift_entries(summary)
    assert entry.reports == 1
    assert "no single report" not in entry.sentence


def test_drift_changes_no_verdict() -> None:
    gate = Gate(on_regression="warn")
    with_drift, baseline = follow(steps(), gate)
    without = summarize(with_drift.report, gate, replace(baseline, drift=None))
    assert drift_alarms(with_drift)
    assert with_drift.verdict.status == without.verdict.status


def test_the_report_of_a_pull_request_shows_main_and_counts_for_nothing() -> None:
    _, main = follow(steps(8))
    change = report(8, [(0, 3)] * 6, suite={"on_default_branch": False})
    summary, after = follow([change], baseline=main)
    assert not drift_alarms(summary), "it fell, and not main"
    assert after.drift == main.drift

    _, main = follow(steps())
    change = report(20, STEP[0], suite={"on_default_branch": False})
    summary, after = follow([change], baseline=main)
    assert len(drift_alarms(summary)) == 1
    assert [note.brief for note in drift_notes(summary)] == [False], "not in the comment"
    assert after.drift == main.drift


def test_without_a_ci_system_a_report_counts_once_it_is_a_baseline() -> None:
    reports = [
        report(number, cells, suite={"on_default_branch": None})
        for number, cells in enumerate(STEP[:12])
    ]
    summary, baseline = follow(reports)
    known, _ = follow(steps(12))
    assert [alarm.reports for alarm in drift_alarms(known)] == [5]
    assert [alarm.reports for alarm in drift_alarms(summary)] == [4], "without itself"
    assert evidence_in(baseline) == pytest.approx(HISTORIES["step"]["s"][11])


@pytest.mark.parametrize(
    "changes",
    [
        {"suite": {"dirty": True}},
        {"suite": {"dirty": None}},
        {"suite": {"revision": None}},
        {"suite": {"on_default_branch": False}},
        {"interrupted": "SIGTERM"},
    ],
    ids=str,
)
def test_a_report_that_may_not_be_a_baseline_does_not_count(changes: Mapping[str, Any]) -> None:
    _, main = follow(steps(3))
    _, after = follow([report(3, [(0, 3)] * 6, **changes)], baseline=main)
    assert after.drift == main.drift


def test_a_report_counts_once_however_often_it_is_resumed() -> None:
    _, main = follow(steps(3))
    resumed = steps(3)[-1]
    _, after = follow([resumed], baseline=main)
    assert after.drift == main.drift
    _, after = follow([report(0, [(0, 3)] * 6)], baseline=main)
    assert after.drift == main.drift, "nor does an older one that is run again"


def test_another_report_of_the_same_commit_counts() -> None:
    """A nightly run of an unchanged commit shows what became of the model behind it."""
    _, main = follow(steps(3))
    nightly = report(4, STEP[3], suite={"revision": commit(2)})
    _, after = follow([nightly], baseline=main)
    assert evidence_in(after) == pytest.approx(HISTORIES["step"]["s"][3])


def test_a_cell_keeps_its_sums_while_it_is_away_and_under_another_name() -> None:
    both = {"stays": (3, 3), "comes and goes": (2, 3)}
    _, main = follow([report(0, both), report(1, both)])
    assert sums_in(main) == {"stays": (6, 6), "comes and goes": (4, 6)}
    _, main = follow([report(2, {"stays": (3, 3)})], baseline=main)
    assert sums_in(main) == {"stays": (9, 9), "comes and goes": (4, 6)}
    _, main = follow([report(3, both)], baseline=main)
    assert sums_in(main) == {"stays": (12, 12), "comes and goes": (6, 9)}
    renamed = report(4, {"stays": (3, 3), "renamed": (3, 3)}, asks={"renamed": "comes and goes"})
    _, main = follow([renamed], baseline=main)
    assert sums_in(main) == {"stays": (15, 15), "renamed": (9, 12)}


def test_a_cell_that_is_added_or_edited_starts_without_history() -> None:
    _, main = follow([report(0, {"old": (3, 3)}), report(1, {"old": (3, 3)})])
    _, main = follow([report(2, {"old": (3, 3), "new": (1, 3)})], baseline=main)
    assert evidence_in(main) == 0, "there was nothing to compare a new case with"
    edited = report(3, {"old": (1, 3)}, asks={"old": "another question"})
    _, main = follow([edited], baseline=main)
    assert evidence_in(main) == 0
    assert sums_in(main) == {"old": (1, 3), "new": (1, 3)}


def test_secrets_stay_out_of_the_names_that_are_handed_on() -> None:
    summary, _ = follow([report(0, {"key hunter2-hunter2": (3, 3)})])
    saved = decode_report(b"".join(render(summary)))
    redactor = Redactor(["hunter2-hunter2"])
    baseline = baseline_of([saved], saved.suite.name, "main", redactor=redactor)
    assert isinstance(baseline, Baseline)
    (cell,) = drift_in(baseline).cells
    assert cell.key in baseline.cells
    assert "hunter2" not in cell.case


def test_a_variant_under_another_name_keeps_its_evidence() -> None:
    other = [
        report(number, cells, variants=[Variant("gpt-5")])
        for number, cells in enumerate(STEP[10:], 10)
    ]
    summary, _ = follow([*steps(10), *other])
    (entry,) = drift_entries(summary)
    assert (entry.provider, entry.reports) == ("gpt-5", 7)


def test_errored_runs_confirm_runs_and_further_looks_do_not_count() -> None:
    looks = Looks((3, 6), 2)
    adaptive = report(1, {"a": "PPFFFF", "b": "PPPEPP"}, looks=looks, confirming={"a": "FFFFFFF"})
    _, main = follow([report(0, {"a": "PPP", "b": "PPE"}), adaptive])
    assert sums_in(main) == {"a": (5, 6), "b": (5, 5)}


def test_cases_in_quarantine_do_not_count() -> None:
    cases = {"a": {"quarantine": Quarantine(reason="known", until=date(2030, 1, 1))}}
    away = report(1, {"a": (0, 3), "b": (3, 3)}, cases=cases)
    _, main = follow([report(0, {"a": (3, 3), "b": (3, 3)}), away])
    assert sums_in(main) == {"a": (3, 3), "b": (6, 6)}


def test_an_outage_does_not_count() -> None:
    cells = {f"case-{number}": (3, 3) for number in range(12)}
    _, main = follow([report(number, cells) for number in range(3)])
    out = report(3, dict.fromkeys(cells, (0, 3)))
    summary, after = follow([out], baseline=main)
    assert not drift_alarms(summary)
    assert sums_in(after) == dict.fromkeys(cells, (9, 9))
    assert evidence_in(after) == 0


def test_a_branch_that_is_broken_is_not_said_to_drift() -> None:
    cells = {f"case-{number}": (3, 3) for number in range(12)}
    broken = dict.fromkeys(cells, (0, 3)) | {"case-0": (3, 3)}
    _, main = follow([report(number, cells) for number in range(3)])
    summary, main = follow([report(number, broken) for number in range(3, 7)], baseline=main)
    assert main.broken
    assert not drift_alarms(summary)
    assert sums_in(main) == dict.fromkeys(cells, (9, 9))


def test_each_of_several_variants_needs_as_many_times_the_evidence() -> None:
    alarmed = []
    for others in ([], [Variant("b"), Variant("c"), Variant("d")]):
        baseline = None
        first = None
        for number, cells in enumerate(STEP):
            rows: dict[str, list[Outcome]] = {}
            for cell, counts in enumerate(cells):
                rows[f"case-{cell}"] = [tuple(counts), *[(3, 3)] * len(others)]
            each = report(number, rows, variants=[Variant("a"), *others])
            summary, baseline = follow([each], baseline=baseline)
            alarms = drift_alarms(summary)
            assert [alarm.provider for alarm in alarms] in ([], ["a"])
            if alarms and first is None:
                first = number
        alarmed.append(first)
    evidence = HISTORIES["step"]["s"]
    expected = [
        next(number for number, s in enumerate(evidence) if s >= 5000 * variants)
        for variants in (1, 4)
    ]
    assert alarmed == expected
    (entry,) = drift_entries(summary)
    assert " on a than before " in entry.sentence


@pytest.mark.parametrize("since", ["2025-06-22", commit(7), commit(7)[:7]])
def test_an_accepted_level_restarts_evidence_and_sums_where_the_loss_began(since: str) -> None:
    _, main = follow(steps(12))
    gate = Gate(drift_since=since)
    summary, after = follow([report(12, STEP[12])], gate, main)
    assert not list(drift_notes(summary))
    assert drift_in(after).accepted == since
    expected = {}
    for case in range(6):
        runs = [each[case] for each in STEP[7:13]]
        expected[f"case-{case}"] = (sum(p for p, _ in runs), sum(n for _, n in runs))
    assert sums_in(after) == expected
    assert evidence_in(after) < 50
    _, later = follow([report(13, STEP[13])], gate, after)
    passed, graded = expected["case-0"]
    more_passed, more = STEP[13][0]
    assert sums_in(later)["case-0"] == (passed + more_passed, graded + more), "it restarts once"


def test_a_level_to_come_restarts_when_its_day_comes() -> None:
    _, main = follow(steps(12))
    day = datetime.fromtimestamp(STARTED_AT + 13 * DAY_S, UTC).date().isoformat()
    summary, main = follow([report(12, STEP[12])], Gate(drift_since=day), main)
    assert len(drift_alarms(summary)) == 1
    assert drift_in(main).accepted is None
    summary, main = follow([report(13, STEP[13])], Gate(drift_since=day), main)
    assert not drift_alarms(summary)
    assert sums_in(main) == {f"case-{n}": tuple(each) for n, each in enumerate(STEP[13])}


def test_a_commit_that_no_report_is_of_has_no_effect_and_a_note_says_so() -> None:
    _, main = follow(steps(12))
    summary, _ = follow([report(12, STEP[12])], Gate(drift_since="fedcba9"), main)
    alarm, unknown = drift_notes(summary)
    assert "accepts the new level" in alarm.text
    assert unknown.text == (
        "gate.drift_since has no effect: no known report of main is of commit fedcba9; name a day"
    )


def test_an_alarm_ends_when_the_evidence_is_gone() -> None:
    _, main = follow(steps(11))
    alarms: list[Sequence[DriftAlarm]] = []
    for number in range(11, 40):
        summary, main = follow([report(number, [(3, 3)] * 6)], baseline=main)
        alarms.append(drift_alarms(summary))
    assert len(alarms[0]) == 1
    assert not alarms[-1]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("cells", 0, "runs"), [7, 6]),
        (("cells", 0, "runs"), [-1, 6]),
        (("cells", 0, "runs"), [1, 10**12]),
        (("cells", 0, "before", 0), [99, 99]),
        (("cells", 0, "before"), []),
        (("variants", 0, "bets"), []),
        (("variants", 0, "bets", 0, "evidence"), [-1.0, 0.0]),
        (("variants", 0, "bets", 0, "evidence"), [None, 0.0]),
        (("variants", 0, "bets", 0, "reports"), -1),
        (("variants", 0, "bets", 0, "since", "started_at"), 1e18),
        (("newest", "started_at"), 1e18),
    ],
    ids=str,
)
def test_sums_and_evidence_that_no_reports_leave_behind_are_refused(
    place: Sequence[Any], value: object
) -> None:
    summary, _ = follow(steps(12))
    document = json.loads(b"".join(render(summary)))
    part = document["base"]["drift"]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    with pytest.raises(ValueError, match=r"."):
        decode_report(json.dumps(document).encode())
