"""`--against main` on a laptop: what a change breaks, without any stored report or CI system."""

from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from repositories import (
    APPLE,
    BREAD,
    RESULTS,
    Repository,
    against_main,
    agent_of,
    repository_with_agent,
    sides,
)
from suites import AGENT, write_suite

FORGETFUL = """
def answer(question):
    return "no idea" if question == "bread" else f"{question}, says the change"
"""
SUITE = """\
name: shop
runs: 3
providers:
  - {name: agent, type: python, target: "agent:answer"}
cases:
  - {id: apple, input: apple, expect: [{contains: apple}]}
  - {id: bread, input: bread, expect: [{contains: bread}]}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    return repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)


async def test_a_case_that_the_working_tree_breaks_is_named(shop: Repository) -> None:
    sha = shop.git("rev-parse", "--short=7", "HEAD")
    shop.write({"agent.py": FORGETFUL})
    ended = await against_main(shop.folder)
    assert ended.code == 1
    assert ended.out.startswith("✗ FAIL  1 case regressed: bread")
    assert f"bread: fails now: 0 of 10 here, 10 of 10 on main ({sha})" in ended.out
    assert f"Compared: with main at {sha}, which ran alongside (3 runs per case)" in ended.out
    assert f"main ({sha}) runs alongside" in ended.err
    assert sides(shop.folder).main == {"apple, says main", "bread, says main"}
    comparison = report_in(shop.folder / RESULTS)["comparison"]
    assert comparison is not None
    assert "Traceback" not in ended.err
    explained = await ci_evals(shop.folder, "explain", "bread")
    assert "a drop, 0 of 17 against 13 of 13: p = 8.4e-09" in explained.out, "3 planned, 10 now"


def agent_that_fails(*numbers: int) -> str:
    """An agent that does not know the answers to these questions."""
    return f"""
def answer(question):
    return "no idea" if int(question.split()[1]) in {set(numbers)} else question
