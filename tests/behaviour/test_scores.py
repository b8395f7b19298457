"""Graders that give scores: a variant is compared by these, and not by how many runs passed."""

import json
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import Finished, ci_evals
from suites import AGENT, write_suite

CASES = 20
CODE = """
import os, random

runs = {}

def answer(question):
    # A draw for each run of a case, the same in each invocation with this seed.
    runs[question] = runs.get(question, 0) + 1
    rng = random.Random(f"{question} {runs[question]} {os.environ['SEED']}")
    usual = 0.80 + 0.01 * int(question)
    score = usual + rng.gauss(0, 0.08) - float(os.environ.get("FALL", "0"))
    return str(min(1.0, max(0.0, round(score, 2))))

def score(answer):
    return float(answer)

def is_right(answer):
    return float(answer) >= 0.1
"""


def suite(folder: Path, check: str = "score", **settings: Any) -> None:
    (folder / "agent.py").write_text(CODE)
    expect: dict[str, Any] = {"python": f"agent:{check}"}
    if check == "score":
        expect = {"python": {"target": "agent:score", "threshold": 0.1}}
    cases = [{"id": f"c{n:02}", "input": str(n), "expect": [expect]} for n in range(CASES)]
    write_suite(folder, cases, providers=[AGENT], runs=3, **settings)


async def run(folder: Path, out: str, *arguments: str, seed: int, fall: float = 0.0) -> Finished:
    environ = {"SEED": str(seed), "FALL": str(fall)}
    return await ci_evals(folder, "run", "--out", out, *arguments, environ=environ)


async def reports_of_main(folder: Path, number: int = 3) -> list[str]:
    """Make reports of main, each with the ones before it as its history."""
    known: list[str] = []
    for seed in range(number):
        ended = await run(folder, f"main-{seed}", *known, seed=20 + seed)
        assert ended.code == 0, ended.out + ended.err
        known = ["--baseline", f"main-{seed}"]
    return known


async def test_all_scores_fell_though_everything_still_passes(tmp_path: Path) -> None:
    suite(tmp_path)
    known = await reports_of_main(tmp_path)
    same = await run(tmp_path, "same", *known, seed=10)
    assert same.code == 0, same.out
    fell = await run(tmp_path, "fell", *known, seed=11, fall=0.06)
    assert fell.code == 1, fell.out
    report = report_in(tmp_path / "fell")
    assert (report["totals"]["passed"], report["totals"]["failed"]) == (CASES * 3, 0)
    (variant,) = report["comparison"]["variants"]
    head, base = variant["scores"]
    assert variant["fell"]
    assert 0.03 < base - head < 0.08
    assert variant["head_rate"] == variant["base_rate"] == 1
    assert fell.headline.startswith(f"✗ FAIL  mean score fell from {base:.2f} on ")
    assert f"mean score {base:.2f} on " in fell.unwrapped
    assert "with 3 further rounds" in fell.unwrapped


async def test_a_saved_report_is_judged_as_it_was(tmp_path: Path) -> None:
    suite(tmp_path)
    known = await reports_of_main(tmp_path)
    await run(tmp_path, "fell", *known, seed=11, fall=0.06)
    compared = await ci_evals(tmp_path, "compare", known[1], "fell", "--format", "json")
    assert compared.code == 1, compared.out + compared.err
    (variant,) = json.loads(compared.out)["comparison"]["variants"]
    (written,) = report_in(tmp_path / "fell")["comparison"]["variants"]
    assert variant["scores"] == written["scores"]
    assert variant["p"] == pytest.approx(written["p"])


async def test_the_history_of_a_report_has_the_scores_of_each_report(tmp_path: Path) -> None:
    suite(tmp_path)
    await reports_of_main(tmp_path)
    cells = report_in(tmp_path / "main-2")["base"]["cells"]
    sums = []
    for cell in cells:
        assert len(cell["history"]) == 2
        for _, passed, graded, scores, metrics in cell["history"]:
            assert passed == graded == 3
            assert metrics == []
            if scores is not None:  # else all of them were 0 or 1
                sums.append(scores)
    assert len(sums) > 1.5 * CASES
    for runs, total, squares in sums:
        assert runs == 3
        assert total**2 / 3 <= squares <= total <= 3


async def test_a_grader_that_says_right_or_wrong_is_compared_by_passes(tmp_path: Path) -> None:
    suite(tmp_path, check="is_right")
    known = await reports_of_main(tmp_path)
    fell = await run(tmp_path, "fell", *known, seed=11, fall=0.06)
    assert fell.code == 0, fell.out
    (variant,) = report_in(tmp_path / "fell")["comparison"]["variants"]
    assert variant["scores"] is None


