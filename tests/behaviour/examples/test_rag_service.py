"""The retrieval service is started, asked for JSON and a stream, and graded by its retrieval."""

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from example_runs import EXAMPLES, Ran, run_suite

SUITE = EXAMPLES / "rag_service" / "evals.yaml"


def results_of(ran: Ran, provider: str) -> dict[str, dict[str, Any]]:
    return {each["case"]: each for each in ran.report["results"] if each["provider"] == provider}


def is_listening(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


def test_json_and_stream_give_the_same_answers_from_the_same_sources(
    tmp_path: Path, port: str
) -> None:
    ran = run_suite(tmp_path, SUITE, environ={"PORT": port})
    assert ran.code == 0, ran.printed
    at_once, streamed = results_of(ran, "as JSON"), results_of(ran, "as a stream")
    assert at_once.keys() == streamed.keys()
    for case, result in at_once.items():
        for part in ("output", "context", "usage"):
            assert result["response"][part] == streamed[case]["response"][part]
        assert result["cost_usd"] > 0
    assert all(each["response"]["first_token_s"] > 0 for each in streamed.values())
    assert all(each["response"].get("first_token_s") is None for each in at_once.values())
    sources = at_once["lost"]["response"]["context"]
    assert sources[0]["id"] == "equipment.md:4"
    assert not is_listening(port)


def test_an_invented_statement_is_found_and_fails_the_bar_on_faithfulness(
    tmp_path: Path, port: str
) -> None:
    copy = tmp_path / "rag_service"
    shutil.copytree(EXAMPLES / "rag_service", copy)
    app = copy / "app.py"
    invents = app.read_text().replace(
        'yield from re.findall(r"\\S+\\s*", best)', 'yield f"{best} Ask Bob about bonuses."'
    )
    assert "Bob" in invents
    app.write_text(invents)
    ran = run_suite(tmp_path, copy / "evals.yaml", environ={"PORT": port})
    assert ran.code == 1
    grade = next(
        each
        for each in results_of(ran, "as a stream")["leave"]["grades"]
        if each["grader"] == "judge"
    )
    assert grade["metric"] == "faithfulness"
    assert grade["score"] == 0.5
    assert "the context supports 1 of 2 statements; not 'Ask Bob about bonuses'" in grade["reason"]
    assert "faithfulness" in ran.printed
    assert not is_listening(port)


def test_a_service_that_does_not_start_says_why(tmp_path: Path, port: str) -> None:
    copy = tmp_path / "rag_service"
    shutil.copytree(EXAMPLES / "rag_service", copy)
    (copy / "app.py").write_text("import no_such_module\n")
    with pytest.raises(AssertionError, match="No module named 'no_such_module'"):
        run_suite(tmp_path, copy / "evals.yaml", environ={"PORT": port})
