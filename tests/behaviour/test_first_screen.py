"""The first screen of report.html in a browser: links filter the cases, the command is copied."""

from collections.abc import AsyncIterator
from pathlib import Path

import pages
import pytest
from browser import Tab, browser, browsing
from factories import report_of
from rendered import html_of

from ci_evals.reports.summary import summarize

pytestmark = pytest.mark.skipif(browser() is None, reason="there is no Chromium here")

CASES = """[...document.querySelectorAll('.case:not([hidden])')]
    .map((each) => each.querySelector('.id').textContent).sort()"""
CURRENT = """[...document.querySelectorAll(':not(.outcomes) > [aria-current]')]
    .map((each) => each.getAttribute('href'))"""
CLICK = """document.querySelector('.parts a[href="#{}"]').click()"""
PARCEL = [f"parcel-{number}" for number in range(1, 5)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The page of a change that broke two tags of ten, on six variants."""
    path = tmp_path / "report.html"
    path.write_text(html_of(pages.policy_change()), "utf-8")
    return path.as_uri()


@pytest.fixture
async def tab(url: str) -> AsyncIterator[Tab]:
    async with browsing() as opened:
        await opened.resize(1280, 900)
        await opened.open(url)
        yield opened


async def test_a_click_on_a_tag_shows_its_cases_and_another_one_all(tab: Tab) -> None:
    await tab.evaluate(CLICK.format("tag=parcel"))
    assert await tab.evaluate("location.hash") == "#tag=parcel"
    assert await tab.evaluate(CASES) == PARCEL
    assert await tab.evaluate(CURRENT) == ["#tag=parcel", "#tag=parcel"], "above and in the table"
    await tab.evaluate(CLICK.format("tag=parcel"))
    assert await tab.evaluate("location.hash") == ""
    assert await tab.evaluate(f"{CASES}.length") == 40
    assert await tab.evaluate(CURRENT) == []


async def test_back_leads_back(tab: Tab) -> None:
    await tab.evaluate(CLICK.format("tag=parcel"))
    await tab.evaluate(CLICK.format("tag=refund"))
    assert "refund-1" in await tab.evaluate(CASES)
    await tab.evaluate("history.back()")
    await tab.until("location.hash === '#tag=parcel'")
    await tab.until(f"{CASES}.join() === '{','.join(PARCEL)}'")


async def test_parts_can_be_chosen_together(tab: Tab) -> None:
    await tab.evaluate(CLICK.format("prompt=terse"))
    await tab.evaluate(CLICK.format("tag=parcel"))
    assert await tab.evaluate("location.hash") == "#tag=parcel&prompt=terse"
    await tab.evaluate(CLICK.format("tag=parcel"))
    await tab.evaluate(CLICK.format("provider=haiku"))
    await tab.evaluate("location.hash += '&outcome=failed'")
    failed = """(() => {
        const options = [...document.querySelector('[name=variant]').options];
        const column = String(options.findIndex((each) => each.value === 'haiku · terse') - 1);
        return [...document.querySelectorAll('.case')].filter((each) =>
            each.nextElementSibling.querySelector(`.chip[data-v="${column}"][data-o="failed"]`))
            .map((each) => each.querySelector('.id').textContent).sort(); })()"""
    await tab.until(f"{CASES}.length > 0 && {CASES}.length < 20")
    assert await tab.evaluate(CASES) == await tab.evaluate(failed)


async def test_a_single_tag_can_be_chosen(tab: Tab, tmp_path: Path) -> None:
    cases = {"refund": {"tags": ("billing",)}}
    summary = summarize(report_of({"refund": "F", "greeting": "P"}, cases=cases), None)
    path = tmp_path / "one.html"
    path.write_text(html_of(summary), "utf-8")
    await tab.open(path.as_uri())
    await tab.evaluate(CLICK.format("tag=billing"))
    assert await tab.evaluate("location.hash") == "#tag=billing"
    assert await tab.evaluate(CASES) == ["refund"]
    assert tab.logged == []


async def test_the_command_can_be_copied(tab: Tab) -> None:
    await tab.evaluate("""navigator.clipboard.writeText =
        (text) => { window.copied = text; return Promise.resolve(); }""")
    await tab.evaluate("document.querySelector('header button.copy').click()")
    assert await tab.evaluate("window.copied") == "ci-evals run --tags parcel,refund"


async def test_a_case_of_the_first_screen_is_opened(tab: Tab) -> None:
    await tab.evaluate("""document.querySelector('header a[href="#case=parcel-2"]').click()""")
    await tab.until("document.getElementById('case=parcel-2')?.open")


async def test_without_scripts_the_first_screen_says_the_same(url: str) -> None:
    async with browsing(scripts=False) as tab:
        await tab.open(url)
        text = await tab.evaluate("document.querySelector('header').innerText")
        assert await tab.evaluate("document.querySelectorAll('.parts tbody tr').length") > 10
    assert "parcel-2 17/18 → 0/48" in text
    assert "ci-evals run --tags parcel,refund" in text
