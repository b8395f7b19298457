"""Both sides at once, or one after the other; and a budget for both."""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from processes import finished, start, until
from repositories import (
    APPLE,
    BREAD,
    RESULTS,
    Repository,
    against_main,
    repository_with_agent,
    sides,
)
from suites import AGENT, write_suite

MEETING = """
import os, time
from pathlib import Path
from typing import Any

notes = Path(os.environ["NOTES"])

def answer(question):
    (notes / "WHO is here").touch()
    while not (notes / "OTHER is here").exists():
        time.sleep(0.01)
    return f"{question}, says WHO"
"""
ALONE = """
import os
from pathlib import Path
from typing import Any

notes = Path(os.environ["NOTES"])

def answer(question):
    (notes / "occupied").touch(exist_ok=False)
    with (notes / "calls").open("a") as file:
        file.write("WHO\\n")
    (notes / "occupied").unlink()
    return f"{question}, says WHO"
"""
SERVICE = """
import http.server, json, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        with open(f"{os.environ['NOTES']}/{asked}", "a") as file:
            file.write("WHO\\n")
        answer = "BREAD" if asked == "bread" else asked
        self.reply({"answer": f"{answer}, says WHO"})

    def reply(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def with_sides(folder: Path, agent: str, **settings: object) -> Repository:
    """A repository with two versions of an agent."""
    shop = repository_with_agent(folder / "shop", cases=[APPLE, BREAD], **settings)
    shop.commit({"agent.py": agent.replace("WHO", "main").replace("OTHER", "change")})
    shop.write({"agent.py": agent.replace("WHO", "change").replace("OTHER", "main")})
    return shop


async def test_both_sides_run_at_the_same_time(tmp_path: Path) -> None:
    shop = with_sides(tmp_path, MEETING, timeout_s=60)
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out


@pytest.mark.parametrize("by", ["the suite", "the command line"])
async def test_a_suite_that_calls_one_by_one_does_so_across_both_sides(
    tmp_path: Path, by: str
) -> None:
    settings = {"max_concurrency": 1} if by == "the suite" else {}
    arguments = ("--max-concurrency", "1") if by == "the command line" else ()
    shop = with_sides(tmp_path, ALONE, runs=3, **settings)
    ended = await against_main(shop.folder, *arguments, environ={"NOTES": str(tmp_path)})
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out
    calls = (tmp_path / "calls").read_text().split()
    assert calls == ["main"] * 6 + ["change"] * 6


NOTING = """
import os
from pathlib import Path
from typing import Any

def answer(question):
    with (Path(os.environ["NOTES"]) / "calls").open("a") as file:
        file.write("WHO\\n")
    return f"{question}, says WHO"
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"providers": [{**AGENT, "max_concurrency": 1}]},
        {"judges": [{"name": "judge", "type": "mock", "max_concurrency": 1}]},
    ],
    ids=["a provider", "a judge"],
)
async def test_a_provider_or_judge_that_is_called_one_by_one_is_so_across_both_sides(
    tmp_path: Path, settings: Mapping[str, object]
) -> None:
    shop = with_sides(tmp_path, NOTING, runs=3, **settings)
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert ended.code == 0, ended.out + ended.err
    calls = (tmp_path / "calls").read_text().split()
    assert calls == ["main"] * 6 + ["change"] * 6


def with_service(folder: Path, port: str, bread: str, **settings: object) -> Repository:
    """A repository with two versions of a service; `bread` is what the change answers to bread."""
    shop = Repository.new(folder)
    url = f"http://127.0.0.1:{port}"
    provider = {
        "name": "service",
        "type": "http",
        "url": f"{url}/chat",
        "output": "$.answer",
        "serve": {"command": [sys.executable, "service.py", port], "url": f"{url}/health"},
    }
    write_suite(folder, [APPLE, BREAD], providers=[provider], **settings)
    shop.commit({"service.py": SERVICE.replace("WHO", "main").replace("BREAD", "bread")})
    shop.write({"service.py": SERVICE.replace("WHO", "change").replace("BREAD", bread)})
    return shop


