"""report.html in a real browser: search, filters, order, links, keys, no scripts, largest size."""

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pages
import pytest
from browser import Tab, browser, browsing
from factories import STARTED_AT, baseline_of, many, report_of
from rendered import html_of

import ci_evals.reports.html
import ci_evals.reports.page
from ci_evals.cli.live import LivePage, run_server
from ci_evals.engine.journal import Header, Journal
from ci_evals.graders import (
    AnyOf,
    Contains,
    ContainsAny,
    EndsWith,
    Equals,
    Regex,
    StartsWith,
)
from ci_evals.graders.base import GraderOptions
from ci_evals.model.case import Variant
from ci_evals.model.grading import Expectation
from ci_evals.model.report import MainNow
from ci_evals.model.response import Response, ToolCall, Turn
from ci_evals.model.result import Result
from ci_evals.model.rules import Gate
from ci_evals.redaction import Redactor
from ci_evals.reports.summary import BaseAnswer, Summary, summarize

pytestmark = pytest.mark.skipif(browser() is None, reason="there is no Chromium here")

SHOWN = """[...document.querySelectorAll('.case:not([hidden])')]
    .map((each) => each.querySelector('.id').textContent)"""
CHOOSE = """(() => {{ const field = document.querySelector('[name="{name}"]');
    field.value = '{value}';
    field.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"""
ELEMENTS = """(() => {
    const shown = (node) => node.nodeType === Node.TEXT_NODE
        ? [node.data.replace(/\\s+/g, ' ').trim()].filter(Boolean)
        : node.matches('button, .people') ? []
        : node.localName === 'noscript' ? [...node.childNodes].flatMap(shown)
        : [[node.localName, [...node.attributes].map((each) => `${each.name}=${each.value}`).sort(),
            [...node.childNodes].flatMap(shown)]];
    const cases = [...document.querySelectorAll('.case')];
    return Object.fromEntries(cases.map((each) => [each.id, shown(each.parentNode)])); })()"""
ATTACKS = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "\"><svg onload=alert(3)>' onmouseover=alert(4) <b id=tools><form id=list>",
    (
        "</pre></details></section><style>* { display: none }</style>"
        "<meta http-equiv=refresh content=0;url=//evil>"
    ),
    (
        "javascript:alert(5) <a href=javascript:alert(6)>x</a>"
        " <iframe srcdoc='<script>alert(7)</script>'>"
    ),
    "&lt;script&gt;alert(8)&lt;/script&gt; {{ 7 * 7 }} {% raw %} \\u003cscript\\u003e",
    "</noscript></script></template><img src=x onerror=alert(9)><script>alert(10)</script>",
    "<!--<script><noscript>--!><!-- <iframe src=//evil></noscript></script>-->",
    (
        "**[x](javascript:alert(11))** <javascript:alert(12)>"
        " ![x](data:image/svg+xml;base64,PHN2Zz4=) ![x](//evil/a.png)"
        " ![x](data:text/html;base64,PHN2Zz4=)\n\n[y]: //evil\n\n[y] ![y]"
    ),
    "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMTMpPg==",
    "| a | b |\n|---|---|\n| <table><tr><td>x | <img src=x onerror=alert(14)> |",
    '[{"a": "</td></table><img src=x onerror=alert(15)>", "b": {"c": [["<b>"]]}}]',
)


FOREIGN = """document.querySelectorAll(
    'img, iframe, a:not([href^="#"]), object, embed, template').length"""
OPEN_GROUPS = "for (const each of document.querySelectorAll('.group')) each.open = true"


async def open_all(tab: Tab, cases: int = 1000) -> None:
    """Unfold everything, of no more than the first `cases`.

    Parts become elements when they are unfolded.
    """
    folded = f"""[...document.querySelectorAll('details:not([open])')].filter((each) =>
        ![...document.querySelectorAll('.case')].slice({cases}).includes(each))"""
    while await tab.evaluate(f"{folded}.length"):
        await tab.evaluate(f"for (const each of {folded}) each.open = true")
        await tab.until("true")  # the next frame: what is unfolded has its elements by then


LARGE = {"many-failures", "many-variants"}
"""Situations of hundreds of cases, or of thousands of runs."""
EVERY_SITUATION = [
    pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
    for name in pages.SITUATIONS
]


