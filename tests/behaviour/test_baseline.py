"""`--baseline` as users and CI start it: what is named and confirmed, and what it costs."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import comments
import pytest
from aiohttp import web
from fakes.chat import ChatServer, chatting, completion
from leftovers import comparable, journaled, report_in
from processes import Finished, ci_evals, finished, start
from suites import ONE_CASE, chat, write_suite

from ci_evals.reports.notes import comparison_notes
from ci_evals.reports.read import read_report, read_summary

REGRESSION = "case-0: 10 of 10 on the baseline, 0 of 10 here; p = "
FILES = ("report.json", "junit.xml", "summary.md")


def cases_of(count: int, *wrong: int, **changes: Any) -> list[dict[str, Any]]:
    """Cases whose answer is their question; what some of them expect will not come."""
    return [
        {"id": f"case-{n}", "input": f"q{n}", "expect": [{"contains": "q"}], **changes}
        | ({"input": f"x{n}"} if n in wrong else {})
        for n in range(count)
    ]


class Answers(ChatServer):
    """Echoes; but what was broken is answered wrong."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = set(broken)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        question = json.loads(await request.read())["messages"][-1]["content"]
        self.asked[question] += 1
        answer = "I don't know." if question in self.broken else question
        return web.Response(body=completion(answer), content_type="application/json")


GATE = {"min_pass_rate": 0.5}


def suite(folder: Path, url: str, cases: list[dict[str, Any]], **settings: Any) -> None:
    """A case that looks worse runs again four times, and three times more to be named."""
    usual = {"providers": [chat(url, retries=0)], "runs": 3, "confirm_runs": 3, "gate": GATE}
    write_suite(folder, cases, **usual | settings)


async def run(folder: Path, *arguments: str, out: str = "head") -> Finished:
    return await ci_evals(folder, "run", "--baseline", "base", "--out", out, *arguments)


async def base(folder: Path, *arguments: str, runs: int = 10) -> None:
    """What the base branch has to show."""
    ended = await ci_evals(
        folder, "run", "--runs", str(runs), "--out", "base", "--quiet", *arguments
    )
    assert ended.code == 0, ended.err


def cell_in(folder: Path, case: str) -> Any:
    return next(cell for cell in report_in(folder)["cells"] if cell["case"] == case)


def history_in(folder: Path, case: str, provider: str = "chat") -> list[tuple[int, int]]:
    """The runs of a cell that a later report would be compared with, newest report first."""
    cell = read_report(folder).baseline.cells[case, provider, None]
    return [(each.passed, each.graded) for each in cell.history.evidence]


def kinds_in(folder: Path) -> Any:
    return report_in(folder)["comparison"]["counts"]


async def test_a_regression_is_confirmed_named_and_red(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(8))
        await base(tmp_path)
        server.broken, server.asked = {"q0"}, type(server.asked)()
        ended = await run(tmp_path)
        assert server.asked == {f"q{n}": 10 if n == 0 else 3 for n in range(8)}
    assert ended.code == 1, ended.out
    assert "confirming 1 suspect with 4 more runs each: case-0" in ended.err
    assert "confirming 1 candidate with 3 more runs each: case-0" in ended.err
    assert "as a whole" not in ended.err, "red is settled"
    found = report_in(tmp_path / "head")
    assert found["verdict"]["rules"][0] == {
        "rule": "regressions",
        "status": "fail",
        "sentence": f"{REGRESSION}4.3e-05, adjusted for 8 cases",
    }
    assert found["verdict"]["reason"].startswith(REGRESSION)
    assert found["comparison"]["counts"] == {"regressed": 1, "unchanged": 7}
    cell = cell_in(tmp_path / "head", "case-0")
    assert (cell["planned"], cell["comparison"]["head"], cell["confirm_runs"]) == (3, [0, 10], 7)
    assert found["totals"]["planned"] == 24, "confirm runs stay out of the rate"
    assert len(found["results"]) == 10 + 7 * 3


