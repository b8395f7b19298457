"""`setup`: what is set up for runs, joins their vars, and is torn down after them."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any

import psutil
import pytest
from fakes.http_server import Scripted, serving
from leftovers import journal_lines, journaled, report_in
from processes import Finished, ci_evals, finished, start, until
from projects import schema
from suites import write_suite

from ci_evals import Case, Fixture, FixtureRequest, Suite, evaluate
from ci_evals.graders import Equals

MODULE = """
import time
from pathlib import Path

LOG = Path(__file__).with_name("log.txt")

def log(text):
    with LOG.open("a") as file:
        file.write(text + "\\n")

def order(request):
    number = f"{request.case.id}-{request.run}"
    log(f"up {number}")
    yield {"order_id": number}
    log(f"down {number}")

def plain():
    return {"order_id": "A1"}

def shared(request):
    log(f"up {request.case.id if request.case else 'suite'} {request.provider}")
    yield {"order_id": "A1", "seen": dict(request.vars)}
    log(f"down {request.case.id if request.case else 'suite'} {request.provider}")

def nested(request):
    return {"line_id": request.vars["order_id"] + "/1"}

def broken():
    raise KeyError("no database")

def broken_for_b(request):
    if request.case.id == "b":
        raise KeyError("no database")
    return {"order_id": "A1"}

def broken_teardown(request):
    yield {"order_id": "A1"}
    if request.run == 1:
        raise OSError("the disk is gone")

def slow():
    time.sleep(60)

def slow_teardown():
    yield {"order_id": "A1"}
    time.sleep(60)

def two(request, other):
    return {}

def reachable(output):
    if LOG.with_name("offline").exists():
        raise ConnectionError("nobody is there")
    return True

def a_list():
    return ["order_id"]

def numbered():
    return {1: "order_id"}

def taken():
    return {"topic": "other"}

def secret():
    return {"order_id": "A1", "api_token": "tok-123456789", "handle": object()}

def deep_secret():
    login = {"user": "shop-user", "password": "hunter2-deep"}
    return {"order_id": "A1", "db": {"logins": [login], "port": 5432}}

def tells(input, request):
    return f"{input} with {request.case.vars['db']['logins'][0]['password']}"

def waits():
    log("up")
    yield {"order_id": "A1"}
    log("down")

def answer(input, request):
    log(f"call {request.case.vars['order_id']}")
    return f"{input} done"

def hangs(input, request):
    log("call")
    time.sleep(60)

def is_logged(output, answer):
    order_id = answer.request.case.vars["order_id"]
    log(f"grade {order_id}")
    return f"down {order_id}" not in LOG.read_text()
