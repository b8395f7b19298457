"""Published runs are replayed: the shapes of suites are those of the file, and verdicts hold."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import real_runs
from benchmarks.rivals import RIVALS

NUMBER = 4
ROOT = Path(__file__).resolve().parents[3]
Tables = dict[str, list[list[str]]]
"""The tables by the first words of their heads, each with its rows."""


@pytest.fixture(scope="module")
def printed() -> Tables:
    return print_tables(NUMBER)


def print_tables(number: int) -> Tables:
    command = [sys.executable, "-m", "benchmarks.real_runs", "--number", str(number)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tables = {}
    for table in out.strip().split("\n\n"):
        head, _, *rows = [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()
        ]
        assert {len(row) for row in rows} == {len(head)}
        tables[head[0]] = rows
    return tables


def shares_of(cells: Iterable[str]) -> list[float]:
    """The figures of `3.1 ± 0.4 %` and `3 %`."""
    return [float(cell.split()[0]) for cell in cells]


def document() -> Any:
    return json.loads(Path(real_runs.__file__).with_suffix(".json").read_text())


def test_shapes_are_those_of_the_recorded_runs(printed: Tables) -> None:
    rows = {name: row for name, *row in printed["shapes of suites"]}
    for each in document()["sets"].values():
        for name, system in each["systems"].items():
            passed = np.array([int(character, 16) for character in system["passed"]])
            size, mean, always, never, between = rows[name]
            assert size == f"{len(passed)} × {system['n']}"
            rates = passed / system["n"]
            shares = (rates.mean(), (rates == 1).mean(), (rates == 0).mean())
            assert [mean, always, never] == [f"{100 * share:.0f} %" for share in shares]
            if "reports" in system:
                whole = np.array([[bit == "1" for bit in report] for report in system["reports"]])
                assert (whole.sum(axis=0) == passed).all()
                noise = whole.var(axis=0, ddof=1).mean() / whole.var()
                assert float(between) == pytest.approx(1 - noise, abs=0.006)


def test_recorded_reports_are_hardly_ever_red(printed: Tables) -> None:
    [table] = [rows for name, rows in printed.items() if "as recorded" in name]
    with_reports = [
        name
        for each in document()["sets"].values()
        for name, system in each["systems"].items()
        if "reports" in system
    ]
    assert [row[0] for row in table] == [*with_reports, "all"]
    *shares, mean = shares_of(row[-1] for row in table)
    assert mean == pytest.approx(np.mean(shares), abs=0.06)
    assert mean < 10


def test_all_rules_judge_pairs_of_systems_both_ways(printed: Tables) -> None:
    rows = {name: row for name, *row in printed["one system replaced by another"]}
    assert len(rows) == 4 * 3
    changes = {name: int(row[0].removesuffix(" points")) for name, row in rows.items()}
    for name, change in changes.items():
        before, after = name.split(" → ")
        assert changes[f"{after} → {before}"] == pytest.approx(-change)
        assert len(rows[name]) == 1 + 1 + len(RIVALS) + 2
        if change <= -20:
            assert rows[name][1].startswith("100.0 ")
        named, lower, higher = map(int, re.findall(r"\d+", rows[name][-1]))
        assert lower + higher <= named


def test_where_nothing_changed_other_rules_are_red_more_often(printed: Tables) -> None:
    rows = printed["nothing changed, by rates"]
    assert [row[1] for row in rows] == ["+0 points"] * len(rows)
    assert np.mean(shares_of(row[2] for row in rows)) < 8
    *_, any_flip = (np.mean(shares_of(row[column] for row in rows)) for column in (2, 3, 4, 5, 6))
    assert any_flip > 15
    assert all(120 <= float(row[-2]) < 250 for row in rows), "the plan is 120 calls"


def test_bars_are_held_by_three_runs_and_by_one(printed: Tables) -> None:
    rows = printed["suites that miss a bar"]
    assert [row[1] for row in rows] == ["40 × 3", "40 × 1"] * (len(rows) // 2)
    assert np.mean(shares_of(row[2] for row in rows)) < 8
    assert np.mean(shares_of(row[3] for row in rows)) > 75


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_docs_have_the_figures_of_a_hundred_pull_requests() -> None:
    tables = print_tables(100)
    page = " ".join((ROOT / "docs" / "statistics.md").read_text("utf-8").split())
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())

    [recorded] = [rows for name, rows in tables.items() if "as recorded" in name]
    *shares, mean = shares_of(row[-1] for row in recorded)
    assert f"without further runs: {recorded[-1][-1]} are red, {span(shares)}" in page
    assert f"{mean:.0f} % of the reports are red when nothing changed" in readme

    quiet = tables["nothing changed, by rates"]
    columns = [shares_of(row[column] for row in quiet) for column in (2, 4, 5, 6)]
    red, fall, bootstrap, flip = columns
    false_names = sum(int(row[-1]) for row in quiet)
    assert (
        f"For each of seven systems, {span(red)} are red, with {false_names} false name in 700"
        in page
    )
    assert f'The rule "more than 5 points" is red in {span(fall)}, a bootstrap in' in page
    assert f"a bootstrap in {span(bootstrap)}, a flip in up to {max(flip):.0f} %." in page

    changed = tables["one system replaced by another"]
    changes = {row[0]: int(row[1].split()[0]) for row in changed}
    losses = [row for row in changed if changes[row[0]] <= 0]
    assert len(losses) == 7
    assert {row[2] for row in losses} == {"100.0 ± 0.0 %"}
    tens = [row for row in changed if changes[row[0]] == -10]
    fall, bootstrap = (shares_of(row[column] for row in tens) for column in (4, 5))
    seen = f"red in {span(fall)}, and a bootstrap in {span(bootstrap)}"
    assert f'the rule "more than 5 points" is {seen}: real changes' in page
    for gain, least, most in (("10 points", 10, 10), ("21 to 31 points", 21, 31)):
        shares = shares_of(row[2] for row in changed if least <= changes[row[0]] <= most)
        assert re.search(f"{span(shares)} of (changes|those) that gain {gain}", page)
    counts = np.array([[int(each) for each in re.findall(r"\d+", row[-1])] for row in changed])
    named, lower, higher = counts.sum(axis=0)
    assert f"named {named:,} cases. In the odd reports" in page
    assert f"{lower:,} of them are lower, too" in page
    assert higher == 0

    held = tables["suites that miss a bar"]
    assert f"{span(shares_of(row[2] for row in held))} of reports are red, with three runs" in page
    below = [shares_of(row[3] for row in held if row[1] == size) for size in ("40 × 3", "40 × 1")]
    assert f"{span(below[0])} are red with three runs, and {span(below[1])} with one" in page


def span(shares: Iterable[float]) -> str:
    """`0 to 3 %`."""
    found = list(shares)
    return f"{min(found):.0f} to {max(found):.0f} %"
