"""The first screen of report.html: what broke, what to run next, and the parts of the matrix."""

import re
import shlex
from typing import Any

import comments
import pages
import pytest
from factories import STARTED_AT, baseline_of, many, report_of
from rendered import html_of

from ci_evals.model.rules import Gate
from ci_evals.reports.findings import findings
from ci_evals.reports.page_top import Top
from ci_evals.reports.summary import Summary, summarize


def top_of(summary: Summary) -> Top:
    return Top(findings(summary))


def compared(here: dict[str, Any], gate: Gate, tag: str = "") -> Summary:
    """A report after one of which every run passed; it has no confirm runs.

    Cases whose id begins with the tag have it.
    """
    cases = {case: {"tags": (tag,)} for case in here if tag and case.startswith(tag)}
    base = report_of(dict.fromkeys(here, "PPP"), cases=cases, started_at=STARTED_AT - 60)
    return summarize(report_of(here, cases=cases), gate, baseline_of(base))


# What broke.


def test_broken_tags_are_named_with_their_cases() -> None:
    broken = top_of(pages.policy_change()).broken
    assert [each.tag and each.tag.name for each in broken] == ["parcel", "refund"]
    for name, each in zip(("parcel", "refund"), broken, strict=True):
        assert {case.id for case in each.cases} == {f"{name}-{number}" for number in range(1, 5)}
        assert {case.here for case in each.cases} == {"0/48"}
        assert {case.base for case in each.cases} <= {"16/18", "17/18", "18/18"}


def test_what_got_better_is_named_beside_what_got_worse() -> None:
    better = top_of(comments.regression()).better
    assert [(case.id, case.base, case.here) for case in better.cases] == [
        ("upgrade", "0/30", "3/3")
    ]
    page = html_of(comments.regression())
    worse, gained = page.index('<b class="worse">worse</b>'), page.index('<b class="better">')
    assert worse < page.index("#case=refund") < gained < page.index("#case=upgrade")
    without = page_without_worse()
    assert findings(without).cells["fixed"]
    assert not top_of(without).better.cases
    assert '<b class="better">' not in html_of(without)


def page_without_worse() -> Summary:
    """A report in which a case is fixed, and none is worse."""
    steady = many((9, "PPP"))
    base = report_of({"a": "F" * 10, **steady}, started_at=STARTED_AT - 60)
    return summarize(report_of({"a": "PPPP", **steady}), None, baseline_of(base))


def test_a_tag_that_explains_a_single_case_is_not_named() -> None:
    (broken,) = top_of(pages.support_bot()).broken
    assert broken.tag is None
    assert [(case.id, case.base, case.here, case.where) for case in broken.cases] == [
        ("lost-package", "30/30", "0/12", "on gpt-5-mini"),
        ("refund-full", "30/30", "3/12", "on gpt-5-mini"),
    ]
    assert [case.critical for case in broken.cases] == [True, False]


def test_a_broken_tag_is_named_even_if_none_of_its_cases_is_sure() -> None:
    here = {f"refund-{number}": "FFF" for number in range(4)} | {"refund-4": "PPF"}
    summary = compared(here | many((20, "PPP")), Gate(min_pass_rate=0.95), "refund")
    assert summary.verdict.status == "fail"
    assert not findings(summary).cells["regressed"]
    (broken, *_) = top_of(summary).broken
    assert broken.tag is not None
    assert broken.tag.name == "refund"
    assert [case.id for case in broken.cases] == [*here], "the deepest fall comes first"


@pytest.mark.parametrize("name", ["pass", "borderline"])
def test_nothing_broke_where_nothing_is_red(name: str) -> None:
    top = top_of(pages.SITUATIONS[name]())
    assert not top.broken
    assert top.command is None


def test_cases_that_failed_without_a_baseline_broke() -> None:
    report = report_of({"refund": "FFF", "cancel": "FFF", "greeting": "PPP"})
    (broken,) = top_of(summarize(report, None)).broken
    assert [(case.id, case.base, case.here) for case in broken.cases] == [
        ("refund", "", "0/3"),
        ("cancel", "", "0/3"),
    ]


def test_of_many_cases_the_reasons_are_told_instead() -> None:
    text = html_of(pages.many_failures())
    (listed,) = re.findall('<ul class="broken">.*?</ul>', text, re.DOTALL)
    assert re.findall(r"<li>(\d+) cases", listed) == ["164", "165", "164", "4"]
    assert "ticket" not in listed


def test_what_the_headline_quotes_is_not_said_again() -> None:
    text = html_of(comments.policy_change())
    top, _, _ = text.partition("</header>")
    assert top.count("We issue store credit for the full price.") == 2, "and among the evidence"


