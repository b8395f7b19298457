"""Answers whose checks a change edits are graded by main's checks, too."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from loopback import on_loopback
from processes import ci_evals
from repositories import RESULTS, Repository, against_main
from suites import AGENT, write_suite

CASES = [{"id": f"case-{n}", "input": f"capital {n}"} for n in range(10)]
PARIS = 'def answer(question):\n    return f"{question}: Paris"\n'
LONDON = PARIS.replace("Paris", "London")
STRICT = "def check(output):\n    return 'Paris' in output\n"
GENEROUS = "def check(output):\n    return True\n"
STRICTER = "def check(output):\n    return 'Paris!' in output\n"
REFACTORED = "def check(output):\n    city = 'Paris'\n    return output.find(city) >= 0\n"


def shop_with_check(folder: Path, target: str = "checks:check", **settings: Any) -> Repository:
    """A repository whose main answers Paris, and checks that by code of its own."""
    shop = Repository.new(folder)
    settings = {"runs": 5, "providers": [AGENT], "expect": [{"python": target}], **settings}
    write_suite(folder, CASES, name="shop", **settings)
    shop.commit({"agent.py": PARIS, "checks.py": STRICT, ".gitignore": "__pycache__/\n"})
    return shop


def edit_suite(shop: Repository, old: str, new: str) -> None:
    """Change a text in the suite of the working tree."""
    file = shop.folder / "evals.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def document(shop: Repository) -> Any:
    return json.loads((shop.folder / RESULTS / "report.json").read_text())


def kinds(shop: Repository) -> set[str]:
    """The kinds of all cells in the comparison."""
    return {cell["comparison"]["kind"] for cell in document(shop)["cells"]}


@pytest.mark.parametrize(
    "edited",
    [
        {"checks.py": GENEROUS},
        {"cities.py": "def names(output):\n    return True\n"},
        {"lib/__init__.py": "", "lib/words.py": "PARIS = ''\n"},
    ],
    ids=["its body", "a helper", "a helper of the helper"],
)
async def test_a_check_that_passes_everything_does_not_clear_the_change(
    tmp_path: Path, edited: Mapping[str, str]
) -> None:
    shop = shop_with_check(tmp_path)
    shop.commit(
        {
            "checks.py": "from cities import names as check\n",
            "cities.py": STRICT.replace("check", "names").replace("'Paris'", "PARIS")
            + "\n\nfrom lib.words import PARIS\n",
            "lib/__init__.py": "",
            "lib/words.py": "PARIS = 'Paris'\n",
        }
    )
    shop.write({"agent.py": LONDON, **edited})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert "0 of 50 answers pass; by this branch's, 50 of 50" in ended.headline
    (file,) = [name for name in edited if not name.endswith("__init__.py")]
    assert f"({file} changed)" in ended.headline
    assert kinds(shop) == {"regressed"}
    assert "0 of 10 here by its checks" in ended.out
    summary = (tmp_path / RESULTS / "summary.md").read_text()
    assert "0 of 50 answers pass" in summary.replace("**", "")


@pytest.mark.parametrize("way", ["a transform", "a JavaScript file"])
async def test_other_code_that_grades_is_no_other_matter(tmp_path: Path, way: str) -> None:
    expect: Any = [{"contains": {"value": "Paris", "transform": "checks:shorten"}}]
    strict = "def shorten(output):\n    return output.split(':')[-1]\n"
    edited = {"checks.py": "def shorten(output):\n    return 'Paris'\n"}
    if way == "a JavaScript file":
        expect = [{"javascript": {"file": "checks.js"}}]
        strict = "module.exports = (output) => output.includes('Paris')\n"
        edited = {"checks.js": "module.exports = (output) => true\n"}
    shop = shop_with_check(tmp_path, expect=expect)
    shop.commit(dict.fromkeys(edited, strict))
    shop.write({"agent.py": LONDON, **edited})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "0 of 50 answers pass; by this branch's, 50 of 50" in ended.headline


async def test_a_report_with_mains_grades_is_judged_again_as_it_was(tmp_path: Path) -> None:
    shop = shop_with_check(tmp_path)
    edit_suite(shop, '"checks:check"', '"checks:lenient"')
    shop.write(
        {"agent.py": LONDON, "checks.py": f"{STRICT}\n\ndef lenient(output):\n    return 1\n"}
    )
    ended = await against_main(tmp_path)
    explained = await ci_evals(tmp_path, "explain", "case-3")
    assert explained.code == 0, explained.err
    assert "0 of 10 here by its checks" in explained.out
    resumed = await against_main(tmp_path, "--resume")
    assert resumed.headline == ended.headline


async def test_a_check_that_was_only_rewritten_changes_nothing(tmp_path: Path) -> None:
    shop = shop_with_check(tmp_path)
    edit_suite(shop, "checks:check", "rewritten:check")
    shop.write({"rewritten.py": REFACTORED})
    ended = await against_main(tmp_path)
    assert ended.code == 0
    assert "PASS" in ended.headline
    assert kinds(shop) == {"unchanged"}
    assert (
        "pass 50 of 50 answers, whose checks this change has edited; its own, 50" in ended.unwrapped
    )


async def test_a_stricter_check_regresses_nothing(tmp_path: Path) -> None:
    shop = shop_with_check(tmp_path)
    edit_suite(shop, "checks:check", "stricter:check")
    shop.write({"stricter.py": STRICTER})
    ended = await against_main(tmp_path)
    assert ended.code == 1, "its own bar is missed"
    assert "FAIL" in ended.headline
    assert "50 of 50 answers pass: the new ones fail some (stricter.py changed)" in ended.unwrapped
    assert kinds(shop) == {"unchanged"}
    assert "more run" not in ended.err, "nothing is confirmed"


async def test_what_fails_by_both_checks_is_red(tmp_path: Path) -> None:
    shop = shop_with_check(tmp_path)
    edit_suite(shop, "checks:check", "rewritten:check")
    shop.write({"agent.py": LONDON, "rewritten.py": REFACTORED})
    ended = await against_main(tmp_path)
    assert ended.code == 1
    assert "FAIL" in ended.headline
    assert kinds(shop) == {"regressed"}


@pytest.mark.parametrize(
    ("mains", "own"),
    [
        ([{"contains": "Paris"}], [{"contains": "capital"}]),
        ([{"contains": "Paris"}, {"not_empty": True}], [{"not_empty": True}]),
    ],
    ids=["another word", "one check less"],
)
async def test_built_in_checks_are_no_other_matter(
    tmp_path: Path, mains: Iterable[Any], own: Iterable[Any]
) -> None:
    shop = shop_with_check(tmp_path, expect=mains)
    write_suite(tmp_path, CASES, name="shop", runs=5, providers=[AGENT], expect=own)
    shop.write({"agent.py": LONDON})
    ended = await against_main(tmp_path)
    assert ended.code == 0
    assert "0 of 50 answers pass; by this branch's, 50 of 50" in ended.headline
    assert "changed)" not in ended.headline, "no code did"


class Judge:
    """A model that is content with every answer, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.settings: Mapping[str, Any] = {}

    async def respond(self, request: web.Request) -> web.Response:
        del request
        self.asked += 1
        verdict = json.dumps({"verdict": "pass", "reason": "kind"})
        message = {"role": "assistant", "content": verdict}
        return web.json_response({"choices": [{"index": 0, "message": message}]})


