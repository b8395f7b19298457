"""The comment as text, whatever stands in it."""

import re

from github_markdown import shown
from hypothesis import given
from hypothesis import strategies as st
from joint_comments import several_suites
from pulls import says

from ci_evals.plugins.ci.comment_body import (
    MAX_BYTES,
    Section,
    SectionId,
    Stamp,
    State,
    compose,
    parse,
    room_for,
    with_section,
)

STAMP = Stamp(100, 1, "a" * 40)
MARKERS = (
    "<!-- ci-evals:end -->",
    "<!-- ci-evals:comment v1 scope= write=0 -->",
    "<!-- ci-evals:section suite=x job= part= run=1 attempt=1 sha=ab write=ab state=pass -->",
    "<!--ci-evals:end-->",
    "<!-- CI-EVALS:end -->",
    "-->",
    "\r\n",
    "\r",
    "\n",
    "\u2028",
)

hostile = st.lists(st.one_of(st.sampled_from(MARKERS), st.text(max_size=20)), max_size=8).map(
    "".join
)
ids = st.builds(SectionId, hostile, st.text(max_size=10), st.text(max_size=10))
stamps = st.builds(
    Stamp, st.integers(0, 10**15), st.integers(1, 9), st.text("0123456789abcdef", max_size=40)
)
states: st.SearchStrategy[State] = st.sampled_from(
    ["pass", "borderline", "fail", "error", "running"]
)
written = st.builds(Section, ids, stamps, hostile, states, st.text("0123456789abcdef", max_size=32))


def plain(text: str) -> str:
    """Text of which nothing needs to change."""
    return text.encode("utf-8", "replace").decode()


@given(hostile, st.lists(written, max_size=5, unique_by=lambda section: plain(repr(section.id))))
def test_what_was_composed_is_read_back_whatever_it_says(
    scope: str, sections: list[Section]
) -> None:
    body = parse(compose(scope, "ab12", sections))
    assert body is not None
    assert (body.scope, body.write) == (plain(scope), "ab12")
    encodable = {SectionId(*map(plain, each.id)): each for each in sections}
    found = {each.id: each for each in body.sections}
    assert found.keys() == encodable.keys()
    for name, section in found.items():
        assert section.stamp == encodable[name].stamp
        assert section.write == encodable[name].write
        assert section.state == encodable[name].state


@given(st.lists(written, max_size=5))
def test_composing_again_changes_nothing(sections: list[Section]) -> None:
    once = compose("", "ab12", {section.id: section for section in sections}.values())
    body = parse(once)
    assert body is not None
    assert compose(body.scope, body.write, body.sections) == once


@given(hostile, hostile)
def test_a_sections_text_never_passes_for_another_section(text: str, other: str) -> None:
    forged = Section(
        SectionId("rivers"), STAMP, f"\n{MARKERS[0]}\n{MARKERS[2]}\n{text}\n{MARKERS[0]}\n", "pass"
    )
    body = parse(compose("", "ab12", [forged, Section(SectionId("lakes"), STAMP, other, "pass")]))
    assert body is not None
    assert [section.id.suite for section in body.sections] == ["lakes", "rivers"]