# What to do next.


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        (pages.policy_change, ["--tags", "parcel,refund"]),
        (pages.support_bot, ["--case", "lost-package", "--case", "refund-full"]),
        (pages.many_failures, ["--failed"]),
    ],
)
def test_the_command_runs_what_broke_again(summary: Any, words: list[str]) -> None:
    command = top_of(summary()).command
    assert command is not None
    assert shlex.split(command) == ["ci-evals", "run", *words]


def test_a_case_in_the_command_stays_one_word() -> None:
    case = "it's $(rm -rf) `now`"
    command = top_of(summarize(report_of({case: "F"}), None)).command
    assert command is not None
    assert shlex.split(command)[-1] == case


def test_only_what_is_worse_than_before_can_be_accepted() -> None:
    assert "or merge, and the next comparison" in html_of(pages.support_bot())
    assert "or lower the bar that is missed" in html_of(pages.policy_change())
    assert "Intended?" not in html_of(pages.many_failures())


# The parts of the matrix.


def test_parts_have_their_base_and_the_broken_ones_come_first() -> None:
    parts = top_of(pages.policy_change()).parts
    assert [*parts] == ["tag", "variant", "prompt", "provider"]
    first, second, third = parts["tag"][:3]
    assert [(each.name, each.rate, each.change) for each in (first, second)] == [
        ("parcel", 0, "worse"),
        ("refund", 0, "worse"),
    ]
    assert third.change == "can't tell"
    assert third.base is not None
    assert third.rate is not None
    assert first.base == pytest.approx(69 / 72)
    assert 0.9 < third.rate < third.base
    assert all(part.change == "worse" for part in parts["variant"])
    assert all(part.base is not None and part.base > 0.9 for part in parts["provider"])


def test_a_part_has_no_base_where_few_of_its_cells_were_compared() -> None:
    summary = compared({"old": "PPP"}, Gate())
    base = summary.compared
    assert base is not None
    report = report_of(
        {"old": "PPP", "new 1": "PPP", "new 2": "PPP"},
        cases={name: {"tags": ("some",)} for name in ("old", "new 1", "new 2")},
    )
    top = top_of(summarize(report, None, base.baseline))
    assert top.base is None
    assert [part.base for part in top.parts["tag"]] == [None]


@pytest.mark.parametrize(
    "summary",
    [pages.support_bot, pages.policy_change, pages.many_variants],
)
def test_every_picture_has_the_same_labelled_axis(summary: Any) -> None:
    text = html_of(summary())
    assert len(set(re.findall(r'<span class="ends".*?</span></span>', text))) == 1


def test_many_parts_are_folded() -> None:
    text = html_of(pages.policy_change())
    (tags,) = re.findall(
        '<section class="by" aria-labelledby="by-tag">.*?</section>', text, re.DOTALL
    )
    shown, _, folded = tags.partition("<details>")
    assert (shown.count('<th scope="row"'), folded.count('<th scope="row"')) == (6, 4)
    assert "<summary>4 more tags</summary>" in folded


def test_a_tag_that_fell_without_being_proved_worse_is_probably_worse() -> None:
    here: dict[str, Any] = {
        f"{topic}-{number}": "PPP" for topic in pages.TOPICS for number in range(2)
    }
    here |= {"refund-0": "PFF", "refund-1": "PFF"}
    cases = {case: {"tags": (case.partition("-")[0],)} for case in here}
    base = report_of(dict.fromkeys(here, "PPP"), cases=cases, started_at=STARTED_AT - 60)
    summary = summarize(report_of(here, cases=cases), Gate(), baseline_of(base))
    first = top_of(summary).parts["tag"][0]
    assert (first.name, first.change) == ("refund", "probably worse")


def test_tags_are_listed_in_the_order_of_the_band() -> None:
    top = top_of(pages.policy_change())
    named = [broken.tag.name for broken in top.broken if broken.tag]
    assert [part.name for part in top.parts["tag"]][: len(named)] == named


def test_a_red_page_says_of_a_bar_that_it_is_met() -> None:
    text = html_of(pages.support_bot()).replace("\xa0", " ")
    assert "bar 90 %, met</span>" in text
    assert "%, met" not in html_of(pages.policy_change())


def test_tags_of_the_same_cases_share_a_row() -> None:
    cases: dict[str, Any] = {
        "refund": {"tags": ("billing", "slow", "german")},
        "cancel": {"tags": ("slow",)},
    }
    top = top_of(summarize(report_of({"refund": "F", "cancel": "P"}, cases=cases), None))
    assert [(part.name, part.also) for part in top.parts["tag"]] == [
        ("billing", ["german"]),
        ("slow", []),
    ]
