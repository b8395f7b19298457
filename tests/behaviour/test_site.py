"""The docs site as it is built: its search, its pictures, and its first page in a real browser."""

import functools
import json
import re
import sys
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import run
from threading import Thread

import pytest
from browser import browser, browsing

from ci_evals.release import ACTION

pytest.importorskip("mkdocs", reason="`make docs` installs it")

ROOT = Path(__file__).parents[2]
REPOSITORY = f"https://github.com/{ACTION.partition('@')[0]}"
RESULTS = """[...document.querySelectorAll('.md-search-result__item a:first-of-type')]
    .map((each) => new URL(each.href).pathname)"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir")
    run((*command, str(folder)), cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_decisions_are_read_in_the_repository(site: Path) -> None:
    assert not (site / "decisions").exists()
    page = (site / "architecture" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]*/decisions/[^"]*)"', page)
    assert links
    assert {link.partition("/blob/main/docs/")[0] for link in links} == {REPOSITORY}


def test_the_header_shows_no_placeholder(site: Path) -> None:
    header = (site / "index.html").read_text(encoding="utf-8").partition("</header>")[0]
    assert "<header" in header
    assert "OWNER" not in header.partition("<header")[2]


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    elsewhere = re.compile(
        r'<(?:script|img|iframe|source)[^>]* src="https?:|<link[^>]* href="https?:'
    )
    found = {path for path in site.rglob("*.html") if elsewhere.search(path.read_text("utf-8"))}
    assert found == set()


def test_every_field_of_a_report_is_on_the_page_of_its_format(site: Path) -> None:
    page = (site / "report-format" / "index.html").read_text(encoding="utf-8")
    made = json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8"))
    for name, definition in made["$defs"].items():
        if "properties" in definition:
            table = page.partition(f'id="{name.casefold()}"')[2].partition("</table>")[0]
            shown = re.findall(r"<td><code>(\w+)</code></td>", table)
            assert shown == list(definition["properties"]), name
    assert "<td><code>id</code></td>" in page


def test_pictures_have_a_dark_one_where_it_was_taken(site: Path) -> None:
    page = (site / "start" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'src="([^"]*comment-pass[^"]*)"', page) == [
        "../images/comment-pass.png#only-light",
        "../images/comment-pass-dark.png#only-dark",
    ]


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
async def test_the_first_page_shows_a_live_report(address: str) -> None:
    async with browsing() as tab:
        await tab.open(f"{address}/")
        await tab.evaluate("document.querySelector('iframe').scrollIntoView()")
        report = "document.querySelector('iframe').contentDocument"
        await tab.until(f"{report} && {report}.querySelector('h1') !== null")
        assert "regressed" in await tab.evaluate(f"{report}.querySelector('h1').textContent")
        assert str(ROOT) not in await tab.evaluate(f"{report}.documentElement.outerHTML")
        assert tab.logged == []


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
@pytest.mark.parametrize(
    ("typed", "recipe"),
    [
        ("accept a regression", "accept-a-regression"),
        ("share report", "share-a-report"),
        ("typescript", "node"),
        ("which check to require", "required-check"),
        ("429", "rate-limits"),
        ("excel", "spreadsheet"),
        ("claude code", "coding-agents"),
        ("ollama", "endpoints"),
        ("hallucination", "rag"),
        ("rate limit", "rate-limits"),
    ],
)
async def test_the_search_finds_a_recipe_by_what_people_type(
    address: str, typed: str, recipe: str
) -> None:
    async with browsing() as tab:
        await tab.open(f"{address}/?q={typed.replace(' ', '%20')}")
        await tab.until(f"{RESULTS}.length > 0")
        assert (await tab.evaluate(RESULTS))[0] == f"/recipes/{recipe}/"