"""


async def test_an_upgrade_is_judged_by_mains_value_of_the_rule(tmp_path: Path) -> None:
    cases = [
        {"id": f"case-{n}", "input": f"question {n} please", "expect": [{"contains": "please"}]}
        for n in range(20)
    ]
    settings: dict[str, Any] = {"name": "shop", "runs": 3, "providers": [AGENT]}
    bar = {"min_pass_rate": 0.5}
    net = bar | {"on_regression": "net"}
    repository = Repository.new(tmp_path / "shop")
    write_suite(repository.folder, cases, **settings, gate=bar)
    files = {"agent.py": agent_that_fails(*range(1, 9)), ".gitignore": "__pycache__/\n"}
    repository.commit(files)
    repository.write({"agent.py": agent_that_fails(0)})
    red = await against_main(repository.folder)
    assert red.code == 1
    assert "1 case regressed: case-0" in red.out
    # A change cannot loosen its own ruler: main has the rule first.
    write_suite(repository.folder, cases, **settings, gate=net)
    loosened = await against_main(repository.folder)
    assert "~ BORDERLINE  weaker than on main" in loosened.out
    assert "on_regression net (fail)" in loosened.out
    write_suite(repository.folder, cases, **settings, gate=net)
    repository.commit({"agent.py": agent_that_fails(*range(1, 9))})
    repository.write({"agent.py": agent_that_fails(0)})
    ended = await against_main(repository.folder)
    assert ended.code == 0
    assert "~ BORDERLINE  1 case regressed (waived): case-0; +35.0 points on the whole" in ended.out
    assert "95 % here, 60 % on main" in ended.out
    assert "agent may be better as a whole: 3 more runs of 19 cells\n" in ended.err
    assert "agent may be better as a whole: 3 more runs, as on main" in ended.err
    assert "Main now:" not in ended.out, "the verdict says it"


@pytest.mark.parametrize("name", ["README.md", "notes.py"])
async def test_a_change_that_breaks_nothing_passes(shop: Repository, name: str) -> None:
    shop.write({name: "# not yet known to git\n"})
    ended = await against_main(shop.folder)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out
    assert sides(shop.folder).main == sides(shop.folder).change


@pytest.mark.parametrize("out", [RESULTS, "out"])
async def test_on_main_itself_there_is_nothing_to_compare(shop: Repository, out: str) -> None:
    assert (await ci_evals(shop.folder, "run", "--out", out)).code == 0
    ended = await against_main(shop.folder, "--out", out)
    assert ended.code == 2
    assert "nothing to compare: this is main, without any change" in ended.err
    assert not (shop.folder / out / "merge-base").exists()


async def test_an_unknown_revision_is_told_with_the_branches(shop: Repository) -> None:
    shop.git("branch", "feature")
    ended = await ci_evals(shop.folder, "run", "--against", "mian")
    assert ended.code == 2
    assert (
        "--against mian: git knows no such branch or commit; branches here: feature, main"
        in ended.err
    )


async def test_a_revision_cannot_be_an_option_of_git(shop: Repository) -> None:
    ended = await ci_evals(shop.folder, "run", "--against=--all")
    assert (ended.code, "--all is not a branch or commit" in ended.err) == (2, True)


async def test_a_folder_without_git_has_no_main(tmp_path: Path) -> None:
    write_suite(tmp_path)
    ended = await against_main(tmp_path)
    assert ended.code == 2
    assert "--against main needs a git checkout" in ended.err
    assert "Traceback" not in ended.err


async def test_a_repository_without_any_commit_has_no_main(tmp_path: Path) -> None:
    Repository.new(tmp_path)
    write_suite(tmp_path)
    ended = await against_main(tmp_path)
    assert ended.code == 2
    assert "--against main needs a git checkout" in ended.err


async def test_a_branch_without_a_common_ancestor_cannot_be_compared(shop: Repository) -> None:
    shop.git("checkout", "--quiet", "--orphan", "other")
    shop.commit({"README.md": "a history of its own"})
    ended = await against_main(shop.folder)
    assert ended.code == 2
    assert "it has no common ancestor with the checked-out commit" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--baseline", "report.json"),
        ("--watch",),
        ("--shard", "1/2"),
        ("--replay", "results.jsonl"),
    ],
)
async def test_what_cannot_be_had_together_is_refused(
    shop: Repository, arguments: tuple[str, ...]
) -> None:
    shop.write({"agent.py": FORGETFUL, "report.json": "{}", "results.jsonl": ""})
    ended = await against_main(shop.folder, *arguments)
    assert ended.code == 2
    assert "--against REV" in ended.err
    assert arguments[0] in ended.err
    assert not (shop.folder / RESULTS).exists()


async def test_newer_commits_of_main_are_not_the_changes_doing(shop: Repository) -> None:
    base = shop.git("rev-parse", "--short=7", "HEAD")
    shop.git("checkout", "--quiet", "-b", "feature")
    shop.commit({"agent.py": agent_of("the change")})
    shop.git("checkout", "--quiet", "main")
    shop.commit({"agent.py": agent_of("newer main")})
    shop.git("checkout", "--quiet", "feature")
    ended = await against_main(shop.folder)
    assert ended.code == 0, ended.out
    assert f"with main at {base}, which ran alongside" in ended.out
    answers = sides(shop.folder)
    assert answers.change == {"apple, says the change", "bread, says the change"}
    assert answers.main == {"apple, says main", "bread, says main"}


async def test_an_earlier_commit_is_compared_with_too(shop: Repository) -> None:
    shop.commit({"agent.py": FORGETFUL})
    ended = await ci_evals(shop.folder, "run", "--against", "HEAD~1")
    assert ended.code == 1
    assert "1 case regressed: bread" in ended.out
    assert "bread: fails now: 0 of 10 here, 10 of 10 on HEAD~1 (" in ended.out


@pytest.mark.parametrize("added", ["", "description: it is elsewhere now\n"])
async def test_a_suite_that_the_change_moves_is_found_where_main_has_it(
    tmp_path: Path, added: str
) -> None:
    shop = Repository.new(tmp_path)
    shop.commit({"agent.py": agent_of("main"), "evals.yaml": SUITE})
    (shop.folder / "evals").mkdir()
    shop.git("mv", "evals.yaml", "evals/evals.yaml")
    shop.write({"agent.py": FORGETFUL, "evals/evals.yaml": SUITE + added})
    ended = await against_main(shop.folder, "evals/evals.yaml")
    assert ended.code == 1, ended.err
    assert "1 case regressed: bread" in ended.out
    assert sides(shop.folder).main == {"apple, says main", "bread, says main"}


async def test_several_suites_are_each_compared_with_their_own(shop: Repository) -> None:
    for name in ("fruit", "bakery"):
        write_suite(
            shop.folder / "evals" / name, name=name, cases=[BREAD], runs=3, providers=[AGENT]
        )
    shop.git("rm", "--quiet", "evals.yaml")
    shop.commit()
    shop.write({"agent.py": FORGETFUL})
    ended = await against_main(shop.folder, "evals")
    assert ended.code == 1
    for name in ("fruit", "bakery"):
        assert sides(shop.folder, f"{RESULTS}/{name}").main == {"bread, says main"}
    assert ended.out.count("which ran alongside") == 2


@pytest.mark.parametrize("selected", ["apple", "bread"])
async def test_a_selection_of_cases_is_made_on_both_sides(shop: Repository, selected: str) -> None:
    shop.write({"agent.py": FORGETFUL})
    ended = await against_main(shop.folder, "--case", selected, "--runs", "4")
    assert ended.code == int(selected == "bread")
    assert sides(shop.folder).main == {f"{selected}, says main"}
    assert "(4 runs per case)" in ended.out


@pytest.mark.parametrize("key", ["off", "auto"])
async def test_who_names_main_gets_it_whatever_its_file_says(tmp_path: Path, key: str) -> None:
    shop = repository_with_agent(tmp_path, cases=[BREAD], runs=3, against=key)
    shop.write({"agent.py": FORGETFUL})
    ended = await against_main(shop.folder)
    assert ended.code == 1
    assert sides(shop.folder).main == {"bread, says main"}


async def test_nothing_is_compared_unless_it_is_asked_for(shop: Repository) -> None:
    shop.write({"agent.py": FORGETFUL})
    for arguments in ((), ("--against", "auto"), ("--against", "off")):
        await ci_evals(shop.folder, "run", *arguments)
        assert not (shop.folder / RESULTS / "merge-base").exists()


# What would be red is run on both sides.

VENDOR = """
def answer(question, request):
    is_out = question == "bread" and request.run > UP_TO
    return "no idea" if is_out else f"{question}, says WHO"
