import json
import re
from pathlib import Path
from typing import Any

import pytest

from ci_evals.errors import ConfigError
from ci_evals.suite.yaml import MAX_BYTES, parse, read_text


def parsed(text: str, file: str = "evals.yaml") -> Any:
    value, _, problems = parse(text, file)
    assert problems == []
    return value


def noted(text: str, file: str = "evals.yaml") -> list[str]:
    """Problems that do not stop the reading."""
    _, _, problems = parse(text, file)
    return [str(problem) for problem in problems]


def refusal(text: str, file: str = "evals.yaml") -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, file)
    (problem,) = caught.value.problems
    return str(problem)


@pytest.mark.parametrize(
    "text", ["yes", "no", "on", "off", "Y", "2026-01-31", "12:30:45", "1_000", "0b1", "- x", "+."]
)
def test_what_json_has_no_word_for_stays_text(text: str) -> None:
    assert parsed(f"{text!r}" if text.startswith("-") else text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    result = parsed(f"[{text}]" if text else "a:")
    (result,) = result if isinstance(result, list) else result.values()
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize("text", [".nan", ".inf", "-.Inf", "1e999"])
def test_numbers_that_json_cannot_hold_are_problems(text: str) -> None:
    assert noted(f"a:\n  b: [1, {text}]") == [
        f"evals.yaml:2: a.b[1]: {text} is not a number that JSON can hold: quote it if it is text"
    ]


def test_keys_and_items_know_their_lines() -> None:
    _, lines, _ = parse("a: 1\nb:\n  - x\n  -\n    c: 2\n", "evals.yaml")
    assert [lines.at("a").line, lines.at("b").line, lines.at("b").at(0).line] == [1, 2, 3]
    assert [
        lines.at("b").at(1).line,
        lines.at("b").at(1).at("c").line,
        lines.at("b").at(9).line,
    ] == [5, 5, 2]


def test_every_duplicate_key_is_named_with_both_lines() -> None:
    assert noted("a: 1\nb: {c: 1,\n  c: 2}\na: 3\n") == [
        "evals.yaml:3: b.c: the key 'c' is already set in line 2",
        "evals.yaml:4: a: the key 'a' is already set in line 1",
    ]


def test_the_value_of_a_duplicate_key_does_not_move_to_the_next_key() -> None:
    value, _, _ = parse("a: 1\na: 2\nb: 3", "evals.yaml")
    assert value == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("d: &d {x: 1, y: 2}\nc:\n  <<: *d\n  y: 3", {"x": 1, "y": 3}),
        ("d: &d {x: 1, y: 2}\nc:\n  y: 3\n  <<: *d", {"y": 3, "x": 1}),
        ("d: &d {x: 1}\ne: &e {x: 2, z: 3}\nc: {<<: [*d, *e]}", {"x": 1, "z": 3}),
        ("c: {<<: {x: 1}, z: 2}", {"x": 1, "z": 2}),
    ],
)
def test_merge_keys_fill_in_what_the_mapping_does_not_have(text: str, value: object) -> None:
    assert parsed(text)["c"] == value


def test_a_merge_of_something_else_is_refused() -> None:
    assert (
        refusal("d: &d [1]\nc:\n  <<: *d")
        == "evals.yaml:3: `<<` takes a mapping or a list of mappings"
    )


def test_aliases_repeat_values_and_anchors_may_stand_on_keys() -> None:
    assert parsed("a: &x [1]\nb: *x\n&k c: &s yes\nd: [*k, *s]") == {
        "a": [1],
        "b": [1],
        "c": "yes",
        "d": ["c", "yes"],
    }


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: *x}", "a: *nothing"])
def test_an_alias_into_itself_or_to_nothing_is_refused(text: str) -> None:
    assert "points to nothing before it, or into itself" in refusal(text)


def test_an_alias_as_a_key_is_refused() -> None:
    assert refusal("a: &x k\n*x : 1") == "evals.yaml:2: a key must be text, not the alias *x"


