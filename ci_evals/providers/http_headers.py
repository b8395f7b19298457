"""Values of HTTP headers: numbers, dates, and how long to wait before a retry."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds to wait before a retry: `retry-after-ms`, or `Retry-After` (RFC 9110)."""
    milliseconds = number_in(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    retry_after = headers.get("Retry-After")
    seconds = number_in(retry_after)
    if seconds is not None:
        return seconds
    until = date_in(retry_after)
    if until is None:
        return None
    return max(0.0, (until - now).total_seconds())


def number_in(text: str | None) -> float | None:
    """Return a header's number if it is finite and not negative, as times and counts are."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    if math.isfinite(value) and value >= 0:
        return value
    return None


def date_in(text: str | None) -> datetime | None:
    """Return a header's HTTP date (RFC 9110), which is in UTC if it names no zone."""
    if not text:
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        return date.replace(tzinfo=UTC)
    return date