async def test_nothing_changed_is_green_and_costs_nothing_more(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4))
        await base(tmp_path)
        before = server.asked.total()
        ended = await run(tmp_path)
        assert server.asked.total() - before == 12
    assert ended.code == 0
    assert "confirming" not in ended.err
    assert kinds_in(tmp_path / "head") == {"unchanged": 4}


async def test_where_more_look_worse_than_are_confirmed_the_headline_says_at_least(
    tmp_path: Path,
) -> None:
    """Twenty suspects run again, or a fifth of all cases: more may have regressed."""
    questions = [f"q{n}" for n in range(40)]

    def write(answer: str) -> None:
        answers = {question: f"{answer} {question}" for question in questions}
        agent = {"name": "agent", "type": "mock", "answers": answers}
        cases = [{"id": q, "input": q, "expect": [{"contains": "right"}]} for q in questions]
        write_suite(tmp_path, cases, providers=[agent], runs=3, gate=GATE)

    write("right")
    await base(tmp_path)
    write("wrong")
    ended = await run(tmp_path)
    assert ended.code == 1
    assert report_in(tmp_path / "head")["comparison"]["counts"]["regressed"] == 20
    summary = (tmp_path / "head" / "summary.md").read_text("utf-8")
    assert "At least 20 cases regressed: " in summary
    assert "; at least 19 more cases regressed" in report_in(tmp_path / "head")["verdict"]["reason"]


async def test_without_confirm_runs_the_planned_ones_decide(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4))
        await base(tmp_path, runs=30)
        server.broken = {"q0"}
        before = server.asked.total()
        ended = await run(tmp_path, "--confirm-runs", "0")
        assert server.asked.total() - before == 12
    assert ended.code == 1
    assert kinds_in(tmp_path / "head") == {"regressed": 1, "unchanged": 3}
    assert (
        "case-0: 30 of 30 on the baseline, 0 of 3 here"
        in report_in(tmp_path / "head")["verdict"]["reason"]
    )


async def test_a_budget_that_ends_while_suspects_are_confirmed_leaves_them_unnamed(
    tmp_path: Path,
) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4))
        await base(tmp_path)
        server.broken = {"q0"}
        suite(tmp_path, server.url, cases_of(4), budget={"max_tokens": 140}, max_concurrency=1)
        ended = await run(tmp_path)
    found = report_in(tmp_path / "head")
    assert found["interrupted"] == "the budget of 140 tokens is used up (140)"
    cell = cell_in(tmp_path / "head", "case-0")
    made = [result["run"] for result in found["results"] if result["case"] == "case-0"]
    assert (cell["planned"], cell["confirm_runs"], made) == (3, 4, [1, 2, 3, 4, 5])
    assert cell["comparison"]["kind"] == "suspect"
    assert read_summary(tmp_path / "head").verdict.rules[0].rule == "variant"
    assert "but not confirmed by further runs" in cell["comparison"]["sentence"]
    assert [rule["rule"] for rule in found["verdict"]["rules"]] == ["variant"], (
        "as a whole it is known to be worse"
    )
    assert ended.code == 1


async def test_recorded_runs_are_no_evidence(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(3))
        await base(tmp_path)
        ended = await run(tmp_path, "--replay", "base", "--replay-only")
        assert ended.code == 0
        assert kinds_in(tmp_path / "head") == {"not compared": 3}
        sentence = (
            "nothing to compare: no case that is the same here and on the baseline"
            " was graded on both"
        )
        assert report_in(tmp_path / "head")["comparison"]["sentence"] == sentence
        suite(tmp_path, server.url, cases_of(3), gate=GATE | {"require_baseline": True})
        required = await run(tmp_path, "--replay", "base", "--replay-only")
    assert required.code == 3
    assert sentence in report_in(tmp_path / "head")["verdict"]["reason"]