@asynccontextmanager
async def judging() -> AsyncIterator[Judge]:
    """A judge on loopback; its `settings` name it in a suite."""
    judge = Judge()
    app = web.Application()
    app.router.add_post("/{path:.*}", judge.respond)
    async with on_loopback(app) as url:
        named = {"name": "critic", "type": "openai", "model": "m", "base_url": url, "api_key": None}
        judge.settings = {"judges": [named]}
        yield judge


async def test_a_judge_that_is_the_same_is_not_asked_again(tmp_path: Path) -> None:
    async with judging() as judge:
        polite = {"judge": "polite"}
        checks = [polite, {"contains": "Paris"}]
        shop = shop_with_check(tmp_path, **judge.settings, expect=checks, runs=1)
        checks = [{"contains": "capital"}, polite]
        settings = {**judge.settings, "runs": 1, "providers": [AGENT], "expect": checks}
        write_suite(tmp_path, CASES, name="shop", **settings)
        ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "whose checks this change has edited" in ended.out
    assert judge.asked == 20, "ten answers of each side, once"
    assert "made 10 runs in the same minutes and 10 calls of judges" in " ".join(ended.out.split())
    assert kinds(shop) == {"unchanged"}


async def test_judges_of_main_are_not_asked_again_by_a_resumed_run(tmp_path: Path) -> None:
    async with judging() as judge:
        shop = shop_with_check(tmp_path, **judge.settings, expect=[{"judge": "polite"}], runs=1)
        edit_suite(shop, "polite", "not rude")
        ended = await against_main(tmp_path)
        assert "whose checks this change has edited" in ended.unwrapped
        assert judge.asked == 30, "ten answers of main, and ten of the change twice"
        resumed = await against_main(tmp_path, "--resume")
    assert resumed.headline == ended.headline
    assert judge.asked == 30


async def test_a_check_that_breaks_on_main_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    """Main's checks need a module that only main has installed its own way."""
    shop = shop_with_check(tmp_path)
    edit_suite(shop, "checks:check", "rewritten:check")
    shop.write({"rewritten.py": REFACTORED})
    shop.git("stash", "--include-untracked")
    shop.commit({"checks.py": "import generated\n" + STRICT})
    shop.git("stash", "pop")
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "Traceback" not in ended.err
    assert "generated" in " ".join((ended.out + ended.err).split())


def answering(*wrong: str) -> str:
    """An agent that answers Paris, but for some questions."""
    return f"def answer(question):\n    return 'London' if question in {wrong!r} else 'Paris'\n"