async def test_two_graders_that_disagree_give_half_on_both_sides(tmp_path: Path) -> None:
    """Their graders say right or wrong, but those of other cases give scores."""
    suite(tmp_path, gate={"max_regressions": CASES})
    document = json.loads((tmp_path / "evals.yaml").read_text("utf-8"))
    for case in document["cases"][::2]:
        case["expect"] = [{"python": "agent:is_right"}, {"equals": "nothing"}]
    (tmp_path / "evals.yaml").write_text(json.dumps(document), "utf-8")
    for seed in range(2):
        known = ["--baseline", f"main-{seed - 1}"] if seed else []
        await run(tmp_path, f"main-{seed}", *known, seed=20 + seed)
    await run(tmp_path, "same", "--baseline", "main-1", seed=10)
    report = report_in(tmp_path / "same")
    kept = {cell["case"]: [each[3] for each in cell["history"]] for cell in report["base"]["cells"]}
    assert kept["c00"] == [[3, 1.5, 0.75]] * 2
    (variant,) = report["comparison"]["variants"]
    head, base = variant["scores"]
    assert abs(head - base) < 0.03
    assert 0.6 < base < 0.8


async def test_impossible_sums_of_scores_are_refused(tmp_path: Path) -> None:
    suite(tmp_path)
    await reports_of_main(tmp_path)
    path = tmp_path / "main-2" / "report.json"
    report = json.loads(path.read_text("utf-8"))
    report["base"]["cells"][0]["history"][0][3] = [3, 2.0, 2.5]  # no score is above 1
    path.write_text(json.dumps(report))
    ended = await run(tmp_path, "same", "--baseline", "main-2", seed=10)
    assert ended.code == 3
    assert "main-2/report.json" in ended.err


async def test_the_metric_that_fell_explains_a_variant_that_fell(tmp_path: Path) -> None:
    """Half of the graders score as ever, so the whole falls half as far as the metric `tone`."""
    (tmp_path / "agent.py").write_text(CODE + "\ndef steady(answer):\n    return 0.9\n")
    tone = {"target": "agent:score", "threshold": 0.1, "metric": "tone"}
    brevity = {"target": "agent:steady", "threshold": 0.1, "metric": "brevity"}
    cases = [{"id": f"c{n:02}", "input": str(n)} for n in range(CASES)]
    expect = [{"python": brevity}, {"python": tone}]
    write_suite(tmp_path, cases, providers=[AGENT], runs=3, expect=expect)
    known = await reports_of_main(tmp_path)
    fell = await run(tmp_path, "fell", *known, seed=11, fall=0.12)
    assert fell.code == 1, fell.out
    comparison = report_in(tmp_path / "fell")["comparison"]
    first, second = comparison["metrics"]
    head, base = first["scores"]
    assert (first["metric"], first["cells"], second["metric"]) == ("tone", CASES, "brevity")
    assert first["p"] < 0.001
    assert first["adjusted_p"] == pytest.approx(2 * first["p"])
    assert 0.09 < base - head < 0.15
    assert second["scores"] == [pytest.approx(0.9)] * 2
    assert fell.headline.endswith(f": metric tone ({base:.2f} → {head:.2f})")
    lines = [line.split() for line in fell.out.splitlines() if line.startswith("metric")]
    assert [line[1] for line in lines] == ["tone", "brevity"]
    assert f"{100 * base:.1f} % on the baseline, p < 0.001" in fell.unwrapped
    # A comparison of saved reports tells the same.
    compared = await ci_evals(tmp_path, "compare", "main-2", "fell", "--format", "json")
    assert json.loads(compared.out)["comparison"]["metrics"] == comparison["metrics"]


async def test_a_metric_of_right_or_wrong_is_compared_exactly(tmp_path: Path) -> None:
    """Three of three cases with the metric fail, two runs each."""
    cases = [
        {"id": name, "input": name, "expect": [{"contains": {"value": "yes", "metric": "facts"}}]}
        for name in ("a", "b", "c")
    ]
    for folder, answer in (("main", "yes"), ("here", "no")):
        provider = {"name": "bot", "type": "mock", "default": answer}
        write_suite(tmp_path, cases, providers=[provider], runs=2, confirm_runs=0)
        known = ["--baseline", "main"] if folder == "here" else []
        await ci_evals(tmp_path, "run", "--out", folder, *known)
    (metric,) = report_in(tmp_path / "here")["comparison"]["metrics"]
    assert metric["scores"] == [0, 1]
    # In each case all 2 passes of 4 runs are main's: 1 of C(4, 2) = 6 ways.
    assert metric["p"] == pytest.approx(1 / 6**3)
