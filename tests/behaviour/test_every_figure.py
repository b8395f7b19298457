"""Every figure of 42 reports of the command line, computed again from their runs.

Nothing of `ci_evals.stats` takes part: the formulas are written out as docs/statistics.md has them,
with the distributions of scipy and statsmodels.
"""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from leftovers import report_in
from processes import ci_evals
from scipy import stats
from statsmodels.stats.multitest import multipletests
from suites import write_suite

REPORTS = 3
"""Reports of a suite, each with those before it as its baseline."""
ROUNDING = 1e-9
"""A p-value that is exactly at its level may be above it by a rounding error."""
PRICE = {"input_per_mtok": 3.0, "output_per_mtok": 15.0}
Key = tuple[str, str]
"""The case and the provider of a cell."""


class Shape(NamedTuple):
    """A suite of 8 cases, one of which always fails."""

    variants: int = 1
    runs: int = 3
    scores: bool = False
    flakiness: Sequence[float] = (0.2, 0.2, 0.2)
    errors: float = 0.0
    price: bool = False
    seed: int = 0


SHAPES = {
    "cases that break": Shape(runs=10, flakiness=(0, 0.1, 0.7)),
    "single runs": Shape(runs=1, seed=1),
    "steady answers": Shape(flakiness=(0, 0, 0)),
    "a fall": Shape(flakiness=(0.1, 0.1, 0.8), price=True, seed=2),
    "a rise": Shape(flakiness=(0.8, 0.8, 0.0), seed=3),
    "single runs that fall": Shape(runs=1, flakiness=(0, 0, 0.6), seed=4),
    "errors": Shape(errors=0.2, seed=5),
    "errors of single runs": Shape(runs=1, errors=0.2, price=True, seed=6),
    "scores": Shape(scores=True, price=True, seed=7),
    "scores that fall": Shape(scores=True, flakiness=(0.2, 0.2, 0.7), seed=8),
    "three variants, main fell": Shape(variants=3, flakiness=(0.05, 0.6, 0.5), seed=9),
    "three variants, scores": Shape(variants=3, scores=True, errors=0.1, seed=10),
    "six variants": Shape(variants=6, flakiness=(0.1, 0.1, 0.4), price=True, seed=11),
    "six variants, single runs": Shape(variants=6, runs=1, errors=0.1, seed=12),
}


async def make_reports(folder: Path, shape: Shape) -> list[dict[str, Any]]:
    """Run the suite so many times, with other answers each time."""
    reports: list[dict[str, Any]] = []
    grader: dict[str, Any] = {"equals": "left right"}
    if shape.scores:
        grader = {"contains_all": ["left", "right"]}  # an answer with one of them scores 0.5
    cases = []
    for number in range(8):
        tags = ["easy"] * (number < 3) + ["hard"] * (3 <= number < 6)
        case = {"id": f"case {number}", "input": "Which way now?", "tags": tags}
        cases.append({**case, "expect": [grader]})
    for number in range(REPORTS):
        providers = [
            {
                "type": "mock",
                "name": f"agent {variant}",
                "default": "left right",
                "answers": {"case 7": "neither"},
                "wrong": "left",
                "flakiness": shape.flakiness[number],
                "error_rate": shape.errors,
                "latency_jitter_s": 0.01,
                "retries": 0,
                "seed": 1000 * shape.seed + 10 * variant + number,
                **({"price": PRICE} if shape.price else {}),
            }
            for variant in range(shape.variants)
        ]
        write_suite(
            folder,
            cases,
            runs=shape.runs,
            providers=providers,
            confirm_runs=0,
            gate={"min_pass_rate": 0.8, "max_error_rate": 1.0},
        )
        known: list[str] = []
        if reports:
            known = ["--baseline", f"out-{number - 1}"]
        ended = await ci_evals(folder, "run", "--out", f"out-{number}", *known)
        assert ended.code in (0, 1), ended.out + ended.err
        reports.append(report_in(folder / f"out-{number}"))
    return reports


# The runs.


class Cell(NamedTuple):
    """The graded runs of a cell in one report, or in several."""

    passed: int = 0
    graded: int = 0
    scores: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        return self.passed / self.graded


def cells_of(reports: Iterable[Mapping[str, Any]]) -> dict[Key, Cell]:
    found: dict[Key, Cell] = {}
    for report in reports:
        for result in report["results"]:
            key = result["case"], result["provider"]
            cell = found.get(key, Cell())
            if result["status"] != "errored":
                passed = cell.passed + (result["status"] == "passed")
                cell = Cell(passed, cell.graded + 1, (*cell.scores, result["score"]))
            found[key] = cell
    return found


