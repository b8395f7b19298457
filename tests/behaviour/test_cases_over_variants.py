"""A case that breaks on several variants is confirmed and named as one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from scipy.stats import hypergeom
from suites import write_suite

MODELS = [f"model-{letter}" for letter in "abcdef"]
QUESTIONS = [f"q{number}" for number in range(20)]


def tag_of(question: str) -> str:
    return "refund" if question in QUESTIONS[:5] else "billing"


def write(folder: Path, *wrong: str, models: list[str] | None = None, **settings: Any) -> None:
    """Six models that answer right, but for some questions; only some models if these are named."""

    def answers(model: str) -> dict[str, str]:
        is_wrong = models is None or model in models
        return {q: "wrong" if is_wrong and q in wrong else "right" for q in QUESTIONS}

    providers = [{"name": name, "type": "mock", "answers": answers(name)} for name in MODELS]
    cases = [
        {"id": q, "input": q, "expect": [{"contains": "right"}], "tags": [tag_of(q)]}
        for q in QUESTIONS
    ]
    write_suite(folder, cases, providers=providers, runs=3, gate={"min_pass_rate": 0.5}, **settings)


AGENT = """
import json
import pathlib

def model(name):
    def answer(question, request):
        found = json.loads(pathlib.Path("failing.json").read_text())
        is_wrong = name in found["on"].get(question, []) and request.run in found["runs"]
        return "wrong" if is_wrong else "right"
    return answer

