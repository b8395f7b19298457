"""Which results of earlier journals still answer the suite as it is now."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suites import ECHO, write_suite

from ci_evals.config.load import load_suite
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.journal_lines import decode, scan
from ci_evals.errors import StorageError
from ci_evals.execution import execute
from ci_evals.model import Result, RunError
from ci_evals.order import Order
from ci_evals.report import Report, Resumption

Edit = Callable[[Result], Result]


async def run(folder: Path, cases: list[dict[str, Any]], *, asked: list[str] | None = None, **changes: Any) -> Report:
    """Run a suite in `folder`; `asked` collects the cases that were run in this invocation."""
    settings = changes.pop("settings", {})
    suite = load_suite(write_suite(folder, cases, **settings), {})
    order = Order(suite=suite, journal=folder / "out" / JOURNAL, **changes)
    return await execute(order, on_result=lambda result: asked.append(result.case) if asked is not None else None)


def cases_of(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "input": name, "expect": [{"equals": name}]} for name in names]


def rewrite(path: Path, edit: Edit) -> None:
    """Edit the results of a journal."""
    lines = path.read_bytes().splitlines()
    edited = (line if line.startswith(b'{"journal"') else msgspec.json.encode(edit(decode(line))) for line in lines)
    path.write_bytes(b"\n".join([*edited, b""]))


def errored(result: Result) -> Result:
    error = RunError("server", "500: gone", status=500)
    return msgspec.structs.replace(result, status="errored", score=None, response=None, grades=(), error=error)


def lines_of(path: Path) -> list[Result]:
    found: list[Result] = []
    scan(path, lambda result, *_: found.append(result))
    return found


async def test_a_finished_journal_leaves_nothing_to_run(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a", "b"))
    asked: list[str] = []
    report = await run(tmp_path, cases_of("b", "a"), resume=True, asked=asked)
    assert (asked, report.passed, report.resumption) == ([], 2, Resumption(kept=2))


@pytest.mark.parametrize(
    "changes",
    [
        {"input": "other"},
        {"vars": {"x": 1}},
        {"expect": [{"contains": "a"}]},
        {"threshold": 0.5},
        {"metadata": {"x": 1}},
    ],
)
async def test_a_case_that_changed_is_run_anew(tmp_path: Path, changes: dict[str, Any]) -> None:
    await run(tmp_path, cases_of("a", "b"))
    asked: list[str] = []
    report = await run(tmp_path, [{**cases_of("a")[0], **changes}, *cases_of("b")], resume=True, asked=asked)
    assert (asked, report.resumption) == (["a"], Resumption(kept=1, changed=1))


@pytest.mark.parametrize(
    ("provider", "same"),
    [({"default": "a"}, False), ({"max_concurrency": 1, "rpm": 6000, "timeout_s": 5}, True)],
)
async def test_a_provider_that_answers_otherwise_is_asked_anew_and_one_that_is_only_paced_otherwise_is_not(
    tmp_path: Path, provider: dict[str, Any], same: bool
) -> None:
    await run(tmp_path, cases_of("a"))
    asked: list[str] = []
    await run(tmp_path, cases_of("a"), settings={"providers": [ECHO | provider]}, resume=True, asked=asked)
    assert asked == ([] if same else ["a"])


async def test_tags_bars_and_descriptions_change_nothing_that_was_asked_or_judged(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a"))
    told = {"tags": ["x"], "min_pass_rate": 0.5, "description": "first letter"}
    report = await run(tmp_path, [{**cases_of("a")[0], **told}], resume=True)
    assert report.resumption == Resumption(kept=1)


async def test_prompts_that_render_alike_are_each_kept(tmp_path: Path) -> None:
    prompts = [{"name": "plain", "user": "{{ input }}"}, {"name": "spaced", "user": "{{input}}"}]
    await run(tmp_path, cases_of("a", "b"), settings={"prompts": prompts})
    asked: list[str] = []
    report = await run(tmp_path, cases_of("a", "b"), settings={"prompts": prompts}, resume=True, asked=asked)
    assert (asked, report.resumption) == ([], Resumption(kept=4))
    assert [result.prompt for result in report.runs] == ["plain", "spaced"] * 2


async def test_of_duplicate_lines_the_first_graded_one_counts(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a"))
    path = tmp_path / "out" / JOURNAL
    header, line = path.read_bytes().splitlines(keepends=True)
    refused = msgspec.json.encode(errored(decode(line))) + b"\n"
    other = msgspec.json.encode(msgspec.structs.replace(decode(line), attempts=9)) + b"\n"
    path.write_bytes(header + refused + line + other + refused + header + other)
    report = await run(tmp_path, cases_of("a"), resume=True)
    (result,) = report.runs
    assert (result.status, result.attempts, report.resumption) == ("passed", 1, Resumption(kept=1))
    assert [tuple(sums) for sums in report.columns.grader_scores.values()] == [(1, 1.0)]


async def test_when_merging_a_graded_run_wins_over_the_errored_ones_before_it(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a", "b"))
    path = tmp_path / "out" / JOURNAL
    header, first, second = path.read_bytes().splitlines(keepends=True)
    shard = tmp_path / "shard.jsonl"
    refused = [msgspec.json.encode(errored(decode(line))) + b"\n" for line in (first, second)]
    shard.write_bytes(b"".join([header, *refused, header, second]))
    report = await run(tmp_path, cases_of("a", "b"), sources=(shard,), merge=True, run_missing=False)
    assert (report.passed, report.errored) == (1, 1)
    assert sorted(result.status for result in lines_of(path)) == ["errored", "passed"]


async def test_runs_beyond_the_plan_are_left_alone(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a"), settings={"runs": 3})
    report = await run(tmp_path, cases_of("a"), settings={"runs": 2}, resume=True)
    assert (report.total, report.passed, report.resumption) == (2, 2, Resumption(kept=2))
    path = tmp_path / "out" / JOURNAL
    rewrite(path, lambda result: msgspec.structs.replace(result, run=0) if result.run == 1 else result)
    asked: list[str] = []
    report = await run(tmp_path, cases_of("a"), settings={"runs": 2}, resume=True, asked=asked)
    assert (asked, report.passed) == (["a"], 2)


async def test_what_is_kept_counts_in_every_figure(tmp_path: Path) -> None:
    whole = await run(tmp_path, cases_of("a", "b", "c"))
    resumed = await run(tmp_path, cases_of("a", "b", "c"), resume=True)
    variant = whole.matrix.variant(0)
    assert (resumed.totals, resumed.match_rate, resumed.grader_means(variant)) == (
        whole.totals,
        whole.match_rate,
        whole.grader_means(variant),
    )
    assert resumed.figures() == whole.figures()


async def test_a_journal_of_another_suite_gives_what_matches_and_nothing_else(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a", "b", "c"), settings={"name": "old suite"})
    asked: list[str] = []
    report = await run(tmp_path, cases_of("b", "x"), settings={"name": "new suite"}, resume=True, asked=asked)
    assert (asked, report.resumption) == (["x"], Resumption(kept=1))
    assert [result.case for result in report.runs] == ["b", "x"]


async def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        await run(tmp_path, cases_of("a"), sources=(tmp_path / "nowhere.jsonl",))


@given(st.data())
async def test_whatever_was_lost_every_run_is_graded_once_in_the_end(data: st.DataObject) -> None:
    """Runs are taken out, refused or written twice in any way; resuming asks for exactly what is missing."""
    import tempfile

    names = [f"c{n}" for n in range(6)]
    fates = data.draw(st.lists(st.sampled_from(["kept", "lost", "errored", "twice"]), min_size=12, max_size=12))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await run(folder, cases_of(*names), settings={"runs": 2})
        path = folder / "out" / JOURNAL
        header, *lines = path.read_bytes().splitlines(keepends=True)
        written = [header]
        for line, fate in zip(lines, fates, strict=True):
            refused = msgspec.json.encode(errored(decode(line))) + b"\n"
            written += {"kept": [line], "lost": [], "errored": [refused], "twice": [line, line]}[fate]
        torn = data.draw(st.binary(max_size=30)).replace(b"\n", b"")
        path.write_bytes(b"".join([*written, torn]))
        asked: list[str] = []
        report = await run(folder, cases_of(*names), settings={"runs": 2}, resume=True, asked=asked)
        missing = [decode(line).case for line, fate in zip(lines, fates, strict=True) if fate in ("lost", "errored")]
        assert sorted(asked) == sorted(missing)
        assert (report.passed, report.total) == (12, 12)
        assert report.resumption is not None
        assert (report.resumption.kept, bool(report.resumption.torn)) == (12 - len(missing), bool(torn))
        lines_of(path)


async def test_a_resumed_journal_has_a_header_for_each_invocation(tmp_path: Path) -> None:
    for _ in range(3):
        await run(tmp_path, cases_of("a"), resume=True)
    lines = map(json.loads, (tmp_path / "out" / JOURNAL).read_bytes().splitlines())
    assert ["journal" in line for line in lines] == [True, False, True, True]
