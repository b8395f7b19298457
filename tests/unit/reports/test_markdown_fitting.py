"""Documents in little room: what goes first, and what is said of it."""

import pytest

from ci_evals import templating
from ci_evals.reports import markdown
from ci_evals.reports.findings import Group
from ci_evals.reports.markdown import Block, Document, Markdown

TEMPLATE = """head
{% for shown in groups %}

# {{ shown.group.noun }}

{{ shown.first }}
{% if shown.left_out %}
- … and {{ shown.left_out }} more
{% endif %}
{% endfor %}
{% if left_out %}

No room for {{ left_out }}
{% endif %}

foot"""


@pytest.fixture(autouse=True)
def _template(monkeypatch: pytest.MonkeyPatch) -> None:
    template = templating.environment(markdown.finalize).from_string(TEMPLATE)

    class Environment:
        def get_template(self, _name: str) -> object:
            return template

    monkeypatch.setattr(markdown, "_environment", Environment)


def group(name: str, entries: int = 3, total: int | None = None, full: str = "") -> tuple[Group, list[Block]]:
    blocks = [
        Block(Markdown(f"- {name} {number}"), Markdown(full and f"- {name} {number}: {full}"))
        for number in range(entries)
    ]
    return Group("failing", name, f"{name} case", entries, total or entries, ()), blocks


def document(*groups: tuple[Group, list[Block]]) -> Document:
    return Document("any", {}, groups, ("the shortest but one", "shortest"))


def test_with_room_for_all_everything_unfolds() -> None:
    text = document(group("red", 1, full="why"), group("green", 1)).render(1_000)
    assert text == "head\n\n# red case\n\n- red 0: why\n\n# green case\n\n- green 0\n\nfoot"


def test_details_fold_before_entries_go_and_the_first_keep_theirs() -> None:
    text = document(group("red", 3, full="w" * 50)).render(120)
    assert text == f"head\n\n# red case\n\n- red 0: {'w' * 50}\n\n- red 1\n\n- red 2\n\nfoot"


def test_an_entry_that_is_too_long_to_unfold_leaves_its_room_to_the_next() -> None:
    blocks = [Block(Markdown("- a"), Markdown("- a" + "x" * 500)), Block(Markdown("- b"), Markdown("- b: why"))]
    made = document((Group("failing", "red", "case", 2, 2, ()), blocks))
    assert made.render(100) == "head\n\n# case\n\n- a\n\n- b: why\n\nfoot"


def test_the_least_important_goes_first() -> None:
    made = document(group("red"), group("green", 20))
    assert made.render(80) == ("head\n\n# red case\n\n- red 0\n- … and 2 more\n\nNo room for 20 green cases\n\nfoot")


def test_entries_that_are_not_there_are_counted() -> None:
    assert document(group("red", total=1_200)).render(1_000).endswith("- red 2\n- … and 1197 more\n\nfoot")


def test_without_room_for_anything_else_the_longest_short_text_is_left() -> None:
    made = document(group("red"))
    assert made.render(20) == "the shortest but one"
    assert made.render(10) == made.render(1) == "shortest"
