"""Running a suite from Python."""

import gc
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, chatting
from pydantic import TypeAdapter
from suites import ONE_CASE, chat, write_suite

import ci_evals
from ci_evals import (
    Case,
    ConfigError,
    Report,
    Result,
    Suite,
    evaluate,
    evaluate_sync,
    load_suite,
)
from ci_evals.errors import StorageError, UsageError
from ci_evals.graders import Contains, NotEmpty

FAILING = {
    **ONE_CASE,
    "id": "failing",
    "expect": [{"equals": "goodbye"}, {"contains": {"value": "HELLO", "ignore_case": True}}],
    "threshold": 0.9,
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that temporary files go into."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files(folder: Path) -> set[str]:
    return {path.as_posix() for path in folder.rglob("*")}


def test_evaluate_sync_returns_the_report(tmp_path: Path) -> None:
    report = evaluate_sync(write_suite(tmp_path, [ONE_CASE, FAILING], runs=2))
    assert isinstance(report, Report)
    assert (report.total, report.passed, report.failed, report.errored) == (4, 2, 2, 0)
    assert report.pass_rate == 0.5
    assert report.match_rate == 0.75
    assert report.summary().splitlines() == [
        "2 of 4 runs passed (50 %), 2 failed",
        "  hello: 2 of 2 runs, score 100 %",
        "  hello: 0 of 2 runs, score 50 %",
        '    2 runs: the answer is "hello", expected "goodbye"',
        "    2 runs: score 0.50, below the threshold of 0.9",
    ]


@pytest.mark.parametrize("is_file", [True, False])
def test_a_plan_that_is_too_large_is_refused_before_anything_is_called(
    is_file: bool, tmp_path: Path
) -> None:
    called: list[str] = []

    def agent(question: str) -> None:
        called.append(question)

    suite: Any = Suite(providers=agent, cases=[Case(input="x", expect=[Contains("x")])])
    if is_file:
        suite = write_suite(tmp_path)
    with pytest.raises((UsageError, ConfigError), match="100,000,000 runs are planned: at most"):
        evaluate_sync(suite, runs=10**8)
    assert called == []


def test_cases_of_a_file_stand_among_others(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"id": "of the file", "input": "b"}\n')

    def agent(question: str) -> str:
        return question

    suite = Suite(
        providers=agent,
        cases=[Case(id="first", input="a"), tmp_path / "cases.jsonl", "c"],
        expect=[NotEmpty()],
    )
    assert list(evaluate_sync(suite).cases) == ["first", "of the file", "c"]


def test_the_name_of_a_report_is_no_results_folder(tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    with pytest.raises(UsageError, match=r"run\.json looks like a file, but a folder"):
        evaluate_sync(suite, out=tmp_path / "results" / "run.json")
    assert not (tmp_path / "results").exists()


async def test_runs_are_a_sequence_in_plan_order(tmp_path: Path) -> None:
    report = await evaluate(write_suite(tmp_path, [ONE_CASE, FAILING], runs=2))
    runs = report.runs
    assert len(runs) == 4
    assert [(run.case, run.run) for run in runs] == [
        ("greeting", 1),
        ("greeting", 2),
        ("failing", 1),
        ("failing", 2),
    ]
    assert isinstance(runs[0], Result)
    assert runs[-1] == list(runs)[3]
    assert [run.status for run in runs[1:3]] == ["passed", "failed"]
    assert runs[0].response is not None
    assert runs[0].response.output == "hello"
    with pytest.raises(IndexError):
        runs[4]


async def test_counts_are_grouped_by_case_and_by_variant(tmp_path: Path) -> None:
    providers = [
        {"name": name, "type": "mock", "default": said}
        for name, said in (("a", "hello"), ("b", "hi"))
    ]
    suite = write_suite(tmp_path, [ONE_CASE], providers=providers, prompts=["{{ input }}"], runs=3)
    report = await evaluate(suite)
    assert (report.by_case["greeting"].passed, report.by_case["greeting"].failed) == (3, 3)
    by_variant = {
        name: (counts.passed, counts.failed) for name, counts in report.by_variant.items()
    }
    assert by_variant == {"a · prompt 1": (3, 0), "b · prompt 1": (0, 3)}


async def test_on_result_sees_every_finished_run_once_in_the_order_of_finishing(
    tmp_path: Path,
) -> None:
    seen: list[Result] = []
    report = await evaluate(
        write_suite(tmp_path, [ONE_CASE, FAILING], runs=3), on_result=seen.append
    )
    assert sorted(seen, key=str) == sorted(report.runs, key=str)
    assert [result.run for result in seen] == [1, 1, 2, 2, 3, 3]


async def test_what_on_result_raises_ends_the_run(tmp_path: Path) -> None:
    def refuse(result: Result) -> None:
        raise LookupError(result.case)

    with pytest.raises(LookupError, match="greeting"):
        await evaluate(write_suite(tmp_path), on_result=refuse)


async def test_an_async_on_result_is_refused_rather_than_never_awaited(tmp_path: Path) -> None:
    async def note(result: Result) -> None: ...

    class Notes:
        async def __call__(self, result: Result) -> None: ...

    callbacks: list[Any] = [note, Notes(), 5]
    for callback in callbacks:
        with pytest.raises(
            UsageError,
            match=r"on_result: expected a plain function, got (an async one: follow `eval|5)",
        ):
            await evaluate(write_suite(tmp_path), on_result=callback)


async def test_out_has_the_journal_and_the_reports(tmp_path: Path) -> None:
    report = await evaluate(write_suite(tmp_path), out=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("report.html", "report.json", "results.jsonl", "junit.xml", "summary.md")
    }
    written = json.loads((tmp_path / "out" / "report.json").read_bytes())["results"]
    assert TypeAdapter(list[Result]).validate_python(written) == list(report.runs)


async def test_without_out_nothing_is_left_once_the_report_is_gone(
    tmp_path: Path, temporary: Path
) -> None:
    suite = write_suite(tmp_path)
    before = files(tmp_path)
    report = await evaluate(suite)
    assert [Path(name).suffix for name in files(temporary)] == [".jsonl"]
    assert report.runs[0].status == "passed"
    del report
    gc.collect()
    assert files(tmp_path) == before


async def test_runs_keep_the_report_alive(tmp_path: Path, temporary: Path) -> None:
    runs = (await evaluate(write_suite(tmp_path))).runs
    gc.collect()
    assert runs[0].status == "passed"


async def test_without_out_nothing_is_left_of_a_run_that_broke(
    tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "broken_agent.py").write_text("def answer(text): ...\nraise RuntimeError('broken')")
    suite = write_suite(
        tmp_path, providers=[{"name": "agent", "type": "python", "target": "broken_agent:answer"}]
    )
    with pytest.raises(ConfigError, match="RuntimeError: broken"):
        await evaluate(suite)
    assert files(temporary) == set()


async def test_arguments_replace_the_suites_values(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        providers = [chat(server.url, name) for name in ("a", "b")]
        suite = write_suite(tmp_path, [ONE_CASE], providers=providers, runs=2, max_concurrency=8)
        report = await evaluate(suite, runs=5, max_concurrency=1, providers=["b"])
    assert report.by_variant.keys() == {"b"}
    assert (report.total, server.peak) == (5, 1)


async def test_a_loaded_suite_is_taken_as_well(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path, runs=2), environ={})
    assert (await evaluate(suite)).total == 2
    assert (await evaluate(suite, runs=3, providers=["echo"])).total == 3
    with pytest.raises(UsageError, match="ecco"):
        await evaluate(suite, providers=["ecco"])
    assert suite.runs == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"runs": 0}, "runs=0: expected a whole number of at least 1"),
        ({"runs": "3"}, "runs='3'"),
        ({"runs": True}, "runs=True"),
        ({"max_concurrency": 0}, "max_concurrency=0"),
        ({"providers": []}, r"providers=\[\]: expected the name of a provider"),
        ({"providers": [1]}, "providers="),
        ({"providers": "ecco"}, "'ecco'"),
    ],
)
async def test_an_argument_that_makes_no_sense_is_refused(
    arguments: dict[str, Any], says: str, tmp_path: Path
) -> None:
    suite = load_suite(write_suite(tmp_path))
    with pytest.raises(UsageError, match=says):
        await evaluate(suite, out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


async def test_a_misspelt_argument_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="max_concurency"):
        await evaluate(write_suite(tmp_path), max_concurency=3)  # type: ignore[call-arg]


