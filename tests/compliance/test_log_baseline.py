"""Baselines, thresholds and the inventory: bounded, explainable, tunable."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.compliance import baseline
from transparency.compliance.baseline import Baselines, History, Running, binomial_score
from transparency.compliance.examined import SessionFigures
from transparency.compliance.inventory import DAYS, Expected, Inventory
from transparency.compliance.log_settings import LogSettings
from transparency.errors import MalformedError

SETTINGS = LogSettings(baseline_sessions=3, recent_sessions=3)


def figures(tokens: int = 100, *tools: str) -> SessionFigures:
    return SessionFigures("s", "agent", entries=1, calls=1, tokens=tokens, tools=tools or ("Edit",))


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=50))
def test_mean_and_deviation_are_those_of_all_numbers_seen(numbers: list[int]) -> None:
    running = Running()
    for number in numbers:
        running.add(number)

    assert running.mean == pytest.approx(statistics.fmean(numbers))
    assert running.deviation == pytest.approx(statistics.stdev(numbers), abs=1e-6)


def test_nothing_is_unusual_before_there_is_a_history() -> None:
    history = History(SETTINGS)

    assert [history.see(figures(10**number, f"tool-{number}")) for number in range(3)] == [[], [], []]


def test_a_departure_says_what_it_was_compared_with() -> None:
    history = History(SETTINGS)
    for tokens in (90, 100, 110):
        history.see(figures(tokens))

    tool, spent = history.see(figures(500, "Bash"))

    assert (tool.what, tool.detail) == ("new-tool", "Bash")
    assert (spent.what, spent.detail) == ("tokens", "500 tokens, usual are 100 ± 10")
    assert spent.score == pytest.approx(40)


def test_a_tool_is_new_once() -> None:
    history = History(SETTINGS)
    for _ in range(3):
        history.see(figures())

    assert [each.what for each in history.see(figures(100, "Bash"))] == ["new-tool"]
    assert history.see(figures(100, "Bash")) == []


def test_equal_sessions_are_no_law_about_the_next() -> None:
    """Ten times 100 tokens have no deviation at all; 110 is still not unusual: a tenth of the mean counts as one."""
    history = History(SETTINGS)
    for _ in range(10):
        history.see(figures(100))

    assert history.see(figures(110)) == []
    assert [each.what for each in history.see(figures(140))] == ["tokens"]


def test_tokens_that_grow_slowly_are_a_drift() -> None:
    history = History(SETTINGS)
    for tokens in (100, 105, 95, 100, 105, 95, 128, 128, 128):
        assert history.see(figures(tokens)) == [] or tokens == 128

    (drift,) = history.drift()

    assert (drift.what, drift.detail) == ("token-drift", "128 tokens a session, before 100")


def test_a_share_of_failures_is_compared_by_its_chance() -> None:
    assert abs(binomial_score(5, 100, 5, 100)) < 0.01
    assert binomial_score(50, 100, 5, 100) > 5
    assert binomial_score(1, 1, 0, 100) > 3


def test_agents_beyond_the_bound_are_counted_and_have_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "MAX_AGENTS", 2)
    known = Baselines(SETTINGS)

    for number in range(4):
        known.see(f"https://{number}.example", figures())

    assert (len(known), known.left_out) == (2, 2)


def test_only_agents_with_a_history_have_a_baseline_for_records() -> None:
    known = Baselines(SETTINGS)
    for tokens in (90, 100, 110):
        known.see("https://a.example", figures(tokens))
    known.see("https://b.example", figures())

    ((key, found),) = known.tokens().items()

    assert key == ("https://a.example", "agent")
    assert (found.count, found.mean, found.deviation) == (3, 100, 10)


def test_thresholds_are_read_strictly() -> None:
    assert LogSettings.from_toml(b"[log]\nlate-percent = 50\n") == LogSettings(late_percent=50)
    assert LogSettings.from_toml(b"[checks]\n") == LogSettings()
    for wrong in (b"[log]\nlate-pct = 1\n", b"[log]\nsample = true\n", b"[log]\nsample = 10001\n", b"log = 1\n"):
        with pytest.raises(MalformedError, match="settings: log"):
            LogSettings.from_toml(wrong)


def test_an_inventory_says_who_records_on_which_days() -> None:
    inventory = Inventory.from_toml(b'[[expect]]\niss = "https://a.example"\ndays = ["mon"]\nsessions-per-day = 2\n')

    (expected,) = inventory.expected
    assert expected == Expected("https://a.example", "", 2, ("mon",))
    # 2026-09-21 was a Monday, the 20,717th day after 1970-01-01.
    assert [expected.is_due(day) for day in range(20_717, 20_719)] == [True, False]
    assert Expected("https://a.example").days == DAYS


@pytest.mark.parametrize(
    "wrong",
    [b"", b"[[expect]]\n", b'[[expect]]\niss = ""\n', b'[[expect]]\niss = "a"\ndays = ["monday"]\n',
     b'[[expect]]\niss = "a"\nsessions-per-day = 0\n', b'[[expect]]\niss = "a"\nagents = "b"\n'],
)  # fmt: skip
def test_an_inventory_that_cannot_be_meant_is_refused(wrong: bytes) -> None:
    with pytest.raises(MalformedError, match="inventory"):
        Inventory.from_toml(wrong)