def test_a_billion_laughs_are_refused_where_they_get_too_many() -> None:
    lines = ["a0: &a0 [ha, ha]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert re.fullmatch(
        r"evals.yaml:7: aliases expand to more than 1,000,000 values", refusal("\n".join(lines))
    )


def test_laughs_by_merging_are_refused() -> None:
    lines = ["a0: &a0 {k: [1, 2]}"]
    lines += [
        f"a{n}: &a{n} {{{', '.join(f'k{i}: {{<<: *a{n - 1}}}' for i in range(10))}}}"
        for n in range(1, 9)
    ]
    assert "aliases expand to more than 1,000,000 values" in refusal("\n".join(lines))


def test_depth_is_bounded() -> None:
    assert parsed("[" * 100 + "]" * 100)
    assert refusal("[" * 101 + "]" * 101) == "evals.yaml:1: nested more than 100 levels deep"
    assert "nested more than 100 levels deep" in refusal("- " * 5000 + "x")


def test_depth_is_bounded_through_aliases() -> None:
    lines = [f"a{n}: &a{n} {'[' * 60}{f'*a{n - 1}' if n else ''}{']' * 60}" for n in range(30)]
    assert refusal("\n".join(lines)) == "evals.yaml:2: nested more than 100 levels deep"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: [1, 2\nb: 3",
            (
                "evals.yaml:2: not valid YAML: while parsing a flow sequence, "
                "did not find expected ',' or ']'"
            ),
        ),
        ("a: 1\n  b: 2", "evals.yaml:2: .*check the indentation"),
        ("a:\n\t- b", "evals.yaml:2: .*indent with spaces"),
        ("a: @home", "evals.yaml:1: .*quote text that starts with @"),
        ("a: {{ question }}", "evals.yaml:1: .*quote a template"),
        ("a: 1\nb\nc: 2", "evals.yaml:2: .*write `key: value`"),
        ("a: 'open", "evals.yaml:1: not valid YAML"),
        ("a: 1\n---\nb: 2", "evals.yaml:2: a second YAML document"),
        (
            "a: !!python/object/apply:os.system [ls]",
            "evals.yaml:1: the tag .*os.system is not supported",
        ),
        ("a: !secret x", "evals.yaml:1: the tag !secret is not supported"),
        ("a: !!set {x}", "evals.yaml:1: the tag .*set is not supported"),
        ("é: 1\nb: \x07", "evals.yaml:2: .*U\\+0007"),
        ('a: "\\ud800"', "evals.yaml:1: not valid YAML"),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line_and_what_to_try(text: str, message: str) -> None:
    assert re.match(message, refusal(text))


def test_a_text_without_a_document_is_nothing() -> None:
    assert parsed("# nothing\n") is None


def test_json_is_read_with_its_escapes_and_tabs() -> None:
    value = {"a": 'é😀\\ud83d / " \t \x00', "b": [1, 2.5, None, True], "c": {}}
    text = json.dumps(value, indent="\t").replace("/", "\\/")
    assert "\\ud83d\\ude00" in text
    assert parsed(text, "evals.json") == value
    assert parsed('{"a":"\\\\ud83d\\\\ude00","b":1}', "evals.json") == {
        "a": "\\ud83d\\ude00",
        "b": 1,
    }


def test_half_a_surrogate_pair_is_refused() -> None:
    assert refusal('{\n"a": "\\ud83d"}', "evals.json").startswith("evals.json:2: not valid YAML")


def test_a_byte_order_mark_and_windows_line_ends_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n")
    text = read_text(path, "evals.yaml")
    assert "\r" not in text
    assert parsed(text) == {"a": 1, "b": "x\ny\n"}


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"^evals.yaml:2: not UTF-8: save the file as UTF-8$"):
        read_text(path, "evals.yaml")


def test_a_file_over_50_mb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigError, match=r"^evals.yaml: larger than 50 MB: .*\.jsonl"):
        read_text(path, "evals.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nope", "no such file"), (".", "cannot be read"), ("a\0b", "cannot be read")],
)
def test_a_file_that_cannot_be_read_is_a_config_error(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_text(tmp_path / name, name)
