"""The example asks three APIs, which answer alike."""

from pathlib import Path

from example_runs import EXAMPLES, run_command


def test_each_api_answers_and_tells_what_it_used(tmp_path: Path, port: str) -> None:
    config = EXAMPLES / "clouds" / "evals.yaml"
    ran = run_command(tmp_path, "run", "-c", str(config), environ={"PORT": port})
    assert ran.code == 0, ran.printed
    results = ran.report["results"]
    assert {result["provider"] for result in results} == {"openai", "bedrock", "vertex"}
    assert len(results) == 18
    for result in results:
        assert result["status"] == "passed"
        assert result["response"]["usage"]["output_tokens"] > 0
