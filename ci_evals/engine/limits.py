"""What providers say about their limits in HTTP headers."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Struct

from ci_evals.providers.headers import date_in, number_in

_PART = r"(?a)(\d+(?:\.\d+)?)(ms|us|µs|h|m|s|d)"
_DURATION = r"(?a)(?:\d{1,15}(?:\.\d{1,15})?(?:ms|us|µs|h|m|s|d))+"
_UNITS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH = 1e8  # a larger number is a date, not a duration: seconds since 1970, or milliseconds
_EPOCH_MS = 1e11


class Allowance(NamedTuple):
    """What may still be sent, as one answer told it.

    Args:
        name: which of a provider's limits this is.
        by_tokens: counts tokens, else requests.
        refills: `limit` is filled up evenly until `reset_s` has passed, else at once when it has.
        limit: the most there can be; None if not told.
        remaining: what was left when the answer was sent.
        reset_s: seconds until `limit` is there again.
    """

    name: str
    by_tokens: bool
    refills: bool
    limit: float | None
    remaining: float
    reset_s: float


class _Source(Struct, frozen=True):
    """The headers that hold one kind of allowance."""

    name: str
    by_tokens: bool
    refills: bool
    limit: str
    remaining: str
    reset: str


def _source(pattern: str, *, by_tokens: bool, refills: bool) -> _Source:
    names = (pattern.format(part) for part in ("limit", "remaining", "reset"))
    return _Source(pattern, by_tokens, refills, *names)


_SOURCES = (
    _source("x-ratelimit-{}-requests", by_tokens=False, refills=True),  # OpenAI and those who copy it
    _source("x-ratelimit-{}-tokens", by_tokens=True, refills=True),
    _source("anthropic-ratelimit-requests-{}", by_tokens=False, refills=True),
    _source("anthropic-ratelimit-tokens-{}", by_tokens=True, refills=True),
    _source("anthropic-ratelimit-input-tokens-{}", by_tokens=True, refills=True),
    _source("anthropic-ratelimit-output-tokens-{}", by_tokens=True, refills=True),
    _source("x-ratelimit-{}", by_tokens=False, refills=False),
    _source("ratelimit-{}", by_tokens=False, refills=False),  # IETF draft-ietf-httpapi-ratelimit-headers-06
)


def allowances(headers: Mapping[str, str], now: datetime) -> Iterator[Allowance]:
    """Every allowance that the headers of one answer tell; what cannot be read is passed over.

    Args:
        headers: with names in any case if the mapping ignores it, else in lower case.
        now: used where a reset is given as a date and the answer has no `Date` of its own.
    """
    for source in _SOURCES:
        if (text := headers.get(source.remaining)) is None:
            continue
        remaining, reset_s = (
            number_in(text),
            _until(headers.get(source.reset, ""), date_in(headers.get("date")) or now),
        )
        if remaining is not None and reset_s is not None:
            limit = number_in(headers.get(source.limit, ""))
            if limit == 0:  # none of which anything was answered: some say so of what they do not limit
                continue
            yield Allowance(source.name, source.by_tokens, source.refills, limit, remaining, reset_s)


def _until(text: str, now: datetime) -> float | None:
    """Seconds until a reset: `1s`, `6m0s`, `120ms`, a number of seconds, an epoch, or a date of RFC 3339."""
    text = text.strip()
    if (number := number_in(text)) is not None:
        if number < _EPOCH:
            return number
        return max(0.0, (number / 1000 if number > _EPOCH_MS else number) - now.timestamp())
    if re.fullmatch(_DURATION, text):
        return sum(float(amount) * _UNITS_S[unit] for amount, unit in re.findall(_PART, text))
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
