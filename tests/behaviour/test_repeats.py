"""What a run may cost beyond its plan is said first and kept to; what it took is said last."""

import re
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled
from processes import ci_evals
from repositories import RESULTS, against_main, repository_with_agent
from suites import AGENT, write_suite

CASES = [{"id": f"q{n}", "input": f"q{n}", "expect": [{"contains": "yes"}]} for n in range(5)]
ALWAYS = 'def answer(question):\n    return {"output": "yes", "cost_usd": 0.01}\n'
NEVER = ALWAYS.replace('"yes"', '"no"')


async def run_with_baseline(folder: Path, agent: str, *options: str, **settings: Any) -> Any:
    """Compare an agent with one that always answers right."""
    write_suite(folder, CASES, providers=[AGENT], runs=3, **settings)
    (folder / "agent.py").write_text(ALWAYS)
    await ci_evals(folder, "run", "--out", "base", "--quiet")
    (folder / "agent.py").write_text(agent)
    return await ci_evals(folder, "run", "--baseline", "base", "--out", "out", *options)


async def test_all_that_was_announced_is_made_where_every_case_dies(tmp_path: Path) -> None:
    found = await run_with_baseline(tmp_path, NEVER)
    first = found.err.splitlines()[0]
    assert first == "15 runs, at most 70 more (about $0.700) if everything looks worse"
    assert len(journaled(tmp_path / "out")) == 15 + 70
    for text in (found.out, (tmp_path / "out" / "summary.md").read_text()):
        assert re.search(r"\+70 to be sure, (\$|&#36;)0.700", text)


async def test_where_nothing_looks_worse_nothing_is_added(tmp_path: Path) -> None:
    found = await run_with_baseline(tmp_path, ALWAYS)
    assert found.err.startswith("15 runs, at most 70 more")
    assert "to be sure" not in found.out


async def test_main_counts_on_both_ends(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path / "shop", cases=CASES, runs=3)
    shop.commit({"agent.py": ALWAYS})
    shop.write({"agent.py": NEVER})
    found = await against_main(shop.folder)
    first = "15 runs here, as many on main, at most 120 more if everything looks worse"
    assert found.err.splitlines()[0] == first
    assert "+120 to be sure (50 on main), $0.700" in found.out
    assert len(journaled(shop.folder / RESULTS)) == 15 + 70


async def test_what_may_be_added_while_the_verdict_is_open_is_announced_too(
    tmp_path: Path,
) -> None:
    found = await run_with_baseline(tmp_path, ALWAYS, max_runs=10)
    assert found.err.startswith("15 runs, up to 50 while the verdict is open, at most 70 more")


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        pytest.param(["--baseline", "none"], {}, id="nothing to compare with"),
        pytest.param([], {"confirm_runs": 0}, id="nothing runs again"),
        pytest.param(["--replay", "base/results.jsonl", "--replay-only"], {}, id="no calls"),
    ],
)
async def test_where_nothing_can_be_repeated_nothing_is_announced(
    tmp_path: Path, options: list[str], settings: dict[str, Any]
) -> None:
    found = await run_with_baseline(tmp_path, ALWAYS, *options, **settings)
    assert "at most" not in found.err


async def test_a_shard_announces_its_own_share(tmp_path: Path) -> None:
    found = await run_with_baseline(tmp_path, NEVER, "--shard", "1/5")
    assert found.err.startswith("3 runs, at most 14 more (about $0.140)")
    assert len(journaled(tmp_path / "out")) == 3 + 14