"""


async def test_what_main_fails_now_too_is_not_put_down_to_the_change(tmp_path: Path) -> None:
    """What the agent asks has changed after main's planned runs, and before those here."""
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    shop.commit({"agent.py": VENDOR.replace("WHO", "main").replace("UP_TO", "3")})
    shop.write({"agent.py": VENDOR.replace("WHO", "change").replace("UP_TO", "0")})
    ended = await against_main(shop.folder)
    report = report_in(shop.folder / RESULTS)
    assert report["verdict"]["rules"] == []
    [bread] = [cell for cell in report["cells"] if cell["case"] == "bread"]
    assert bread["comparison"]["kind"] == "suspect"
    assert [passed for _, passed, _ in bread["main_now"]] == [False] * 10
    sentence = "fails it now, too (0 of 10): not this change"
    assert sentence in bread["comparison"]["sentence"]
    assert f"main ({shop.git('rev-parse', '--short=7', 'HEAD')}) {sentence}" in " ".join(
        ended.out.split()
    )


@pytest.mark.parametrize("name", ["uv.lock", "web/package.json", "docker/Dockerfile.dev"])
@pytest.mark.parametrize("is_new", [False, True], ids=["edited", "added"])
async def test_main_clears_nothing_where_the_change_alters_what_both_sides_run_in(
    tmp_path: Path, name: str, is_new: bool
) -> None:
    """Main fails, too, but the packages that the job has installed are the change's."""
    shop = repository_with_agent(tmp_path / "shop", cases=[APPLE, BREAD], runs=3)
    files = {} if is_new else {name: "1"}
    shop.commit({"agent.py": VENDOR.replace("WHO", "main").replace("UP_TO", "3"), **files})
    shop.write({"agent.py": VENDOR.replace("WHO", "change").replace("UP_TO", "0"), name: "2"})
    shop.git("add", "--all")
    ended = await against_main(shop.folder)
    assert "1 case regressed: bread" in ended.headline, ended.out
    assert f"this branch changes {name}, which both sides run in" in ended.unwrapped
    assert "not this change" not in ended.out