class Stuck(Answers):
    """Holds whatever comes after the first so many."""

    def __init__(self, free: int, *broken: str) -> None:
        super().__init__(*broken)
        self.free = free
        self.stuck = asyncio.Event()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        if self.asked.total() >= self.free:
            self.stuck.set()
            await self._all_there.wait()
        return await super().complete(request)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("ending", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
async def test_what_was_confirmed_is_kept_when_a_run_goes_on(
    tmp_path: Path, ending: signal.Signals, code: int
) -> None:
    server = Stuck(10_000)
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4), max_concurrency=1)
        await base(tmp_path)
        server.broken, server.free = {"q0"}, server.asked.total() + 12 + 3
        before = server.asked.total()
        process = await start(tmp_path, "run", "--baseline", "base", "--out", "head")
        await server.stuck.wait()
        process.send_signal(ending)
        assert (await finished(process)).code == code
        assert len(journaled(tmp_path / "head")) == 15
        server.free = 10_000
        server.let_go()
        resumed = await run(tmp_path, "--resume")
        assert server.asked.total() - before in (19, 20), "at most what was under way is paid twice"
    assert resumed.code == 1
    assert (
        REGRESSION in resumed.out or REGRESSION in report_in(tmp_path / "head")["verdict"]["reason"]
    )
    runs = [
        each["run"] for each in report_in(tmp_path / "head")["results"] if each["case"] == "case-0"
    ]
    assert runs == list(range(1, 11))


async def test_another_attempt_pays_nothing_and_says_the_same_in_the_same_bytes(
    tmp_path: Path,
) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4))
        await base(tmp_path)
        server.broken = {"q0"}
        first = await run(tmp_path)
        server.broken, before = set(), server.asked.total()
        written = []
        for _ in range(2):
            again = await run(tmp_path, "--resume")
            assert (again.code, first.code) == (1, 1)
            written.append([(tmp_path / "head" / name).read_bytes() for name in FILES])
        assert server.asked.total() == before
    assert written[0] == written[1]
    assert report_in(tmp_path / "head")["verdict"]["reason"].startswith(REGRESSION)


async def test_shards_and_their_merge_name_what_one_run_names_and_always_in_the_same_bytes(
    tmp_path: Path,
) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(7))
        await base(tmp_path)
        server.broken = {"q0", "q3"}
        for number in (1, 2, 3):
            ended = await run(tmp_path, "--shard", f"{number}/3", out=f"shard-{number}")
            assert ended.code == 0, ended.err
        written = []
        for out in ("merged", "again"):
            names = [f"shard-{number}" for number in (1, 2, 3)]
            merged = await ci_evals(tmp_path, "merge", *names, "--baseline", "base", "--out", out)
            assert merged.code == 1
            written.append([(tmp_path / out / name).read_bytes() for name in FILES])
        assert written[0] == written[1]
        await run(tmp_path, out="whole")
    merged_report, whole = comparable(tmp_path / "merged"), comparable(tmp_path / "whole")
    assert merged_report["totals"] == whole["totals"]
    assert merged_report["verdict"]["rules"][0] == whole["verdict"]["rules"][0]
    for merged_cell, cell in zip(merged_report["cells"], whole["cells"], strict=True):
        assert merged_cell["comparison"] == cell["comparison"]
    assert merged_report["comparison"]["counts"] == {"regressed": 2, "unchanged": 5}
    [merged_variant] = merged_report["comparison"]["variants"]
    [variant] = whole["comparison"]["variants"]
    assert merged_variant["p"] == variant["p"]


async def test_a_merge_says_when_shards_did_not_confirm_its_suspects(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4))
        await base(tmp_path)
        server.broken = {"q0"}
        await ci_evals(tmp_path, "run", "--shard", "1/1", "--out", "shard")
        merged = await ci_evals(tmp_path, "merge", "shard", "--baseline", "base", "--out", "merged")
        assert (
            "4 runs to confirm 1 suspect are missing: case-0; give every shard the same --baseline"
            in merged.err
        )
        assert kinds_in(tmp_path / "merged") == {"suspect": 1, "unchanged": 3}
        ran = await ci_evals(
            tmp_path, "merge", "shard", "--baseline", "base", "--out", "ran", "--run-missing"
        )
    assert ran.code == 1
    assert kinds_in(tmp_path / "ran") == {"regressed": 1, "unchanged": 3}


