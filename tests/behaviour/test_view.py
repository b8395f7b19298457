"""`ci-evals view`: report.html of a saved report in the browser, or served during a run."""

import asyncio
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from fakes.chat import chatting
from fakes.held import HeldServer
from processes import ci_evals, finished, start
from suites import chat, write_suite

from ci_evals.cli.live import LivePage
from ci_evals.reports.read import read_summary


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """A browser that only writes down which page it was to open, and what it wrote."""
    log = tmp_path / "opened.txt"
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(log)!r}, 'a').write(sys.argv[1])\n"
    )
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", str(browser))
    return lambda: log.read_text() if log.exists() else ""


def suite(folder: Path, expected: str, **settings: object) -> None:
    case = {"id": "greeting", "input": "hello", "expect": [{"equals": expected}]}
    write_suite(folder, [case], runs=10, report={"formats": ["json"]}, **settings)


@pytest.mark.skipif(sys.platform == "win32", reason="BROWSER names a POSIX program")
async def test_the_page_of_a_report_is_made_and_opened(
    tmp_path: Path, opened: Callable[[], str]
) -> None:
    suite(tmp_path, "hello")
    await ci_evals(tmp_path, "run")
    page = tmp_path / "ci-evals-results" / "report.html"
    assert not page.exists()
    ended = await ci_evals(tmp_path, "view")
    assert (ended.code, ended.out) == (0, "ci-evals-results/report.html\n")
    assert opened() == page.absolute().as_uri()
    text = page.read_text("utf-8")
    assert "10 of 10 runs passed" in text
    assert "ci-evals run --case greeting" in text


async def test_a_baseline_may_be_chosen_afterwards(
    tmp_path: Path, opened: Callable[[], str]
) -> None:
    for name, expected in (("main", "hello"), ("head", "goodbye")):
        (tmp_path / name).mkdir()
        suite(tmp_path / name, expected)
        await ci_evals(tmp_path / name, "run")
    report = tmp_path / "head" / "ci-evals-results" / "report.json"
    base = tmp_path / "main" / "ci-evals-results"
    ended = await ci_evals(tmp_path, "view", str(report), "--baseline", str(base), "--no-browser")
    assert ended.code == 0, ended.err
    page = report.with_suffix(".html").read_text("utf-8")
    assert ended.out == f"{report.with_suffix('.html').as_posix()}\n"
    assert opened() == ""
    assert "against <bdi>the baseline</bdi>" in page
    assert "edited" in page, "another expectation is another question"


async def test_of_several_suites_each_has_its_page(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        suite(tmp_path / name, "hello")
        await ci_evals(tmp_path / name, "run", "--out", f"../results/{name}")
    ended = await ci_evals(tmp_path, "view", "results", "--no-browser")
    pages = ["results/report.html", "results/one/report.html", "results/two/report.html"]
    assert ended.out.splitlines() == pages
    assert 'href="two/report.html"' in (tmp_path / pages[0]).read_text("utf-8")


async def test_without_a_report_it_says_what_to_name(tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, "view")
    assert ended.code == 3
    assert "ci-evals-results: there is no report: pass one written by `ci-evals run`" in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
async def test_a_run_is_followed_while_it_goes_on(tmp_path: Path) -> None:
    server = HeldServer(2, free=3)
    viewer = await start(tmp_path, "view", "--serve", "--no-browser")
    async with (
        asyncio.timeout(60),
        chatting(server),
        aiohttp.ClientSession() as session,
        AsyncExitStack() as stack,
    ):
        assert viewer.stdout
        url = (await viewer.stdout.readline()).decode().strip()
        changes = await stack.enter_async_context(session.get(f"{url}changes"))

        async def page_with(text: str) -> str:
            while True:
                async with session.get(url) as response:
                    page = await response.text()
                if text in page:
                    return page
                await changes.content.readline()

        waiting = await page_with("Waiting for a run in ci-evals-results")
        assert "<script" not in waiting
        cases = [
            {"id": f"case {number}", "input": "hello", "expect": [{"equals": "hello"}]}
            for number in range(5)
        ]
        write_suite(tmp_path, cases, providers=[chat(server.url)], max_concurrency=2)
        running = await start(tmp_path, "run")
        await server.full.wait()
        so_far = await page_with("3 of 5 runs so far: all passed")
        assert "<title>Going on: test</title>" in so_far
        assert "connect-src 'self'" in so_far
        assert not (tmp_path / "ci-evals-results" / "report.html").exists()
        server.released.set()
        assert (await finished(running)).code == 0
        assert "<title>Pass: test</title>" in await page_with("5 of 5 runs passed")
        async with session.get(url, headers={"Host": "elsewhere.example"}) as refused:
            assert refused.status == 403, "a name of elsewhere may be made to lead here"
    viewer.send_signal(signal.SIGINT)
    ended = await finished(viewer)
    assert (ended.code, ended.err) == (0, "")


def test_a_journal_without_a_line_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").touch()
    page = LivePage(tmp_path, read_summary).render().decode()
    assert "No run has ended yet" in page


async def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    async with chatting(HeldServer(1)) as server:
        port = server.url.rpartition(":")[2].partition("/")[0]
        ended = await ci_evals(tmp_path, "view", "--serve", "--port", port, "--no-browser")
    assert ended.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ended.err
