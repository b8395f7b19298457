"""The token of a job, which only the parent of a command has."""

import asyncio
import json
import os
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from fakes.github import TOKEN, FakeGitHub
from jobs import Repository, outputs_in
from processes import COMMAND, ci_evals, environment
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


MAKING_CASES = """
import gc, json, pathlib, subprocess
from ci_evals.cli.watchdog import ask_parent

def cases():
    found = [repr(ask_parent({"do": "reveal", "arguments": ["GITHUB_TOKEN"]}))]
    for request in ("find_main", "fetch"):
        asked = {"do": request, "arguments": ["a" * 40, "evil"][-1:], "options": {}}
        found.append(repr(ask_parent(asked)))
    for thing in gc.get_objects():
        if isinstance(thing, dict) and "GITHUB_TOKEN" in thing:
            found.append(repr(thing["GITHUB_TOKEN"]))
    pathlib.Path("found.json").write_text(json.dumps(found))
    return [{"id": "hello", "input": "hello", "expect": [{"contains": "hello"}]}]
"""


async def test_code_that_makes_cases_gets_no_token(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=HEAD, base_sha="0" * 40)
    (repository.folder / "making.py").write_text(MAKING_CASES)
    write_suite(repository.folder, {"python": "making:cases"})
    job = await repository.pull_request(HEAD)
    assert job.ended.code == 0, job.ended.err
    found = json.loads((repository.folder / "found.json").read_text())
    assert found[0] == "{'value': None}"
    assert all("is no request" in answer for answer in found[1:3])
    assert not any(TOKEN in text for text in found)


async def test_the_token_that_a_checkout_leaves_is_redacted_though_the_command_does_not_know_it(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=HEAD, base_sha="0" * 40)
    header = b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    other = b64encode(f"somebody:{TOKEN}".encode()).decode()
    (repository.folder / "agent.py").write_text(
        f"def answer(question):\n    return 'AUTHORIZATION: basic {header} {other} {TOKEN}'\n"
    )
    write_suite(repository.folder, providers=[AGENT])
    job = await repository.pull_request(HEAD)
    (comment,) = comments(fake)
    shown = job.ended.out + job.ended.err + job.page + json.dumps(job.report)
    for text in (shown, job.summary, comment.body):
        assert TOKEN not in text
        assert header[:40] not in text
    for text in (job.summary, comment.body):
        assert other[:40] not in text


async def test_a_command_line_that_ends_in_a_mistake_keeps_its_options(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=HEAD, base_sha="0" * 40)
    repository.suite()
    job = await repository.pull_request(HEAD, "--no-such", "--comment", "off")
    assert (job.ended.code, job.outputs["verdict"]) == (2, "error")
    assert comments(fake) == []
    await repository.pull_request(HEAD, "--no-such", "--shard", "1/2")
    assert comments(fake) == []


async def test_a_signal_of_any_kind_that_ends_the_command_replaces_its_verdict(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=HEAD, base_sha="0" * 40)
    (repository.folder / "agent.py").write_text(
        "import os\ndef answer(question):\n    os.kill(os.getpid(), 40)\n"
    )
    write_suite(repository.folder, providers=[AGENT])
    job = await repository.pull_request(HEAD)
    assert (job.ended.code, job.outputs["verdict"]) == (3, "error")
    (comment,) = comments(fake)
    assert "ended with signal 40" in comment.body


async def test_json_of_grade_is_not_followed_by_annotations(
    repository: Repository, fake: FakeGitHub
) -> None:
    open_pull(fake, head_sha=HEAD, base_sha="0" * 40)
    write_suite(repository.folder)
    (repository.folder / "traces.jsonl").write_text("")
    place = repository.folder / ".runner"
    place.mkdir()
    pull = fake.state.pull_answer(fake.state.pulls[NUMBER])
    run = fake.state.add_run(HEAD, event="pull_request")
    environ = repository.environment("pull_request", {"pull_request": pull}, run, place)
    command = ("grade", "traces.jsonl", "--suite", "evals.yaml", "--format", "json")
    ended = await ci_evals(repository.folder, *command, environ=environ)
    assert ended.code in {2, 3}
    assert ended.out == ""
    assert outputs_in(place / "output")["verdict"] == "error"
    assert comments(fake) == []


@pytest.mark.parametrize("closed", [True, False])
async def test_streams_of_any_kind_will_do(repository: Repository, closed: bool) -> None:
    write_suite(repository.folder, name="Прага ≥ ✅")
    redirection = ">&-" if closed else ""
    command = ["-c", f'exec "$0" -m ci_evals run {redirection}', sys.executable]
    environ = {"GITHUB_ACTIONS": "true", "PYTHONIOENCODING": "ascii"}
    process = await asyncio.create_subprocess_exec(
        "sh",
        *command,
        cwd=repository.folder,
        env=environment(environ),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    _, err = await process.communicate()
    assert process.returncode == 0, err
