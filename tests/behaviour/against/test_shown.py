"""What reports show of main's runs in the same minutes: their cost, what passed, and an answer."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from repositories import APPLE, BREAD, RESULTS, Repository, against_main, repository_with_agent
from suites import AGENT, write_suite

PAID = """
def answer(question):
    return {"output": ANSWERS.get(question, question), "cost_usd": 0.001}

ANSWERS = {}
"""
FORGETFUL = PAID.replace("{}", "{'bread': 'no idea'}")


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    """A repository whose main answers for 0.001 USD, with a change that forgets bread."""
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    shop.commit({"agent.py": PAID})
    shop.write({"agent.py": FORGETFUL})
    return shop


def name_of_main(shop: Repository) -> str:
    return f"main ({shop.git('rev-parse', '--short=7', 'HEAD')})"


def text_in(file: Path) -> str:
    """A report's text as a reader sees it."""
    return unescape(file.read_text()).replace("\u200b", "").replace("\xa0", " ")


async def test_what_main_cost_is_in_every_report(shop: Repository) -> None:
    """Its plan of 6 runs, and 10 further ones of the case that looks worse."""
    ended = await against_main(shop.folder)
    sentence = f"{name_of_main(shop)} made 16 runs in the same minutes, $0.016"
    assert sentence in " ".join(ended.out.split())
    results = shop.folder / RESULTS
    assert report_in(results)["main_cost"]["runs"] == 16
    assert sentence in text_in(results / "summary.md")
    assert sentence in text_in(results / "report.html")
    (results / "report.html").unlink()
    again = await ci_evals(shop.folder, "view", "--no-browser")
    assert again.code == 0, again.err
    assert sentence in text_in(results / "report.html"), "the report is read back"


async def test_where_names_settle_it_no_further_rounds_are_said_to_be_incomplete(
    shop: Repository,
) -> None:
    shop.write({"agent.py": PAID.replace("{}", "{'apple': 'no idea', 'bread': 'no idea'}")})
    ended = await against_main(shop.folder)
    assert ended.out.startswith("✗ FAIL  2 cases regressed: apple, bread\n")
    text = " ".join(ended.out.split())
    assert "Confirm runs: 2 cells ran again, 28 more runs, $0.028: 2 regressed" in text
    assert "further rounds" not in text


async def test_nothing_is_said_about_main_where_it_has_run_nothing(shop: Repository) -> None:
    ended = await ci_evals(shop.folder, "run")
    assert "Alongside" not in ended.out
    assert report_in(shop.folder / RESULTS)["main_cost"] is None


# Main's answer of the same minutes.

VENDOR = """
def answer(question, request):
    is_out = question == "bread" and request.run > UP_TO
    return "WHO cannot look" if is_out else f"{question}, says WHO"
"""


def base_answer(shop: Repository, case: str) -> dict[str, Any]:
    """What report.json keeps of the base's answer to a case."""
    cells = report_in(shop.folder / RESULTS)["base"]["cells"]
    [cell] = [cell for cell in cells if cell["case"] == case]
    return {name: cell[name] for name in ("answer", "answered_now", "missed")}


async def test_what_is_named_is_shown_with_an_answer_that_main_gave_now(tmp_path: Path) -> None:
    """Main fails the first of the runs that both sides make."""
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    flaky = """
def answer(question, request):
    if request.run == 4:
        return "sorry"
    return f"{question}, says main in run {request.run}"
"""
    shop.commit({"agent.py": flaky})
    shop.write({"agent.py": FORGETFUL})
    ended = await against_main(shop.folder)
    assert ended.code == 1, ended.err
    assert base_answer(shop, "bread") == {
        "answer": "bread, says main in run 5",
        "answered_now": True,
        "missed": "",
    }, "the first further run that passed"
    label = f"{name_of_main(shop)}, now"
    page = text_in(shop.folder / RESULTS / "report.html")
    assert f"<h5><bdi>{label}</bdi></h5>" in page
    summary = text_in(shop.folder / RESULTS / "summary.md")
    assert f"Answer on {name_of_main(shop)} now (-) and of run 1 here (+):" in summary
    assert "-bread, says main in run 5\n+no idea\n" in summary
    explained = await ci_evals(shop.folder, "explain", "bread")
    title = f"Answer on {label} (-) and of run 1 here (+)"
    assert f"{title}\n  -bread, says main in run 5\n  +no idea\n" in explained.out