# The formulas.


def bounds(cells: Sequence[Cell], earlier: Sequence[Cell] = ()) -> tuple[float, float, float]:
    """The pass rate with its one-sided 95 % bounds, by the effective number of runs."""
    size = len(cells)
    rate = statistics.fmean(cell.rate for cell in cells)
    runs = statistics.harmonic_mean([cell.graded for cell in cells])
    n_eff = size * runs
    noise = None
    if all(cell.graded == 1 for cell in cells) and len(earlier) == size:
        noise = 3.0
        for cell, known in zip(cells, earlier, strict=True):
            noise += (cell.passed - known.rate) ** 2 * known.graded / (known.graded + 1)
    elif all(cell.graded > 1 for cell in cells):
        noise = 3 / runs**2
        for k, n, _ in cells:
            noise += k * (n - k) / (n * n * (n - 1))
    if noise is not None and 0 < rate < 1:
        n_eff = max(n_eff, rate * (1 - rate) / (noise / size**2))
    passed, failed = rate * n_eff, (1 - rate) * n_eff
    lower = stats.beta.ppf(0.05, passed, failed + 1) if passed > 1e-9 else 0.0
    upper = stats.beta.ppf(0.95, passed + 1, failed) if failed > 1e-9 else 1.0
    return rate, float(lower), float(upper)


Pair = tuple[Cell, Cell]
"""A cell here, and its runs on the baseline."""


def fisher(head: Cell, base: Cell, side: str = "less") -> float:
    table = [
        [head.passed, head.graded - head.passed],
        [base.passed, base.graded - base.passed],
    ]
    return float(stats.fisher_exact(table, alternative=side).pvalue)


def stratified(pairs: Iterable[Pair], *, weighted: bool) -> float:
    """The exact chance of as few passes here, given those of both sides in each cell."""
    distribution = np.array([1.0])
    observed = least = 0
    for head, base in pairs:
        passed, runs = head.passed + base.passed, head.graded + base.graded
        weight = 1
        if weighted and passed >= 2 * (runs - passed):
            weight = 2
        first = max(0, passed - base.graded)
        values = np.arange(first, min(head.graded, passed) + 1)
        chances = stats.hypergeom.pmf(values, runs, passed, head.graded)
        spread = np.zeros(weight * (len(values) - 1) + 1)
        spread[::weight] = chances
        distribution = np.convolve(distribution, spread)
        observed += weight * head.passed
        least += weight * first
    return min(1.0, float(distribution[: observed - least + 1].sum()))


def lower_scores(pairs: Iterable[Pair]) -> float:
    """The p-value of the permutation test of scores, by its moments."""
    difference = variance = 0.0
    for head, base in pairs:
        scores = np.array(head.scores + base.scores)
        difference += sum(head.scores) - head.graded * scores.mean()
        variance += scores.var(ddof=1) * head.graded * base.graded / len(scores)
    if variance < 1e-12:
        return 1.0
    return float(stats.norm.cdf(difference / math.sqrt(variance)))


