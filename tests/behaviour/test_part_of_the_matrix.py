"""Cases that run on some providers, or with some prompts, and providers that have prompts of their
own.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from processes import ci_evals

PROVIDERS: list[dict[str, Any]] = [
    {"type": "mock", "name": "fast", "default": "Paris"},
    {"type": "mock", "name": "strong", "default": "Paris", "prompts": ["short"]},
]
PROMPTS: list[dict[str, Any]] = [
    {"name": "short", "user": "{{ q }}"},
    {"name": "long", "user": "{{ q }} {{ details }}"},
]
EXPECT = [{"contains": "Paris"}]
CASES: list[dict[str, Any]] = [
    {"id": "all", "vars": {"q": "x", "details": "y"}},
    {"id": "short", "vars": {"q": "x"}, "prompts": ["short"]},
    {"id": "strong", "vars": {"q": "x"}, "providers": ["strong"]},
]


def write(folder: Path, *cases: dict[str, Any], **settings: Any) -> None:
    suite = {
        "providers": PROVIDERS,
        "prompts": PROMPTS,
        "cases": [{**case, "expect": EXPECT} for case in cases or CASES],
        **settings,
    }
    (folder / "evals.yaml").write_text(json.dumps(suite))


def read(folder: Path, out: str = "ci-evals-results") -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / out / "report.json").read_text())
    return report


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
    report = read(tmp_path)
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
    assert cells(read(tmp_path, "merged")) == ALL_CELLS
    fast = await ci_evals(tmp_path, "run", "--providers", "fast")
    assert fast.code == 0, fast.out
    assert "2 of 3 cases selected" in fast.out
    assert cells(read(tmp_path)) == [cell for cell in ALL_CELLS if cell[1] == "fast"]
    write(tmp_path, *CASES[2:])
    idle = await ci_evals(tmp_path, "run", "--providers", "fast")
    assert (idle.code, "no case runs on the providers" in idle.err) == (2, True), idle.err


async def test_a_cell_that_the_change_leaves_out_is_removed(tmp_path: Path) -> None:
    write(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "base")
    write(tmp_path, {**CASES[0], "providers": ["fast"]}, *CASES[1:])
    await ci_evals(tmp_path, "run", "--baseline", "base/report.json")
    (removed,) = read(tmp_path)["comparison"]["removed"]
    assert (removed["case"], removed["provider"]) == ("all", "strong")


async def test_a_function_makes_the_prompts_of_the_cases_that_run_with_it(tmp_path: Path) -> None:
    (tmp_path / "prompts.py").write_text("def make(case):\n    return case['vars']['details']\n")
    prompts = [PROMPTS[0], {"name": "long", "function": "prompts:make"}]
    write(tmp_path, *CASES[:2], prompts=prompts)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err
    assert len(cells(read(tmp_path))) == 5


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
