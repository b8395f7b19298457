"""The measure behind the chart of rules prints the table that the chart is drawn from."""

import re
import subprocess
import sys

import pytest
from scipy import stats

from benchmarks.pictures import SITUATIONS, read_rules
from benchmarks.simulate import RULES

NUMBER = 8


def test_it_prints_the_table_of_rules_and_how_sure_it_is() -> None:
    command = [sys.executable, "-m", "benchmarks.headline", "--number", str(NUMBER)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rules = read_rules(out)
    assert list(rules) == list(RULES)
    assert {len(shares) for shares in rules.values()} == {len(SITUATIONS)}
    found = re.search(r"red ([\d.]+) % \(standard error ([\d.]+)\)", out)
    assert found
    red, error = map(float, found.groups())
    assert red == rules["ci-evals"][0]
    expected = 100 * stats.binom.std(NUMBER, red / 100) / NUMBER
    assert error == pytest.approx(expected, abs=0.06)