async def test_what_main_fails_now_too_is_shown_with_an_answer_that_failed(tmp_path: Path) -> None:
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    shop.commit({"agent.py": VENDOR.replace("WHO", "main").replace("UP_TO", "3")})
    shop.write({"agent.py": VENDOR.replace("WHO", "change").replace("UP_TO", "0")})
    await against_main(shop.folder)
    missed = 'no "bread" in the answer'
    assert base_answer(shop, "bread") == {
        "answer": "main cannot look",
        "answered_now": True,
        "missed": missed,
    }
    label = f"{name_of_main(shop)}, now"
    summary = text_in(shop.folder / RESULTS / "summary.md")
    assert f"It failed on {name_of_main(shop)}, too: <code>{missed}</code>" in summary
    explained = await ci_evals(shop.folder, "explain", "bread")
    title = f"Answer on {label} (-) and of run 1 here (+)"
    assert f"{title}\n  -main cannot look\n  +change cannot look\n  ✗ {missed}\n" in explained.out


async def test_a_secret_in_mains_answer_is_in_no_report(tmp_path: Path) -> None:
    """Only the change's suite names the variable, so main's own journal has its value."""
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    blunder = "import os\n\ndef answer(question):\n    return question + os.environ['SAUCE']\n"
    shop.commit({"agent.py": blunder})
    shop.write({"agent.py": FORGETFUL})
    write_suite(
        shop.folder,
        name="shop",
        description="${SAUCE}",
        cases=[APPLE, BREAD],
        providers=[AGENT],
        runs=3,
    )
    ended = await against_main(shop.folder, environ={"SAUCE": "worcestershire"})
    assert base_answer(shop, "bread") == {
        "answer": "bread***",
        "answered_now": True,
        "missed": "",
    }, ended.err
    for name in ("report.json", "report.html", "summary.md"):
        assert "worcestershire" not in (shop.folder / RESULTS / name).read_text()


# Passed runs: in main's history, on main now, and here.


async def test_reports_have_a_column_of_mains_runs_now(shop: Repository) -> None:
    ended = await against_main(shop.folder)
    table = [line.split() for line in ended.out.splitlines()[2:4]]
    assert table == [
        ["main", "main", "now", "here"],
        ["bread", "3/3", "10/10", "0/17", "p", "<", "0.001"],
    ]
    page = text_in(shop.folder / RESULTS / "report.html")
    assert '3/3 → 0/17</span><span class="count">, main now 10/10' in page, "what broke"
    assert '<span class="change">main now 10/10</span>' in page, "its row"
    explained = await ci_evals(shop.folder, "explain", "bread")
    assert "main 3 of 3, main now 10 of 10, here 0 of 17" in explained.out
    asked = await ci_evals(shop.folder, "explain", "bread", "--format", "json")
    [cell] = json.loads(asked.out)["cells"]
    assert (cell["base"], cell["main_now"], cell["here_now"]) == ([3, 3], [10, 10], [0, 10])


async def test_over_variants_mains_history_is_apart_from_its_runs_now(shop: Repository) -> None:
    other = {**AGENT, "name": "other"}
    write_suite(shop.folder, [APPLE, BREAD], name="shop", providers=[AGENT, other], runs=3)
    shop.commit({"agent.py": PAID})
    shop.write({"agent.py": FORGETFUL})
    ended = await against_main(shop.folder)
    assert "bread on 2 of 2 variants 6/6 20/20 0/30 p < 0.001" in " ".join(ended.out.split())
    assert "26 of 26 on main (20 of them now), 0 of " in " ".join(ended.out.split())


async def test_there_is_no_such_column_where_main_has_not_run_now(shop: Repository) -> None:
    """The change breaks a case that main does not have."""
    shop.write({"agent.py": PAID.replace("{}", "{'milk': 'no idea'}")})
    milk = {"id": "milk", "input": "milk", "expect": [{"contains": "milk"}]}
    write_suite(shop.folder, [APPLE, BREAD, milk], name="shop", providers=[AGENT], runs=3)
    ended = await against_main(shop.folder)
    assert ended.code == 1, ended.err
    for text in (ended.out, text_in(shop.folder / RESULTS / "report.html")):
        assert "main now" not in text
    explained = await ci_evals(shop.folder, "explain", "bread")
    assert "main now" not in explained.out