async def test_a_service_is_started_for_one_side_after_the_other(tmp_path: Path, port: str) -> None:
    shop = with_service(tmp_path / "shop", port, "bread")
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out, ended.err
    assert sides(shop.folder) == (
        {"apple, says change", "bread, says change"},
        {"apple, says main", "bread, says main"},
    )


async def test_what_would_be_red_is_run_in_turns_by_services(tmp_path: Path, port: str) -> None:
    """Half of the runs here, then main's, then the rest here: an hour's drift falls on both."""
    shop = with_service(tmp_path / "shop", port, "nothing", runs=3)
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert ended.code == 1, ended.out + ended.err
    assert "0 of 10 here, 10 of 10 on main" in ended.unwrapped
    planned, repeats = ["main"] * 3 + ["change"] * 3, ["change"] * 4
    deciding = ["change"] * 5 + ["main"] * 10 + ["change"] * 5
    assert (tmp_path / "bread").read_text().split() == planned + repeats + deciding
    assert (tmp_path / "apple").read_text().split() == planned


async def test_this_side_waits_until_main_is_prepared(tmp_path: Path) -> None:
    agent = """
import os
from pathlib import Path
from typing import Any

notes = Path(os.environ["NOTES"])

def answer(question):
    return f"{question} {(notes / 'prepared').exists()}"
"""
    script = "import os, pathlib; (pathlib.Path(os.environ['NOTES']) / 'prepared').touch()\n"
    cases = [{"id": "apple", "input": "apple", "expect": [{"contains": "True"}]}]
    prepare = [sys.executable, "prepare.py"]
    shop = repository_with_agent(tmp_path / "shop", cases=cases, against={"prepare": prepare})
    shop.commit({"agent.py": agent, "prepare.py": script})
    shop.write({"README.md": "a change"})
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out


COSTLY = """
import os, time
from pathlib import Path
from typing import Any

notes = Path(os.environ["NOTES"])

def note(who):
    with (notes / who).open("a") as file:
        file.write("$")

def noted(who):
    return len((notes / who).read_text()) if (notes / who).exists() else 0

def answer(question):
    note("WHO")
    while "WHO" == "main" and (noted("change") < CASES or noted("main") > AFFORDED):
        time.sleep(0.01)
    return {"output": question, "cost_usd": {"main": 1.0, "change": 0.25}["WHO"]}
"""
COSTLY_CASES = 12
AFFORDED = 2
"""Calls of main that use up what 12 calls of the change leave of 5 USD. The next one never ends."""


async def test_a_budget_covers_both_sides(tmp_path: Path) -> None:
    """Main is cut once both have spent it, though neither has alone."""
    agent = COSTLY.replace("CASES", str(COSTLY_CASES)).replace("AFFORDED", str(AFFORDED))
    shop = costly_shop(tmp_path, agent, max_concurrency=2)
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert (tmp_path / "change").read_text() == "$" * COSTLY_CASES
    assert len((tmp_path / "main").read_text()) <= AFFORDED + 1, "one was under way"
    assert "12 of 12 runs passed" in " ".join(ended.out.split())
    assert "the budget of $5 is used up" in " ".join(ended.out.split())
    assert "Traceback" not in ended.err


async def test_main_that_runs_first_leaves_half_of_a_budget_to_the_change(tmp_path: Path) -> None:
    shop = costly_shop(
        tmp_path, COSTLY.replace("CASES", "0").replace("AFFORDED", "99"), max_concurrency=1
    )
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert len((tmp_path / "main").read_text()) == 3, "of 2.50 USD, one at a time"
    assert len((tmp_path / "change").read_text()) == 8, "of the other 2 USD"
    assert "the budget of $5 is used up" in " ".join(ended.out.split())


