from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci_evals.suite.importers.draft import Comment, Draft
from ci_evals.suite.importers.writing import write_yaml
from ci_evals.suite.yaml import parse

TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Co", "Cn"]) | st.sampled_from("\n \t#:-'\"{}[]|")
)
TRICKY = ["yes", "null", "1e3", "0o7", "- a", "a: b", "a #b", "~", "line\nline\n", "x\n\n\ny", "|", " x", "${A}", "*a"]
SCALARS = st.none() | st.booleans() | st.integers(-10, 10**6) | st.floats(-5, 5) | TEXT | st.sampled_from(TRICKY)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=12
)
KEYS = st.sampled_from(["cases", "expect", "providers", "vars", "name"])


@given(st.dictionaries(KEYS, VALUES, min_size=1))
def test_what_is_written_reads_as_what_it_was(suite: dict[str, Any]) -> None:
    assert parse(write_yaml(suite), "evals.yaml", [])[0] == suite


def commented(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            Comment("before\nall"): None,
            **{key: commented(item) for key, item in value.items()},
            Comment("x: "): None,
        }
    return [Comment("# - of"), *map(commented, value), Comment("after")] if isinstance(value, list) else value


@given(st.dictionaries(KEYS, VALUES.filter(bool), min_size=1))
def test_comments_stand_among_values_and_change_none(suite: dict[str, Any]) -> None:
    draft = Draft("test", commented(suite))
    text = write_yaml(draft.suite)
    assert draft.plain()[0] == suite
    assert "# before\n# all\n" in text
