"""Documents in little room: what goes first, and what is said of it."""

from ci_evals.reports.fitting import Document, Entry, Section


def section(name: str, rank: int, entries: int = 3, total: int | None = None, full: str = "") -> Section:
    made = [Entry(f"- {name} {number}", full and f"- {name} {number}: {full}") for number in range(entries)]
    return Section(f"{name} case", f"# {name}\n\n", made, total or entries, rank)


def document(*sections: Section) -> Document:
    return Document("head", sections, "foot", ("the shortest but one", "shortest"))


def test_with_room_for_all_everything_unfolds() -> None:
    text = document(section("red", 1, 1, full="why"), section("green", 2, 1)).fitted(1_000)
    assert text == "head\n\n# red\n\n- red 0: why\n\n# green\n\n- green 0\n\nfoot"


def test_details_fold_before_entries_go_and_the_first_keep_theirs() -> None:
    made = document(section("red", 1, 3, full="w" * 50))
    assert made.fitted(120) == f"head\n\n# red\n\n- red 0: {'w' * 50}\n- red 1\n- red 2\n\nfoot"


def test_an_entry_that_is_too_long_to_unfold_leaves_its_room_to_the_next() -> None:
    entries = (Entry("- a", "- a" + "x" * 500), Entry("- b", "- b: why"))
    made = document(Section("case", "", entries, 2, 1))
    assert made.fitted(100) == "head\n\n- a\n- b: why\n\nfoot"


def test_the_least_important_goes_first_wherever_it_stands() -> None:
    made = document(section("green", 2, 20), section("red", 1))
    assert made.fitted(80) == "head\n\n# red\n\n- red 0\n- … and 2 more\n\n*No room here for 20 green cases.*\n\nfoot"
    assert made.fitted(90).endswith("- … and 18 more\n\n# red\n\n- red 0\n- red 1\n- red 2\n\nfoot")


def test_entries_that_are_not_there_are_counted() -> None:
    made = document(section("red", 1, 3, total=1_200))
    assert made.fitted(1_000).endswith("- red 2\n- … and 1,197 more\n\nfoot")
    assert "- red 0\n- … and 1,199 more\n" in made.fitted(52)


def test_without_room_for_anything_else_the_longest_short_text_is_left() -> None:
    made = document(section("red", 1))
    assert made.fitted(30) == "the shortest but one"
    assert made.fitted(10) == made.fitted(1) == "shortest"
