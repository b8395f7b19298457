"""People's marks in report.html: by mouse and by key, kept, saved, and read by `judge check`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pages
import pytest
from browser import Tab, browser
from factories import grade_of, report_of
from processes import python
from suites import write_suite

from ci_evals.model.response import Message, Passage, Response, ToolCall, Turn
from ci_evals.model.result import Result
from ci_evals.reports.summary import Summary, summarize

pytestmark = pytest.mark.skipif(browser() is None, reason="there is no Chromium here")

RUN = "document.getElementById('case=lost-package&on=gpt-5-mini&run=1')"
PRESSED = f"[...{RUN}.querySelectorAll('.people button')].map((each) => each.ariaPressed)"
MARKS = "document.querySelector('#marks output').value"
SAYINGS = "[...document.querySelectorAll('span.people')].map((each) => each.textContent)"
SHOWN = """[...document.querySelectorAll('.case:not([hidden])')]
    .map((each) => each.querySelector('.id').textContent)"""
SAVE = "#marks .save"


async def saved_by(tab: Tab, folder: Path) -> list[Mapping[str, Any]]:
    """Save the marks, and return the lines of the file."""
    await tab.download(folder, SAVE)
    *lines, end = (folder / "labels.jsonl").read_text("utf-8").split("\n")
    assert end == ""
    return [json.loads(line) for line in lines]


async def test_a_run_is_marked_by_mouse_and_a_page_opened_again_has_the_mark(
    tab: Tab, page_of: Callable[[str], str], tmp_path: Path
) -> None:
    url = page_of("support-bot")
    await tab.open(url)
    assert await tab.evaluate("document.getElementById('marks').hidden")
    await tab.evaluate(f"{RUN}.querySelector('.people button').click()")
    assert await tab.evaluate(PRESSED) == ["true", "false"]
    assert await tab.evaluate(MARKS) == "1 run marked, the judge disagrees with 1"
    said = await tab.evaluate(SAYINGS)
    assert said == ["people: right", "people: right, the judge disagrees"]
    judged = f"{RUN}.querySelector('[data-judge] span.people') !== null"
    assert await tab.evaluate(judged), "it is shown with the judge's grade, not the other one"
    await tab.evaluate(f"{RUN}.querySelector('.people input').focus()")
    await tab.type("Credit is fine")

    await tab.open("about:blank")
    await tab.open(url)
    assert await tab.evaluate(PRESSED) == ["true", "false"]
    assert await tab.evaluate(SAYINGS) == said
    assert await tab.evaluate(f"{RUN}.querySelector('.people input').value") == "Credit is fine"
    assert await saved_by(tab, tmp_path) == [
        {
            "suite": "support bot",
            "case": "lost-package",
            "variant": "gpt-5-mini",
            "run": 1,
            "address": "case=lost-package&on=gpt-5-mini&run=1",
            "run_id": await tab.evaluate("document.getElementById('marks').dataset.runId"),
            "input": (
                "system: You are the friendly support of a shop. Be brief.\n"
                "user: Where is my package? It was due on Monday."
            ),
            "output": pages.ANSWERS["lost-package"][1],
            "label": "pass",
            "judge": "fail",
            "note": "Credit is fine",
        }
    ]

    await tab.evaluate("window.confirm = () => true; document.querySelector('.clear').click()")
    assert await tab.evaluate(PRESSED) == ["false", "false"]
    assert await tab.evaluate("document.getElementById('marks').hidden")
    assert await tab.evaluate(SAYINGS) == []

    hostile: list[Any] = [{"address": 3, "label": "pass"}, {"label": "<b>"}, None, [], {"run": 1}]
    labels = tmp_path / "labels.jsonl"
    with labels.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in hostile)
        file.write("{\n")
    await tab.press("?")
    assert await tab.evaluate("document.activeElement.textContent") == "close"
    field = await tab.call(
        "Runtime.evaluate", expression="document.getElementById('labels')", returnByValue=False
    )
    object_id = field["result"]["objectId"]
    await tab.call("DOM.setFileInputFiles", files=[str(labels)], objectId=object_id)
    await tab.until("document.getElementById('loaded').value")
    loaded = await tab.evaluate("document.getElementById('loaded').value")
    assert loaded == "1 mark of this report in 7 lines"
    assert await tab.evaluate(PRESSED) == ["true", "false"]
    assert await tab.evaluate(SAYINGS) == said
    assert tab.logged == []


async def test_runs_are_marked_by_key_and_cases_with_marks_are_found(
    tab: Tab, page_of: Callable[[str], str]
) -> None:
    await tab.open(page_of("support-bot"))
    await tab.press("j")
    await tab.press("w")
    assert await tab.evaluate(PRESSED) == ["false", "true"]
    assert await tab.evaluate(SAYINGS) == ["people: wrong"], "the judge agrees"
    await tab.press("n")
    await tab.type("worn: j, r and w are text here")
    await tab.press("Enter")
    assert await tab.evaluate(f"document.activeElement === {RUN}.querySelector('summary')")
    assert await tab.evaluate(f"{RUN}.open")
    for key in ("j", "r"):
        await tab.press(key)
    assert await tab.evaluate(MARKS) == "2 runs marked, the judge disagrees with 1"
    for value, cases in (("yes", ["lost-package", "refund-full"]), ("against", ["refund-full"])):
        choice = f"""const field = document.querySelector('[name=marks]'); field.value = '{value}';
            field.dispatchEvent(new Event('input', {{ bubbles: true }}))"""
        await tab.evaluate(f"{{ {choice} }}")
        assert await tab.evaluate(SHOWN) == cases
    assert await tab.evaluate("location.hash") == "#marks=against"
    await tab.press("Escape")
    await tab.press("r")
    assert await tab.evaluate(MARKS) == "1 run marked", "the same key takes the mark back"


async def test_a_page_whose_browser_keeps_nothing_says_so(
    tab: Tab, page_of: Callable[[str], str], tmp_path: Path
) -> None:
    denied = """Object.defineProperty(window, 'localStorage',
        { get() { throw new DOMException('denied', 'SecurityError'); } })"""
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=denied)
    await tab.open(page_of("support-bot"))
    await tab.press("j")
    await tab.press("w")
    assert await tab.evaluate(PRESSED) == ["false", "true"]
    assert "does not keep" in await tab.evaluate("document.getElementById('marks').innerText")
    assert [each["label"] for each in await saved_by(tab, tmp_path)] == ["fail"]
    assert tab.logged == []


ATTACK = "</script><img src=x onerror=alert(1)>\"'&amp;\\"


async def test_texts_are_saved_as_they_are_and_no_note_is_run(
    tab: Tab, page: Callable[[Summary], str], tmp_path: Path
) -> None:
    answers = {
        "markup": ATTACK,
        "json": '{"a": [1, 2],\n "b": "<b>"}',
        "markdown": "# Yes\n\n- **no**\n",
        "empty": "",
        "long": "x" * 9000,
    }

    def edit(result: Result) -> Result:
        context = (Passage("Refunds: <b>5</b> days.", "policy.md", 0.83), Passage("No: never."))
        response = Response(answers[result.case], context=context)
        return replace(result, response=response, grades=(grade_of(passed=False),))

    report = report_of(dict.fromkeys(answers, "F"), edit=edit)
    url = page(summarize(report, None))
    await tab.open(url)
    for case in answers:
        await tab.evaluate(f"location.hash = 'case={case}'")
        await tab.until(f"document.activeElement.closest('.case')?.id === 'case={case}'")
        await tab.press("w")
    await tab.evaluate("document.querySelector('[id=\"case=markup\"] > summary').focus()")
    await tab.press("n")
    await tab.call("Input.insertText", text=f"{ATTACK}\u2028")
    await tab.open("about:blank")
    await tab.open(f"{url}#case=markup")
    note = "document.querySelector('[id=\"case=markup\"] .people input')"
    await tab.until(f"{note}?.value")
    lines = {each["case"]: each for each in await saved_by(tab, tmp_path)}
    del answers["long"]
    assert {case: each["output"] for case, each in lines.items()} == answers
    assert lines["json"]["retrieved"] == ["Refunds: <b>5</b> days.", "No: never."]
    assert lines["markup"]["note"] == f"{ATTACK}\u2028"
    assert await tab.evaluate("document.querySelectorAll('img').length") == 0
    told = await tab.evaluate(
        "(location.hash = 'case=long', document.querySelector('[id=\"case=long\"] div.people'))"
        ".textContent"
    )
    assert told.startswith("The answer is too long to be marked here")
    assert tab.logged == []


async def test_a_mark_is_not_shown_with_another_answer_of_the_same_run(
    tab: Tab, page: Callable[[Summary], str], tmp_path: Path
) -> None:
    for answer, pressed in (("Paris", []), ("Lyon", []), ("Paris", ["wrong"])):

        def edit(result: Result, answer: str = answer) -> Result:
            return replace(result, response=Response(answer))

        await tab.open("about:blank")
        await tab.open(page(summarize(report_of({"one": "F"}, edit=edit), None)))
        shown = """[...document.querySelectorAll('.people [aria-pressed=true]')]
            .map((each) => each.textContent)"""
        assert await tab.evaluate(shown) == pressed
        if answer == "Paris" and not pressed:
            await tab.press("j")
            await tab.press("w")
    assert [each["output"] for each in await saved_by(tab, tmp_path)] == ["Paris"]


async def test_the_last_answer_of_a_conversation_is_marked_with_what_came_before(
    tab: Tab, page: Callable[[Summary], str], tmp_path: Path
) -> None:
    turns = (
        Turn("Hello", Response("Hi."), 1.0, None),
        Turn("And Lyon?", Response("Two hours.", tool_calls=(ToolCall("route", {}),)), 1.0, None),
    )

    def edit(result: Result) -> Result:
        asked = (Message("user", "Hello"),)
        return replace(result, response=Response("Two hours.", turns=turns), messages=asked)

    await tab.open(page(summarize(report_of({"one": "F"}, edit=edit), None)))
    for key in ("j", "r"):
        await tab.press(key)
    (line,) = await saved_by(tab, tmp_path)
    assert line["output"] == "Two hours."
    assert line["input"] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "And Lyon?"},
    ]


async def test_judge_check_reads_what_the_page_saved(tab: Tab, tmp_path: Path) -> None:
    """The judge looks for the reference of each case, and is wrong about one answer."""
    (tmp_path / "strict.py").write_text(
        "import json\n"
        "def reply(turns):\n"
        "    data = json.loads('\\n'.join(turns[1]['content'].splitlines()[1:-1]))\n"
        "    verdict = 'pass' if data['reference'] in data['answer'] else 'fail'\n"
        "    return json.dumps({'reason': 'r', 'verdict': verdict})\n",
        "utf-8",
    )
    answers = {"a": "Paris", "b": "Lyon", "c": "Rome", "d": "Rome"}
    references = {"a": "Paris", "b": "Berlin", "c": "Rome"}
    cases: list[dict[str, Any]] = [
        {
            "id": name,
            "input": f"Where is {name}?",
            "expect": [{"judge": {"rubric": "factual", "reference": reference}}],
        }
        for name, reference in references.items()
    ]
    cases.append({"id": "d", "input": "Where?", "expect": [{"contains": "Oslo"}]})
    judge = {"name": "strict", "type": "python", "target": "strict:reply"}
    bot = {"name": "bot", "type": "mock", "answers": answers}
    suite = write_suite(tmp_path, cases, judges=[judge], providers=[bot])
    ran = python(tmp_path, "-m", "ci_evals", "run", "--config", str(suite), "--out", "out")
    assert ran.code == 1, ran.err
    await tab.open((tmp_path / "out" / "report.html").as_uri())
    marks = {"a": "r", "b": "r", "c": "r", "d": "w"}
    for case, key in marks.items():
        await tab.evaluate(f"location.hash = 'case={case}'")
        await tab.until(f"document.activeElement.closest('.case')?.id === 'case={case}'")
        await tab.press(key)
    assert await tab.evaluate(MARKS) == "4 runs marked, the judge disagrees with 1"
    await tab.download(tmp_path, SAVE)
    words = ("judge", "check", "labels.jsonl", "--suite", str(suite), "--format", "json")
    checked = python(tmp_path, "-m", "ci_evals", *words)
    assert checked.code == 3, checked.err
    found = json.loads(checked.out)
    assert found["confusion"] == [[2, 1], [0, 0]]
    (disagreement,) = found["disagreements"]
    assert disagreement == {
        "case": "b",
        "label": "pass",
        "judge": "fail",
        "reason": "judged fail: r",
    }
    assert (found["left_out"], found["unanswered"]) == (1, 0)