async def test_a_comment_in_a_check_excuses_nothing(tmp_path: Path) -> None:
    """A case that is worse over its variants, though on none of them by itself."""
    agent = """
from pathlib import Path

def answer(question):
    file = Path(__file__).with_name(f"{question}.log")
    with file.open("a") as log:
        log.write("x")
    return "London" if question == BROKEN and file.stat().st_size % 5 < 2 else "Paris"
"""
    providers = [{**AGENT, "name": f"agent-{n}"} for n in range(4)]
    shop = shop_with_check(tmp_path, providers=providers, gate={"min_pass_rate": 0.5})
    shop.commit({"agent.py": agent.replace("BROKEN", "''"), ".gitignore": "__pycache__/\n*.log\n"})
    shop.write({"agent.py": agent.replace("BROKEN", "'capital 0'")})
    control = await against_main(tmp_path, "--out", "control")
    shop.write({"checks.py": f"{STRICT}# tidied\n", "capital 0.log": ""})
    ended = await against_main(tmp_path)
    assert (control.code, ended.code) == (1, 1), control.out + ended.out


async def test_stricter_checks_elsewhere_do_not_pay_for_a_loosened_one(tmp_path: Path) -> None:
    cases: list[dict[str, Any]]
    cases = [{**case, "expect": [{"contains": "Paris"}]} for case in CASES]
    cases[0] |= {"critical": True}
    settings = {"runs": 5, "providers": [AGENT], "gate": {"min_pass_rate": 0.5}}
    shop = Repository.new(tmp_path)
    write_suite(tmp_path, cases, name="shop", **settings)
    shop.commit({"agent.py": answering(), ".gitignore": "__pycache__/\n"})
    cases[0] |= {"expect": [{"not_empty": True}]}
    for case in cases[1:4]:
        case |= {"expect": [{"contains": "Paris!"}]}
    write_suite(tmp_path, cases, name="shop", **settings)
    shop.write({"agent.py": answering("capital 0")})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert "0 of 5 answers pass; by this branch's, 5 of 5" in ended.unwrapped


async def test_a_case_that_takes_the_name_of_another_is_no_way_out(tmp_path: Path) -> None:
    refund = {"id": "refund", "input": "refund", "expect": [{"contains": "Paris"}]}
    cancel = {"id": "cancel", "input": "cancel", "expect": [{"contains": "Paris"}]}
    others = [{**case, "expect": [{"contains": "Paris"}]} for case in CASES]
    settings = {"runs": 5, "providers": [AGENT], "name": "shop"}
    shop = Repository.new(tmp_path)
    write_suite(tmp_path, [*others, refund, cancel], **settings)
    shop.commit({"agent.py": answering(), ".gitignore": "__pycache__/\n"})
    anything = {"expect": [{"not_empty": True}]}
    swapped = [
        {**refund, "input": "cancel", **anything},
        {**cancel, "input": "refund", **anything},
    ]
    write_suite(tmp_path, [*others, *swapped], **settings)
    shop.write({"agent.py": answering("refund", "cancel")})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert "0 of 10 answers pass; by this branch's, 10 of 10" in ended.unwrapped


async def test_a_secret_in_a_name_is_in_no_report(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    judge = {"name": "critic", "type": "openai", "model": "m", "api_key": "${KEY}"}
    cases = [
        {"id": f"ask {secret}", "input": "capital", "expect": [{"contains": "Paris"}]},
        {"id": f"gone {secret}", "input": "gone", "expect": [{"contains": "Paris"}]},
    ]
    settings = {"runs": 5, "providers": [AGENT], "judges": [judge], "name": "shop"}
    shop = Repository.new(tmp_path)
    write_suite(tmp_path, cases, **settings)
    shop.commit({"agent.py": answering(), ".gitignore": "__pycache__/\n"})
    cases[0]["expect"] = [{"not_empty": True}]
    write_suite(tmp_path, cases[:1], **settings)
    shop.write({"agent.py": answering("capital")})
    ended = await against_main(tmp_path, environ={"KEY": secret})
    assert ended.code == 0, ended.out + ended.err
    assert "0 of 5 answers pass; by this branch's, 5 of 5" in ended.unwrapped
    texts = [path.read_bytes() for path in (tmp_path / RESULTS).rglob("*") if path.is_file()]
    assert not any(secret.encode() in text for text in (*texts, ended.stdout, ended.stderr))


async def test_impossible_grades_of_main_are_refused(tmp_path: Path) -> None:
    shop = shop_with_check(tmp_path)
    shop.write({"agent.py": LONDON, "checks.py": GENEROUS})
    await against_main(tmp_path)
    file = tmp_path / RESULTS / "report.json"
    report = json.loads(file.read_text())
    dropped = {"case": "gone", "fingerprint": "", "critical": True, "passed": 10, "graded": 5}
    for ruler in (
        {**report["ruler"], "dropped": [dropped]},
        {**report["ruler"], "cells": [*report["ruler"]["cells"], report["ruler"]["cells"][0]]},
        {**report["ruler"], "cells": [{**report["ruler"]["cells"][0], "passed": {"99": True}}]},
    ):
        file.write_text(json.dumps({**report, "ruler": ruler}))
        ended = await ci_evals(tmp_path, "explain", "case-3")
        assert ended.code == 3, ended.out + ended.err
        assert "contradicts itself" in ended.err