@pytest.mark.parametrize(
    ("changes", "case", "code", "status"),
    [
        ({"on_regression": "warn"}, {}, 0, "borderline"),
        ({"on_regression": "warn", "on_borderline": "fail"}, {}, 1, "borderline"),
        ({"max_regressions": 1}, {}, 0, "pass"),
        ({"max_regressions": 1}, {"critical": True}, 1, "fail"),
        ({"on_regression": "warn"}, {"critical": True}, 1, "fail"),
        (
            {"max_regressions": 1, "tags": {"safety": {"critical": True}}},
            {"tags": ["safety"]},
            1,
            "fail",
        ),
    ],
    ids=[
        "warn",
        "warn-and-block-borderline",
        "allowed",
        "critical",
        "critical-warn",
        "critical-tag",
    ],
)
async def test_what_a_regression_means_is_the_gates_to_say(
    tmp_path: Path, changes: dict[str, Any], case: dict[str, Any], code: int, status: str
) -> None:
    cases = [each | (case if n == 0 else {}) for n, each in enumerate(cases_of(40))]
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases, runs=1, gate=GATE | changes)
        await base(tmp_path, runs=30)
        server.broken = {"q0"}
        ended = await run(tmp_path)
    verdict = report_in(tmp_path / "head")["verdict"]
    assert (ended.code, verdict["status"]) == (code, status), verdict["reason"]
    assert kinds_in(tmp_path / "head") == {"regressed": 1, "unchanged": 39}
    assert verdict["warning"] is (status == "borderline")


@pytest.mark.parametrize(
    ("gate", "case", "code", "headline"),
    [
        ({}, {}, 1, "✗ FAIL  12 cases better, 1 worse: case-0"),
        (
            {"on_regression": "net"},
            {},
            0,
            "~ BORDERLINE  12 cases better, 1 worse (waived): case-0; +27.5 points on the whole",
        ),
        (
            {"on_regression": "net", "on_borderline": "fail"},
            {},
            1,
            "~ BORDERLINE  12 cases better, 1 worse (waived): case-0; +27.5 points on the whole",
        ),
        (
            {"on_regression": "net"},
            {"critical": True},
            1,
            "✗ FAIL  12 cases better, 1 worse: case-0 (critical)",
        ),
    ],
    ids=["fail", "net", "net-and-block-borderline", "net-critical"],
)
async def test_a_change_that_helps_tells_both_sides_and_net_waives_what_is_worse(
    tmp_path: Path, gate: dict[str, Any], case: dict[str, Any], code: int, headline: str
) -> None:
    cases = [each | (case if n == 0 else {}) for n, each in enumerate(cases_of(40))]
    server = Answers(*[f"q{n}" for n in range(1, 13)])
    async with chatting(server):
        suite(tmp_path, server.url, cases, gate=GATE | gate)
        await base(tmp_path)
        server.broken = {"q0"}
        ended = await run(tmp_path)
    assert ended.code == code
    assert ended.out.startswith(headline)
    is_waived = "waived" in headline
    rounds = "chat may be better as a whole: 3 more runs of 39 cells"
    assert (rounds in ended.err) == is_waived
    [variant] = report_in(tmp_path / "head")["comparison"]["variants"]
    assert variant["better"] is is_waived
    assert ended.out.index("Regressed (1)") < ended.out.index("Fixed (12)")
    assert "\n▲ case-1: 0 of 10 on the baseline, 3 of 3 here" in ended.out, "not folded"
    summary = (tmp_path / "head" / "summary.md").read_text("utf-8")
    assert "| 🔴 <code>case-0</code>" in summary
    assert "| 🟢 <code>case-1</code>" in summary


