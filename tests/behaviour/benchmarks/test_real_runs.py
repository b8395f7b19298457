"""Published runs are replayed: the shapes of suites are those of the file, and verdicts hold."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import real_runs
from benchmarks.rivals import RIVALS

NUMBER = 4


@pytest.fixture(scope="module")
def printed() -> dict[str, list[list[str]]]:
    """The tables by the first words of their heads, each with its rows."""
    command = [sys.executable, "-m", "benchmarks.real_runs", "--number", str(NUMBER)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tables = {}
    for table in out.strip().split("\n\n"):
        head, _, *rows = [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()
        ]
        assert {len(row) for row in rows} == {len(head)}
        tables[head[0]] = rows
    return tables


def document() -> Any:
    return json.loads(Path(real_runs.__file__).with_suffix(".json").read_text())


def test_shapes_are_those_of_the_recorded_runs(printed: dict[str, list[list[str]]]) -> None:
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


def test_recorded_reports_are_hardly_ever_red(printed: dict[str, list[list[str]]]) -> None:
    [table] = [rows for name, rows in printed.items() if "as recorded" in name]
    with_reports = [
        name
        for each in document()["sets"].values()
        for name, system in each["systems"].items()
        if "reports" in system
    ]
    assert [row[0] for row in table] == [*with_reports, "all"]
    assert float(table[-1][-1].split()[0]) < 10


def test_all_rules_judge_pairs_of_systems_both_ways(printed: dict[str, list[list[str]]]) -> None:
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
