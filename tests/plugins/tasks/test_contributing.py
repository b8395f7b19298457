"""docs/contributing.md: its transcript, added to a copy of the package as it stands, works."""

import json
from pathlib import Path

import pytest
from extended_copies import extended_copy, run


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extended_copy(tmp_path_factory.mktemp("checkout"))


def test_a_transcript_is_added_as_the_page_says(checkout: Path) -> None:
    events = ('{"kind": "call", "tool": "look"}', '{"kind": "done", "answer": "42"}')
    provider = {"type": "command", "command": ["printf", r"%s\n", *events], "transcript": "acme"}
    expect = [{"equals": "42"}, {"trajectory": {"calls": ["look"]}}]
    suite = {"providers": [provider], "cases": [{"input": "?", "expect": expect}]}
    (checkout / "agent.yaml").write_text(json.dumps(suite), "utf-8")
    ended = run(checkout, "run", "-c", "agent.yaml", "--out", "of-the-agent")
    assert ended.returncode == 0, ended.stdout + ended.stderr
