"""What holds for every test: nothing it makes the program print is a traceback, a private key or a token."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from tests import on_postgres
from transparency.testing.postgres import shared_server

# How fast the machine is says nothing about a property: a slow draw or example fails nothing.
hypothesis.settings.register_profile("project", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("project")
# A token's secret is `tl_<id>_<43 characters>`; shown once by `token create`, on standard output, and nowhere else.
LEAKS = {
    "a traceback": re.compile(r"^Traceback \(most recent call last\):", re.MULTILINE),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "a token": re.compile(r"\btl_[0-9A-Za-z]+_[0-9A-Za-z_-]{43}\b"),
}

_LONGEST_NAME = 60


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if on_postgres.ASKED:
        on_postgres.begin(item)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if on_postgres.ASKED:
        on_postgres.end(item, nextitem)


def pytest_configure(config: pytest.Config) -> None:
    # A conftest below the root is not asked about fixtures of the session; a plugin is.
    config.pluginmanager.register(on_postgres, "on_postgres")


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A new, empty database of a real PostgreSQL. There is one server for each process that runs tests."""
    url = shared_server().new_database()
    yield url
    shared_server().drop_database(url)


def leaks_in(text: str) -> list[str]:
    return [what for what, pattern in LEAKS.items() if pattern.search(text)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that passed but let something out. A failing one shows pytest's own tracebacks, not ours."""
    report = yield
    if report.passed and report.when in ("call", "teardown"):
        found = leaks_in(f"{report.capstdout}\n{report.capstderr}\n{report.caplog}")
        if found:
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} let {' and '.join(found)} into its output:\n{report.caplog}{report.capstderr}"
            )
    return report


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes and long texts make no readable names, and random ones differ between the processes that share a run."""
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > _LONGEST_NAME) else None