"""
AGENT = {"name": "agent", "type": "python", "target": "shop:answer"}
ECHO = {"name": "echo", "type": "mock"}
PROMPTS = ["Cancel {{ order_id }}"]


def case(id_: str = "a", **settings: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "vars": {"topic": "orders"},
        "expect": [{"contains": "Cancel {{ order_id }}"}],
        **settings,
    }


async def run(folder: Path, *arguments: str, **settings: Any) -> Finished:
    settings = {"providers": [AGENT], "prompts": PROMPTS, "cases": [case()], **settings}
    (folder / "shop.py").write_text(MODULE, "utf-8")
    write_suite(folder, **settings)
    return await ci_evals(folder, "run", "--out", "out", *arguments)


def log_of(folder: Path) -> list[str]:
    file = folder / "log.txt"
    if not file.exists():
        return []
    return file.read_text().splitlines()


def results_in(folder: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = report_in(folder / "out")["results"]
    return results


async def test_every_run_has_a_setup_of_its_own_until_it_is_graded(tmp_path: Path) -> None:
    checks = [{"contains": "Cancel {{ order_id }} done"}, {"python": "shop:is_logged"}]
    cases = [case("a", expect=checks), case("b", expect=checks)]
    ended = await run(tmp_path, setup="shop:order", cases=cases, runs=3)
    assert ended.code == 0, ended.out + ended.err
    ids = [f"{name}-{number}" for name in "ab" for number in (1, 2, 3)]
    log = log_of(tmp_path)
    for id_ in ids:
        mine = [line for line in log if line.endswith(id_)]
        assert mine == [f"up {id_}", f"call {id_}", f"grade {id_}", f"down {id_}"]
    found = {result["messages"][0]["content"] for result in results_in(tmp_path)}
    assert found == {f"Cancel {id_}" for id_ in ids}
    assert {result["setup_vars"]["order_id"] for result in results_in(tmp_path)} == set(ids)


@pytest.mark.parametrize(
    ("scope", "log"),
    [
        ("suite", ["up suite None", "down suite None"]),
        ("case", [f"{how} {name} agent" for name in "ab" for how in ("up", "down")]),
    ],
)
async def test_runs_share_a_fixture_of_a_wider_scope(
    tmp_path: Path, scope: str, log: list[str]
) -> None:
    setup = {"python": "shop:shared", "scope": scope}
    ended = await run(tmp_path, setup=setup, cases=[case("a"), case("b")], runs=3)
    assert ended.code == 0, ended.out + ended.err
    lines = log_of(tmp_path)
    assert sorted(line for line in lines if not line.startswith("call")) == sorted(log)
    assert lines[0].startswith("up")
    assert lines[-1].startswith("down")


async def test_variants_do_not_share_the_fixture_of_a_case(tmp_path: Path) -> None:
    agents = [AGENT, {**AGENT, "name": "other"}]
    setup = {"python": "shop:shared", "scope": "case"}
    await run(tmp_path, setup=setup, providers=agents, runs=2)
    ups = [line for line in log_of(tmp_path) if line.startswith("up")]
    assert sorted(ups) == ["up a agent", "up a other"]


async def test_few_fixtures_of_cases_live_at_once(tmp_path: Path) -> None:
    setup = {"python": "shop:shared", "scope": "case"}
    cases = [case(f"case-{number}") for number in range(30)]
    ended = await run(tmp_path, setup=setup, cases=cases, runs=3, max_concurrency=2)
    assert ended.code == 0, ended.out + ended.err
    alive = 0
    most = 0
    for line in log_of(tmp_path):
        if line.startswith("up"):
            alive += 1
        elif line.startswith("down"):
            alive -= 1
        most = max(most, alive)
    assert alive == 0
    assert most <= 3, "one for each call under way, and one that is torn down"


async def test_fixtures_of_suite_provider_and_case_see_those_before_them(tmp_path: Path) -> None:
    ended = await run(
        tmp_path,
        setup=[{"python": "shop:plain", "scope": "suite"}],
        providers=[{**AGENT, "setup": "shop:nested"}],
        prompts=["Cancel {{ order_id }}: {{ line_id }}"],
        cases=[case(setup={"python": "shop:shared"})],
    )
    assert ended.code == 0, ended.out + ended.err
    (result,) = results_in(tmp_path)
    assert result["response"]["output"] == "Cancel A1: A1/1 done"
    assert result["setup_vars"]["seen"] == {
        "topic": "orders",
        "order_id": "A1",
        "line_id": "A1/1",
    }


async def test_a_failing_setup_makes_its_runs_errored_and_the_others_go_on(tmp_path: Path) -> None:
    ended = await run(
        tmp_path,
        setup="shop:broken_for_b",
        cases=[case("a"), case("b")],
        gate={"max_error_rate": 0.6},
    )
    assert "errored" in ended.out
    passed, errored = results_in(tmp_path)
    assert (passed["status"], errored["status"]) == ("passed", "errored")
    assert errored["error"]["kind"] == "setup"
    assert errored["error"]["message"].startswith(
        "setup shop:broken_for_b raised KeyError: 'no database' (shop.py:"
    )
    assert "broken_for_b" in errored["error"]["detail"]
    assert log_of(tmp_path) == ["call A1"], "no call without its setup"


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ({"python": "shop:slow", "timeout_s": 0.2}, "setup shop:slow took more than 0.2 s"),
        ("shop:a_list", "setup shop:a_list returned a list: expected a mapping of names to values"),
        (
            "shop:numbered",
            "setup shop:numbered returned a var named 1: expected a text as its name",
        ),
        ("shop:taken", "setup shop:taken returned 'topic', which is also a var of the case"),
        (
            {"command": [sys.executable, "-c", "raise SystemExit('no database')"]},
            "exit status 1: no database",
        ),
        ({"command": [sys.executable, "-c", "print('up')"]}, "stdout is not a JSON object"),
        ("shop:nothing_of_use", "the vars of its setup do not fit: 'order_id' is undefined"),
    ],
)
async def test_what_is_wrong_with_a_setup_is_the_reason_of_its_runs(
    tmp_path: Path, setup: Any, message: str
) -> None:
    module = MODULE + "\ndef nothing_of_use():\n    return {'order_ids': 'A1'}\n"
    (tmp_path / "shop.py").write_text(module, "utf-8")
    write_suite(tmp_path, [case()], providers=[AGENT], prompts=PROMPTS, setup=setup)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3
    (result,) = results_in(tmp_path)
    assert message in result["error"]["message"]
    assert result["status"] == "errored"
    assert log_of(tmp_path) == []


async def test_a_shared_setup_that_fails_is_tried_once(tmp_path: Path) -> None:
    module = MODULE + "\ndef fails():\n    log('up')\n    raise KeyError('no database')\n"
    (tmp_path / "shop.py").write_text(module, "utf-8")
    setup = {"python": "shop:fails", "scope": "suite"}
    cases = [case("a"), case("b")]
    write_suite(tmp_path, cases, providers=[AGENT], prompts=PROMPTS, setup=setup, runs=2)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 3
    messages = {result["error"]["message"] for result in results_in(tmp_path)}
    assert len(messages) == 1
    assert log_of(tmp_path) == ["up"]


async def test_a_conversation_has_the_vars_in_every_turn(tmp_path: Path) -> None:
    ended = await run(
        tmp_path,
        setup="shop:order",
        cases=[
            {
                "id": "a",
                "turns": [{"user": "one"}, {"user": "two"}],
                "expect": [{"contains": "{{ order_id }}"}],
            }
        ],
        prompts=[{"messages": [{"role": "system", "content": "Order {{ order_id }}"}]}],
        providers=[{**ECHO, "default": "{{ order_id }}: {{ input }}"}],
    )
    assert ended.code == 0, ended.out + ended.err
    (result,) = results_in(tmp_path)
    outputs = [turn["response"]["output"] for turn in result["response"]["turns"]]
    assert outputs == ["a-1: one", "a-1: two"]
    assert result["messages"][0]["content"] == "Order a-1"
    assert log_of(tmp_path) == ["up a-1", "down a-1"]


async def test_what_a_suite_depends_on_includes_its_setup(tmp_path: Path) -> None:
    ended = await run(tmp_path, setup="shop:order", providers=[ECHO], skip_unchanged=True)
    assert ended.code == 2
    assert "the setup of the suite is your own code: name its files here" in ended.err


@pytest.mark.parametrize("scope", ["run", "case", "suite"])
async def test_a_failing_teardown_is_told_and_changes_no_grade(tmp_path: Path, scope: str) -> None:
    setup = {"python": "shop:slow_teardown", "timeout_s": 0.2, "scope": scope}
    report = {"formats": ["json", "markdown", "html"]}
    ended = await run(tmp_path, setup=setup, report=report)
    assert ended.code == 0, ended.out + ended.err
    reason = "teardown of shop:slow_teardown took more than 0.2 s"
    (result,) = results_in(tmp_path)
    assert result["teardown_error"] == reason
    assert (result["status"], len(result["grades"])) == ("passed", 1)
    note = "failed after 1 of 1 run, which changes no grade"
    assert f"Teardown: {note}" in ended.out
    assert note in (tmp_path / "out/summary.md").read_text()
    assert note in (tmp_path / "out/report.html").read_text()


async def test_a_teardown_that_raises_is_noted_with_its_run_alone(tmp_path: Path) -> None:
    await run(tmp_path, setup="shop:broken_teardown", runs=2)
    first, second = results_in(tmp_path)
    assert "raised OSError: the disk is gone (shop.py:" in first["teardown_error"]
    assert "teardown_error" not in second


async def test_a_resumed_run_sets_up_only_what_it_runs_and_keeps_the_note(tmp_path: Path) -> None:
    await run(tmp_path, setup="shop:broken_teardown", runs=1)
    calls = log_of(tmp_path)
    ended = await run(tmp_path, "--resume", setup="shop:broken_teardown", runs=2)
    assert "1 of 2 runs kept" in ended.out
    assert len(log_of(tmp_path)) == len(calls) + 1
    first, second = results_in(tmp_path)
    assert "teardown_error" in first
    assert "teardown_error" not in second


async def test_a_run_that_was_not_graded_is_made_again_with_its_setup(tmp_path: Path) -> None:
    cases = [case(expect=[{"python": "shop:reachable"}])]
    (tmp_path / "offline").touch()
    ended = await run(tmp_path, setup="shop:order", cases=cases)
    assert ended.code == 3
    made = ["up a-1", "call a-1", "down a-1"]
    assert log_of(tmp_path) == made
    (tmp_path / "offline").unlink()
    ended = await run(tmp_path, "--resume", setup="shop:order", cases=cases)
    assert ended.code == 0, ended.out + ended.err
    assert log_of(tmp_path) == made * 2


async def test_answers_of_runs_with_a_setup_are_not_reused(tmp_path: Path) -> None:
    settings = {"providers": [ECHO], "reuse": {"max_age_days": 7}}
    for _ in range(2):
        ended = await run(tmp_path, setup="shop:order", **settings)
        assert ended.code == 0, ended.out + ended.err
    assert log_of(tmp_path) == ["up a-1", "down a-1"] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("scope", ["run", "case", "suite"])
async def test_a_signal_tears_down_what_is_set_up(tmp_path: Path, scope: str) -> None:
    (tmp_path / "shop.py").write_text(MODULE, "utf-8")
    setup = {"python": "shop:waits", "scope": scope}
    agent = {**AGENT, "target": "shop:hangs"}
    write_suite(tmp_path, [case()], providers=[agent], prompts=PROMPTS, setup=setup)
    process = await start(tmp_path, "run", "--out", "out")
    await until(lambda: "call" in log_of(tmp_path))
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert log_of(tmp_path) == ["up", "call", "down"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_signal_ends_a_teardown_and_the_others_follow(tmp_path: Path) -> None:
    module = "\ndef stuck():\n    yield {}\n    log('stuck')\n    time.sleep(600)\n"
    (tmp_path / "shop.py").write_text(MODULE + module, "utf-8")
    setup = [{"python": f"shop:{name}", "scope": "suite"} for name in ("waits", "stuck")]
    write_suite(tmp_path, [case()], providers=[AGENT], prompts=PROMPTS, setup=setup)
    process = await start(tmp_path, "run", "--out", "out")
    await until(lambda: "stuck" in log_of(tmp_path))
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert log_of(tmp_path) == ["up", "call A1", "stuck", "down"]
    assert report_in(tmp_path / "out")["interrupted"] == "SIGINT"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_signal_ends_a_setup(tmp_path: Path) -> None:
    program = "import time; open('log.txt', 'w').write('up\\n'); time.sleep(60)"
    setup = {"command": [sys.executable, "-c", program]}
    write_suite(tmp_path, [case()], prompts=PROMPTS, setup=setup)
    process = await start(tmp_path, "run", "--out", "out")
    await until(lambda: log_of(tmp_path) == ["up"])
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert report_in(tmp_path / "out")["interrupted"] == "SIGINT"


DAEMON = """
import json, subprocess, sys
given = json.load(sys.stdin)
command = [sys.executable, "-c", "import time; time.sleep(60)"]
child = subprocess.Popen(command, start_new_session=True)
print(json.dumps({"order_id": given["id"] + str(given["run"]), "pid": child.pid}))
"""
TEARDOWN = """
import json, sys
from pathlib import Path
import psutil
given = json.load(sys.stdin)["vars"]
is_alive = psutil.Process(given["pid"]).status() != psutil.STATUS_ZOMBIE
Path("ended.json").write_text(json.dumps([given, is_alive]))
"""


async def test_a_command_sets_up_and_its_daemons_live_until_the_teardown(tmp_path: Path) -> None:
    (tmp_path / "up.py").write_text(DAEMON, "utf-8")
    (tmp_path / "down.py").write_text(TEARDOWN, "utf-8")
    setup = {"command": f"{sys.executable} up.py", "teardown": [sys.executable, "down.py"]}
    ended = await run(tmp_path, setup=setup)
    assert ended.code == 0, ended.out + ended.err
    assert log_of(tmp_path) == ["call a1"]
    given, lived = json.loads((tmp_path / "ended.json").read_text())
    assert lived
    assert given["order_id"] == "a1"
    assert given["topic"] == "orders"
    with suppress(psutil.NoSuchProcess):  # else nobody has reaped it
        assert psutil.Process(given["pid"]).status() == psutil.STATUS_ZOMBIE


async def test_a_command_that_fails_leaves_no_daemon_behind(tmp_path: Path) -> None:
    program = DAEMON + 'open("pid", "w").write(str(child.pid))\nsys.exit("no database")\n'
    (tmp_path / "up.py").write_text(program, "utf-8")
    ended = await run(tmp_path, setup={"command": [sys.executable, "up.py"]})
    assert ended.code == 3
    pid = int((tmp_path / "pid").read_text())
    with suppress(psutil.NoSuchProcess):  # else nobody has reaped it
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_an_answer_that_is_graded_again_has_the_vars_and_no_setup(tmp_path: Path) -> None:
    await run(tmp_path, setup="shop:order", runs=2)
    (tmp_path / "log.txt").unlink()
    (tmp_path / "out").rename(tmp_path / "first")
    checks = [{"contains": {"value": "CANCEL {{ order_id }} DONE", "ignore_case": True}}]
    again = await run(
        tmp_path,
        "--replay",
        "first",
        "--replay-only",
        setup="shop:order",
        cases=[case(expect=checks)],
        runs=2,
        gate={"on_unchecked": "warn"},
    )
    assert again.code == 0, again.out + again.err
    assert log_of(tmp_path) == []
    for number, result in enumerate(results_in(tmp_path), 1):
        assert result["recorded"]
        assert result["messages"][0]["content"] == f"Cancel a-{number}"
        assert result["setup_vars"] == {"order_id": f"a-{number}"}


async def test_a_judge_that_is_checked_sees_the_vars_and_other_grades_stay(tmp_path: Path) -> None:
    judge = {"name": "judge", "type": "mock", "default": '{"verdict": "pass", "reason": "ok"}'}
    checks = [{"judge": "cancels {{ order_id }}"}, {"python": "shop:is_logged"}]
    ended = await run(
        tmp_path,
        setup="shop:order",
        cases=[case(expect=checks)],
        judges=[judge],
        runs=20,
    )
    assert ended.code == 0, ended.out
    log = log_of(tmp_path)
    ended = await ci_evals(tmp_path, "judge", "check", "out", "--yes")
    assert "of 20 answers again (0 failed, 20 passed)" in ended.err
    assert "then failed" not in ended.err
    assert log_of(tmp_path) == log, "neither a setup nor a check that looks at it"


async def test_suspects_are_set_up_again_to_be_confirmed(tmp_path: Path) -> None:
    setup = {"python": "shop:shared", "scope": "case"}
    bar = {"min_pass_rate": 0.1}
    await run(tmp_path, setup=setup, runs=6, gate=bar)
    (tmp_path / "out").rename(tmp_path / "base")
    (tmp_path / "log.txt").unlink()
    worse = [{**AGENT, "after": ["shop:spoil"]}]
    module = MODULE + "\ndef spoil(text):\n    return 'wrong'\n"
    (tmp_path / "shop.py").write_text(module, "utf-8")
    write_suite(tmp_path, [case()], providers=worse, prompts=PROMPTS, setup=setup, runs=6, gate=bar)
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--baseline", "base")
    assert "confirming 1 suspect" in ended.err
    log = log_of(tmp_path)
    assert log.count("up a agent") == log.count("down a agent") == 3
    assert (log[0], log[-1]) == ("up a agent", "down a agent")


async def test_secrets_and_handles_are_not_kept_and_a_grader_that_needs_one_gives_no_verdict(
    tmp_path: Path,
) -> None:
    checks = [{"not_contains": "{{ api_token }}"}]
    ended = await run(tmp_path, setup="shop:secret", cases=[case(expect=checks)])
    assert ended.code == 0, ended.out + ended.err
    (line,) = journaled(tmp_path / "out")
    assert line["setup_vars"] == {"order_id": "A1"}
    for file in (tmp_path / "out").iterdir():
        if file.is_file():
            assert b"tok-123456789" not in file.read_bytes(), file
    (tmp_path / "out").rename(tmp_path / "first")
    again = await run(
        tmp_path,
        *("--replay", "first", "--replay-only"),
        setup="shop:secret",
        cases=[case(expect=checks)],
    )
    assert again.code == 3
    (result,) = results_in(tmp_path)
    assert "'api_token' is undefined" in result["error"]["message"]


async def test_a_secret_inside_a_var_is_masked_wherever_it_is_repeated(tmp_path: Path) -> None:
    provider = {"name": "agent", "type": "python", "target": "shop:tells"}
    formats = {"formats": ["json", "junit", "markdown", "html"]}
    ended = await run(
        tmp_path,
        setup="shop:deep_secret",
        providers=[provider],
        cases=[case(expect=[{"contains": "another order"}])],
        report=formats,
    )
    assert ended.code == 1, ended.out + ended.err
    (line,) = journaled(tmp_path / "out")
    login = {"user": "shop-user", "password": "***"}
    assert line["setup_vars"] == {"order_id": "A1", "db": {"logins": [login], "port": 5432}}
    assert line["response"]["output"].endswith(" with ***")
    for file in (tmp_path / "out").iterdir():
        if file.is_file():
            assert b"hunter2-deep" not in file.read_bytes(), file


async def test_the_definition_of_a_setup_is_part_of_the_fingerprint_and_its_values_are_not(
    tmp_path: Path,
) -> None:
    prints = []
    for setup in ("shop:order", "shop:order", {"python": "shop:order", "scope": "case"}):
        await run(tmp_path, setup=setup, runs=2)
        prints.append({line["fingerprint"] for line in journaled(tmp_path / "out")})
    assert prints[0] == prints[1]
    assert len(prints[0]) == 1, "both runs ask the same question"
    assert prints[0] != prints[2]


async def test_an_http_request_has_the_vars(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted({"output": "Cancel A1"}))
        provider = {"name": "service", "type": "http", "url": server.url}
        good = {**provider, "body": {"order": "{{ vars.order_id }}"}}
        ended = await run(tmp_path, setup="shop:plain", providers=[good])
        assert ended.code == 0, ended.out + ended.err
        assert server.seen[0].json == {"order": "A1"}
        asked = len(server.seen)
        bad = {**provider, "body": {"order": "{{ vars.order }}"}}
        ended = await run(tmp_path, setup="shop:plain", providers=[bad])
        assert ended.code == 3
        (result,) = results_in(tmp_path)
        assert result["status"] == "errored"
        assert "the vars of its setup do not fit" in result["error"]["message"]
        assert len(server.seen) == asked


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"setup": "shop:nothing"}, "there is no 'nothing' in shop"),
        ({"setup": "shop.py"}, "setup: 'shop.py' is not of the form module:function"),
        ({"setup": [{"scope": "run"}]}, "setup[0]: name a function with `python`, or a program"),
        (
            {"setup": {"python": "shop:order", "scope": "session"}},
            "setup.scope: expected run, case",
        ),
        ({"setup": [{"python": "shop:order", "scop": "case"}]}, "did you mean 'scope'?"),
        ({"setup": {"python": "shop:order", "timeout": 5}}, "did you mean 'timeout_s'?"),
        ({"setup": "shop:two"}, "a fixture takes one argument or none: missing a required"),
        (
            {"judges": [{**ECHO, "name": "judge", "setup": "shop:order"}]},
            "judge is a judge or a user: only what answers cases has a setup",
        ),
        ({"setup": {"command": "no-such-program"}}, "there is no program 'no-such-program'"),
        (
            {"setup": {"python": "shop:order", "teardown": "rm x"}},
            "`teardown` is for a `command`",
        ),
        (
            {"providers": [{**AGENT, "setup": "shop:order"}, ECHO]},
            "case 'a': order_id waits for a `setup`, and the provider echo has none",
        ),
        ({}, "the prompt 'prompt 1' does not fit this case: 'order_id' is undefined"),
    ],
)
async def test_what_can_be_seen_to_be_wrong_is_told_before_any_call(
    tmp_path: Path, settings: Mapping[str, Any], message: str
) -> None:
    ended = await run(tmp_path, **settings)
    assert ended.code == 2, ended.out
    assert message in ended.err
    assert log_of(tmp_path) == []


def test_the_schema_has_every_spelling() -> None:
    made = schema()
    spellings = made["properties"]["setup"]["anyOf"]
    assert spellings[:2] == [{"type": "string"}, {"$ref": "#/$defs/Fixture"}]
    assert made["$defs"]["Case"]["properties"]["setup"]["anyOf"] == spellings
    assert made["$defs"]["provider.Http"]["properties"]["setup"]["anyOf"] == spellings
    assert set(made["$defs"]["Fixture"]["properties"]) == {
        *("python", "command", "teardown", "scope", "timeout_s")
    }


# In Python.


async def test_a_generator_is_run_by_one_thread_and_an_async_one_by_one_task(
    tmp_path: Path,
) -> None:
    threads: list[int] = []
    tasks: list[Any] = []

    def order(request: FixtureRequest) -> Iterator[Mapping[str, Any]]:
        threads.append(get_ident())
        yield {"order_id": f"A{request.run}"}
        threads.append(get_ident())

    async def basket() -> AsyncIterator[Mapping[str, Any]]:
        tasks.append(asyncio.current_task())
        yield {"basket": "B"}
        tasks.append(asyncio.current_task())

    async def user() -> Mapping[str, Any]:
        return {"user": "U"}

    def agent(text: str) -> str:
        return text

    suite = Suite(
        providers=agent,
        prompts=["{{ order_id }}{{ basket }}{{ user }}"],
        cases=[Case(id="a", vars={"x": 1}, expect=[Equals("A1BU")])],
        setup=[Fixture(order), basket, user],
        folder=tmp_path,
    )
    report = await evaluate(suite, runs=1)
    assert report.all_passed, report.summary()
    assert threads[0] == threads[1] != get_ident()
    assert tasks[0] is tasks[1]


async def test_parallel_runs_never_share_the_fixture_of_a_run(tmp_path: Path) -> None:
    in_use: set[str] = set()
    most = 0

    def order(request: FixtureRequest) -> Iterator[Mapping[str, Any]]:
        nonlocal most
        name = f"{request.run}"
        assert name not in in_use
        in_use.add(name)
        most = max(most, len(in_use))
        yield {"name": name}
        in_use.remove(name)

    barrier = asyncio.Barrier(4)

    async def agent(text: str) -> str:
        await barrier.wait()
        return text

    suite = Suite(
        providers=agent,
        prompts=["{{ name }}"],
        cases=[Case(id="a", vars={"x": 1})],
        expect=[{"contains": "{{ name }}"}],
        setup=order,
        runs=4,
        folder=tmp_path,
    )
    report = await evaluate(suite)
    assert report.all_passed, report.summary()
    assert most == 4
    assert not in_use


async def test_a_fixture_of_a_case_outlives_those_of_its_runs(tmp_path: Path) -> None:
    log: list[str] = []
    both_recorded = asyncio.Barrier(2)

    async def case_wide() -> AsyncIterator[Mapping[str, Any]]:
        log.append("up")
        yield {"shop": "open"}
        log.append("down")

    async def order() -> AsyncIterator[Mapping[str, Any]]:
        yield {"order": "A"}
        await both_recorded.wait()
        await asyncio.sleep(0)
        log.append("run down")

    async def agent(text: str) -> str:
        return text

    suite = Suite(
        providers=agent,
        cases=[Case(id="a", input="x", expect=[Equals("x")])],
        setup=[order, Fixture(case_wide, scope="case")],
        runs=2,
        folder=tmp_path,
    )
    report = await evaluate(suite)
    assert report.all_passed, report.summary()
    assert log == ["up", "run down", "run down", "down"]


async def test_a_setup_that_is_given_up_still_tears_down(tmp_path: Path) -> None:
    torn_down = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def order() -> AsyncIterator[Mapping[str, Any]]:
        try:
            await asyncio.Event().wait()
            yield {}
        finally:
            loop.call_soon_threadsafe(torn_down.set)

    suite = Suite(
        providers=lambda text: text,
        cases=[Case(id="a", input="x", expect=[Equals("x")])],
        setup=Fixture(order, timeout_s=0.05),
        folder=tmp_path,
    )
    report = await evaluate(suite, runs=1)
    assert report.errored == 1
    await asyncio.wait_for(torn_down.wait(), 10)


async def test_a_run_without_a_setup_leaves_no_trace_of_one(tmp_path: Path) -> None:
    write_suite(tmp_path)
    await ci_evals(tmp_path, "run", "--out", "out")
    _, line = journal_lines(tmp_path / "out")
    assert not {"setup_vars", "teardown_error"} & set(line)