""" + "\n".join(f"{name.replace('-', '_')} = model({name!r})" for name in MODELS)


def write_seldom(
    folder: Path, failing: dict[str, list[str]], runs: Sequence[int] = range(1, 30, 2)
) -> None:
    """Write a suite of six models, of which some fail these runs of a case."""
    (folder / "agents.py").write_text(AGENT)
    (folder / "failing.json").write_text(json.dumps({"on": failing, "runs": list(runs)}))
    cases = [{"id": q, "input": q, "expect": [{"contains": "right"}]} for q in QUESTIONS]
    providers = []
    for name in MODELS:
        target = f"agents:{name.replace('-', '_')}"
        providers.append({"name": name, "type": "python", "target": target})
    write_suite(folder, cases, providers=providers, runs=3, gate={"min_pass_rate": 0.3})


async def test_a_case_that_dies_on_all_variants_is_named_once_with_a_single_base_report(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    write(tmp_path, "q3", "q4")
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert ended.code == 1
    assert "confirming 2 suspects with 1 more run each: q3, q4" in ended.err
    assert "confirming 2 candidates with 4 more runs each: q3, q4" in ended.err
    report = report_in(tmp_path / "out")
    found = report["comparison"]["cases"]
    # Of 8 runs here and 3 on main for each variant, all 8 that failed are those here.
    p = float(hypergeom.pmf(0, 11, 3, 8)) ** 6
    assert [case["case"] for case in found] == ["q3", "q4"]
    for case in found:
        assert (case["head"], case["base"], case["cells"]) == ([0, 48], [18, 18], 6)
        assert [each["provider"] for each in case["variants"]] == MODELS
        assert abs(case["p"] / p - 1) < 1e-9
        assert abs(case["adjusted_p"] / (20 * p) - 1) < 1e-9
    reason = "q3 on 6 of 6 variants: 18 of 18 on the baseline, 0 of 48 here"
    assert report["verdict"]["reason"].startswith(reason)
    summary = (tmp_path / "out" / "summary.md").read_text("utf-8")
    assert "<code>q3</code> on 6 of 6 variants | 18/18 | **0/48** |" in summary
    assert "q3 on 6 of 6 variants" in ended.out


async def test_max_regressions_counts_a_case_once(tmp_path: Path) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    gate = {"min_pass_rate": 0.5, "max_regressions": 2}
    write(tmp_path, "q3", "q4")
    suite = json.loads((tmp_path / "evals.yaml").read_text("utf-8"))
    (tmp_path / "evals.yaml").write_text(json.dumps({**suite, "gate": gate}), "utf-8")
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    report = report_in(tmp_path / "out")
    assert ended.code == 0, ended.out
    assert report["comparison"]["counts"]["regressed"] == 12
    assert "2 cases regressed (allowed) on 6 variants: q3, q4" in ended.out


async def test_a_case_that_dies_on_one_variant_is_named_there(tmp_path: Path) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--runs", "10", "--quiet")
    write(tmp_path, "q3", models=["model-b"])
    await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    report = report_in(tmp_path / "out")
    regressed = [
        (cell["case"], cell["provider"])
        for cell in report["cells"]
        if cell["comparison"]["kind"] == "regressed"
    ]
    assert regressed == [("q3", "model-b")]


async def test_explain_tells_the_test_of_the_case_with_that_of_the_cell(tmp_path: Path) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    write(tmp_path, "q3")
    await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    explained = await ci_evals(
        tmp_path, "explain", "q3", "--provider", "model-a", "--report", "out", "--baseline", "base"
    )
    text = " ".join(explained.out.split())
    assert "0 of 8 against 3 of 3" in text
    assert "the exact test of its case over 6 variants: p < 1e-09, < 1e-09 adjusted" in text


async def test_a_tag_leads_the_headline_where_all_that_regressed_has_it(tmp_path: Path) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    write(tmp_path, *QUESTIONS[:5])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    headline = "5 cases regressed on 6 variants: tag refund (100 → 0 %)"
    assert headline in ended.out
    tags = report_in(tmp_path / "out")["comparison"]["tags"]
    assert [(tag["tag"], tag["cells"]) for tag in tags] == [("refund", 30), ("billing", 90)]
    p = float(hypergeom.pmf(0, 6, 3, 3)) ** 30
    assert abs(tags[0]["p"] / p - 1) < 1e-9
    assert abs(tags[0]["adjusted_p"] / (2 * p) - 1) < 1e-9
    assert tags[1]["p"] == 1


async def test_a_tag_alone_is_no_reason_for_red(tmp_path: Path) -> None:
    """As many cases of another tag were mended, and one report is too little to name a case."""
    one_model = ("--providers", "model-a", "--confirm-runs", "0")
    write(tmp_path, *QUESTIONS[10:15])
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet", *one_model)
    write(tmp_path, *QUESTIONS[:5])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out", *one_model)
    assert ended.code == 0, ended.out
    assert "refund" not in ended.out
    [tag, _] = report_in(tmp_path / "out")["comparison"]["tags"]
    assert (tag["tag"], tag["head_rate"]) == ("refund", 0)
    assert tag["adjusted_p"] < 1e-5


async def test_a_case_that_only_all_variants_together_show_is_said_to_be_worse_over_them(
    tmp_path: Path,
) -> None:
    """It fails once in three runs: of one variant, that is chance."""
    write_seldom(tmp_path, failing={})
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    write_seldom(tmp_path, failing={"q3": MODELS})
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert "✗ FAIL  1 case regressed: q3 over 6 variants" in ended.out
    assert "q3 over all 6 variants together: 18 of 18 on the baseline, " in ended.out


async def test_the_figures_of_all_variants_are_not_said_of_those_that_show_it(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    write(tmp_path, "q3", models=MODELS[:4])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert "1 case regressed: q3 on 4 variants" in ended.out
    said = "q3 over all 6 variants, clearly on 4: 18 of 18 on the baseline, 16 of 48 here"
    assert said in ended.out
    assert report_in(tmp_path / "out")["verdict"]["reason"].startswith(said)
    summary = (tmp_path / "out" / "summary.md").read_text("utf-8")
    row = "<code>q3</code> over all 6 variants, clearly on 4 | 18/18 | **16/48** |"
    assert row in summary


async def test_a_fall_of_all_cases_alike_is_of_no_tag(tmp_path: Path) -> None:
    """Both tags fell surely, and equally far, on one model."""
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    write(tmp_path, *QUESTIONS[:2], *QUESTIONS[5:11], models=MODELS[:5])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "out")
    assert ended.code == 1
    tags = report_in(tmp_path / "out")["comparison"]["tags"]
    assert [tag["head_rate"] for tag in tags] == pytest.approx([2 / 3, 2 / 3])
    assert all(tag["adjusted_p"] < 1e-5 for tag in tags)
    headline, *_ = ended.out.splitlines()
    assert "tag" not in headline