def ratio(head: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of two totals, with its bounds by Student's t over the cells."""
    here, there = np.array(head), np.array(base)
    value = here.sum() / there.sum()
    residuals = here - value * there
    error = math.sqrt((residuals**2).sum() * len(here) / (len(here) - 1)) / there.sum()
    half = stats.t.ppf(0.95, len(here) - 1) * error
    return value, max(0.0, value - half), value + half


def chance_of_all(passed: int, graded: int, k: int) -> float:
    return math.comb(passed, k) / math.comb(graded, k)


def about(value: Any) -> Any:
    return pytest.approx(value, rel=1e-7, abs=1e-9)


# The reports.


def check_flip_rates(page: str) -> None:
    """Check the chance that two runs of a case disagree, wherever the page gives it."""
    for passed, graded, flips in re.findall(
        r"(\d+) of (\d+) runs passed, flip rate ([\d.]+) %", page
    ):
        k, n = int(passed), int(graded)
        assert float(flips) == pytest.approx(200 * k * (n - k) / (n * (n - 1)), abs=0.06)


def check_costs_and_latencies(figures: Mapping[str, Any], results: Sequence[Any]) -> None:
    answered = [each for each in results if each["status"] != "errored"]
    latencies = [each["latency_s"] for each in answered]
    assert figures["latency_mean_s"] == about(np.mean(latencies))
    assert figures["latency_p50_s"] == about(np.median(latencies))
    nearest_rank = np.quantile(latencies, 0.95, method="inverted_cdf")
    assert figures["latency_p95_s"] == about(nearest_rank)
    tokens = [each["response"]["usage"] for each in answered]
    assert figures["input_tokens"] == sum(each["input_tokens"] for each in tokens)
    assert figures["output_tokens"] == sum(each["output_tokens"] for each in tokens)
    costs = [cost_of(each) for each in answered]
    if figures["cost_usd"] is None:
        assert costs == [None] * len(answered)
    else:
        assert figures["cost_usd"] == about(sum(costs))
        assert figures["priced_runs"] == len(costs)


def cost_of(result: Mapping[str, Any]) -> Any:
    """The price of a run's tokens; None if it has none."""
    if "cost_usd" not in result:
        return None
    usage = result["response"]["usage"]
    cost = usage["input_tokens"] * PRICE["input_per_mtok"]
    cost += usage["output_tokens"] * PRICE["output_per_mtok"]
    assert result["cost_usd"] == about(cost / 1e6)
    return cost / 1e6


def check_variants(report: Mapping[str, Any], cells: Mapping[Key, Cell], earlier: Any) -> None:
    k = min(cell.graded for cell in cells.values() if cell.graded)
    for variant in report["variants"]:
        keys = [key for key in cells if key[1] == variant["provider"] and cells[key].graded]
        mine = [cells[key] for key in keys]
        known = [earlier[key] for key in keys if key in earlier and earlier[key].graded]
        rate, lower, upper = bounds(mine, known)
        assert variant["pass_rate"] == about(rate)
        assert (variant["lower"], variant["upper"]) == (about(lower), about(upper))
        results = [each for each in report["results"] if each["provider"] == variant["provider"]]
        check_costs_and_latencies(variant["figures"], results)
        scores = [score for cell in mine for score in cell.scores]
        assert variant["match_rate"] == about(np.mean(scores))
        assert list(variant["grader_means"].values()) == [about(np.mean(scores))]
        counts = variant["counts"]
        assert counts["passed"] == sum(cell.passed for cell in mine)
        assert counts["passed"] + counts["failed"] == sum(cell.graded for cell in mine)
        assert counts["errored"] == sum(each["status"] == "errored" for each in results)
        if k == 1:
            assert variant["pass_at_k"] is None
            continue
        none = [chance_of_all(cell.graded - cell.passed, cell.graded, k) for cell in mine]
        every = [chance_of_all(cell.passed, cell.graded, k) for cell in mine]
        assert variant["k"] == k
        assert variant["pass_at_k"] == about(1 - np.mean(none))
        assert variant["pass_hat_k"] == about(np.mean(every))


def check_suite(report: Mapping[str, Any], cells: Mapping[Key, Cell], earlier: Any) -> None:
    keys = [key for key in cells if cells[key].graded]
    known = [earlier[key] for key in keys if key in earlier and earlier[key].graded]
    rate, lower, upper = bounds([cells[key] for key in keys], known)
    [scope] = report["verdict"]["scopes"]
    assert (scope["rate"], scope["lower"], scope["upper"]) == (
        about(rate),
        about(lower),
        about(upper),
    )
    expected = "borderline"
    if rate >= 0.8 - 1e-12:
        expected = "pass"
    elif upper < 0.8:
        expected = "fail"
    assert scope["status"] == expected
    assert report["totals"]["pass_rate"] == about(rate)
    assert report["totals"]["passed"] == sum(cell.passed for cell in cells.values())
    costs = [cost_of(each) for each in report["results"] if each["status"] != "errored"]
    if None not in costs:
        assert report["totals"]["cost_usd"] == about(sum(costs))


def recent_pool(key: Key, keys: Sequence[Key], before: Sequence[Any]) -> Cell:
    """The newest reports of a cell that agree with each other; its variant has these cells."""
    known = [cells_of([report]) for report in reversed(before)]
    for age in range(1, len(known)):
        newer, older = merge(known[:age], keys), merge(known[age:], keys)
        split = [
            (newer[each], older[each]) for each in keys if newer[each].graded and older[each].graded
        ]
        if stratified(split, weighted=False) <= 0.05:
            return newer[key]
        has_both = newer[key].graded and older[key].graded
        if has_both and fisher(newer[key], older[key], "two-sided") <= 0.2 + ROUNDING:
            return newer[key]
    return merge(known, keys)[key]


def check_cells(report: Any, pairs: Mapping[Key, Pair], before: Sequence[Any]) -> frozenset[Key]:
    """Check the tests of single cells; return those that got worse."""
    comparison = report["comparison"]
    suspects = {}
    for key, (head, base) in pairs.items():
        p = fisher(head, base)
        level = 0.5 if head.graded == 1 else 0.3
        if head.rate < base.rate and p <= level + ROUNDING:
            suspects[key] = p
    tested = {}
    for key, p in suspects.items():
        level = 0.2 if pairs[key][1].graded < 10 else 0.05
        if p <= level + ROUNDING:
            tested[key] = p
    drops = dict(zip(pairs, adjust([tested.get(key, 1.0) for key in pairs], "fdr_bh"), strict=True))
    rises = {}
    for key, (head, base) in pairs.items():
        rises[key] = 1.0 if key in suspects else fisher(head, base, "greater")
    fixed = dict(zip(pairs, adjust(list(rises.values()), "fdr_bh"), strict=True))
    named = set()
    for key in tested:
        keys = [each for each in pairs if each[1] == key[1]]
        recent = recent_pool(key, keys, before)
        if drops[key] <= 0.05 and fisher(pairs[key][0], recent) <= 0.05:
            named.add(key)
    for row in report["cells"]:
        key = row["case"], row["provider"]
        if key not in pairs:
            continue
        head, base = pairs[key]
        found = row["comparison"]
        assert found["head"] == [head.passed, head.graded]
        assert found["base"] == [base.passed, base.graded]
        p, adjusted_p = fisher(head, base), 1.0
        if key in tested:
            p, adjusted_p = tested[key], drops[key]
        if fixed[key] <= 0.05 and head.rate > base.rate:
            p, adjusted_p = rises[key], fixed[key]
            assert found["kind"] == "fixed"
        assert (found["p"], found["adjusted_p"]) == (about(p), about(adjusted_p)), key
    assert comparison["counts"].get("regressed", 0) == len(named)
    return frozenset(named)


def adjust(ps: Sequence[float], method: str) -> list[float]:
    return [float(p) for p in multipletests(ps, method=method)[1]]


def pooled(
    keys: Sequence[Key], cells: Mapping[Key, Cell], before: Sequence[Any], *, scores: bool
) -> list[Pair]:
    """The cells of a variant with the reports of the baseline that its test pools, newest first."""
    known = [cells_of([report]) for report in reversed(before)]
    reports = len(before)
    for age in range(1, reports):
        newer = merge(known[:age], keys)
        older = merge(known[age:], keys)
        split = [
            (newer[key], older[key]) for key in keys if newer[key].graded and older[key].graded
        ]
        swapped = [(there, here) for here, there in split]
        below = lower_scores(split) if scores else stratified(split, weighted=True)
        above = lower_scores(swapped) if scores else stratified(swapped, weighted=True)
        if above <= 0.01 or below <= 0.2:
            reports = age
            break
    base = merge(known[:reports], keys)
    return [(cells[key], base[key]) for key in keys]


def merge(reports: Sequence[Mapping[Key, Cell]], keys: Iterable[Key]) -> dict[Key, Cell]:
    merged = {}
    for key in keys:
        both = [report[key] for report in reports]
        merged[key] = Cell(
            sum(cell.passed for cell in both),
            sum(cell.graded for cell in both),
            tuple(score for cell in both for score in cell.scores),
        )
    return merged


def check_comparison(report: Mapping[str, Any], before: Sequence[Any], shape: Shape) -> None:
    comparison = report["comparison"]
    cells, earlier = cells_of([report]), cells_of(before)
    pairs = {
        key: (cells[key], earlier[key])
        for key in cells
        if cells[key].graded and earlier[key].graded
    }
    named = check_cells(report, pairs, before)
    if comparison["cases"]:
        return  # a case over its variants is named: its cells count for no variant
    ps = []
    for variant in comparison["variants"]:
        keys = [key for key in pairs if key[1] == variant["provider"]]
        assert (variant["scores"] is not None) is shape.scores
        tested = pooled(keys, cells, before, scores=shape.scores)
        ps.append(lower_scores(tested) if shape.scores else stratified(tested, weighted=True))
        assert variant["p"] == about(ps[-1])
        assert variant["head_rate"] == about(np.mean([head.rate for head, _ in tested]))
        assert variant["base_rate"] == about(np.mean([base.rate for _, base in tested]))
        check_differences(variant, tested, report, before[-1])
    for variant, adjusted_p in zip(comparison["variants"], adjust(ps, "holm"), strict=True):
        assert variant["adjusted_p"] == about(adjusted_p)
        has_name = any(provider == variant["provider"] for _, provider in named)
        assert variant["fell"] is (adjusted_p <= 0.05 and not has_name)
    check_tags(comparison, pairs, report, scores=shape.scores)


def check_differences(variant: Any, tested: Sequence[Pair], report: Any, newest: Any) -> None:
    found = variant["differences"]
    rate, lower, upper = bounds([head for head, _ in tested])
    base_rate, base_lower, base_upper = bounds([base for _, base in tested])
    assert found["pass_rate"]["value"] == about(rate - base_rate)
    below = math.hypot(rate - lower, base_upper - base_rate)
    above = math.hypot(upper - rate, base_rate - base_lower)
    assert found["pass_rate"]["lower"] == about(max(-1.0, rate - base_rate - below))
    assert found["pass_rate"]["upper"] == about(min(1.0, rate - base_rate + above))
    for figure, amounts in (("cost", costs_by_cell), ("latency", latencies_by_cell)):
        here, there = amounts(report), amounts(newest)
        keys = [key for key in here if key in there and key[1] == variant["provider"]]
        if not keys:
            assert found[figure] is None
            continue
        value, lower, upper = ratio([here[key] for key in keys], [there[key] for key in keys])
        assert list(found[figure].values()) == [about(value), about(lower), about(upper)]


def costs_by_cell(report: Any) -> dict[Key, float]:
    found = by_cell(report)
    costs = {key: [cost_of(each) for each in results] for key, results in found.items()}
    return {key: statistics.fmean(each) for key, each in costs.items() if None not in each}


def latencies_by_cell(report: Any) -> dict[Key, float]:
    found = by_cell(report)
    return {
        key: statistics.median(each["latency_s"] for each in results)
        for key, results in found.items()
    }


def by_cell(report: Any) -> dict[Key, list[Any]]:
    """The results of each cell that were graded."""

    def key_of(result: Any) -> Key:
        return result["case"], result["provider"]

    graded = [each for each in report["results"] if each["status"] != "errored"]
    return {key: list(each) for key, each in groupby(sorted(graded, key=key_of), key_of)}


def check_tags(comparison: Any, pairs: Mapping[Key, Pair], report: Any, *, scores: bool) -> None:
    tags = {(row["case"], row["provider"]): row["tags"] for row in report["cells"]}
    fallen = sum(base.rate - head.rate for head, base in pairs.values())
    ps = {}
    for tag in comparison["tags"]:
        chosen = [pair for key, pair in pairs.items() if tag["tag"] in tags[key]]
        assert tag["cells"] == len(chosen)
        head_rate = np.mean([head.rate for head, _ in chosen])
        base_rate = np.mean([base.rate for _, base in chosen])
        assert (tag["head_rate"], tag["base_rate"]) == (about(head_rate), about(base_rate))
        elsewhere = fallen - len(chosen) * (base_rate - head_rate)
        assert tag["drop_elsewhere"] == about(elsewhere / (len(pairs) - len(chosen)))
        ps[tag["tag"]] = lower_scores(chosen) if scores else stratified(chosen, weighted=False)
        assert tag["p"] == about(ps[tag["tag"]])
    adjusted = dict(zip(ps, adjust(list(ps.values()), "holm"), strict=True))
    assert set(ps) == {"easy", "hard"}
    for tag in comparison["tags"]:
        assert tag["adjusted_p"] == about(adjusted[tag["tag"]])


@pytest.mark.parametrize("name", SHAPES)
async def test_every_figure_of_a_report_follows_from_its_runs(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    reports = await make_reports(tmp_path, shape)
    for number, report in enumerate(reports):
        before = reports[:number]
        cells, earlier = cells_of([report]), cells_of(before)
        check_variants(report, cells, earlier)
        check_suite(report, cells, earlier)
        check_flip_rates((tmp_path / f"out-{number}" / "report.html").read_text("utf-8"))
        if before:
            check_comparison(report, before, shape)


def test_there_are_42_reports() -> None:
    assert REPORTS * len(SHAPES) == 42