async def test_what_is_no_suite_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a suite or the path of one, not 3"):
        await evaluate(3)  # type: ignore[arg-type]


async def test_a_single_provider_may_be_named_as_it_is(tmp_path: Path) -> None:
    suite = write_suite(
        tmp_path, providers=[{"name": name, "type": "mock"} for name in ("demo", "other")]
    )
    assert (await evaluate(suite, providers="demo")).by_variant.keys() == {"demo"}


async def test_evaluate_sync_where_a_loop_runs_says_what_to_write_instead(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="await evaluate"):
        evaluate_sync(write_suite(tmp_path))


async def test_variables_come_from_where_the_caller_says(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        suite = write_suite(tmp_path, providers=[chat("${SERVER_URL}")])
        assert (await evaluate(suite, environ={"SERVER_URL": server.url})).passed == 1
        with pytest.raises(ConfigError, match="SERVER_URL"):
            await evaluate(suite, environ={})


async def test_a_wrong_suite_raises_with_every_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await evaluate(write_suite(tmp_path, runs=0, timeout_s="soon"))
    assert len(caught.value.problems) == 2


async def test_a_folder_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError, match="taken"):
        await evaluate(write_suite(tmp_path), out=tmp_path / "taken")


def test_nobody_prints_anything(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    evaluate_sync(write_suite(tmp_path, [FAILING]))
    assert capfd.readouterr() == ("", "")


def test_every_public_name_is_there() -> None:
    assert all(hasattr(ci_evals, name) for name in ci_evals.__all__)
