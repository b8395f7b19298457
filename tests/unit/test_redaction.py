"""Secrets never get through, and everything else does."""

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic_core import to_json

from ci_evals.model.response import Response, ToolCall, Usage
from ci_evals.model.result import Grade, Result, RunError, decode_result, encode_result
from ci_evals.redaction import Redactor, mask_commands, secret_values

KEY = "sk-proj-4fT9xQ2LmZ7vB1nK8wRc"
PASSWORD = "p@ss/w\"o'rd <&> +1%é\\"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123ABCD\n\n"
    "MIIEpAIBAAKCAQEA7bq+/Zs0u\nQk9yX3Jlc3Q=\n-----END RSA PRIVATE KEY-----"
)

encodable = st.text(st.characters(exclude_categories=["Cs"]))
secrets = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=40),
    st.text("ab1-_", min_size=6, max_size=30),
    st.text('*a:@/"\\% \n', min_size=6, max_size=12),
    st.from_regex(r"[A-Za-z0-9_+/-]{16,48}", fullmatch=True),
)
shaped = st.sampled_from(
    [KEY, f"Bearer ya29.{KEY[8:]}", "https://user:pa:s@s@host/x", PEM, "AKIAIOSFODNN7EXAMPLE"]
)


def encodings(secret: str) -> Iterator[str]:
    """How a secret comes back from servers and models."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield quote(secret)
    yield quote(secret, safe="")
    yield re.sub("%..", lambda code: code[0].lower(), quote(secret, safe=""))
    yield quote_plus(secret)
    yield html.escape(secret)
    yield html.escape(secret, quote=False)
    yield b64encode(secret.encode()).decode()
    yield urlsafe_b64encode(f"u:{secret}".encode()).decode()
    yield b64encode(f"us:{secret}!".encode()).decode()


def texts(value: Any) -> Iterator[str]:
    """Every string in a value of plain JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


@st.composite
def json_with(draw: st.DrawFn, planted: st.SearchStrategy[str]) -> Any:
    text = st.lists(st.one_of(encodable, planted), max_size=4).map("".join)
    leaf = st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), text
    )
    nest = st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
    )
    return draw(nest)


@st.composite
def planted_secrets(draw: st.DrawFn) -> tuple[list[str], Any]:
    values = draw(st.lists(secrets, min_size=1, max_size=3))
    forms = [form for value in values for form in encodings(value)]
    return values, draw(json_with(st.one_of(st.sampled_from(forms), shaped)))


def result(output: str, **fields: Any) -> Result:
    return Result(
        **{
            "fingerprint": "0123456789abcdef0123456789abcdef",
            "case": "capital",
            "provider": "openai:gpt-4o-mini",
            "run": 1,
            "status": "passed",
            "started_at": 1723456789.123456,
            "latency_s": 0.8123456789012345,
            "response": Response(output, usage=Usage(12, 3), model="gpt-4o-mini-2024-07-18"),
            **fields,
        }
    )


@given(planted_secrets())
@example((["foobar", "***bar!"], ["foobarbar!", "*foobarfoobar*"]))
def test_no_text_holds_a_secret_after_cleaning(planted: tuple[list[str], Any]) -> None:
    values, value = planted
    cleaned = Redactor(values).clean(value)
    plain = [form for secret in values for form in list(encodings(secret))[:10] if len(form) >= 6]
    assert not [(text, form) for text in texts(cleaned) for form in plain if form in text]


@given(planted_secrets())
def test_cleaning_twice_changes_nothing_more(planted: tuple[list[str], Any]) -> None:
    values, value = planted
    redactor = Redactor(values)
    once = redactor.clean(value)
    assert redactor.clean(once) == once


@given(planted_secrets())
def test_whatever_cleaning_changes_is_found_in_the_encoded_line(
    planted: tuple[list[str], Any],
) -> None:
    values, value = planted
    redactor = Redactor(values)
    assert redactor.suspects(to_json(value)) or redactor.clean(value) is value


@given(json_with(shaped), st.text("\n\t\"\\a1é _-./~:@'", max_size=6), shaped)
def test_keys_are_found_whatever_stands_before_them(value: Any, before: str, key: str) -> None:
    redactor = Redactor(())
    line = {"before": value, "text": before + key}
    assert redactor.suspects(to_json(line)) or redactor.clean(line) is line


@given(json_with(st.nothing()), st.lists(secrets, max_size=3))
def test_what_holds_no_secret_comes_back_as_it_is(value: Any, values: list[str]) -> None:
    assume(not any(sign in text for text in texts(value) for sign in ("://", "earer ", "-----")))
    forms = {form for secret in values for form in encodings(secret)}
    assume(not any(form in text for text in texts(value) for form in forms))
    assert Redactor(values).clean(value) is value