@pytest.mark.parametrize("command", [["run"], ["merge", "shard"]])
async def test_a_named_file_that_is_not_there_is_an_error_before_anything_is_called(
    command: list[str], tmp_path: Path
) -> None:
    async with chatting(Answers()) as server:
        suite(tmp_path, server.url, cases_of(1))
        ended = await ci_evals(tmp_path, *command, "--baseline", "main/report.json")
    assert ended.code == 2
    assert "there is no file main/report.json; name its folder if" in ended.err
    assert not server.asked
    assert not (tmp_path / "ci-evals-results").exists()


async def test_a_baseline_that_is_required_must_be_there(tmp_path: Path) -> None:
    write_suite(tmp_path, gate={"require_baseline": True})
    missing = await run(tmp_path)
    assert missing.code == 3
    assert "warning: no baseline: there is no report at base\n" in missing.err
    reason = "no baseline: there is no report at base, and the gate requires a comparison"
    assert report_in(tmp_path / "head")["verdict"]["reason"] == reason
    unnamed = await ci_evals(tmp_path, "run", "--out", "head", "--baseline", "")
    assert unnamed.code == 3
    assert (
        "no baseline: none was given with --baseline"
        in report_in(tmp_path / "head")["verdict"]["reason"]
    )
    write_suite(
        tmp_path,
        [{"id": "a", "input": "x", "expect": [{"equals": "y"}]}],
        gate={"require_baseline": True},
    )
    assert (await run(tmp_path)).code == 1, "a bar that is missed needs no baseline"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a complete report of ci-evals (it is empty)"),
        (
            b'{"schema_version": 1, "suite": {"na',
            "is not a complete report of ci-evals (damaged or cut off",
        ),
        (
            b'{"schema_version": 99, "suite": {"version": "9.1"}}',
            "is of schema version 99, written by ci-evals 9.1",
        ),
    ],
)
async def test_a_baseline_that_cannot_be_read_ends_before_anything_is_paid(
    tmp_path: Path, content: bytes, words: str
) -> None:
    write_suite(tmp_path)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "report.json").write_bytes(content)
    ended = await run(tmp_path)
    assert ended.code == 3
    assert f"base/report.json: {words}" in ended.err
    assert not (tmp_path / "head").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"expect": [{"not_empty": True}]},
        {"expect": [{"contains": {"value": "q", "weight": 2}}]},
        {"threshold": 0.1},
    ],
    ids=["another", "another-weight", "threshold"],
)
async def test_cases_that_are_judged_otherwise_than_on_the_base_are_said_so_at_once(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    echo = [{"name": "agent", "type": "mock"}]
    write_suite(tmp_path, cases_of(20), providers=echo)
    await base(tmp_path, runs=3)
    asked, *others = cases_of(20)
    others[0] |= changes
    others[1] |= changes
    write_suite(tmp_path, [asked | {"input": "another q"}, *others], providers=echo)
    ended = await run(tmp_path)
    said = (
        "2 cases have other graders than on the baseline, so they were not compared: case-1, case-2"
    )
    assert f"Graders changed: {said}" in ended.out
    assert f"**Graders changed**: {said}" in (tmp_path / "head" / "summary.md").read_text()
    above, _, _ = comments.text_of(read_summary(tmp_path / "head")).partition("<details>")
    assert f"**Graders changed**: {said}" in above
    compared = await ci_evals(tmp_path, "compare", "base", "head")
    assert said in compared.out


async def test_new_removed_edited_and_renamed_cases_are_told_apart(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(5))
        await base(tmp_path)
        cases = cases_of(4, 1)
        cases[2]["id"] = "case-two"
        server.broken = {"q2"}
        suite(
            tmp_path,
            server.url,
            [*cases, {"id": "fresh", "input": "qq", "expect": [{"contains": "q"}]}],
        )
        await run(tmp_path)
    assert kinds_in(tmp_path / "head") == {
        "new": 1,
        "removed": 1,
        "edited": 1,
        "regressed": 1,
        "unchanged": 2,
    }
    renamed = cell_in(tmp_path / "head", "case-two")
    assert renamed["comparison"]["renamed_from"] == "case-2"
    assert renamed["comparison"]["sentence"].startswith(
        "case-two (was case-2): 10 of 10 on the baseline, 0 of 10 here"
    )
    assert history_in(tmp_path / "head", "case-two") == [(0, 3), (10, 10)], "it goes on"
    assert history_in(tmp_path / "head", "case-1") == [(0, 3)]
    assert [each["case"] for each in report_in(tmp_path / "head")["comparison"]["removed"]] == [
        "case-4"
    ]


async def test_another_name_of_the_only_variant_is_compared_and_other_variants_are_not(
    tmp_path: Path,
) -> None:
    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(3), providers=[chat(server.url, "old")])
        await base(tmp_path)
        server.broken = {"q0"}
        suite(tmp_path, server.url, cases_of(3), providers=[chat(server.url, "new", model="newer")])
        ended = await run(tmp_path)
        assert ended.code == 1
        [variant] = report_in(tmp_path / "head")["comparison"]["variants"]
        assert variant["sentence"].startswith(
            "new (compared with old): pass rate 100 % on the baseline"
        )
        assert history_in(tmp_path / "head", "case-1", "new") == [(3, 3), (10, 10)]
        others = [chat(server.url, name) for name in ("a", "b")]
        suite(tmp_path, server.url, cases_of(3), providers=others)
        await run(tmp_path)
    comparison = report_in(tmp_path / "head")["comparison"]
    assert comparison["counts"] == {"new": 6, "removed": 3}
    assert (
        comparison["sentence"]
        == "nothing to compare: the baseline has other providers or prompts (old)"
    )


