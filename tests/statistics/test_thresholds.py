"""Thresholds are in one table, and what the table says holds them exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.drift import LOSSES
from benchmarks.simulate import TABLES
from ci_evals.model.rules import Gate
from ci_evals.stats.thresholds import ALPHA, CONFIDENCE

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "ci_evals" / "stats" / "thresholds.py"
MODULES = sorted(
    path
    for package in ("gate", "stats")
    for path in (ROOT / "ci_evals" / package).rglob("*.py")
    if path != TABLE
)

NO_THRESHOLDS = {
    # What a report keeps.
    "gate/baseline.py": {"TREND_POINTS", "KEPT_OUTAGES"},
    "gate/drift.py": {"MOST_CELLS"},
    "gate/metrics.py": {"MAX_LABELS"},
    # What is shown.
    "gate/differences.py": {"LEAST_LATENCY_S"},
    "gate/power.py": {"_RUNS", "_MORE_CASES"},
    "gate/run_errors.py": {"_MOST_READ", "_LONGEST", "_COMPARED_CHARACTERS"},
    "gate/wording/bars.py": {"_MOST_BARS"},
    "gate/wording/comparisons.py": {"MAX_PENDING"},
    "gate/wording/rules.py": {"MAX_DROPPED", "MAX_FILES", "MAX_NAMES", "MAX_QUARANTINED"},
    "gate/wording/settings.py": {"MAX_NAMED"},
    # What floating-point numbers leave.
    "stats/differences.py": {"_ROUNDING"},
    "stats/distributions.py": {"_EPSILON", "_TOLERANCE"},
    "stats/drift.py": {"MOST_EVIDENCE"},
    "stats/exact_tests.py": {"_SAME"},
}

PLAIN_FRACTIONS = {
    "gate/power.py": {0.99, 1e-9},  # a correlation below 1; a rounding error
    "gate/wording/comparisons.py": {0.0001},  # what is shown as `p < 0.0001`
    "stats/judge_noise.py": {0.99},  # a correlation below 1
    "stats/power.py": {1e-6},  # where a bisection ends
}
"""Fractions inside functions that are no thresholds."""


def name_of(module: Path) -> str:
    return module.relative_to(ROOT / "ci_evals").as_posix()


def is_number(node: ast.expr | None) -> bool:
    """Return True for numbers, and for tuples, fractions and arithmetic of them."""
    match node:
        case ast.Constant(value=value):
            return type(value) in (int, float)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=parts) | ast.Call(func=ast.Name(id="Fraction"), args=parts):
            return all(is_number(part) for part in parts)
    return False


def numeric_constants(module: Path) -> Iterator[str]:
    """Yield the names of the numbers that a module defines at its top level."""
    for statement in ast.parse(module.read_text("utf-8")).body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if is_number(statement.value):
            for target in targets:
                yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def fractions_in_functions(module: Path) -> set[float]:
    """Return the floats in a module's functions and classes, but for 0, ½ and 1."""
    found = set()
    for statement in ast.parse(module.read_text("utf-8")).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, float):
                    found.add(node.value)
    return found - {0.0, 0.5, 1.0}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_tuned_number_is_in_the_table(module: Path) -> None:
    name = name_of(module)
    assert set(numeric_constants(module)) == NO_THRESHOLDS.get(name, set())
    assert fractions_in_functions(module) == PLAIN_FRACTIONS.get(name, set())


def test_no_listed_module_is_gone() -> None:
    listed = {*NO_THRESHOLDS, *PLAIN_FRACTIONS}
    assert listed <= {name_of(module) for module in MODULES}


def table() -> dict[str, str]:
    """Return every threshold with what the table says about it."""
    texts = {}
    body = ast.parse(TABLE.read_text("utf-8")).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign):
            [target] = statement.targets
            assert isinstance(target, ast.Name)
            text = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = str(following.value.value)
            texts[target.id] = text
    return texts


@pytest.mark.parametrize("threshold", table())
def test_what_is_said_to_hold_a_threshold_exists(threshold: str) -> None:
    text = table()[threshold]
    assert text
    files = [ROOT / name for name in re.findall(r"tests/[\w/]+\.py", text)]
    sources = [file.read_text("utf-8") for file in files]
    for test in re.findall(r"`(test_\w+)`", text):
        assert any(f"def {test}(" in source for source in sources), test
    rows = {row for table in TABLES.values() for row in table}
    for title in re.findall(r'"([^"]+)"', re.sub(r"\s+", " ", text)):
        assert title in rows | set(TABLES) | set(LOSSES), title


def test_the_gate_has_the_confidence_of_the_table() -> None:
    assert Gate().confidence == CONFIDENCE
    assert Gate().alpha == ALPHA
