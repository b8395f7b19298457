"""A browser, and pages to open in it."""

from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path

import pages
import pytest
from browser import Tab, browsing
from rendered import html_of

from ci_evals.reports.summary import Summary


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with browsing() as opened:
        await opened.resize(1200, 900)
        yield opened


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return the URL of the page of a situation, which is written once."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def url_of(name: str) -> str:
        path = folder / f"{name}.html"
        path.write_text(html_of(pages.SITUATIONS[name]()), "utf-8")
        return path.as_uri()

    return url_of


@pytest.fixture
def page(tmp_path: Path) -> Callable[[Summary], str]:
    """Write the page of a summary, and return its URL."""

    def write(summary: Summary) -> str:
        path = tmp_path / "report.html"
        path.write_text(html_of(summary), "utf-8")
        return path.as_uri()

    return write
