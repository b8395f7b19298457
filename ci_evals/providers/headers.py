"""Times and numbers in the headers of an HTTP answer."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long the server asked to be left alone, in seconds: `retry-after-ms`, or `Retry-After` of RFC 9110."""
    if (milliseconds := number_in(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := number_in(headers.get("Retry-After"))) is not None:
        return seconds
    until = date_in(headers.get("Retry-After"))
    return max(0.0, (until - now).total_seconds()) if until else None


def number_in(text: str | None) -> float | None:
    """A header's number, if it is one that can measure a time or a count: finite, not negative."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def date_in(text: str | None) -> datetime | None:
    """A header's HTTP date (RFC 9110), taken as UTC where it names no zone."""
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
