"""An evaluation event by event."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from suites import ONE_CASE, write_suite

from ci_evals import (
    ConfigError,
    EvalCompleted,
    EvalStarted,
    RunFinished,
    Suite,
    evaluate,
    evaluate_events,
    evaluate_sync,
)
from ci_evals.graders import Contains


async def test_every_run_is_an_event_between_the_start_and_the_report(tmp_path: Path) -> None:
    events = [event async for event in evaluate_events(write_suite(tmp_path, [ONE_CASE], runs=3))]
    first, *runs, last = events
    assert first == EvalStarted("test", cases=1, variants=1, total=3)
    assert [event.done for event in runs if isinstance(event, RunFinished)] == [1, 2, 3]
    assert isinstance(last, EvalCompleted)
    assert [event.result for event in runs if isinstance(event, RunFinished)] == list(
        last.report.runs
    )


async def test_leaving_early_ends_the_evaluation() -> None:
    called: list[int] = []
    cancelled = asyncio.Event()

    async def agent(question: str) -> str:
        called.append(1)
        if len(called) > 1:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        return question

    suite = Suite(cases=["hi"], providers=agent, expect=[Contains("hi")], runs=5, max_concurrency=1)
    async with aclosing(evaluate_events(suite)) as events:
        async for event in events:
            if isinstance(event, RunFinished):
                break
    assert len(called) <= 2
    assert cancelled.is_set() or len(called) == 1


async def test_what_goes_wrong_is_raised_from_the_loop(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def answer(text): ...\nraise RuntimeError('no')")
    suite = write_suite(tmp_path, providers=[{"type": "python", "target": "broken:answer"}])
    events = evaluate_events(suite)
    assert isinstance(await anext(events), EvalStarted)
    with pytest.raises(ConfigError, match="RuntimeError: no"):
        await anext(events)


@pytest.mark.parametrize("function", [evaluate, evaluate_sync, evaluate_events])
def test_an_unknown_setting_is_refused_by_the_call_itself(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected .*'repeats'"):
        function("evals.yaml", repeats=3)


def test_events_take_no_function_for_results() -> None:
    with pytest.raises(TypeError, match="'on_result'"):
        evaluate_events("evals.yaml", on_result=print)  # type: ignore[call-arg]
