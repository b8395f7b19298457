"""The example shows what its README says: eight broken cases of two tags, and ordinary flakes."""

import re
from pathlib import Path

import pytest
from browser import browser, browsing
from example_runs import EXAMPLES, Ran, run_command

SUITE = str(EXAMPLES / "policy_change" / "evals.yaml")
BROKEN = ("refund", "parcel")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the pull request is run in."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture(scope="module")
def ran(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run of the pull request, compared with that of the base branch."""
    base = tmp_path_factory.mktemp("base")
    assert run_command(base, "run", "-c", SUITE).code == 0
    report = str(base / "results" / "report.json")
    words = ("run", "-c", SUITE, "--baseline", report)
    return run_command(folder, *words, environ={"POLICY": "new"})


def test_the_eight_cases_of_two_tags_regress_on_every_variant(ran: Ran) -> None:
    assert ran.code == 1
    worse = ran.report["comparison"]["cases"]
    assert len(worse) == 8
    assert all(case["case"].startswith(BROKEN) for case in worse)
    assert all(case["head"][0] == 0 and case["cells"] == 6 for case in worse)


def test_the_headline_names_both_tags(ran: Ran) -> None:
    text = " ".join(ran.printed.split())
    assert text.startswith("✗ FAIL 8 cases regressed: tags ")
    rates = {tag["tag"]: tag["base_rate"] for tag in ran.report["comparison"]["tags"]}
    headline = text.partition(" pass rate ")[0]
    for tag in BROKEN:
        assert f"{tag} ({100 * rates[tag]:.1f} → 0 %)" in headline


def test_cases_that_fail_alike_share_an_entry_and_flakes_come_after_it(ran: Ran) -> None:
    text = " ".join(ran.printed.split())
    alike = r"8 cases on 6 variants, 14\d of 144 on the baseline, 0 of 384 here: "
    found = re.search(rf"Regressed \(8\) ▼ {alike}no \"refund\" in the answer, in ", text)
    assert found
    assert found.end() < text.index("Failed some runs (")
    for case in ran.report["comparison"]["cases"]:
        assert case["case"] in text[found.end() :]
    assert "Failing (" not in text


def test_the_other_tags_are_as_they_were_give_or_take_some_flakes(ran: Ran) -> None:
    tags = {tag["tag"]: tag for tag in ran.report["comparison"]["tags"]}
    assert len(tags) == 10
    assert {name for name, tag in tags.items() if tag["head_rate"] == 0} == set(BROKEN)
    others = [tag for name, tag in tags.items() if name not in BROKEN]
    assert all(tag["head_rate"] > 0.9 and tag["adjusted_p"] > 0.5 for tag in others)
    assert any(tag["head_rate"] < 1 for tag in others)


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
async def test_the_first_screen_names_both_tags_and_their_cases(ran: Ran, folder: Path) -> None:
    in_sight = """[...document.querySelectorAll('a')]
        .filter((each) => each.getBoundingClientRect().bottom <= innerHeight)
        .map((each) => each.textContent)"""
    async with browsing() as tab:
        await tab.resize(1280, 900)
        await tab.open((folder / "results" / "report.html").as_uri())
        names = set(await tab.evaluate(in_sight))
    assert names >= {case["case"] for case in ran.report["comparison"]["cases"]}
    assert names >= set(BROKEN)
