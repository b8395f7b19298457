"""Results and answers that exist already: resumed, taken over, replayed, recorded."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import report_of
from hypothesis import given
from hypothesis import strategies as st
from suites import ECHO, run_in_process, write_suite

from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import JOURNAL, read_results
from ci_evals.engine.recordings import Recordings, load_results
from ci_evals.errors import StorageError
from ci_evals.invocation import Watcher
from ci_evals.model.plan import plan_runs
from ci_evals.model.report import Resumption, SuiteReport
from ci_evals.model.result import Result, RunError, decode_result, encode_result
from ci_evals.reports import report_json as json_report
from ci_evals.reports.summary import summarize
from ci_evals.suite.load import load_suite

Edit = Callable[[Result], Result]

CASE = {"id": "a", "input": "a", "expect": [{"equals": "a"}]}
CRASHING = {"name": "agent", "type": "python", "target": "agent:answer"}
NEVER = {"name": "never", "type": "mock", "error_rate": 1, "retries": 0}


async def run(
    folder: Path,
    cases: list[dict[str, Any]],
    *,
    out: str = "out",
    settings: dict[str, Any] | None = None,
    asked: list[str] | None = None,
    **order: Any,
) -> SuiteReport:
    """Run a suite in `folder`; `asked` collects the cases that were run in this invocation."""

    class Listener(Watcher):
        def note_result(self, result: Result) -> None:
            if asked is not None:
                asked.append(result.case)

    return await run_in_process(
        folder, cases, out=out, order=order, watcher=Listener(), **(settings or {})
    )


# Results that are taken over.


def cases_of(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "input": name, "expect": [{"equals": name}]} for name in names]


def rewrite(path: Path, edit: Edit) -> None:
    """Edit the results of a journal."""
    lines = path.read_bytes().splitlines()
    edited = (
        line if line.startswith(b'{"journal"') else encode_result(edit(decode_result(line)))
        for line in lines
    )
    path.write_bytes(b"\n".join([*edited, b""]))


def errored(result: Result) -> Result:
    error = RunError("server", "500: gone", status=500)
    return replace(result, status="errored", score=None, response=None, grades=(), error=error)


def lines_of(path: Path) -> list[Result]:
    return [result for _, result in read_results(path)]


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
    report = await run(
        tmp_path, [{**cases_of("a")[0], **changes}, *cases_of("b")], resume=True, asked=asked
    )
    assert (asked, report.resumption) == (["a"], Resumption(kept=1, changed=1))


@pytest.mark.parametrize(
    ("provider", "same"),
    [({"default": "a"}, False), ({"max_concurrency": 1, "rpm": 6000, "timeout_s": 5}, True)],
)
async def test_a_provider_with_other_answers_is_asked_again_and_one_with_another_pace_is_not(
    tmp_path: Path, provider: dict[str, Any], same: bool
) -> None:
    await run(tmp_path, cases_of("a"))
    asked: list[str] = []
    await run(
        tmp_path, cases_of("a"), settings={"providers": [ECHO | provider]}, resume=True, asked=asked
    )
    assert asked == ([] if same else ["a"])


async def test_tags_bars_and_descriptions_change_nothing_that_was_asked_or_judged(
    tmp_path: Path,
) -> None:
    await run(tmp_path, cases_of("a"))
    told = {"tags": ["x"], "min_pass_rate": 0.5, "description": "first letter"}
    report = await run(tmp_path, [{**cases_of("a")[0], **told}], resume=True)
    assert report.resumption == Resumption(kept=1)


async def test_prompts_that_render_alike_are_each_kept(tmp_path: Path) -> None:
    prompts = [{"name": "plain", "user": "{{ input }}"}, {"name": "spaced", "user": "{{input}}"}]
    await run(tmp_path, cases_of("a", "b"), settings={"prompts": prompts})
    asked: list[str] = []
    report = await run(
        tmp_path, cases_of("a", "b"), settings={"prompts": prompts}, resume=True, asked=asked
    )
    assert (asked, report.resumption) == ([], Resumption(kept=4))
    assert [result.prompt for result in report.runs] == ["plain", "spaced"] * 2


async def test_of_duplicate_lines_the_first_graded_one_counts(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a"))
    path = tmp_path / "out" / JOURNAL
    header, line = path.read_bytes().splitlines(keepends=True)
    refused = encode_result(errored(decode_result(line))) + b"\n"
    other = encode_result(replace(decode_result(line), attempts=9)) + b"\n"
    path.write_bytes(header + refused + line + other + refused + header + other)
    report = await run(tmp_path, cases_of("a"), resume=True)
    (result,) = report.runs
    assert (result.status, result.attempts, report.resumption) == ("passed", 1, Resumption(kept=1))
    assert list(report.grader_means(report.plan.variants[0]).values()) == [1.0]


async def test_when_merging_a_graded_run_wins_over_the_errored_ones_before_it(
    tmp_path: Path,
) -> None:
    await run(tmp_path, cases_of("a", "b"))
    path = tmp_path / "out" / JOURNAL
    header, first, second = path.read_bytes().splitlines(keepends=True)
    shard = tmp_path / "shard.jsonl"
    refused = [encode_result(errored(decode_result(line))) + b"\n" for line in (first, second)]
    shard.write_bytes(b"".join([header, *refused, header, second]))
    report = await run(
        tmp_path, cases_of("a", "b"), sources=(shard,), merge=True, run_missing=False
    )
    assert (report.passed, report.errored) == (1, 1)
    assert sorted(result.status for result in lines_of(path)) == ["errored", "passed"]


async def test_runs_beyond_the_plan_are_left_alone(tmp_path: Path) -> None:
    await run(tmp_path, cases_of("a"), settings={"runs": 3})
    report = await run(tmp_path, cases_of("a"), settings={"runs": 2}, resume=True)
    assert (report.total, report.passed, report.resumption) == (2, 2, Resumption(kept=2))
    path = tmp_path / "out" / JOURNAL
    rewrite(path, lambda result: replace(result, run=0) if result.run == 1 else result)
    asked: list[str] = []
    report = await run(tmp_path, cases_of("a"), settings={"runs": 2}, resume=True, asked=asked)
    assert (asked, report.passed) == (["a"], 2)


async def test_what_is_kept_counts_in_every_figure(tmp_path: Path) -> None:
    whole = await run(tmp_path, cases_of("a", "b", "c"))
    resumed = await run(tmp_path, cases_of("a", "b", "c"), resume=True)
    variant = whole.plan.variant(0)
    assert (resumed.totals, resumed.match_rate, resumed.grader_means(variant)) == (
        whole.totals,
        whole.match_rate,
        whole.grader_means(variant),
    )
    assert resumed.figures() == whole.figures()


async def test_a_journal_of_another_suite_gives_what_matches_and_nothing_else(
    tmp_path: Path,
) -> None:
    await run(tmp_path, cases_of("a", "b", "c"), settings={"name": "old suite"})
    asked: list[str] = []
    report = await run(
        tmp_path, cases_of("b", "x"), settings={"name": "new suite"}, resume=True, asked=asked
    )
    assert (asked, report.resumption) == (["x"], Resumption(kept=1))
    assert [result.case for result in report.runs] == ["b", "x"]


async def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        await run(tmp_path, cases_of("a"), sources=(tmp_path / "nowhere.jsonl",))


@given(st.data())
async def test_whatever_was_lost_every_run_is_graded_once_in_the_end(data: st.DataObject) -> None:
    """Runs are removed, refused or written twice; resuming asks for exactly what is missing."""
    names = [f"c{n}" for n in range(6)]
    fates = data.draw(
        st.lists(st.sampled_from(["kept", "lost", "errored", "twice"]), min_size=12, max_size=12)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await run(folder, cases_of(*names), settings={"runs": 2})
        path = folder / "out" / JOURNAL
        header, *lines = path.read_bytes().splitlines(keepends=True)
        written = [header]
        for line, fate in zip(lines, fates, strict=True):
            refused = encode_result(errored(decode_result(line))) + b"\n"
            written += {"kept": [line], "lost": [], "errored": [refused], "twice": [line, line]}[
                fate
            ]
        torn = data.draw(st.binary(max_size=30)).replace(b"\n", b"")
        path.write_bytes(b"".join([*written, torn]))
        asked: list[str] = []
        report = await run(folder, cases_of(*names), settings={"runs": 2}, resume=True, asked=asked)
        missing = [
            decode_result(line).case
            for line, fate in zip(lines, fates, strict=True)
            if fate in ("lost", "errored")
        ]
        assert sorted(asked) == sorted(missing)
        assert (report.passed, report.total) == (12, 12)
        assert report.resumption is not None
        assert (report.resumption.kept, bool(report.resumption.torn)) == (
            12 - len(missing),
            bool(torn),
        )
        lines_of(path)


async def test_a_resumed_journal_has_a_header_for_each_invocation(tmp_path: Path) -> None:
    for _ in range(3):
        await run(tmp_path, cases_of("a"), resume=True)
    lines = map(json.loads, (tmp_path / "out" / JOURNAL).read_bytes().splitlines())
    assert ["journal" in line for line in lines] == [True, False, True, True]


# Journals that are replayed.


async def replayed(folder: Path, cases: list[dict[str, Any]], **settings: Any) -> SuiteReport:
    return await run(
        folder, cases, settings=settings, replay=folder / "first" / JOURNAL, replay_only=True
    )


async def test_each_run_has_its_own_recorded_answer(tmp_path: Path) -> None:
    flaky = [ECHO | {"flakiness": 0.5}]
    first = await run(tmp_path, [CASE], out="first", settings={"runs": 20, "providers": flaky})
    again = await replayed(tmp_path, [CASE], runs=20, providers=flaky)
    assert 0 < first.passed < 20
    assert [each.response for each in again.runs] == [each.response for each in first.runs]


async def test_runs_beyond_the_recorded_ones_are_not_recorded(tmp_path: Path) -> None:
    await run(tmp_path, [CASE], out="first", settings={"runs": 2})
    report = await replayed(tmp_path, [CASE], runs=3)
    assert [result.error and result.error.kind for result in report.runs] == [
        None,
        None,
        "not_recorded",
    ]


async def test_a_recorded_failure_of_the_system_under_test_stays_one(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def answer(question):\n    raise ValueError('no such flight')\n"
    )
    first = await run(tmp_path, [CASE], out="first", settings={"providers": [CRASHING]})
    (tmp_path / "agent.py").write_text(
        "def answer(question):\n    raise AssertionError('must not be called')\n"
    )
    report = await replayed(tmp_path, [CASE], providers=[CRASHING])
    (before,), (after,) = first.runs, report.runs
    assert after.status == "failed"
    assert after.error == before.error
    assert after.recorded


async def test_an_answer_that_could_not_be_judged_is_judged_anew(tmp_path: Path) -> None:
    (tmp_path / "grading.py").write_text("def grade(answer):\n    raise ConnectionError('oops')\n")
    first = await run(tmp_path, [{**CASE, "expect": [{"python": "grading:grade"}]}], out="first")
    assert first.errored == 1
    report = await replayed(tmp_path, [CASE])
    assert (report.passed, report.recorded) == (1, 1)


async def test_a_renamed_prompt_that_asks_the_same_is_recorded(tmp_path: Path) -> None:
    await run(
        tmp_path,
        [CASE],
        out="first",
        settings={"prompts": [{"name": "old", "user": "{{ input }}"}]},
    )
    report = await replayed(tmp_path, [CASE], prompts=[{"name": "new", "user": "{{ input }}"}])
    (result,) = report.runs
    assert (result.status, result.prompt, result.recorded) == ("passed", "new", True)


async def test_of_several_recordings_of_a_run_the_last_answers(tmp_path: Path) -> None:
    await run(tmp_path, [CASE], out="first")
    journal = tmp_path / "first" / JOURNAL
    result = decode_result(journal.read_bytes().splitlines()[1])
    assert result.response is not None
    later = replace(result, response=replace(result.response, output="later"))
    with journal.open("ab") as file:
        file.write(encode_result(later) + b"\n" + b'{"torn')
    report = await replayed(tmp_path, [{**CASE, "expect": [{"equals": "later"}]}])
    assert report.passed == 1


async def test_a_recording_answers_after_its_file_was_moved_away(tmp_path: Path) -> None:
    await run(tmp_path, [CASE], out="first")
    suite = load_suite(write_suite(tmp_path, [CASE]), {})
    journal = tmp_path / "first" / JOURNAL
    recordings = Recordings()
    recordings.add_recording(journal)
    journal.replace(tmp_path / "elsewhere.jsonl")
    journal.write_bytes(b"\0" * 1000)
    cell = Cells(suite, plan_runs(suite.cases, suite.columns, 1)).cell(0)
    found = recordings.answer(cell, 1)
    recordings.close()
    assert found is not None
    assert found.case == "a"


async def test_graders_may_raise_on_a_recorded_answer_as_on_any_other(tmp_path: Path) -> None:
    await run(tmp_path, [CASE], out="first")
    (tmp_path / "crashing_grader.py").write_text(
        "def grade(answer):\n    raise ValueError('oops')\n"
    )
    report = await replayed(tmp_path, [{**CASE, "expect": [{"python": "crashing_grader:grade"}]}])
    (result,) = report.runs
    assert (result.status, result.error, result.recorded) == ("failed", None, True)
    assert result.grades[0].reason.startswith("raised ValueError: oops (")


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        Recordings().add_recording(tmp_path / "nowhere.jsonl")


# Recordings that cases name.


def recorded(file: str, **changes: Any) -> dict[str, Any]:
    return {**CASE, "overrides": {"recorded": file}, **changes}


async def test_a_stored_response_answers_every_run_and_nothing_is_called(tmp_path: Path) -> None:
    response = {"output": "a", "tool_calls": [{"name": "look"}], "usage": {"input_tokens": 5}}
    (tmp_path / "a.json").write_text(json.dumps(response))
    expect = [{"equals": "a"}, {"tool_call": "look"}]
    report = await run(
        tmp_path, [recorded("a.json", expect=expect)], settings={"providers": [NEVER], "runs": 2}
    )
    assert [(result.status, result.recorded, result.run) for result in report.runs] == [
        ("passed", True, 1),
        ("passed", True, 2),
    ]


async def test_a_text_file_is_the_answer_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert (await run(tmp_path, [recorded("a.txt")], settings={"providers": [NEVER]})).passed == 1


async def test_cases_without_a_recording_are_called(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    report = await run(tmp_path, [recorded("a.txt"), {**CASE, "id": "b"}])
    assert [(result.case, result.recorded) for result in report.runs] == [("a", True), ("b", False)]


async def test_the_runs_of_a_journal_answer_in_turn_whoever_gave_them(tmp_path: Path) -> None:
    flaky = [ECHO | {"flakiness": 0.5}]
    first = await run(tmp_path, [CASE], out="first", settings={"runs": 20, "providers": flaky})
    assert 0 < first.passed < 20
    report = await run(tmp_path, [recorded("first")], settings={"runs": 25, "providers": [NEVER]})
    outputs = [result.response.output for result in first.runs if result.response]
    assert [
        result.response.output for result in report.runs if result.response
    ] == outputs + outputs[:5]


async def test_of_several_recorded_providers_the_one_of_the_same_name_answers(
    tmp_path: Path,
) -> None:
    both = [
        {"name": "x", "type": "mock", "default": "from x"},
        {"name": "y", "type": "mock", "default": "from y"},
    ]
    await run(tmp_path, [CASE], out="first", settings={"providers": both})
    report = await run(tmp_path, [recorded("first/results.jsonl")], settings={"providers": both})
    assert [result.response.output for result in report.runs if result.response] == [
        "from x",
        "from y",
    ]


async def test_a_recording_without_the_case_leaves_its_runs_errored(tmp_path: Path) -> None:
    await run(tmp_path, [{**CASE, "id": "other"}], out="first")
    (result,) = (await run(tmp_path, [recorded("first")])).runs
    assert result.status == "errored"
    assert result.error is not None
    assert result.error.kind == "not_recorded"


async def test_another_recording_is_another_question(tmp_path: Path) -> None:
    def fingerprint() -> str:
        return load_suite(write_suite(tmp_path, [recorded("a.txt")]), {}).fingerprint

    (tmp_path / "a.txt").write_text("a")
    first = fingerprint()
    assert fingerprint() == first
    (tmp_path / "a.txt").write_text("b")
    assert fingerprint() != first


async def test_a_file_that_holds_no_answer_stops_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"output": 1, "reasoning": 2}')
    with pytest.raises(StorageError, match="recorded answer: unknown key 'reasoning'"):
        await run(tmp_path, [recorded("a.json")])
    assert not (tmp_path / "out").exists()


# Results of an earlier run, from whichever of its files.


def test_a_report_has_the_results_of_its_journal(tmp_path: Path) -> None:
    report = report_of({"a": "PF"})
    path = tmp_path / "report.json"
    path.write_bytes(b"".join(json_report.render(summarize(report, None))))
    assert list(load_results(path)) == list(report.results())


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{}", "is not a ci-evals report"),
        (b'{"results": [{"case": "\xff"}]}', "is not a ci-evals report"),
        (b'{"results": [{"metadata": ' + b"[" * 100_000, "is not a ci-evals report"),
    ],
    ids=["missing", "other-json", "binary", "deep"],
)
def test_what_is_no_report_is_said_with_what_to_name_instead(
    content: bytes | None, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        StorageError, match=rf"notes\.json: {what}.*: name a report\.json, a results\.jsonl"
    ):
        list(load_results(path))