@pytest.mark.parametrize("name", EVERY_SITUATION)
async def test_what_unfolds_is_what_is_read_without_scripts(
    name: str, tab: Tab, page: Callable[[Summary], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = pages.SITUATIONS[name]()
    monkeypatch.setattr(ci_evals.reports.page, "_MAX_ROWS_UNFOLDED", 1000)
    monkeypatch.setattr(ci_evals.reports.page, "_MAX_WRITTEN", 1000)
    async with browsing(scripts=False) as plain_tab:
        await plain_tab.open(page(summary))
        everything = "for (const each of document.querySelectorAll('details')) each.open = true"
        await plain_tab.evaluate(everything)
        written = await plain_tab.evaluate(ELEMENTS)
    assert written
    monkeypatch.setattr(ci_evals.reports.page, "_MAX_WRITTEN", 0)
    await tab.open(page(summary))
    await open_all(tab)
    unfolded = await tab.evaluate(ELEMENTS)
    assert len(unfolded) == len(summary.report.plan.cases)
    assert await tab.evaluate("document.querySelectorAll('.case noscript').length") == 0
    for case, elements in written.items():
        assert unfolded[case] == elements


async def test_the_cases_that_the_page_opens_have_their_details(
    tab: Tab, page: Callable[[Summary], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unfolded = "[...document.querySelectorAll('.case[open] > .inside')].map((e) => e.parentNode.id)"
    for written in (200, 0):
        monkeypatch.setattr(ci_evals.reports.page, "_MAX_WRITTEN", written)
        await tab.open("about:blank")
        await tab.open(page(pages.support_bot()))
        assert await tab.evaluate(unfolded) == ["case=lost-package", "case=refund-full"]
        text = "document.querySelector('.case:not([open]) > noscript')"
        assert await tab.evaluate(f"{text}.children.length") == 0


async def test_search_looks_into_answers_and_filters_add_up(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    assert await tab.evaluate("document.querySelector('output').value") == "40 cases"
    await tab.press("/")
    await tab.type("Store credit")
    assert await tab.evaluate(SHOWN) == ["lost-package", "refund-full", "angry-customer"]
    assert await tab.evaluate("document.querySelector('output').value") == "3 of 40 cases"
    await tab.evaluate(CHOOSE.format(name="tag", value="billing"))
    assert await tab.evaluate(SHOWN) == ["refund-full"]
    assert await tab.evaluate("location.hash") == "#q=Store%20credit&tag=billing"
    await tab.press("Escape")
    await tab.until("!location.hash.includes('q=')")
    assert len(await tab.evaluate(SHOWN)) == 40
    for name, value, found in (
        ("outcome", "failed", ["lost-package", "refund-full"]),
        ("outcome", "worse", ["lost-package", "refund-full"]),
        ("outcome", "fixed", ["upgrade"]),
        ("grader", "judge", ["lost-package", "refund-full", "angry-customer"]),
    ):
        await tab.evaluate(CHOOSE.format(name=name, value=value))
        assert await tab.evaluate(SHOWN) == found
        await tab.evaluate(CHOOSE.format(name=name, value=""))
    await tab.evaluate(CHOOSE.format(name="outcome", value="flaky"))
    assert await tab.evaluate(SHOWN) == ["angry-customer"]
    await tab.evaluate(CHOOSE.format(name="variant", value="claude-haiku"))
    assert await tab.evaluate(SHOWN) == [], "what varies on one variant does not on the other"


async def test_each_outcome_has_as_many_cases_as_it_says(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    await tab.evaluate(OPEN_GROUPS)
    await tab.until(f"{SHOWN}.length === 40")
    links = "[...document.querySelectorAll('.outcomes a')]"
    texts = await tab.evaluate(f"{links}.map((each) => each.textContent)")
    assert texts == ["All 40", "Worse 2", "Failed 2", "Flaky 1", "Fixed 1", "Passed 37"]
    current = "document.querySelector('.outcomes [aria-current]').textContent"
    for number, text in enumerate(texts):
        await tab.evaluate(f"{links}[{number}].click()")
        assert await tab.evaluate(current) == text
        assert len(await tab.evaluate(SHOWN)) == int(text.split()[1]), text
    assert await tab.evaluate("location.hash") == "#outcome=passed"
    await tab.evaluate("history.back()")
    await tab.until(f"{current} === 'Fixed 1'")
    assert tab.logged == []


async def test_the_order_can_be_another_one_and_is_restored(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    await tab.evaluate(OPEN_GROUPS)
    await tab.until(f"{SHOWN}.length === 40")
    usual = await tab.evaluate(SHOWN)
    assert usual[:3] == ["lost-package", "refund-full", "upgrade"]
    await tab.evaluate(CHOOSE.format(name="sort", value="name"))
    names = await tab.evaluate(SHOWN)
    assert names[0] == "angry-customer"
    assert sorted(names) == sorted(usual)
    await tab.evaluate(CHOOSE.format(name="sort", value="pass rate"))
    assert (await tab.evaluate(SHOWN))[:2] == ["lost-package", "refund-full"]
    await tab.evaluate(CHOOSE.format(name="sort", value=""))
    assert await tab.evaluate(SHOWN) == usual


async def test_a_choice_and_a_case_are_found_again_by_their_url(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    url = page_of("support-bot")
    await tab.open(f"{url}#case=faq-7&on=claude-haiku&run=2")
    seen = """(() => {
        const run = document.getElementById('case=faq-7&on=claude-haiku&run=2')?.closest('.run');
        if (!run) return false;
        const box = run.getBoundingClientRect();
        return run.open && box.height > 0 && box.top >= 0 && box.top < innerHeight; })()"""
    await tab.until(seen)
    assert await tab.evaluate("document.activeElement.closest('.case').id") == "case=faq-7"
    await tab.open(f"{url}#outcome=failed&sort=cost")
    assert await tab.evaluate(SHOWN) == ["lost-package", "refund-full"]
    await tab.evaluate("location.hash = '#case=faq-7'")
    await tab.until("!document.getElementById('case=faq-7').hidden")
    assert await tab.evaluate("document.getElementById('case=faq-7').open")


async def test_a_click_on_a_field_opens_the_cell_and_back_leads_back(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    await tab.evaluate(OPEN_GROUPS)
    await tab.until("document.getElementById('case=faq-7') !== null")
    await tab.evaluate(
        "document.getElementById('case=faq-7').parentNode.querySelector('.chip[data-v=\"1\"]').click()"
    )
    assert await tab.evaluate("location.hash") == "#case=faq-7&on=claude-haiku"
    assert await tab.evaluate("document.getElementById('case=faq-7').open")
    await tab.evaluate("history.back()")
    await tab.until("location.hash === ''")
    await tab.evaluate(
        "document.getElementById('case=faq-7&on=claude-haiku&run=2').closest('summary').click()"
    )
    assert await tab.evaluate("location.hash") == "#case=faq-7&on=claude-haiku&run=1", (
        "the first of those alike"
    )


async def test_everything_can_be_reached_by_keys(tab: Tab, page_of: Callable[[str], str]) -> None:
    await tab.open(page_of("support-bot"))
    focused = "document.activeElement.closest('.case')?.id"
    for key, case in (("j", "lost-package"), ("j", "refund-full"), ("k", "lost-package")):
        await tab.press(key)
        assert await tab.evaluate(focused) == f"case={case}"
    await tab.press("j")
    assert await tab.evaluate("document.getElementById('case=refund-full').open")
    await tab.press("Enter")
    assert not await tab.evaluate("document.getElementById('case=refund-full').open")
    await tab.press("Enter")
    await tab.press("Tab")
    assert await tab.evaluate("document.activeElement.matches('summary, button')")


async def test_a_cell_can_be_copied(tab: Tab, page_of: Callable[[str], str]) -> None:
    await tab.open(page_of("support-bot"))
    await tab.evaluate(
        "navigator.clipboard.writeText ="
        " (text) => { window.copied = text; return Promise.resolve(); }"
    )
    await tab.evaluate("document.querySelector('#list .commands button.copy').click()")
    assert (
        await tab.evaluate("window.copied") == "ci-evals explain lost-package --provider gpt-5-mini"
    )
    await tab.evaluate("document.querySelector('#list button.json').click()")
    copied = json.loads(await tab.evaluate("window.copied"))
    assert (copied["case"], copied["variant"]) == ("lost-package", "gpt-5-mini")
    assert copied["runs"][0]["grades"][1] == {
        "grader": "judge",
        "passed": False,
        "score": 0.2,
        "reason": "The answer offers store credit instead of a refund.",
    }
    assert copied["runs"][0]["answer"] == pages.ANSWERS["lost-package"][1]


async def test_links_of_a_case_a_cell_and_a_run_can_be_copied(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    url = page_of("support-bot")
    await tab.open(f"{url}#q=lost")
    await tab.evaluate(
        "navigator.clipboard.writeText ="
        " (text) => { window.copied = text; return Promise.resolve(); }"
    )
    for place, address in (
        (".question > .facts", "case=lost-package"),
        (".cell > .on", "case=lost-package&on=gpt-5-mini"),
        (".run >", "case=lost-package&on=gpt-5-mini&run=1"),
    ):
        button = f"document.querySelector('#list .case[open] {place} button.link')"
        await tab.evaluate(f"{button}.click()")
        assert await tab.evaluate("window.copied") == f"{url}#{address}"
    assert await tab.evaluate("document.getElementById('case=lost-package').open")
    assert await tab.evaluate("location.hash") == "#q=lost"


@pytest.mark.parametrize("width", [1280, 390])
async def test_what_a_link_leads_to_has_its_cases_name_in_sight(
    width: int, tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.resize(width, 844)
    url = page_of("support-bot")
    for address in (
        "case=faq-7",
        "case=faq-7&on=claude-haiku",
        "case=lost-package&on=claude-haiku&run=2",
    ):
        await tab.open("about:blank")
        await tab.open(f"{url}#{address}")
        seen = f"""(() => {{
            const target = document.getElementById({json.dumps(address)});
            const row = target.closest('.case');
            const name = row.querySelector('.id').getBoundingClientRect();
            const box = (target.closest('.run') ?? target).getBoundingClientRect();
            const at = document.elementFromPoint(name.left + 5, name.top + 5);
            return row.open && at?.closest('.case') === row && name.top >= 0
                && box.top >= 0 && box.top < innerHeight; }})()"""
        await tab.until(seen)


async def test_the_keys_are_listed(tab: Tab, page_of: Callable[[str], str]) -> None:
    await tab.open(page_of("support-bot"))
    await tab.press("?")
    assert await tab.evaluate("document.querySelector('dialog').open")
    assert "next and previous case" in await tab.evaluate(
        "document.querySelector('dialog').innerText"
    )
    await tab.press("Escape")
    await tab.until("!document.querySelector('dialog').open")
    await tab.evaluate("document.querySelector('.help').click()")
    await tab.evaluate("document.querySelector('dialog button').click()")
    await tab.until("!document.querySelector('dialog').open")
    assert tab.logged == []


async def test_the_tools_and_the_names_of_columns_stay_in_sight_in_one_row(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.resize(1280, 900)
    await tab.open(page_of("support-bot"))
    fields = "[...document.querySelectorAll('.tools input, .tools select:not([hidden])')]"
    middles = f"""{fields}.map((each) => {{
        const box = each.getBoundingClientRect();
        return box.top + box.height / 2; }})"""
    found = await tab.evaluate(middles)
    assert max(found) - min(found) < 3
    await tab.evaluate("document.getElementById('case=refund-full').scrollIntoView()")
    for part in ("tools", "columns"):
        box = await tab.evaluate(f"document.querySelector('.{part}').getBoundingClientRect().top")
        assert 0 <= box < 100


@pytest.mark.parametrize("width", [800, 1100, 1280])
async def test_no_choice_of_the_tools_is_cut(
    tab: Tab, page_of: Callable[[str], str], width: int
) -> None:
    await tab.resize(width, 900)
    await tab.open(page_of("support-bot"))
    cut = """[...document.querySelectorAll('.tools label:not([hidden]) > select')]
        .filter((each) => {
            const alone = document.createElement('select');
            alone.add(new Option(each.selectedOptions[0].text));
            alone.style = 'width: auto; max-width: none';
            each.after(alone);
            const needed = alone.offsetWidth;
            alone.remove();
            return each.offsetWidth < needed; }).map((each) => each.name)"""
    assert await tab.evaluate(cut) == []


@pytest.mark.parametrize(("width", "unfolded"), [(390, False), (1280, True)])
async def test_prompts_and_providers_are_folded_on_a_phone(
    tab: Tab, page_of: Callable[[str], str], width: int, unfolded: bool
) -> None:
    await tab.resize(width, 844)
    await tab.open(page_of("policy-change"))
    for by in ("prompt", "provider"):
        fold = f"document.getElementById('by-{by}').closest('details').open"
        assert await tab.evaluate(fold) is unfolded
    named = "document.querySelector('#by-variant').closest('section').querySelector('table')"
    assert await tab.evaluate(f"{named}.checkVisibility()")


async def test_a_field_of_a_row_opens_its_cell_by_key(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    for key in ("j", "Enter", "Tab", "Tab"):
        await tab.press(key)
    assert await tab.evaluate("document.activeElement.matches('.chip[data-v=\"1\"]')")
    await tab.press("Enter")
    assert await tab.evaluate("location.hash") == "#case=lost-package&on=claude-haiku"
    assert await tab.evaluate("document.getElementById('case=lost-package').open")


async def test_a_page_that_follows_a_run_stays_as_it_was_left(tab: Tab, tmp_path: Path) -> None:
    report = report_of({"one": "PF", "two": "PF", "three": "PP"}, cases={"three": {"runs": 2}})
    first, second = ([result for result in report.runs if result.run == run] for run in (1, 2))
    with closing(Journal(tmp_path / "results.jsonl", Redactor(()))) as journal:
        journal.start(Header(suite=report.suite, started_at=report.started_at, planned=6))
        for result in first:
            journal.append(result)
        async with run_server(LivePage(tmp_path, lambda folder: summarize(report, None))) as url:
            await tab.open(url)
            assert "3 of 6 runs so far: all passed" in await tab.evaluate(
                "document.querySelector('h1').textContent"
            )
            await tab.press("/")
            await tab.type("o")
            await tab.evaluate(
                "document.getElementById('case=one').querySelector('summary').click()"
            )
            loads = tab.loads
            for result in second:
                journal.append(result)
            await tab.load_again(loads)
            assert "6 of 6 runs so far: 2 failed" in await tab.evaluate(
                "document.querySelector('h1').textContent"
            )
            await tab.until("document.getElementById('case=one').open")
            assert await tab.evaluate("location.hash") == "#case=one&q=o"
            assert await tab.evaluate("document.querySelector('[name=q]').value") == "o"
            assert not await tab.evaluate("document.getElementById('case=two').open"), (
                "as it was left"
            )
            loads = tab.loads
            (tmp_path / "report.json").touch()
            await tab.load_again(loads)
            assert await tab.evaluate("document.title") == "Fail: capitals"
    assert [each for each in tab.logged if "favicon" not in each] == []


async def test_without_scripts_everything_can_be_read(page_of: Callable[[str], str]) -> None:
    async with browsing(scripts=False) as tab:
        await tab.open(f"{page_of('support-bot')}#case=lost-package&on=claude-haiku")
        assert await tab.evaluate("document.getElementById('tools').hidden")
        assert (
            await tab.evaluate(
                "[...document.querySelectorAll('button')]"
                ".filter((each) => each.checkVisibility()).length"
            )
            == 0
        )
        text = await tab.evaluate("document.body.innerText")
    assert "1 case better, 2 worse on gpt-5-mini: lost-package (critical), refund-full" in text
    assert "We issue store credit of $42.00." in text
    assert "offers store credit instead of a refund" in text


@pytest.mark.parametrize("written", [200, 0], ids=["rows as elements", "rows as text"])
async def test_a_hostile_answer_is_text_and_nothing_else(
    written: int, tab: Tab, page: Callable[[Summary], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci_evals.reports.page, "_MAX_WRITTEN", written)

    names = list(ATTACKS)

    def edit(result: Result) -> Result:
        text = ATTACKS[names.index(result.case) - result.run]
        grades = tuple(replace(grade, grader=text, reason=text) for grade in result.grades)
        return replace(result, response=Response(text), grades=grades)

    cases = dict.fromkeys(names, "FF")
    report = report_of(
        cases, cases={text: {"tags": (text,), "description": text} for text in cases}, edit=edit
    )
    await tab.open(page(summarize(report, None)))
    scripts = "[...document.scripts].map((each) => each.type)"
    assert set(await tab.evaluate(scripts)) <= {"", "text/html"}
    assert await tab.evaluate(FOREIGN) == 0
    for text in ATTACKS:
        await tab.evaluate(
            CHOOSE.format(name="tag", value="")
            + f"; location.hash = 'case=' + encodeURIComponent({json.dumps(text)})"
        )
        await tab.press("/")
        await tab.call("Input.insertText", text=text[:10])
        await tab.press("Escape")
    await tab.evaluate(CHOOSE.format(name="sort", value="name"))
    await open_all(tab)
    assert [each for each in tab.logged if "favicon" not in each] == []
    answers = await tab.evaluate(
        "[...document.querySelectorAll('.answer.text, .raw')].map((each) => each.textContent)"
    )
    assert set(answers) == set(ATTACKS)
    long_line = (
        "Math.max(...[...document.querySelectorAll('.answer')].map((e) => e.innerText.length))"
    )
    assert await tab.evaluate(long_line) < 20_000
    assert await tab.evaluate(scripts) == [""], "ours"
    assert await tab.evaluate(FOREIGN) == 0


PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChw"
    "GA60e6kgAAAABJRU5ErkJggg=="
)


def answered(answer: str, *expect: Expectation) -> Summary:
    """A report of one case that failed with an answer."""

    def edit(result: Result) -> Result:
        return replace(result, response=Response(answer))

    return summarize(report_of({"one": "F"}, cases={"one": {"expect": expect}}, edit=edit), None)


async def inner_html(tab: Tab, selector: str) -> str:
    html: str = await tab.evaluate(f"document.querySelector('{selector}').innerHTML")
    return html.strip()


@pytest.mark.parametrize(
    ("answer", "elements"),
    [
        ("We **refund**\n- you", "<p>We <strong>refund</strong></p><ul><li>you</li></ul>"),
        (
            "1. Pay\n\nThen\n\n2. Fly",
            '<ol><li>Pay</li></ol><p>Then</p><ol start="2"><li>Fly</li></ol>',
        ),
        ('{"a":1,"b":[2]}', '<pre>{\n  "a": 1,\n  "b": [\n    2\n  ]\n}</pre>'),
        (
            "fare,price\nlight,89\nflex,189",
            (
                '<div class="wide" tabindex="0" role="region" aria-label="a table of the answer">'
                '<table><thead><tr><th scope="col">fare</th><th scope="col">price</th></tr></thead>'
                "<tbody><tr><td>light</td><td>89</td></tr><tr><td>flex</td><td>189</td></tr>"
                "</tbody></table></div>"
            ),
        ),
        ("Dear Ada,\nit is fine, thank you,\nBob", "Dear Ada,\nit is fine, thank you,\nBob"),
        (PIXEL, f'<img src="{PIXEL}" alt="the answer">'),
        (f"See:\n\n![a *dot*]({PIXEL})", f'<p>See:</p><p><img src="{PIXEL}" alt="a *dot*"></p>'),
    ],
)
async def test_an_answer_is_shown_in_its_own_form_and_as_text_on_a_click(
    answer: str, elements: str, tab: Tab, page: Callable[[Summary], str]
) -> None:
    await tab.open(page(answered(answer)))
    assert await inner_html(tab, ".answer") == elements
    if elements != answer:
        await tab.evaluate("document.querySelector('.source > summary').click()")
        assert await tab.evaluate("document.querySelector('.raw').textContent") == answer
    images = "Promise.all([...document.images].map((each) => each.decode())).then(() => true)"
    assert await tab.evaluate(images)
    assert tab.logged == []


async def test_what_a_grader_looks_for_is_marked_in_the_answer(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    expect = (
        Expectation("contains", Contains("refund", ignore_case=True)),
        Expectation("contains_any", ContainsAny(("42", "43"))),
        Expectation("regex", Regex(r"\w+ days")),
        Expectation("not_contains", Contains("sorry"), negated=True),
        Expectation("any_of", AnyOf((Expectation("contains", Contains("card")),))),
        Expectation("contains", Contains("credit"), turn=2),
        Expectation("contains", Contains("We"), transform="$.text"),
    )
    answer = "**Refund**: We refund $42 to your card in five days, sorry. No credit."
    await tab.open(page(answered(answer, *expect)))
    texts = "[...document.querySelectorAll('.answer {}')].map((each) => each.textContent)"
    assert await tab.evaluate(texts.format("mark")) == [
        "Refund",
        "refund",
        "42",
        "card",
        "five days",
    ]
    assert await tab.evaluate(texts.format("s")) == ["sorry"]


@pytest.mark.parametrize(
    ("grader", "marked"),
    [
        (Equals("Paris"), ["Paris"]),
        (Equals("It is Paris, on the Seine. It is."), []),
        (Equals("paris", ignore_case=True), ["Paris"]),
        (Equals(4), []),
        (StartsWith("It is Paris"), ["It is Paris"]),
        (StartsWith("It"), []),
        (EndsWith("it is.", ignore_case=True), ["It is."]),
        (EndsWith("Seine. It is."), ["Seine. It is."]),
    ],
    ids=repr,
)
async def test_a_text_that_an_answer_must_equal_begin_or_end_with_is_marked_where_it_is_once(
    grader: GraderOptions, marked: list[str], tab: Tab, page: Callable[[Summary], str]
) -> None:
    await tab.open(page(answered("It is Paris, on the Seine. It is.", Expectation("x", grader))))
    texts = "[...document.querySelectorAll('.answer mark')].map((each) => each.textContent)"
    assert await tab.evaluate(texts) == marked


async def test_a_long_answer_is_cut_until_all_of_it_is_asked_for(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    await tab.open(page(answered("It is fine.\n" * 200)))
    height = "document.querySelector('.answer').getBoundingClientRect().height"
    assert await tab.evaluate(height) < 400
    await tab.evaluate("document.querySelector('.all > summary').click()")
    assert await tab.evaluate(height) > 2000


async def test_an_answer_stands_beside_that_of_the_base_with_the_words_that_changed(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    lefts = """[...document.querySelector('.sides').children]
        .map((each) => Math.round(each.getBoundingClientRect().left))"""
    left, right = await tab.evaluate(lefts)
    assert left < 600 <= right
    words = """[...document.querySelector('.sides').querySelectorAll('{}')]
        .map((each) => each.textContent)"""
    assert await tab.evaluate(words.format("del")) == ["refund", " to your card"]
    assert (await tab.evaluate(words.format("ins")))[0] == "issue store credit of"
    await tab.resize(400, 900)
    left, right = await tab.evaluate(lefts)
    assert left == right, "one below the other on a phone"
    reasons = "[...document.querySelectorAll('.grades .said')].map((each) => each.textContent)"
    assert 'no "refund" in the answer' in await tab.evaluate(reasons), "and not the answer again"


def two_variants() -> Summary:
    """Three cases on two variants that answer one of them alike, and the base's answer to one."""
    answers = {
        "alike": ("It is **fine**.", "It is **fine**."),
        "other": ("We refund it to your card.", "We give credit for it, to your card."),
        "lost": ("Leave me alone.", "No!"),
    }
    variants = [Variant("mini"), Variant("haiku")]

    def edit(result: Result) -> Result:
        column = [variant.provider for variant in variants].index(result.provider)
        return replace(result, response=Response(answers[result.case][column]))

    report = report_of({case: ["P", "F"] for case in answers}, variants=variants, edit=edit)
    base = report_of(
        {case: ["P", "P"] for case in answers}, variants=variants, started_at=STARTED_AT - 60
    )
    summary = summarize(report, None, baseline_of(base))
    return replace(
        summary, before={("other", "haiku", None): BaseAnswer(text="We pay for it, to your card.")}
    )


PAIRS = """Object.fromEntries([...document.querySelectorAll('.case:not([hidden])')].map((each) =>
    [each.id.replace('case=', ''), [...each.parentNode.querySelectorAll('.pair > .side')]
        .map((side) => (side.querySelector('.answer') ?? side.querySelector('.facts')).innerHTML)]))
    """


async def test_two_variants_stand_side_by_side_with_the_words_that_differ(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    url = page(two_variants())
    await tab.open(url)
    await tab.evaluate("document.querySelector('[name=view]').click()")
    await tab.evaluate(CHOOSE.format(name="left", value="mini"))
    await tab.evaluate(CHOOSE.format(name="right", value="haiku"))
    await tab.evaluate(OPEN_GROUPS)
    await tab.until("document.querySelectorAll('.pair').length === 3")
    assert await tab.evaluate(PAIRS) == {
        "alike": ["<p>It is <strong>fine</strong>.</p>"] * 2,
        "other": [
            "We <del>refund</del> it to your card.",
            "We <ins>give credit for</ins> it<ins>,</ins> to your card.",
        ],
        "lost": ["Leave me alone.", "No!"],
    }
    await tab.evaluate("document.querySelector('[name=differ]').click()")
    assert sorted(await tab.evaluate(SHOWN)) == ["lost", "other"]
    fragment = "#view=sides&left=mini&right=haiku&differ=yes"
    assert await tab.evaluate("location.hash") == fragment
    await tab.open("about:blank")
    await tab.open(url + fragment)
    await tab.until("document.querySelectorAll('.pair').length === 2")
    assert sorted(await tab.evaluate(SHOWN)) == ["lost", "other"], "found again by its URL"
    await tab.evaluate("document.querySelector('[type=reset]').click()")
    await tab.until("document.querySelector('[type=reset]').hidden")
    assert len(await tab.evaluate(SHOWN)) == 3
    await tab.evaluate("document.querySelector('[name=view]').click()")
    assert await tab.evaluate("document.querySelectorAll('.pair').length") == 0
    assert len(await tab.evaluate(SHOWN)) == 3
    assert await tab.evaluate("location.hash") == ""
    assert tab.logged == []


async def test_the_base_and_a_variant_stand_side_by_side_where_the_base_is_known(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    await tab.open(f"{page(two_variants())}#view=sides&right=haiku")
    await tab.evaluate(OPEN_GROUPS)
    await tab.until("document.querySelectorAll('.pair').length === 3")
    found = await tab.evaluate(PAIRS)
    assert found["other"] == [
        "We <del>pay</del> for it, to your card.",
        "We <ins>give credit</ins> for it, to your card.",
    ]
    assert found["lost"][0] == "The base's answers are kept only for cases that changed or failed."
    await tab.evaluate("document.querySelector('[name=differ]').click()")
    assert await tab.evaluate(SHOWN) == ["other"]
    await tab.evaluate("document.querySelector('.case:not([hidden]) > summary').click()")
    await tab.until("document.querySelector('.case:not([hidden])').open")
    hidden = "getComputedStyle(document.querySelector('.case[open] ~ .pair')).display"
    assert await tab.evaluate(hidden) == "none", "an open case has it already"


async def test_an_answer_that_main_gave_now_is_named_so_side_by_side(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    summary = two_variants()
    answer = BaseAnswer(text="We pay, to your <b>card.", is_now=True, missed="regex: <b>no match")
    summary = replace(
        summary,
        report=replace(summary.report, main_now=MainNow(name="main (0123456)")),
        before={("other", "haiku", None): answer},
    )
    await tab.open(f"{page(summary)}#view=sides&right=haiku")
    await tab.evaluate(OPEN_GROUPS)
    await tab.until("document.querySelectorAll('.pair').length === 3")
    sides = """[...document.getElementById('case=other').parentNode
        .querySelectorAll('.pair > .side')].map((side) => side.innerText)"""
    base, here = await tab.evaluate(sides)
    assert base.splitlines()[0] == "main (0123456), now"
    assert "We pay, to your <b>card." in base
    assert base.splitlines()[-1] == "failed, too: regex: <b>no match"
    assert here.splitlines()[0] == "haiku"


async def test_the_tool_calls_of_a_conversation_are_shown(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    call = ToolCall("book_seat", {"seat": "12C"})
    turns = (
        Turn("Hello", Response("**Hi**")),
        Turn("Book 12C.", Response("", tool_calls=(call,))),
    )

    def edit(result: Result) -> Result:
        return replace(result, response=Response("", tool_calls=(call,), turns=turns))

    await tab.open(page(summarize(report_of({"one": "F"}, edit=edit), None)))
    (step,) = await tab.evaluate(
        "[...document.querySelectorAll('.turns .steps > li')].map((each) => each.textContent)"
    )
    assert " ".join(step.split()) == 'tool call book_seat {"seat": "12C"}'
    assert await inner_html(tab, ".turns .answer") == "<p><strong>Hi</strong></p>"
    assert await tab.evaluate("document.querySelectorAll('.answer').length") == 1


@pytest.mark.parametrize(
    "name", ["support-bot", "agent", pytest.param("many-variants", marks=pytest.mark.slow)]
)
async def test_nothing_is_wider_than_the_window(
    tab: Tab, page_of: Callable[[str], str], name: str
) -> None:
    url = page_of(name)
    for width, scheme in product((400, 1200), ("light", "dark")):
        await tab.prefer(scheme)
        await tab.resize(width, 900)
        await tab.open(url)
        await tab.evaluate(
            "for (const each of document.querySelectorAll('details')) each.open = true"
        )
        await tab.evaluate("document.querySelector('.people button')?.click()")
        assert await tab.evaluate("document.documentElement.scrollWidth") == width
        unseen = """[...document.querySelectorAll('.chip')]
            .some((each) => each.getBoundingClientRect().right > innerWidth)"""
        assert not await tab.evaluate(unseen)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda: summarize(report_of(dict.fromkeys(("refund", "parcel", "hours"), "F")), None),
            id="names",
        ),
        pytest.param(pages.support_bot, id="a variant and names"),
    ],
)
async def test_no_line_of_the_headline_begins_with_a_comma_or_colon(
    tab: Tab, page: Callable[[Summary], str], make: Callable[[], Summary]
) -> None:
    await tab.open(page(make()))
    torn = """[...document.querySelectorAll("h1 bdi")].filter((name) => {
        const texts = document.createTreeWalker(document.querySelector("h1"), NodeFilter.SHOW_TEXT);
        texts.currentNode = name.lastChild;
        const after = texts.nextNode();
        if (!after || !",;:".includes(after.data[0])) return false;
        const mark = document.createRange();
        mark.setStart(after, 0);
        mark.setEnd(after, 1);
        return mark.getBoundingClientRect().top !== name.getBoundingClientRect().top;
    }).length"""
    assert await tab.evaluate("document.querySelectorAll('h1 bdi').length") == 3
    for width in range(360, 860, 20):
        await tab.resize(width, 900)
        assert await tab.evaluate(torn) == 0, width


async def test_a_link_to_a_case_that_the_filters_of_the_link_hide_leads_to_the_case(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(f"{page_of('support-bot')}#case=faq-7&outcome=failed&tag=billing&q=nothing")
    await tab.until("document.getElementById('case=faq-7').open")
    await tab.until("location.hash === '#case=faq-7'")
    assert "faq-7" in await tab.evaluate(SHOWN)
    assert await tab.evaluate("document.querySelector('[name=outcome]').value") == ""


async def test_columns_of_many_variants_are_told_apart(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.resize(1200, 900)
    await tab.open(page_of("many-variants"))
    cut = """[...document.querySelectorAll('.columns span')]
        .filter((each) => each.scrollHeight > each.clientHeight)"""
    assert await tab.evaluate("document.querySelectorAll('.columns bdi').length") == 40
    assert await tab.evaluate(f"{cut}.length") == 0


async def test_paper_has_no_tools_and_all_that_is_unfolded(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    await tab.prefer(media="print")
    assert (
        await tab.evaluate("getComputedStyle(document.getElementById('tools')).display") == "none"
    )
    assert await tab.evaluate("document.querySelector('.sides').getBoundingClientRect().height > 0")
    await tab.resize(700, 1000)  # what is left of a sheet
    cut = """[...document.querySelectorAll('.wide, main')]
        .filter((each) => each.scrollWidth > each.clientWidth).length"""
    assert await tab.evaluate(cut) == 0


@pytest.mark.slow
async def test_5000_cells_open_and_scroll_without_much_work(
    tab: Tab, page: Callable[[Summary], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The time of the main thread, in seconds of its own: a busy machine makes it no longer."""
    names = many((4500, "PPP"), (250, "PPF"), (250, "FFF"))
    base = report_of(many((5000, "PPP")), started_at=STARTED_AT - 60)
    url = page(
        summarize(
            report_of(names, edit=pages.talkative), Gate(min_pass_rate=0.9), baseline_of(base)
        )
    )
    await tab.call("Performance.enable", timeDomain="threadTicks")
    await tab.open(url)
    opened_s = await busy_s(tab)
    frames = 120
    await tab.evaluate(CHOOSE.format(name="sort", value="name"))
    started_s = await busy_s(tab)
    await tab.evaluate(f"""new Promise((done) => {{ let frame = 0;
        const step = () => {{
            scrollBy(0, 120);
            if (++frame < {frames}) requestAnimationFrame(step);
            else done();
        }};
        requestAnimationFrame(step); }})""")
    frame_s = (await busy_s(tab) - started_s) / frames
    with capsys.disabled():
        print(f"\n5,000 cells: opened in {opened_s:.2f} s, {frame_s * 1000:.1f} ms a frame")  # noqa: T201  the figures
    assert opened_s < 1
    assert frame_s < 1 / 60


async def busy_s(tab: Tab) -> float:
    """The time that the main thread has worked so far."""
    found = await tab.call("Performance.getMetrics")
    return float(next(each["value"] for each in found["metrics"] if each["name"] == "TaskDuration"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "variants", "most_s"),
    [
        pytest.param(
            {f"case {n}": ["FFFFF"] * 5 for n in range(200)},
            5,
            1,
            id="5,000 runs that failed each in another way",
        ),
        pytest.param(
            {f"case {n}": ["F"] * 50 for n in range(100)},
            50,
            1,
            id="5,000 failed runs of 50 variants",
        ),
        pytest.param(
            many((3500, "PPPPP"), (500, "FFFFF")), 1, 2, id="20,000 runs with all answers"
        ),
    ],
)
async def test_what_unfolds_of_thousands_of_runs_costs_nothing_before(
    names: Mapping[str, Any],
    variants: int,
    most_s: float,
    tab: Tab,
    page: Callable[[Summary], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = report_of(
        names,
        variants=[Variant(f"provider {number}") for number in range(variants)],
        edit=pages.talkative,
    )
    await tab.call("Performance.enable", timeDomain="threadTicks")
    await tab.open(page(summarize(report, Gate(min_pass_rate=0.9))))
    opened_s = await busy_s(tab)
    nodes = await tab.evaluate("document.querySelectorAll('*').length")
    with capsys.disabled():
        print(f"\nopened in {opened_s:.2f} s, {nodes:,} elements")  # noqa: T201  the figures
    assert opened_s < most_s
    assert nodes < 50_000
    assert "have no answers here" not in await tab.evaluate("document.body.textContent")


async def test_compressed_rows_are_found_and_unfold_as_others_do(
    tab: Tab, page: Callable[[Summary], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(result: Result) -> Result:
        return replace(result, response=Response(f"</script> {result.case} says é & <b>"))

    summary = summarize(report_of(many((3, "F"), (300, "P")), edit=edit), None)
    monkeypatch.setattr(ci_evals.reports.html, "_PLAIN_BYTES", 0)
    url = page(summary)
    text = html_of(summary)
    assert "case 303 says" not in text
    assert "application/zlib" in text
    await tab.open(f"{url}#case=case%20303&run=1")
    await tab.until("document.getElementById('case=case%20303')?.open")
    answer = "document.getElementById('case=case%20303').querySelector('.answer').textContent"
    assert await tab.evaluate(answer) == "</script> case 303 says é & <b>"
    await tab.press("/")
    await tab.type("case 299 says")
    await tab.until("document.querySelector('.tools output').value === '1 of 303 cases'")
    assert await tab.evaluate(SHOWN) == ["case 299"]
    assert tab.logged == []


@pytest.mark.slow
async def test_a_page_has_20000_answers_that_all_differ(
    tab: Tab, page: Callable[[Summary], str], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(20)
    words = ("we", "refund", "the", "order", "to", "your", "card", "when", "it", "is", "back")

    def edit(result: Result) -> Result:
        text = " ".join(rng.choices(words, k=80))
        return replace(result, response=Response(f"{text} {result.case}.{result.run}"))

    summary = summarize(report_of(many((4000, "PPPPP")), edit=edit), None)
    size = len(html_of(summary).encode())
    url = page(summary)
    await tab.call("Performance.enable", timeDomain="threadTicks")
    await tab.open(url)
    await tab.until("!document.getElementById('tools').hidden")
    opened_s = await busy_s(tab)
    with capsys.disabled():
        print(f"\n20,000 answers: {size / 1e6:.1f} MB, opened in {opened_s:.2f} s")  # noqa: T201
    assert size < 15_000_000
    assert opened_s < 2
    await tab.evaluate("location.hash = '#case=case%204000&run=5'")
    await tab.until("document.getElementById('case=case%204000')?.open")
    answers = "document.getElementById('case=case%204000').textContent"
    assert "case 4000.5" in await tab.evaluate(answers)


@pytest.mark.slow
def test_a_page_of_50000_runs_is_below_15_mb(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(many((2500, "P" * 10), (2500, "F" * 10)), edit=pages.talkative)
    size = len(html_of(summarize(report, Gate(min_pass_rate=0.9))).encode())
    with capsys.disabled():
        print(f"\n50,000 runs: {size / 1e6:.1f} MB")  # noqa: T201  the figure
    assert size < 15_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["support-bot", "policy-change", "agent", "borderline", "many-variants"]
)
async def test_axe_finds_nothing_serious(
    name: str, tab: Tab, page_of: Callable[[str], str], axe: str
) -> None:
    url = page_of(name)
    for scheme, width in (("light", 1200), ("dark", 400)):
        await tab.prefer(scheme)
        await tab.resize(width, 900)
        await tab.open(url)
        await open_all(tab, cases=5)
        await tab.evaluate("document.querySelector('.people button')?.click()")
        await tab.evaluate(f"{axe}; 0")
        found = await tab.evaluate(
            """axe.run().then((found) =>
                found.violations.map((each) => [each.impact, each.id, each.nodes[0].html]))"""
        )
        assert [each for each in found if each[0] in ("serious", "critical")] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["support-bot", "policy-change"])
async def test_axe_finds_nothing_serious_side_by_side(
    name: str, tab: Tab, page_of: Callable[[str], str], axe: str
) -> None:
    url = page_of(name)
    for scheme, width in (("light", 1200), ("dark", 400)):
        await tab.prefer(scheme)
        await tab.resize(width, 900)
        await tab.open("about:blank")
        await tab.open(f"{url}#view=sides")
        await tab.until("document.querySelector('.pair')")
        await tab.evaluate(f"{axe}; 0")
        found = await tab.evaluate(
            """axe.run().then((found) =>
                found.violations.map((each) => [each.impact, each.id, each.nodes[0].html]))"""
        )
        assert [each for each in found if each[0] in ("serious", "critical")] == []


async def test_the_page_can_be_walked_with_the_keyboard_alone(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("policy-change"))
    open_cases = "[...document.querySelectorAll('.case[open] .id')].map((each) => each.textContent)"
    focused = "document.activeElement.closest('.case')?.id"
    travel = """new Promise((resolve) => {{
        addEventListener("hashchange", () => resolve(true), {{ once: true }});
        history.{way}(); }})"""
    for key in ("j", "Enter", "Enter"):  # the first case is open from the start
        await tab.press(key)
    assert await tab.evaluate(open_cases) == ["refund-1"]
    for key in ("Enter", "j", "Enter"):
        await tab.press(key)
    assert await tab.evaluate(open_cases) == ["refund-2"]
    assert await tab.evaluate("location.hash") == "#case=refund-2"

    await tab.evaluate(travel.format(way="back"))
    assert await tab.evaluate(focused) == "case=refund-1"
    assert "refund-1" in await tab.evaluate(open_cases)
    await tab.evaluate(travel.format(way="forward"))
    assert await tab.evaluate(focused) == "case=refund-2"

    await tab.press("/")
    for _ in range(10):
        await tab.press("Tab")
        if await tab.evaluate("document.activeElement.name === 'view'"):
            break
    assert await tab.evaluate("document.activeElement.name") == "view"
    await tab.press(" ")
    await tab.until("document.querySelectorAll('.pair').length > 1")
    assert await tab.evaluate(open_cases) == []
    await tab.press(" ")
    await tab.until("document.querySelectorAll('.pair').length === 0")


@pytest.mark.parametrize(
    "answer",
    [
        "x" * 200_000,
        "word " * 40_000,
        f"# Title\n\n**{'x' * 200_000}**",
        json.dumps({"text": "x" * 200_000}),
        f"a,b\n{'x' * 200_000},1\nc,2",
    ],
    ids=["a word", "a line of words", "Markdown", "JSON", "CSV"],
)
async def test_a_line_of_200_kb_is_cut_and_wrapped(
    answer: str, tab: Tab, page: Callable[[Summary], str]
) -> None:
    await tab.open(page(answered(answer)))
    text = await tab.evaluate("document.querySelector('.answer').textContent")
    assert 1000 < len(text) < 10_000
    width = "document.documentElement.scrollWidth <= innerWidth"
    assert await tab.evaluate(width)
    await tab.resize(390, 900)
    assert await tab.evaluate(width)


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core, as npm installs it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm here to install axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefer-offline",
        "axe-core@4",
    ]
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    if ended.returncode:
        pytest.skip(f"npm could not install axe-core: {ended.stderr[-300:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


async def test_a_field_leads_to_its_cell_even_if_names_have_to_be_encoded(
    tab: Tab, page: Callable[[Summary], str]
) -> None:
    variants = [Variant("gpt", "short & sweet"), Variant("gpt", "50 % é")]
    report = report_of({"where is 'it' & why?": ["P", "F"], "other": ["P", "P"]}, variants=variants)
    await tab.open(page(summarize(report, None)))
    await tab.evaluate("document.querySelectorAll('.chip')[1].click()")
    shown = "document.querySelector('.target')?.textContent.trim()"
    assert "50 % é" in (await tab.evaluate(shown) or "")
    url = await tab.evaluate("location.href")
    await tab.open("about:blank")
    await tab.open(url)
    assert "50 % é" in (await tab.evaluate(shown) or "")
