"""Cases of main that a change deletes or rewords are asked as main has them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repositories import RESULTS, Repository, against_main
from suites import AGENT, write_suite

AGENT_CODE = """
from pathlib import Path

def answer(question):
    with Path(__file__).with_name("calls.log").open("a") as file:
        file.write(question + "\\n")
    return "no idea" if question in FORGOTTEN else f"{question}: yes"
"""


def case(name: str, **settings: Any) -> dict[str, Any]:
    """A case that the agent of main answers with yes."""
    return {"id": name, "input": name, "expect": [{"contains": ": yes"}], **settings}


def agent_that_forgets(*questions: str) -> str:
    return AGENT_CODE.replace("FORGOTTEN", repr(questions))


def shop_of(folder: Path, cases: Sequence[Any]) -> Repository:
    shop = Repository.new(folder)
    write_cases(shop, cases)
    shop.commit({"agent.py": agent_that_forgets(), ".gitignore": "__pycache__/\n*.log\n"})
    return shop


def write_cases(shop: Repository, cases: Sequence[Any]) -> None:
    write_suite(shop.folder, cases, name="shop", runs=5, providers=[AGENT])


def calls(shop: Repository) -> list[str]:
    """What the change was asked."""
    return (shop.folder / "calls.log").read_text().splitlines()


KEPT = [case(f"kept-{n}") for n in range(5)]
KEPT_MORE = [case(f"kept-{n}") for n in range(5, 10)]


async def test_a_case_that_is_deleted_because_it_fails_is_said(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [*KEPT, case("refund", critical=True)])
    write_cases(shop, KEPT)
    shop.write({"agent.py": agent_that_forgets("refund")})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert "is gone or reworded; as it has them: refund (critical) 0 of 5" in ended.unwrapped
    assert calls(shop).count("refund") == 5
    report = json.loads((tmp_path / RESULTS / "report.json").read_text())
    assert report["totals"]["planned"] == 25, "what main asks is no part of the plan"


async def test_a_case_that_is_reworded_is_asked_both_ways(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [*KEPT, case("refund")])
    write_cases(shop, [*KEPT, {**case("refund"), "input": "refund please"}])
    shop.write({"agent.py": agent_that_forgets("refund")})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert "refund 0 of 5 (before: 5 of 5)" in ended.unwrapped
    assert (calls(shop).count("refund"), calls(shop).count("refund please")) == (5, 5)


async def test_a_case_that_is_deleted_and_still_passes_is_a_note(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [*KEPT, case("refund")])
    write_cases(shop, KEPT)
    ended = await against_main(tmp_path)
    assert ended.code == 0
    assert "PASS" in ended.headline
    assert "refund 5 of 5 (before: 5 of 5)" in ended.unwrapped


async def test_a_renamed_case_is_not_deleted(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [*KEPT, case("refund")])
    write_cases(shop, [*KEPT, {**case("refund"), "id": "money-back"}])
    ended = await against_main(tmp_path)
    assert ended.code == 0
    assert "gone or reworded" not in ended.unwrapped
    assert calls(shop).count("refund") == 5


async def test_of_many_deleted_cases_the_critical_ones_are_asked(tmp_path: Path) -> None:
    gone = [case(f"gone-{n}") for n in range(5)]
    shop = shop_of(tmp_path, [*gone, *KEPT, case("refund", critical=True)])
    write_cases(shop, KEPT)
    shop.write({"agent.py": agent_that_forgets("refund")})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "6 cases of main" in ended.unwrapped
    assert "refund (critical) 0 of 5" in ended.unwrapped
    assert "4 cases not asked" in ended.unwrapped


async def test_what_was_asked_is_not_asked_again(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [*KEPT, case("refund")])
    write_cases(shop, KEPT)
    shop.write({"agent.py": agent_that_forgets("refund")})
    ended = await against_main(tmp_path)
    before = calls(shop)
    resumed = await against_main(tmp_path, "--resume")
    assert calls(shop) == before
    assert resumed.headline == ended.headline


async def test_a_selection_deletes_nothing(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [*KEPT, case("refund")])
    shop.write({"agent.py": agent_that_forgets("refund")})
    ended = await against_main(tmp_path, "--case", "kept-1")
    assert ended.code == 0, ended.out + ended.err
    assert "gone or reworded" not in ended.unwrapped


async def test_a_case_that_the_new_prompt_cannot_ask_is_said(tmp_path: Path) -> None:
    """A var of the prompt has another name now, and so it has in all cases that are left."""
    before = [case(f"kept-{n}", vars={"question": f"kept-{n}"}) for n in range(5)]
    shop = shop_of(tmp_path, [])
    settings = {"name": "shop", "runs": 5, "providers": [AGENT]}
    prompt = [{"name": "short", "user": "{{ question }}"}]
    write_suite(
        tmp_path, [*before, case("refund", vars={"question": "refund"})], prompts=prompt, **settings
    )
    shop.commit()
    after = [{**each, "vars": {"q": each["id"]}} for each in before]
    prompt = [{"name": "short", "user": "{{ q }}"}]
    write_suite(tmp_path, after, prompts=prompt, **settings)
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "6 cases of main" in ended.unwrapped
    assert "6 cases not asked" in ended.unwrapped


async def test_variants_that_only_one_side_has_are_no_matter(tmp_path: Path) -> None:
    """Main's deleted cases ran on one of two agents."""
    agents = [AGENT, {**AGENT, "name": "second"}]
    gone = [case("gone-1", providers=["agent"]), case("gone-2", providers=["agent"])]
    settings = {"name": "shop", "runs": 5, "providers": agents}
    shop = shop_of(tmp_path, KEPT)
    write_suite(tmp_path, [*KEPT, *KEPT_MORE, *gone], **settings)
    shop.commit()
    write_suite(tmp_path, [*KEPT, *KEPT_MORE], **settings)
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "gone-1 5 of 5 (before: 5 of 5), gone-2 5 of 5 (before: 5 of 5)" in ended.unwrapped
