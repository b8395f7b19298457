"""Cases that run on some providers, or with some prompts, and providers that have prompts of their
own.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from suites import run, write_suite

PROVIDERS: list[dict[str, Any]] = [
    {"type": "mock", "name": "fast", "default": "Paris"},
    {"type": "mock", "name": "strong", "default": "Paris", "prompts": ["short"]},
]
PROMPTS: list[dict[str, Any]] = [
    {"name": "short", "user": "{{ q }}"},
    {"name": "long", "user": "{{ q }} {{ details }}"},
]
EXPECT = [{"contains": "Paris"}]
STRONG_ON_BOTH = {"id": "strong", "vars": {"q": "x"}, "prompts": ["short"]}
CASES: list[dict[str, Any]] = [
    {"id": "all", "vars": {"q": "x", "details": "y"}},
    {"id": "short", "vars": {"q": "x"}, "prompts": ["short"]},
    {"id": "strong", "vars": {"q": "x"}, "providers": ["strong"]},
]


def write(folder: Path, *cases: dict[str, Any], **settings: Any) -> None:
    expecting = [{**case, "expect": EXPECT} for case in cases or CASES]
    matrix = {"name": ..., "providers": PROVIDERS, "prompts": PROMPTS, **settings}
    write_suite(folder, expecting, **matrix)


def cells(report: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    return [
        (cell["case"], cell["provider"], cell["prompt"], cell["passed"]) for cell in report["cells"]
    ]


ALL_CELLS = [
    ("all", "fast", "short", 2),
    ("all", "strong", "short", 2),
    ("all", "fast", "long", 2),
    ("short", "fast", "short", 2),
    ("short", "strong", "short", 2),
    ("strong", "strong", "short", 2),
]


async def test_only_the_cells_that_cases_and_providers_name_run(tmp_path: Path) -> None:
    gate = {"min_pass_rate": 0.5, "per_variant": True, "providers": {"strong": 0.5}}
    write(tmp_path, runs=2, gate=gate)
    valid = await ci_evals(tmp_path, "validate")
    assert "3 cases × 3 variants, 12 runs" in valid.out
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out
    report = report_in(tmp_path / "ci-evals-results")
    assert cells(report) == ALL_CELLS
    bars = {(bar["kind"], bar["name"]): bar["cases"] for bar in report["verdict"]["scopes"]}
    assert bars["provider", "strong"] == 3
    assert bars["variant", "fast · long"] == 1


async def test_shards_and_selections_have_the_same_cells(tmp_path: Path) -> None:
    write(tmp_path, runs=2, gate={"min_pass_rate": 0.5, "providers": {"strong": 0.5}})
    for shard in ("1", "2"):
        await ci_evals(tmp_path, "run", "--shard", f"{shard}/2", "--out", f"shard-{shard}")
    merged = await ci_evals(tmp_path, "merge", "shard-1", "shard-2", "--out", "merged")
    assert merged.code == 0, merged.err
    assert cells(report_in(tmp_path / "merged")) == ALL_CELLS
    fast = await ci_evals(tmp_path, "run", "--providers", "fast")
    assert fast.code == 0, fast.out
    assert "2 of 3 cases selected" in fast.out
    assert cells(report_in(tmp_path / "ci-evals-results")) == [
        cell for cell in ALL_CELLS if cell[1] == "fast"
    ]
    write(tmp_path, *CASES[2:])
    idle = await ci_evals(tmp_path, "run", "--providers", "fast")
    assert (idle.code, "no case runs on the providers" in idle.err) == (2, True), idle.err


async def test_a_cell_that_the_change_leaves_out_is_removed(tmp_path: Path) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base")
    write(tmp_path, {**CASES[0], "providers": ["fast"]}, *CASES[1:])
    await ci_evals(tmp_path, "run", "--baseline", "base/report.json")
    (removed,) = report_in(tmp_path / "ci-evals-results")["comparison"]["removed"]
    assert (removed["case"], removed["provider"]) == ("all", "strong")


async def test_a_variant_is_held_only_to_rates_of_the_cases_that_it_still_runs(
    tmp_path: Path,
) -> None:
    providers = [
        {"type": "mock", "name": "fast", "default": "Paris"},
        {"type": "mock", "name": "strong", "default": "Paris and Rome"},
    ]
    easy = [{"id": f"easy-{n}", "input": "x", "expect": EXPECT} for n in range(30)]
    expect = [{"contains": "Rome"}]
    hard = [{"id": f"hard-{n}", "input": "x", "expect": expect} for n in range(10)]
    gate = {"min_pass_rate": 0.5, "ratchet": True}
    settings = {"name": "s", "providers": providers, "runs": 3, "gate": gate}

    async def rules_of(out: str, *options: str) -> list[str]:
        await run(tmp_path, "--confirm-runs", "0", *options, out=out)
        return [rule["rule"] for rule in report_in(tmp_path / out)["verdict"]["rules"]]

    on_strong = [{**case, "providers": ["strong"]} for case in hard]
    write_suite(tmp_path, easy + on_strong, **settings)
    await rules_of("base-1")
    await rules_of("base-2", "--baseline", "base-1")
    await rules_of("base-3", "--baseline", "base-2")
    write_suite(tmp_path, easy + hard, **settings)
    assert await rules_of("other-cases", "--baseline", "base-3") == []
    providers[0]["default"] = "Lyon"
    write_suite(tmp_path, easy + on_strong, **settings)
    assert "ratchet" in await rules_of("worse", "--baseline", "base-3")


async def test_a_case_that_only_some_variants_lose_or_get_is_named_with_them(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base")
    write(tmp_path, {**CASES[0], "providers": ["fast"]}, CASES[1], STRONG_ON_BOTH)
    ended = await ci_evals(tmp_path, "run", "--baseline", "base/report.json")
    assert "1 case removed: all on strong · short" in ended.out
    assert "1 case new: strong on fast · short" in ended.out
    write(tmp_path, *CASES[1:])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base/report.json")
    assert "1 case removed: all\n" in ended.out, ended.out


async def test_a_case_that_runs_on_other_providers_only_is_not_called_unknown_without_a_reason(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    ended = await ci_evals(tmp_path, "run", "--providers", "fast", "--case", "strong")
    left_out = "cases that run on none of the providers of --providers are left out"
    assert (ended.code, left_out in ended.err) == (2, True), ended.err


async def test_power_counts_the_calls_and_the_cases_of_a_variant_that_are_made(
    tmp_path: Path,
) -> None:
    write(tmp_path, runs=2)
    ended = await ci_evals(tmp_path, "power", "--format", "json")
    assert ended.code == 0, ended.err
    now, *_, four_times = json.loads(ended.out)["sizes"]
    assert (now["cases"], now["calls"]) == (1, 12), "fast · long has one case"
    assert (four_times["cases"], four_times["calls"]) == (4, 48)
    ended = await ci_evals(tmp_path, "power")
    assert "1 case × 2 runs" in ended.out
    assert "Variants differ in their cases: this is for the one with the fewest." in ended.out


async def test_a_bar_on_a_metric_is_for_variants_with_a_case_that_counts_for_it(
    tmp_path: Path,
) -> None:
    measured = [{"contains": {"value": "Paris", "metric": "facts"}}]
    cases = [{**CASES[0], "expect": EXPECT}, {**CASES[2], "expect": measured}]
    suite = {"prompts": PROMPTS, "providers": PROVIDERS, "cases": cases}
    gate = {"min_pass_rate": 0.5, "metrics": {"facts": 0.9}}
    (tmp_path / "evals.yaml").write_text(json.dumps({**suite, "gate": gate}))
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out
    scopes = report_in(tmp_path / "ci-evals-results")["verdict"]["scopes"]
    assert [scope["name"] for scope in scopes if scope["kind"] == "metric"] == [
        "facts on strong · short"
    ]
    broken = {"type": "mock", "name": "broken", "prompts": ["short"], "error_rate": 1}
    cases[1]["providers"] = ["strong", "broken"]
    suite |= {"providers": [*PROVIDERS, broken]}
    (tmp_path / "evals.yaml").write_text(json.dumps({**suite, "gate": gate}))
    ended = await ci_evals(tmp_path, "run")
    scopes = report_in(tmp_path / "ci-evals-results")["verdict"]["scopes"]
    assert {scope["name"] for scope in scopes if scope["status"] == "error"} == {
        "facts on broken · short"
    }, "no run was graded of a case that counts"


async def test_a_function_makes_the_prompts_of_the_cases_that_run_with_it(tmp_path: Path) -> None:
    (tmp_path / "prompts.py").write_text("def make(case):\n    return case['vars']['details']\n")
    prompts = [PROMPTS[0], {"name": "long", "function": "prompts:make"}]
    write(tmp_path, *CASES[:2], prompts=prompts)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err
    assert len(cells(report_in(tmp_path / "ci-evals-results"))) == 5


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"providers": ["fest"]}, "'short': providers: unknown provider 'fest', did you mean"),
        ({"prompts": ["shrt"]}, "'short': prompts: unknown prompt 'shrt', did you mean 'short'?"),
        (
            {"providers": ["strong"], "prompts": ["long"]},
            "'short': runs on nothing: none of its `providers` has one of its `prompts`",
        ),
    ],
)
async def test_a_wrong_choice_is_a_problem(
    tmp_path: Path, choice: dict[str, Any], problem: str
) -> None:
    write(tmp_path, CASES[0], {**CASES[1], **choice})
    ended = await ci_evals(tmp_path, "validate")
    assert (ended.code, problem in ended.err, "1 problem" in ended.err) == (2, True, True), (
        ended.err
    )


async def test_an_unknown_prompt_of_a_provider_and_a_bar_that_no_case_meets_are_problems(
    tmp_path: Path,
) -> None:
    write(tmp_path, providers=[PROVIDERS[0], {**PROVIDERS[1], "prompts": ["shor"]}])
    unknown = await ci_evals(tmp_path, "validate")
    assert "providers[1]: prompts: unknown prompt 'shor', did you mean 'short'?" in unknown.err
    write(tmp_path, {**CASES[0], "providers": ["fast"]}, gate={"providers": {"strong": 0.5}})
    idle = await ci_evals(tmp_path, "validate")
    assert "gate.providers.strong: no case runs on it" in idle.err, idle.err


async def test_a_provider_that_no_case_runs_on_is_remarked_on(tmp_path: Path) -> None:
    write(tmp_path, {**CASES[0], "providers": ["fast"]})
    valid = await ci_evals(tmp_path, "validate")
    assert (valid.code, "providers[1]: no case runs on it" in valid.out + valid.err) == (0, True)