async def test_shards_match_a_renamed_variant_as_one_run_does(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(
            tmp_path,
            server.url,
            cases_of(1),
            providers=[chat(server.url, name) for name in ("a", "b")],
        )
        await base(tmp_path)
        server.broken = {"q0"}
        suite(
            tmp_path,
            server.url,
            cases_of(1),
            providers=[chat(server.url, name) for name in ("a", "c")],
        )
        for number in (1, 2):
            ended = await run(tmp_path, "--shard", f"{number}/2", out=f"shard-{number}")
            assert "confirming 1 suspect" in ended.err


async def test_an_increase_of_the_cost_is_red_only_where_it_is_sure(tmp_path: Path) -> None:
    def priced(usd: float) -> dict[str, Any]:
        price = {"input_per_mtok": usd, "output_per_mtok": usd}
        return {
            "providers": [chat(server.url, price=price)],
            "gate": GATE | {"max_cost_increase": 1.5},
        }

    server = Answers()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(6), **priced(1))
        await base(tmp_path)
        suite(tmp_path, server.url, cases_of(6), **priced(2))
        ended = await run(tmp_path)
        assert ended.code == 1, ended.out
        [rule] = report_in(tmp_path / "head")["verdict"]["rules"]
        assert rule["sentence"] == (
            "cost is 2.00 times the baseline's (at least 2.00 times, 95 % confidence), and"
            " the gate allows 1.5 times"
        )
        suite(tmp_path, server.url, cases_of(6), **priced(1.4))
        assert (await run(tmp_path)).code == 0


async def test_what_was_held_before_must_not_be_lost(tmp_path: Path) -> None:
    server = Answers()
    async with chatting(server):
        suite(
            tmp_path,
            server.url,
            cases_of(30),
            gate=GATE | {"ratchet": True, "on_regression": "warn"},
        )
        await base(tmp_path, runs=3)
        for number in range(2):
            await run(tmp_path, out="next")
            (tmp_path / "base").rename(tmp_path / f"older-{number}")
            (tmp_path / "next").rename(tmp_path / "base")
        assert len(read_report(tmp_path / "base").baseline.trend) == 3
        server.broken = {f"q{n}" for n in range(6)}
        ended = await run(tmp_path)
    assert ended.code == 1
    rules = {
        rule["rule"]: rule["sentence"] for rule in report_in(tmp_path / "head")["verdict"]["rules"]
    }
    assert rules["ratchet"].startswith("pass rate 80 % (at most ")
    assert rules["ratchet"].endswith(" that it has held before")


