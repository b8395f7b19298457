"""The token of a job, which only the parent of a command has."""

import json
import os
from pathlib import Path

import pytest
from fakes.github import TOKEN, FakeGitHub
from jobs import Repository
from processes import COMMAND, ci_evals
from pulls import NUMBER, comments, open_pull
from suites import AGENT, write_suite

HEAD = "c" * 40

SEARCHING = """
import json, os, pathlib, re

TOKEN = re.compile(rb"gh[s]_[A-Za-z0-9]{30,}")

def environments():
    process = os.getpid()
    while process != int(os.environ["TOP"]):
        yield f"environment of {process}", pathlib.Path(f"/proc/{process}/environ").read_bytes()
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        process = int(re.search(r"PPid:\\s+(\\d+)", status)[1])

def memory():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
        for line in maps:
            start, end = (int(address, 16) for address in line.split()[0].split("-"))
            if " rw" in line and not line.rstrip().endswith("[vvar]"):
                memory.seek(start)
                yield line, memory.read(end - start)

def asked():
    from ci_evals.cli.watchdog import ask_parent

    yield "the parent", repr(ask_parent({"do": "reveal", "arguments": ["GITHUB_TOKEN"]})).encode()

def answer(question):
    seen = {}
    places = [*environments(), *memory(), *asked()]
    for place, content in places:
        if TOKEN.search(content):
            seen[place] = len(content)
    pathlib.Path("seen.json").write_text(json.dumps([len(places), seen]))
    return question
"""


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux shows processes")
async def test_code_under_test_finds_the_token_nowhere(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=HEAD, base_sha="0" * 40)
    (repository.folder / "agent.py").write_text(SEARCHING)
    case = {"id": "hello", "input": "hello", "expect": [{"contains": "hello"}]}
    write_suite(repository.folder, [case], providers=[AGENT])
    place = repository.folder / ".runner"
    place.mkdir()
    pull = fake.state.pull_answer(fake.state.pulls[NUMBER])
    run = fake.state.add_run(HEAD, event="pull_request")
    environ = repository.environment("pull_request", {"pull_request": pull}, run, place)
    # A process of its own, which is started with the token as a runner does.
    ended = await ci_evals(
        repository.folder,
        "run",
        command=(COMMAND[0], "-P", *COMMAND[1:]),
        environ={**environ, "TOP": str(os.getpid())},
    )
    assert ended.code == 0, ended.out + ended.err
    places, seen = json.loads((repository.folder / "seen.json").read_text())
    assert places > 10
    assert seen == {}
    (comment,) = comments(fake)
    assert "✅" in comment.body
    assert TOKEN not in ended.out + ended.err
