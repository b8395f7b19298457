"""`--reuse`: earlier answers where nothing relevant changed, marked and not counted as fresh."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from fakes.chat import ChatServer, chatting
from leftovers import journaled, report_in
from processes import ci_evals
from suites import chat, run_to_verdict, write_suite


def case(name: str, **changes: Any) -> dict[str, Any]:
    return {"id": name, "input": name, "expect": [{"equals": name}], **changes}


def asked(server: ChatServer) -> int:
    return server.asked.total()


async def test_only_what_changed_is_asked_again_and_the_rest_is_marked_everywhere(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer()) as server:
        provider = chat(server.url)
        write_suite(tmp_path, [case("a"), case("b")], providers=[provider], runs=2)
        await run_to_verdict(tmp_path)
        assert asked(server) == 4
        formats = {"formats": ["json", "junit", "markdown", "html"]}
        changed = [case("a"), case("b", input="c", expect=[{"equals": "c"}])]
        write_suite(tmp_path, changed, providers=[provider], runs=3, report=formats)
        ended = await run_to_verdict(tmp_path, "--reuse")
        assert asked(server) == 4 + 1 + 3, "the third run of a, and all runs of b"
    said = "Reused: 2 of 6 runs were not made again"
    assert said in ended.out
    out = tmp_path / "out"
    for name in ("summary.md", "report.html", "junit.xml"):
        assert "2 of 6 runs were not made again" in (out / name).read_text()
    assert " · reused" in (out / "report.html").read_text()
    explained = (await ci_evals(tmp_path, "explain", "a", "--report", "out")).out
    assert "2 of 3 runs reused: no evidence for a comparison" in explained
    assert "✓ runs 1 and 2 passed alike" in explained
    assert re.search(r"runs 1 and 2 passed alike, .*, reused", explained)
    (cell,) = json.loads(
        (await ci_evals(tmp_path, "explain", "a", "--report", "out", "--format", "json")).out
    )["cells"]
    assert [run["reused"] for run in cell["runs"]] == [True, True, False]
    assert (cell["sentence"], cell["head"]) == ("3 of 3 runs passed here", [1, 1])
    report = report_in(out)
    assert (
        report["totals"]["recorded"],
        report["totals"]["reused"],
        report["totals"]["passed"],
    ) == (2, 2, 6)
    assert [each.get("reused", False) for each in report["results"]] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert report["verdict"]["reason"] == "6 of 6 runs passed"


async def test_a_single_run_is_told_as_one(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        write_suite(tmp_path, [case("a")], providers=[chat(server.url)])
        await run_to_verdict(tmp_path)
        assert (
            "Reused: 1 of 1 run was not made again: "
            in (await run_to_verdict(tmp_path, "--reuse")).out
        )
        write_suite(tmp_path, [case("a"), case("b")], providers=[chat(server.url)])
        assert (
            "Reused: 1 of 2 runs was not made again: "
            in (await run_to_verdict(tmp_path, "--reuse")).out
        )


async def test_without_it_everything_is_asked_again_whatever_the_suite_says_of_it(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer()) as server:
        write_suite(tmp_path, [case("a")], providers=[chat(server.url)], reuse={})
        await run_to_verdict(tmp_path)
        again = await run_to_verdict(tmp_path)
        assert asked(server) == 1
        assert (
            report_in(tmp_path / "out")["verdict"]["reason"]
            == "the only run reused: 1 of 1 run passed"
        )
        assert "the only run reused" in again.out.splitlines()[-1]
        await run_to_verdict(tmp_path)
        assert asked(server) == 1, "what was reused is reused again"
        await run_to_verdict(tmp_path, "--no-reuse")
        assert asked(server) == 2


async def test_what_is_too_old_or_another_model_or_has_failed_to_answer_is_asked(
    tmp_path: Path,
) -> None:
    async with chatting(ChatServer()) as server:
        write_suite(tmp_path, [case("a")], providers=[chat(server.url)])
        await run_to_verdict(tmp_path)
        write_suite(
            tmp_path, [case("a")], providers=[chat(server.url)], reuse={"max_age_days": 1e-9}
        )
        await run_to_verdict(tmp_path)
        write_suite(
            tmp_path, [case("a")], providers=[{**chat(server.url), "model": "another"}], reuse={}
        )
        await run_to_verdict(tmp_path)
        assert asked(server) == 3
    down = {**chat("http://127.0.0.1:9/v1"), "retries": 0}
    for _ in range(2):
        write_suite(tmp_path, [case("a")], providers=[down], reuse={})
        assert (await ci_evals(tmp_path, "run", "--out", "out")).code == 3
        assert report_in(tmp_path / "out")["totals"]["reused"] == 0


async def test_answers_are_judged_by_the_graders_as_they_are_now(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("def polite(output): return True\n")
    async with chatting(ChatServer()) as server:
        cases = [case("a", expect=[{"python": "checks:polite"}])]
        write_suite(tmp_path, cases, providers=[chat(server.url)])
        assert (await run_to_verdict(tmp_path)).code == 0
        (tmp_path / "checks.py").write_text("def polite(output): return False\n")
        assert (await run_to_verdict(tmp_path, "--reuse")).code == 1
        assert asked(server) == 1


async def test_code_of_the_teams_own_is_always_run(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("print('a')")
    provider = {"name": "agent", "type": "command", "command": [sys.executable, "agent.py"]}
    write_suite(tmp_path, [case("a")], providers=[provider], reuse={})
    assert (await run_to_verdict(tmp_path)).code == 0
    agent.write_text("print('b')")
    assert (await run_to_verdict(tmp_path)).code == 1
    assert "reused" not in journaled(tmp_path / "out")[0]


async def test_a_reused_answer_is_no_evidence_for_a_comparison(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        write_suite(tmp_path, [case("a"), case("b")], providers=[chat(server.url)], runs=3)
        await ci_evals(tmp_path, "run", "--out", "base")
        await run_to_verdict(tmp_path)
        changed = [case("a"), case("b", metadata={"owner": "me"})]
        write_suite(tmp_path, changed, providers=[chat(server.url)], runs=3)
        ended = await run_to_verdict(tmp_path, "--reuse", "--baseline", "base")
    comparison = report_in(tmp_path / "out")["comparison"]
    assert comparison["counts"].get("unchanged", 0) == 0
    kinds = {
        cell["case"]: cell["comparison"]["kind"] for cell in report_in(tmp_path / "out")["cells"]
    }
    assert kinds == {"a": "not compared", "b": "edited"}
    assert ended.code == 0


async def test_a_bad_age_is_told(tmp_path: Path) -> None:
    write_suite(tmp_path, [case("a")], reuse={"max_age": 1})
    ended = await ci_evals(tmp_path, "validate")
    assert "reuse: unknown key 'max_age', did you mean 'max_age_days'?" in ended.err
    write_suite(tmp_path, [case("a")], reuse=True)
    assert "reuse: expected a mapping" in (await ci_evals(tmp_path, "validate")).err
    assert json.loads((await ci_evals(tmp_path, "schema")).out)["$defs"]["Reuse"]["properties"][
        "max_age_days"
    ]