async def test_a_secret_in_the_name_of_a_case_is_matched_and_never_shown(tmp_path: Path) -> None:
    secret = "hunter2-and-more"
    server = Answers()
    async with chatting(server):
        cases = cases_of(3)
        cases[0]["id"] = f"case of {secret}"
        suite(tmp_path, server.url, cases, providers=[chat(server.url, api_key="${MY_KEY}")])
        environ = {"MY_KEY": secret}
        await ci_evals(tmp_path, "run", "--runs", "10", "--out", "base", environ=environ)
        server.broken = {"q0"}
        ended = await ci_evals(
            tmp_path, "run", "--baseline", "base", "--out", "head", environ=environ
        )
    assert ended.code == 1
    assert kinds_in(tmp_path / "head") == {"regressed": 1, "unchanged": 2}
    assert report_in(tmp_path / "head")["verdict"]["reason"].startswith("case of ***: 10 of 10")
    told = (
        ended.stdout
        + ended.stderr
        + b"".join(path.read_bytes() for path in (tmp_path / "head").iterdir())
    )
    assert secret.encode() not in told
    assert "confirming 1 suspect with 4 more runs each: case of ***" in ended.err


async def test_a_provider_that_was_given_up_confirms_nothing(tmp_path: Path) -> None:
    class Refusing(Answers):
        left = 10_000

        async def complete(self, request: web.Request) -> web.StreamResponse:
            self.left -= 1
            if self.left < 0:
                return web.json_response({"error": {"message": "no such key"}}, status=401)
            return await super().complete(request)

    server = Refusing()
    async with chatting(server):
        suite(tmp_path, server.url, cases_of(4))
        await base(tmp_path)
        server.broken, server.left = {"q0"}, 12
        await run(tmp_path)
    assert kinds_in(tmp_path / "head") == {"suspect": 1, "unchanged": 3}
    cell = cell_in(tmp_path / "head", "case-0")
    assert (cell["confirm_runs"], cell["comparison"]["head"]) == (4, [0, 3])
    assert [rule["rule"] for rule in report_in(tmp_path / "head")["verdict"]["rules"]] == [
        "variant",
        "repeats",
    ]


async def test_a_change_of_the_gate_is_told_by_the_run_that_it_comes_with(tmp_path: Path) -> None:
    cases = [{**ONE_CASE, "id": name} for name in ("refund", "cancel")]
    write_suite(tmp_path, cases, gate={"min_pass_rate": 0.9, "providers": {"echo": 0.8}})
    await ci_evals(tmp_path, "run", "--out", "base")
    same = await ci_evals(tmp_path, "run", "--out", "same", "--baseline", "base")
    assert "Gate changed" not in same.out

    waits = {"reason": "waits", "until": "2099-12-31"}
    write_suite(
        tmp_path,
        [cases[0], {**cases[1], "quarantine": waits}],
        gate={"min_pass_rate": 0.5, "ratchet": True},
    )
    changed = await ci_evals(tmp_path, "run", "--out", "changed", "--baseline", "base")
    rules = (
        "min_pass_rate is 0.5 here and 0.9 on the baseline; providers.echo is not set here"
        " and 0.8 on the baseline;"
        " ratchet is true here and false on the baseline; in quarantine only here: cancel"
    )
    assert f"Gate changed: {rules}" in " ".join(changed.out.split())
    told = [
        note.text
        for note in comparison_notes(read_summary(tmp_path / "changed"))
        if note.label == "Gate changed"
    ]
    assert told == [rules], "whoever reads the report later is told as much"

    write_suite(
        tmp_path,
        [cases[0], {**cases[1], "min_pass_rate": 0.2}],
        gate={"min_pass_rate": 0.5, "ratchet": True},
    )
    bar = await ci_evals(tmp_path, "run", "--out", "bar", "--baseline", "changed")
    assert "Gate changed: the bar of cancel is 20 % here and 50 % on the baseline" in " ".join(
        bar.out.split()
    )
