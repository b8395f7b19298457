"""Streamed answers from the command line: time to first token is measured, shown and checked."""

from pathlib import Path
from typing import Any

from leftovers import journaled, report_in
from processes import ci_evals
from suites import chat, write_suite

from ci_evals.providers.mock import Mock
from ci_evals.providers.mock_server import run_server

FORMATS = {"formats": ["json", "junit", "markdown", "html"]}


def case(**latency: float) -> dict[str, Any]:
    return {
        "id": "capital",
        "input": "Paris, of course",
        "expect": [{"contains": "Paris"}, {"latency": latency}],
    }


async def test_the_first_token_is_measured_and_shown_everywhere(tmp_path: Path) -> None:
    async with run_server(Mock()) as url:
        write_suite(
            tmp_path, [case(first_token=30)], providers=[chat(url, stream=True)], report=FORMATS
        )
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    out = tmp_path / "ci-evals-results"
    (result,) = journaled(out)
    first_token_s = result["response"]["first_token_s"]
    assert 0 < first_token_s <= result["latency_s"]
    grade = result["grades"][1]
    assert grade["reason"] == "took no more than 30 s to the first token"
    assert grade["sentence"].endswith(" s to the first token, no more than 30 s")
    (variant,) = report_in(out)["variants"]
    assert (
        variant["figures"]["first_token_p50_s"]
        == variant["figures"]["first_token_p95_s"]
        == first_token_s
    )
    assert "first token" in ended.out
    assert "first token" in (out / "summary.md").read_text()
    assert "first token" in (out / "report.html").read_text()
    explained = await ci_evals(tmp_path, "explain", "capital")
    assert "first token" in explained.out


async def test_a_first_token_that_is_too_late_fails_and_says_so(tmp_path: Path) -> None:
    async with run_server(Mock(latency_s=0.05)) as url:
        write_suite(tmp_path, [case(first_token=0.01)], providers=[chat(url, stream=True)])
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    assert "to the first token, at most 0.01 s allowed" in ended.out


async def test_a_run_without_streams_says_nothing_of_first_tokens(tmp_path: Path) -> None:
    write_suite(tmp_path, [case(value=30)], report=FORMATS)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0
    texts = [path.read_text() for path in (tmp_path / "ci-evals-results").glob("*.[hmx]*")]
    assert not any("first token" in text for text in (ended.out, *texts))
    (result,) = journaled(tmp_path / "ci-evals-results")
    assert result["response"].get("first_token_s") is None


async def test_a_provider_that_does_not_stream_is_told_before_any_call(tmp_path: Path) -> None:
    service = {"type": "http", "url": "http://h/"}
    write_suite(
        tmp_path, [case(first_token=1)], providers=[chat("http://h/v1"), service, {"type": "mock"}]
    )
    ended = await ci_evals(tmp_path, "validate")
    assert ended.err.splitlines()[:-2] == [
        f"evals.yaml:1: providers[{number}]: `latency` needs the time "
        f"to the first token, and {name} does not stream:"
        " give it `stream` (case 'capital')"
        for number, name in enumerate(["chat", "http:h/"])
    ]
