"""`ci-evals view`: report.html from a saved report, opened in the browser that there is."""

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import ci_evals
from suites import write_suite


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """A browser that only writes down which page it was to open, and what it wrote."""
    log = tmp_path / "opened.txt"
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\nimport sys\nopen({str(log)!r}, 'a').write(sys.argv[1])\n")
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", str(browser))
    return lambda: log.read_text() if log.exists() else ""


def suite(folder: Path, expected: str, **settings: object) -> None:
    case = {"id": "greeting", "input": "hello", "expect": [{"equals": expected}]}
    write_suite(folder, [case], runs=10, report={"formats": ["json"]}, **settings)


@pytest.mark.skipif(sys.platform == "win32", reason="BROWSER names a POSIX program")
async def test_the_page_of_a_report_is_made_and_opened(tmp_path: Path, opened: Callable[[], str]) -> None:
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


async def test_a_baseline_may_be_chosen_afterwards(tmp_path: Path, opened: Callable[[], str]) -> None:
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
    assert ended.out.splitlines() == ["results/one/report.html", "results/two/report.html"]


async def test_without_a_report_it_says_what_to_name(tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, "view")
    assert ended.code == 3
    assert "ci-evals-results: there is no report: name one that `ci-evals run` wrote" in ended.err