@pytest.mark.parametrize(
    "secret", [KEY, PASSWORD, "hunter2!", "münchen", "0123456789abcdef0123456789abcdef"]
)
def test_a_value_is_found_in_every_encoding(secret: str) -> None:
    redactor = Redactor([secret])
    for form in encodings(secret):
        answer = result(f"the key is {form}, really")
        cleaned = redactor.clean(answer)
        assert redactor.suspects(to_json(answer)), form
        assert cleaned.response is not None
        assert "***" in cleaned.response.output
        assert form not in cleaned.response.output


@pytest.mark.parametrize("before", range(9))
def test_a_value_is_found_at_any_place_in_a_longer_word(before: int) -> None:
    assert Redactor(["qwertzuiopasdfgh"]).finds(
        msgspec.json.encode("-" * before + "qwertzuiopasdfgh")
    )


@given(st.text("abcAB12./~%+-_= \n", max_size=90))
def test_whatever_is_taken_for_a_bearer_token_is_found(token: str) -> None:
    redactor = Redactor(())
    text = f"Bearer {token}4fT9xQ2LmZ7vB1nK"
    assert redactor.suspects(to_json(text)) or redactor.clean_text(text) == text


def test_url_encoded_values_are_found_in_either_case_of_hex() -> None:
    redactor = Redactor(["s/e+c?r:e/t"])
    assert redactor.clean_text("q=s%2Fe%2Bc%3Fr%3Ae%2Ft&r=s%2fe%2bc%3fr%3ae%2ft") == "q=***&r=***"