@given(st.lists(st.tuples(st.integers(0, 80_000), st.integers(0, 2_000)), min_size=1, max_size=8))
def test_no_comment_is_over_the_limit(lengths: list[tuple[int, int]]) -> None:
    sections = [
        Section(
            SectionId(f"suite {number}"), STAMP, "s" * short + "\n" + "é" * (length // 2), "pass"
        )
        for number, (length, short) in enumerate(lengths)
    ]
    body = compose("", "ab12", sections)
    assert len(body.encode()) <= MAX_BYTES
    parsed = parse(body)
    assert parsed is not None
    assert len(parsed.sections) == len(sections)


@given(st.integers(1, 12), st.integers(0, 12))
def test_sections_within_their_fair_share_keep_their_text(number: int, long: int) -> None:
    """Each job asks for room in turn and takes all it gets; those that take little stay whole."""
    sections: tuple[Section, ...] = ()
    for index in range(number):
        own = SectionId(f"suite {index:02}")
        room = room_for(own, STAMP, sections)
        text = "x" * room if index == long else "x" * 500
        sections = with_section(sections, Section(own, STAMP, text, "pass", "0" * 32))
        body = parse(compose("", "ab12", sections))
        assert body is not None
        sections = body.sections
        assert next(each for each in sections if each.id == own).text == text
    assert all(len(each.text) == 500 for index, each in enumerate(sections) if index != long)


def test_what_a_whole_run_of_its_workflow_left_out_goes_with_the_next() -> None:
    def at(run_id: int, suite: str, job: str = "evals", attempt: int = 1) -> Section:
        return Section(SectionId(suite, job), Stamp(run_id, attempt, "a" * 40), "text", "pass")

    first = (at(1, "gone"), at(1, "lakes"), at(1, "other", "nightly"))
    second = with_section(first, at(2, "lakes"))
    assert second == (at(1, "gone"), at(1, "other", "nightly"), at(2, "lakes")), (
        "its job may still be at work"
    )
    again = with_section(second, at(2, "lakes", attempt=2))
    assert again == (at(1, "gone"), at(1, "other", "nightly"), at(2, "lakes", attempt=2)), (
        "the run is no newer one"
    )
    assert with_section(again, at(3, "lakes")) == (at(1, "other", "nightly"), at(3, "lakes"))


def test_the_longest_are_reduced_to_their_headline() -> None:
    sections = [
        Section(SectionId("long"), STAMP, "short of long\n" + "l" * 60_000, "pass"),
        Section(SectionId("middle"), STAMP, "short of middle\n" + "m" * 10_000, "pass"),
        Section(SectionId("small"), STAMP, "small", "pass"),
    ]
    body = parse(compose("", "ab12", sections))
    assert body is not None
    assert [section.text for section in body.sections] == [
        "short of long · <code>long</code>",
        "short of middle\n" + "m" * 10_000,
        "small",
    ]


def test_line_ends_of_somebody_who_edited_in_a_browser_are_read() -> None:
    body = compose("", "ab12", [Section(SectionId("lakes"), STAMP, "one\ntwo", "pass")])
    parsed = parse(body.replace("\n", "\r\n"))
    assert parsed is not None
    assert parsed.sections[0].text == "one\ntwo"


def test_a_section_that_was_cut_is_left_out() -> None:
    body = compose(
        "",
        "ab12",
        [Section(SectionId(name), STAMP, "text", "fail") for name in ("lakes", "rivers")],
    )
    parsed = parse(body.removesuffix("<!-- ci-evals:end -->"))
    assert parsed is not None
    assert [section.id.suite for section in parsed.sections] == ["lakes"]


@given(hostile)
def test_only_the_very_first_line_makes_a_comment_ours(text: str) -> None:
    body = compose("", "ab12", [Section(SectionId("lakes"), STAMP, "text", "pass")])
    assert parse(f"> {body}") is None
    assert parse(f"x{text}\n{body}") is None


def test_a_text_that_looks_green_is_not() -> None:
    rivers = Section(SectionId("rivers"), STAMP, "### ✅ 5 of 5 runs passed", "fail")
    lakes = Section(SectionId("lakes"), STAMP, "### ✅ 5 of 5 runs passed", "pass")
    body = compose("", "ab12", [rivers, lakes])
    assert body.count("<details>") == 1
    assert "<summary>✅ <code>lakes</code>: 5 of 5 runs passed</summary>" in body
    assert "\n\n## ❌ <code>rivers</code> · ✅ <code>lakes</code>\n" in body


def test_the_worst_section_comes_first_and_too_many_names_are_counted() -> None:
    def section(suite: str, state: State) -> Section:
        return Section(SectionId(suite), STAMP, "text", state)

    states: tuple[State, ...] = ("pass", "running", "borderline", "error", "fail")
    sections = [section(str(number), state) for number, state in enumerate(states)]
    body = compose("", "ab12", sections)
    marks = (("❌", 4), ("⚠️", 3), ("🟡", 2), ("⏳", 1), ("✅", 0))
    verdicts = " · ".join(f"{mark} <code>{suite}</code>" for mark, suite in marks)
    assert body.splitlines()[2] == f"## {verdicts}"
    parsed = parse(body)
    assert parsed is not None
    assert [each.id.suite for each in parsed.sections] == list("43210")

    many = [section(f"{'long ' * 20}{number}", "pass") for number in range(200)]
    body = compose("", "ab12", [*many, section("rivers", "fail")])
    assert body.splitlines()[2] == "## ❌ 1 · ✅ 200"


def test_a_section_of_unknown_state_is_left_out() -> None:
    body = compose("", "ab12", [Section(SectionId("lakes"), STAMP, "### ✅ fine", "pass")])
    parsed = parse(body.replace(" state=pass", " state=fine"))
    assert parsed is not None
    assert parsed.sections == ()


def test_a_preview_is_the_comment_with_one_section() -> None:
    body = parse(says("Just looking.").preview())
    assert body is not None
    assert [section.text for section in body.sections] == ["Just looking."]


def test_a_section_without_a_name_takes_the_place_of_what_older_runs_of_its_job_wrote() -> None:
    older, own, newer = (Stamp(run, 1, "a" * 40) for run in (99, 100, 101))
    nameless = Section(SectionId("", "evals", "results"), own, "broken", "error")
    there = [
        Section(SectionId("rivers", "evals", "results"), older, "of the run before", "pass"),
        Section(
            SectionId("lakes", "evals", "results"), own, "another suite of this very job", "pass"
        ),
        Section(SectionId("seas", "evals", "others"), older, "of another job", "pass"),
    ]
    assert [each.id.suite for each in with_section(there, nameless)] == ["lakes", "seas", ""]
    mended = Section(SectionId("rivers", "evals", "results"), newer, "mended", "pass")
    assert [each.id.suite for each in with_section([nameless], mended)] == ["rivers"]


def test_the_sections_of_several_suites_do_not_run_into_each_other() -> None:
    page = shown(several_suites())
    assert (page.tags.count("h3"), page.tags.count("table")) == (3, 4)
    assert "ci-evals:" not in page.html
    assert "#" not in re.sub(r"&#\d+;|artifacts/8#case=", "", page.html)


def test_above_several_suites_stand_the_verdicts_of_all_the_worst_first() -> None:
    page = shown(several_suites())
    (headline,) = re.findall("<h2>(.*?)</h2>", page.html)
    assert headline == (
        "❌ <code>flight agent</code> · 🟡 <code>support bot</code> · ✅ <code>hotel agent</code>"
    )
    assert "<summary>✅ <code>hotel agent</code>: 105 of 105 runs passed</summary>" in page.html
