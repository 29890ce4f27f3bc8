"""The rate limit: 429 with Retry-After, for each client by itself, in bounded memory (API-9, API-10)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.served import served
from transparency.server.limits import RateLimiter, allow_files, period_name
from transparency.server.problems import ProblemError
from transparency.server.settings import ServerSettings


async def test_one_request_too_many_is_429_with_scrapis_words(tmp_path: Path) -> None:
    """API-9, API-10, API-12: for a client without a token too."""
    now = [0.0]
    async with served(tmp_path, clock=lambda: now[0], rate_limit=3, rate_period=60.0) as site:
        replies = [await site.get("/policy") for _ in range(3)]
        refused = await site.post(site.statement())
        unknown = await site.get("/nothing")
        healthy = await site.get("/healthz")
        now[0] = 20.0
        after = await site.post(site.statement())

        assert {reply.status for reply in replies} == {200}
        assert refused.status == 429
        assert refused.problem == {-1: "Too Many Requests", -2: "Only 3 requests per minute are allowed."}
        assert refused.headers["Retry-After"] == "20"
        assert unknown.status == 429
        assert healthy.status == 200
        assert after.status == 201


async def test_clients_are_counted_by_token_and_bad_tokens_by_address(tmp_path: Path) -> None:
    """API-9: guessing tokens is limited like anything else."""
    async with served(tmp_path, clock=lambda: 0.0, open=False, rate_limit=2, rate_period=1.0) as site:
        mine, other = site.bearer("submit"), site.bearer("submit")
        for _ in range(2):
            assert (await site.post(site.statement(), Authorization=mine)).status == 201
            assert (await site.post(site.statement(), Authorization="Bearer tl_wrong")).status == 401

        assert (await site.post(site.statement(), Authorization=mine)).status == 429
        assert (await site.post(site.statement(), Authorization="Bearer tl_wrong2")).status == 429
        assert (await site.get("/policy")).status == 429
        assert (await site.post(site.statement(), Authorization=other)).status == 201


def test_allowance_returns_with_time_and_never_beyond_the_limit() -> None:
    now = [0.0]
    limiter = RateLimiter(2, 10.0, max_clients=10, clock=lambda: now[0])

    def allowed() -> bool:
        try:
            limiter.admit("a")
        except ProblemError:
            return False
        return True

    assert [allowed() for _ in range(3)] == [True, True, False]
    now[0] = 5.0
    assert [allowed(), allowed()] == [True, False]
    now[0] = 1_000.0
    assert [allowed() for _ in range(3)] == [True, True, False]
    now[0] = 0.0  # a clock that steps back takes nothing away and gives nothing
    assert not allowed()


def test_the_table_of_clients_is_bounded_and_forgets_the_longest_unseen() -> None:
    limiter = RateLimiter(1, 1.0, max_clients=2, clock=lambda: 0.0)
    limiter.admit("a")
    limiter.admit("b")
    with pytest.raises(ProblemError):
        limiter.admit("a")
    limiter.admit("c")

    assert len(limiter) == 2
    with pytest.raises(ProblemError):
        limiter.admit("a")
    limiter.admit("b")


def test_what_another_process_answered_is_taken_from_the_same_allowance_and_never_more_than_there_is() -> None:
    now = [0.0]
    limiter = RateLimiter(4, 4.0, max_clients=10, clock=lambda: now[0])

    limiter.admit("a")
    limiter.spend("a", 2)
    limiter.admit("a")
    with pytest.raises(ProblemError):
        limiter.admit("a")
    limiter.spend("a", 1_000)
    now[0] = 1.0  # a debt would last a quarter of an hour
    limiter.admit("a")
    limiter.spend("b", 3, per_minute=5)
    limiter.admit("b", 5)
    limiter.admit("b", 5)
    with pytest.raises(ProblemError):
        limiter.admit("b", 5)


def test_who_is_limited_at_all_by_the_limit_of_all_or_by_their_own() -> None:
    limited = RateLimiter(4, 4.0, max_clients=10, clock=lambda: 0.0)
    free = RateLimiter(None, 4.0, max_clients=10, clock=lambda: 0.0)

    assert (limited.limits(None), limited.limits(5), free.limits(None), free.limits(5)) == (True, True, False, True)
    free.spend("a", 5)
    assert len(free) == 0


def test_periods_have_names() -> None:
    assert [period_name(value) for value in (1.0, 60.0, 3600.0, 86400.0, 90.0, 0.5)] == [
        "second",
        "minute",
        "hour",
        "day",
        "90 seconds",
        "0.5 seconds",
    ]


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="rate limit"):
        ServerSettings(rate_limit=0)
    with pytest.raises(ValueError, match="TLS"):
        ServerSettings(tls_cert=Path("cert.pem"))


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows() -> None:
    program = """
import resource
from transparency.server.limits import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
print(allow_files(50), allow_files(200), allow_files(400), resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert said == "100 200 300 (300, 300)\n"
    assert allow_files(1) >= 1
