"""The rate limiter in virtual time on simulated providers, and rate limit headers as sent."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from fakes.limited import (
    Bucket,
    Chance,
    Down,
    Free,
    Simulated,
    Window,
    failing,
    run_job,
    run_plain_loop,
)

from ci_evals.engine.limits import Allowance, allowances
from ci_evals.errors import ProviderError

RATE_LIMITED, OVERLOADED, UNAVAILABLE, BROKEN = (
    failing(429, 1.0),
    failing(529),
    failing(503, 1.0),
    failing(500),
)
SILENT = ProviderError("timeout", "no answer within 10 s")


@pytest.mark.parametrize(
    ("shares", "bound"),
    [
        ([(0.01, RATE_LIMITED)], 1.3),
        ([(0.01, failing(429, 10.0))], 1.3),
        ([(0.05, OVERLOADED)], 1.3),
        ([(0.1, RATE_LIMITED), (0.05, BROKEN)], 1.3),
        ([(0.1, UNAVAILABLE)], 1.3),
        ([(0.2, RATE_LIMITED)], 1.3),
        ([(0.2, OVERLOADED)], 1.3),
        ([(0.5, RATE_LIMITED)], 2.0),
    ],
)
def test_chance_refusals_delay_nobody_else(
    shares: list[tuple[float, ProviderError]], bound: float
) -> None:
    """Beside a plain retry loop in which every call waits for itself, whatever the seed."""
    errored = 0
    for seed in range(3):
        job, plain = (
            run(Simulated(Chance(*shares, seed=seed), 0.02, seed=seed))
            for run in (run_job, run_plain_loop)
        )
        assert job.wall_s <= bound * plain.wall_s
        errored += job.errored - plain.errored
    assert errored <= 0


def test_time_outs_pace_nothing() -> None:
    job, plain = (
        run(Simulated(Chance((0.05, SILENT)), 0.02, failure_s=10.0), retries=1)
        for run in (run_job, run_plain_loop)
    )
    assert job.wall_s <= 1.1 * plain.wall_s
    assert job.errored <= plain.errored


@pytest.mark.parametrize("workers", [16, 64])
@pytest.mark.parametrize(
    ("per_minute", "burst", "latency_s", "runs"),
    [
        (60, 10, 0.02, 100),
        (600, 10, 0.02, 1000),
        (600, 60, 1.0, 1000),
        (6000, 10, 0.02, 1000),
        (6000, 60, 1.0, 1000),
    ],
)
def test_a_quota_that_nobody_declared_is_used_up(
    per_minute: int, burst: int, latency_s: float, runs: int, workers: int
) -> None:
    server = Bucket(per_minute, burst)
    job = run_job(Simulated(server, latency_s), runs=runs, workers=workers)
    assert job.errored == 0
    assert job.wall_s <= 1.1 * max(server.minimum_s(runs), latency_s * runs / workers)
    if (per_minute, latency_s) == (600, 0.02):
        assert job.refused_share <= 0.13


@pytest.mark.parametrize("latency_s", [0.02, 1.0])
def test_a_quota_without_any_burst_is_nearly_used_up(latency_s: float) -> None:
    server = Bucket(600, 1)
    job = run_job(Simulated(server, latency_s))
    assert job.errored == 0
    assert job.wall_s <= 1.25 * server.minimum_s(1000)


@pytest.mark.parametrize("telling", [True, False])
@pytest.mark.parametrize("latency_s", [0.02, 0.3])
def test_windows_are_used_up_before_another_one_ends(latency_s: float, telling: bool) -> None:
    server = Window(100, 10.0, retry_after=False, telling=telling)
    job = run_job(Simulated(server, latency_s))
    assert job.errored == 0
    assert job.wall_s <= server.next_end_s(1000) + server.length_s


@pytest.mark.parametrize("settings", [{"rpm": 600.0}, {"tpm": 60_000.0}])
def test_a_declared_limit_is_used_up_and_never_refused(settings: dict[str, Any]) -> None:
    by_tokens = "tpm" in settings
    server = Bucket(60_000, 2000, cost=100) if by_tokens else Bucket(600, 10)
    job = run_job(Simulated(server, 0.05, tokens=100), **settings)
    assert job.refused == 0
    assert job.wall_s <= 1.05 * server.minimum_s(1000)


@pytest.mark.parametrize("cost", [1, 100])
def test_a_limit_that_headers_tell_is_used_up_and_hardly_refused(cost: int) -> None:
    server = Bucket(600 * cost, 60 * cost, cost=cost, telling=True)
    job = run_job(Simulated(server, 0.05, tokens=100))
    assert job.errored == 0
    assert job.refused_share <= 0.05
    assert job.wall_s <= 1.05 * server.minimum_s(1000)


@pytest.mark.parametrize("error", [UNAVAILABLE, RATE_LIMITED, failing(None)])
@pytest.mark.parametrize(("outage_s", "noticed_s"), [(6, 3), (30, 3)])
def test_the_end_of_an_outage_is_noticed(
    error: ProviderError, outage_s: int, noticed_s: int
) -> None:
    usual = run_job(Simulated(Free(), 0.2))
    job = run_job(Simulated(Down(error, from_s=2, until_s=2 + outage_s), 0.2))
    assert job.errored == 0
    assert job.wall_s <= usual.wall_s + outage_s + noticed_s


@pytest.mark.parametrize("error", [UNAVAILABLE, RATE_LIMITED])
def test_a_provider_that_refuses_for_ever_is_given_up_after_two_minutes(
    error: ProviderError,
) -> None:
    job = run_job(Simulated(Down(error), 0.02))
    assert job.errored == 1000
    assert 120 <= job.wall_s <= 125
    assert job.calls <= 300


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
    assert requests == Allowance(
        requests.name, by_tokens=False, refills=True, limit=60, remaining=59, reset_s=1
    )
    assert tokens == Allowance(
        tokens.name, by_tokens=True, refills=True, limit=150_000, remaining=149_984, reset_s=360
    )
    assert requests.name != tokens.name


def test_anthropics_headers_tell_four_limits_with_dates() -> None:
    kinds = ("requests", "tokens", "input-tokens", "output-tokens")
    parts = {"limit": "100", "remaining": "40", "reset": "2026-03-01T12:00:30Z"}
    told = read(
        {
            f"anthropic-ratelimit-{kind}-{part}": text
            for kind in kinds
            for part, text in parts.items()
        }
    )
    assert [each.by_tokens for each in told] == [False, True, True, True]
    assert {(each.refills, each.limit, each.remaining, each.reset_s) for each in told} == {
        (True, 100, 40, 30)
    }


@pytest.mark.parametrize("prefix", ["x-ratelimit", "ratelimit"])
def test_generic_headers_tell_a_window_that_comes_back_at_once(prefix: str) -> None:
    (told,) = read({f"{prefix}-remaining": "0", f"{prefix}-reset": "17"})
    assert (told.by_tokens, told.refills, told.remaining, told.reset_s) == (False, False, 0, 17)


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


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "nan", "inf", "1e999", "1 s", "s", "1x", "\x00", "9" * 5000 + "s"]
)
def test_a_reset_that_cannot_be_read_is_passed_over(text: str) -> None:
    assert reset_s(text) is None


@pytest.mark.parametrize("remaining", ["", "many", "-1", "nan", "1,000"])
def test_a_remainder_that_cannot_be_read_is_passed_over(remaining: str) -> None:
    assert (
        read({"x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": "1s"})
        == []
    )


def test_a_date_is_held_against_the_servers_own_clock() -> None:
    headers = {
        "date": "Sun, 01 Mar 2026 11:30:00 GMT",
        "anthropic-ratelimit-requests-remaining": "1",
        "anthropic-ratelimit-requests-reset": "2026-03-01T11:30:05Z",
    }
    assert read(headers)[0].reset_s == 5


def test_other_headers_tell_nothing() -> None:
    assert read({"content-type": "application/json", "retry-after": "3"}) == []
