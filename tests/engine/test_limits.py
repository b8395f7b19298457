"""Headers as providers send them, and as they should not."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from ci_evals.engine.limits import Allowance, allowances

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def read(headers: Mapping[str, str]) -> list[Allowance]:
    return list(allowances(headers, NOW))


def reset_s(text: str) -> float | None:
    told = read({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": text})
    return told[0].reset_s if told else None


def test_openais_headers_tell_requests_and_tokens() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    requests, tokens = read(headers)
    assert requests[1:] == (False, True, 60, 59, 1)
    assert tokens[1:] == (True, True, 150_000, 149_984, 360)
    assert requests.name != tokens.name


def test_anthropics_headers_tell_four_limits_with_dates() -> None:
    kinds = ("requests", "tokens", "input-tokens", "output-tokens")
    parts = {"limit": "100", "remaining": "40", "reset": "2026-03-01T12:00:30Z"}
    told = read({f"anthropic-ratelimit-{kind}-{part}": text for kind in kinds for part, text in parts.items()})
    assert [each.by_tokens for each in told] == [False, True, True, True]
    assert {each[2:] for each in told} == {(True, 100, 40, 30)}


@pytest.mark.parametrize("prefix", ["x-ratelimit", "ratelimit"])
def test_generic_headers_tell_a_window_that_comes_back_at_once(prefix: str) -> None:
    (told,) = read({f"{prefix}-remaining": "0", f"{prefix}-reset": "17"})
    assert told[1:] == (False, False, None, 0, 17)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120ms", 0.12),
        ("1s", 1),
        ("1.5s", 1.5),
        ("6m0s", 360),
        ("1h2m3.25s", 3723.25),
        ("2d", 172_800),
        ("12", 12),
        ("0.5", 0.5),
        (str(int(NOW.timestamp()) + 9), 9),
        (str(int(NOW.timestamp() + 9) * 1000), 9),
        (str(int(NOW.timestamp()) - 9), 0),
        ("2026-03-01T12:01:00Z", 60),
        ("2026-03-01T13:01:00+01:00", 60),
        ("2026-03-01T11:00:00Z", 0),
    ],
)
def test_a_reset_is_read_in_every_spelling(text: str, seconds: float) -> None:
    assert reset_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1e999", "1 s", "s", "1x", "\x00", "9" * 5000 + "s"])
def test_a_reset_that_cannot_be_read_is_passed_over(text: str) -> None:
    assert reset_s(text) is None


@pytest.mark.parametrize("remaining", ["", "many", "-1", "nan", "1,000"])
def test_a_remainder_that_cannot_be_read_is_passed_over(remaining: str) -> None:
    assert read({"x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": "1s"}) == []


def test_a_date_is_held_against_the_servers_own_clock() -> None:
    headers = {
        "date": "Sun, 01 Mar 2026 11:30:00 GMT",
        "anthropic-ratelimit-requests-remaining": "1",
        "anthropic-ratelimit-requests-reset": "2026-03-01T11:30:05Z",
    }
    assert read(headers)[0].reset_s == 5


def test_other_headers_tell_nothing() -> None:
    assert read({"content-type": "application/json", "retry-after": "3"}) == []