@pytest.mark.parametrize("main_usd", [None, 100.0])
async def test_main_that_runs_first_keeps_to_a_smaller_budget_of_the_change(
    tmp_path: Path, main_usd: float | None
) -> None:
    shop = costly_shop(
        tmp_path,
        COSTLY.replace("CASES", "0").replace("AFFORDED", "99"),
        max_concurrency=1,
        main_usd=main_usd,
    )
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert len((tmp_path / "main").read_text()) == 3, "of 2.50 USD, one at a time"
    assert len((tmp_path / "change").read_text()) == 8, "of the other 2 USD"
    assert "the budget of $5 is used up" in " ".join(ended.out.split())


def costly_shop(
    folder: Path, agent: str, *, max_concurrency: int, main_usd: float | None = 5
) -> Repository:
    """A repository with a budget of 5 USD: a call of main costs 1 USD, one of the change 0.25.

    Main's own budget may be another one, or none.
    """
    cases = [
        {"id": f"case-{n}", "input": f"q{n}", "expect": [{"equals": f"q{n}"}]}
        for n in range(COSTLY_CASES)
    ]
    settings: dict[str, Any] = {"name": "shop", "cases": cases, "max_concurrency": max_concurrency}
    budget = {} if main_usd is None else {"max_cost_usd": main_usd}
    shop = repository_with_agent(folder / "shop", **settings, budget=budget)
    shop.commit({"agent.py": agent.replace("WHO", "main")})
    shop.write({"agent.py": agent.replace("WHO", "change")})
    write_suite(shop.folder, providers=[AGENT], **settings, budget={"max_cost_usd": 5})
    return shop


async def test_a_signal_while_main_runs_first_leaves_a_report(tmp_path: Path, port: str) -> None:
    shop = with_service(tmp_path / "shop", port, "bread", runs=3)
    hold = "while os.path.exists(f\"{os.environ['NOTES']}/hold\"): time.sleep(0.01)"
    service = SERVICE.replace("WHO", "main").replace("BREAD", "bread")
    service = service.replace("import http.server,", "import http.server, time,")
    service = service.replace(
        '        answer = "bread"', f'        {hold}\n        answer = "bread"'
    )
    change = (shop.folder / "service.py").read_text()
    shop.commit({"service.py": service})
    shop.write({"service.py": change})
    (tmp_path / "hold").touch()
    environ = {"NOTES": str(tmp_path)}
    process = await start(shop.folder, "run", "--against", "main", environ=environ)
    await until((tmp_path / "bread").exists)
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130, ended.out + ended.err
    assert "interrupted before any of the 6 runs finished" in ended.unwrapped
    assert (shop.folder / RESULTS / "report.json").exists()
    (tmp_path / "hold").unlink()
    resumed = await against_main(shop.folder, "--resume", environ=environ)
    assert resumed.code == 0, resumed.out + resumed.err
    assert "which ran alongside" in resumed.out


async def test_a_service_that_does_not_start_again_leaves_the_pairs_unchecked(
    tmp_path: Path, port: str
) -> None:
    """It is started to find mistakes, for the planned runs, and once more after main's turn."""
    shop = with_service(tmp_path / "shop", port, "nothing", runs=3)
    started = "starts = open(f\"{os.environ['NOTES']}/starts\", 'a+'); starts.write('x')\n"
    started += "starts.seek(0); assert len(starts.read()) < 3\n"
    service = (shop.folder / "service.py").read_text()
    shop.write({"service.py": service.replace("class Handler", f"{started}\nclass Handler")})
    ended = await against_main(shop.folder, environ={"NOTES": str(tmp_path)})
    assert "could not be opened again" in ended.unwrapped
    assert "not checked on main, as the runs ended first: bread" in ended.unwrapped
    assert "can't tell: 0 of 5" not in ended.unwrapped
    assert "Traceback" not in ended.err