@pytest.mark.parametrize(
    "key",
    [
        "sk-4fT9xQ2LmZ7vB1nK8wRc",
        "sk-proj-4fT9xQ2LmZ7vB1nK_8w-Rc",
        "sk-ant-api03-4fT9xQ2LmZ7vB1nK-8wRc_AA",
        "sk-abcdefghijklmnopqrst",
        "AIzaSyA4fT9xQ2LmZ7vB1nK8wRc0pQ_rS-tU",
        "ghp_4fT9xQ2LmZ7vB1nK8wRc0pQrStUvWxYz12",
        "gho_4fT9xQ2LmZ7vB1nK8wRc",
        "ghs_4fT9xQ2LmZ7vB1nK8wRc",
        "github_pat_11ABCDEFG0_4fT9xQ2LmZ7vB1nK8wRc",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-4fT9xQ2LmZ7v",
        "hf_4fTxQLmZvBnKwRcpQrStUv",
        PEM,
        PEM.replace("\n", "\\n"),
        PEM.partition("\n-----END")[0],
    ],
)
def test_known_key_shapes_are_replaced_without_being_told(key: str) -> None:
    redactor = Redactor(())
    for before, after in (
        ("", ""),
        ("key=", "&x=1"),
        ('{"key": "', '"}'),
        ("\n", "\n"),
        ("Q: ", " !"),
    ):
        text = f"{before}{key}{after}"
        assert redactor.suspects(to_json(text)), text
        cleaned = redactor.clean_text(text)
        assert cleaned.startswith(f"{before}***")
        assert key not in cleaned
        assert "MII" not in cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln==;",
            "Authorization: Bearer ***;",
        ),
        ("authorization: bearer ya29.a0AfH6SMBx4fT9xQ2LmZ", "authorization: bearer ***"),
        ("Bearer   a1.0123456789-abcd./4fT9xQ2LmZ7vB1nK", "Bearer ***"),
        ("postgres://app:hunter2@db:5432/x", "postgres://***@db:5432/x"),
        ("redis://:hunter2@db and https://a:b@c/d", "redis://***@db and https://***@c/d"),
        ("https://u:p@ss@host/path?q=a@b", "https://***@host/path?q=a@b"),
    ],
)
def test_credentials_lose_no_more_than_the_secret(text: str, cleaned: str) -> None:
    redactor = Redactor(())
    assert redactor.suspects(to_json(text))
    assert redactor.clean_text(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn and task-force-of-1234567890-people",
        "a sk-learn-compatible-estimators list",
        "task-4fT9xQ2LmZ7vB1nK8wRc",
        "the bearer of bad news, Bearer tokens, bearer authentication",
        "https://example.com:8080/a@b, https://user@example.com, me@example.com",
        "hf_hub_download, ghp_, AKIA, AIza, xoxb-",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "0123456789abcdef0123456789abcdef 123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_prose_and_identifiers_are_left_alone(text: str) -> None:
    assert Redactor(()).clean_text(text) == text


def test_a_secret_that_contains_another_is_taken_whole() -> None:
    assert (
        Redactor(["hunter2", "hunter2-and-more"]).clean_text("hunter2-and-more, hunter2")
        == "***, ***"
    )


def test_each_line_of_a_multi_line_secret_is_one() -> None:
    redactor = Redactor(["first-line-4711\r\n}\nsecond-line-4712"])
    assert redactor.clean_text("second-line-4712 } first-line-4711") == "*** } ***"


def test_short_values_are_ignored() -> None:
    assert Redactor(["", "a", "abcde"]).clean_text("an abcde") == "an abcde"


def test_structs_keep_their_types_and_their_fixed_words() -> None:
    def about(key: str) -> Result:
        return result(
            "",
            response=Response(
                f"it is {key}", (ToolCall("login", {"keys": [key, 87654321], key: None}),)
            ),
            grades=(
                Grade("equals", False, 0.0, f"expected {key}"),
                Grade("latency", True, 1.0, "fast"),
            ),
            error=RunError("timeout", f"host said {key}", detail=key),
        )

    cleaned = Redactor([KEY, "passed", "timeout", "87654321"]).clean(about(KEY))
    assert cleaned == about("***")
    assert decode_result(encode_result(cleaned)) == cleaned


def test_numbers_are_never_touched() -> None:
    value = {"n": 123456789012, "f": 0.123456789012, "text": "123456789012"}
    assert Redactor(["123456789012"]).clean(value) == {**value, "text": "***"}


class Pair(NamedTuple):
    left: str
    right: int


@dataclass(frozen=True)
class Login:
    name: str
    kind: Literal["passed", "failed"]


def test_dataclasses_keep_their_types_and_their_fixed_words() -> None:
    assert Redactor([KEY, "passed"]).clean([Login(f"passed {KEY}", "passed")]) == [
        Login("*** ***", "passed")
    ]


def test_containers_keep_their_types() -> None:
    value = (Pair(KEY, 1), [KEY], {KEY}, frozenset({KEY}), {KEY: KEY})
    cleaned = Redactor([KEY]).clean(value)
    assert cleaned == (Pair("***", 1), ["***"], {"***"}, frozenset({"***"}), {"***": "***"})
    assert isinstance(cleaned[0], Pair)


@pytest.mark.parametrize("depth", [1, 38, 39, 40, 41, 42, 800])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_as_deep_as_json_may_be_hides_nothing(
    depth: int, opening: str, closing: str
) -> None:
    redactor = Redactor([KEY])
    deep, plain = (
        msgspec.json.decode(opening * depth + core + closing * depth)
        for core in (f'"{KEY}"', "1.5")
    )
    assert KEY.encode() not in msgspec.json.encode(redactor.clean(deep))
    assert redactor.clean(plain) is plain


def test_values_that_are_no_valid_utf_8_are_found_as_the_journal_writes_them() -> None:
    redactor = Redactor(["caf\udce9-secret"])
    assert redactor.clean_text("caf\udce9-secret caf?-secret") == "*** ***"
    assert redactor.finds(b'"caf?-secret"')


@pytest.mark.parametrize(
    "unit",
    [
        "sk-",
        "sk-a",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----A ",
        "://a:",
        "://a:b",
        ":b@",
        "a:@",
        "Bearer ",
        "Bearer a.",
        "bearer  aaaaaaa.",
        "a",
        "-",
        "xoxb-a-",
        "github_pat_",
        "AKIA",
        "@://",
        "%2F",
        "\n",
    ],
)
def test_a_megabyte_of_almost_secrets_is_worked_through(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    redactor = Redactor([KEY, PASSWORD])
    found = redactor.suspects(to_json(text))
    assert redactor.clean_text(text) == text or found


def test_ordinary_lines_are_not_found() -> None:
    line = msgspec.json.encode(
        result("Paris is the capital.\nIs it? I'd say so: see https://example.com/a-b_c.")
    )
    assert not Redactor([KEY, PASSWORD, "hunter2!", PEM]).finds(line)


def test_every_named_and_dotenv_value_is_a_secret_longest_first() -> None:
    named, dotenv = {"A": "shorter", "B": f" {KEY}\n"}, {"C": "12345678", "A": "shorter"}
    assert secret_values(named, dotenv, ()) == (KEY, "12345678", "shorter")


@pytest.mark.parametrize(
    "value", ["", "abcde", "true", "False", "1234567", "-12.50", "1_000_000", "Production"]
)
def test_values_that_tell_nothing_are_no_secrets(value: str) -> None:
    assert secret_values({"A": value}, {"A": value}, ()) == ()


def test_what_reports_show_anyway_is_no_secret_unless_it_has_a_password() -> None:
    visible = ("gpt-4o-mini", "https://api.example.com/v1", "https://me:hunter2@example.com")
    assert secret_values(dict(zip("abc", visible, strict=True)), {}, visible) == (
        "https://me:hunter2@example.com",
    )


def test_masks_are_escaped_and_have_a_line_for_each_line() -> None:
    assert mask_commands(["50%off!%0A", "first-line\r\n}\n  second: line"]) == (
        "::add-mask::50%25off!%250A\n::add-mask::first-line\n::add-mask::second: line\n"
    )
    assert mask_commands([]) == ""
