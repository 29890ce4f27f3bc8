"""The survey: who acted, when, under which policy; and the texts of a record searched at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compliance.records_under_check import good
from transparency.compliance import survey as survey_module
from transparency.compliance.settings import DEFAULT, Settings
from transparency.compliance.subject import RecordSubject
from transparency.compliance.survey import Survey
from transparency.compliance.texts import Texts, walk
from transparency.errors import MalformedError
from transparency.records.redaction_rules import BUILTIN
from transparency.records.timestamps import instant
from transparency.records.vac_pointer import Path, pointer


def survey(*entries: object, **session: object) -> Survey:
    record = good()
    record["session"] |= {"entries": list(entries), **session}
    return Survey(RecordSubject(record))


def test_an_entry_inherits_the_time_of_the_entry_it_stands_in() -> None:
    inner = {"type": "tool-result", "output": 1}
    call = {"type": "tool-call", "name": "x", "children": [inner]}
    found = survey({"type": "assistant", "timestamp": "2026-04-02T10:00:00.250Z", "children": [call]}, {"type": "user"})

    assert [row.effective for row in found.rows] == [1_775_124_000_250] * 3 + [None]
    assert [row.pointer for row in found.rows][2] == "/session/entries/0/children/0/children/0"


@given(
    st.one_of(
        st.text(max_size=26),
        st.integers(-5, 2**64),
        st.from_regex(r"[0-9]{4}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\.[0-9]{3}Z", fullmatch=True),
    )
)
def test_a_time_is_read_as_everywhere_else(stamp: str | int) -> None:
    (row,) = survey({"type": "user", "timestamp": stamp}).rows

    assert row.time == instant(stamp)


@pytest.mark.parametrize(
    ("entry", "actor"),
    [
        ({"type": "user", "content": "hello"}, "human"),
        ({"type": "user", "content": [{"type": "tool_result"}]}, "tool"),
        ({"type": "user", "content": [{"type": "tool_result"}, {"type": "text"}]}, "human"),
        ({"type": "user", "content": [{"type": "tool_result"}], "actor": "human"}, "tool"),
        ({"type": "user", "content": "x", "native": {"isMeta": True}}, "system"),
        ({"type": "user", "content": "x", "actor": "agent"}, "agent"),
        ({"type": "assistant"}, "agent"),
        ({"type": "tool-result"}, "tool"),
        ({"type": "system-event"}, "system"),
        ({"type": "system-event", "actor": "human"}, "human"),
        ({"type": "system-event", "actor": "unknown"}, ""),
        ({"type": "novel"}, ""),
        ({"type": ["user"]}, ""),
    ],
)
def test_a_role_is_not_a_person(entry: dict[str, object], actor: str) -> None:
    assert survey(entry).rows[0].actor == actor


def test_parts_of_a_message_are_no_further_turns() -> None:
    found = survey(
        {"type": "user", "children": [{"type": "user", "content": "hello"}]}, {"type": "user", "content": "x"}
    )

    assert [row.pointer for row in found.humans] == ["/session/entries/0", "/session/entries/1"]


def test_policies_are_found_in_events_in_native_members_and_in_the_session() -> None:
    found = survey(
        {
            "type": "system-event",
            "event-type": "codex/turn_context",
            "data": {"approval_policy": "never", "sandbox": ""},
        },
        {"type": "user", "native": {"permissionMode": "plan"}},
        native={"sandbox_policy": {"type": "read-only"}},
    )

    assert [(name, value) for _, name, value in found.policies] == [
        ("sandbox_policy", {"type": "read-only"}),
        ("approval_policy", "never"),
        ("permissionMode", "plan"),
    ]


def test_tokens_are_summed_and_what_is_no_count_is_left_out() -> None:
    usages = ({"total": 10}, {"input": 3, "output": 4}, {"total": -1}, {"total": True}, {"total": 10**30}, "many", None)

    assert survey(*({"type": "assistant", "token-usage": usage} for usage in usages)).tokens == (17, 5)


def test_texts_that_hold_every_byte_do_not_shift_the_places_of_others() -> None:
    texts = Texts([{"a": "x\0\u00ffy"}, {"b": ["", "ann@company.test"]}], frozenset())

    assert texts.secrets()["email"] == [texts.blob.index(b"ann@")]
    assert texts.places(texts.secrets()["email"]) == [(1, 1)]


def test_no_match_spans_two_texts() -> None:
    assert (
        Texts([{"a": "ann@"}, {"b": "company.test"}, {"c": "411111111111"}, {"d": "1111"}], frozenset()).secrets() == {}
    )


TOKENS = {
    "pem": "-----BEGIN " + "CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "jwt": ".".join(("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0" * 9, "c2ln" * 10)),
    "api-key": "AKIA" + "Z3" * 8,
    "bearer-token": "Authorization: Bearer " + "0a1b2c3d" * 4,
    "url-password": "postgres://app:hunter2@db.example/main",
    "email": "ann@company.test",
    "card-number": "3782 " + "822463 10005",
}


@pytest.mark.parametrize("name", sorted({rule.name for rule in BUILTIN}))
def test_each_rule_of_redaction_is_asked(name: str) -> None:
    text = f"before {'filler ' * 500} {TOKENS[name]} after"

    assert list(Texts([{"content": text}], frozenset()).secrets()) == [name]


def test_settings_are_read_strictly_and_keep_their_defaults() -> None:
    read = Settings.from_toml(
        b'[checks]\nlag-hours = 72\nrisks-off = ["network"]\n[[checks.risk]]\nname = "prod"\nwords = ["k", "p"]'
    )

    assert (read.lag_hours, read.gap_hours) == (72, DEFAULT.gap_hours)
    assert "network" not in {risk.name for risk in read.commands}
    assert [risk.name for risk in read.commands if risk.found("k -x p")] == ["prod"]
    assert not any(risk.found("p k") for risk in read.risks)
    assert Settings.from_toml(b"") == DEFAULT


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("checks = 1", "checks is a table"),
        ("[checks]\nlag-hour = 1", "checks.lag-hour is not known"),
        ("[checks]\nlag-hours = -1", "whole number"),
        ("[checks]\nlag-hours = true", "whole number"),
        ("[checks]\nlag-hours = 1.5", "whole number"),
        ('[checks]\nalgorithms = "ES256"', "list of at most"),
        ('[checks]\nrisks-off = ["nothing"]', "is not one of"),
        ('[checks]\nrisks = ["x"]', "checks.risks is not known"),
        ('[[checks.risk]]\nname = "sudo"\nwords = ["x"]', "not that of a built-in one"),
        ('[[checks.risk]]\nname = "X"\nwords = ["x"]', "lower-case"),
        ('[[checks.risk]]\nname = "x"', "name and words"),
        ('[[checks.risk]]\nname = "x"\nwords = ["y"]\n[[checks.risk]]\nname = "x"\nwords = ["z"]', "two of"),
        ("[checks]\nrisk = 1", "is written"),
        ("[checks", "not TOML"),
    ],
)
def test_a_mistake_in_the_settings_is_named(text: str, complaint: str) -> None:
    with pytest.raises(MalformedError, match=complaint):
        Settings.from_toml(text.encode())


def test_many_findings_in_one_entry_are_placed_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[object] = []

    def counted(*given: Any) -> Iterator[Path]:
        walks.append(given)
        return walk(*given)

    monkeypatch.setattr(survey_module, "walk", counted)
    found = survey({"type": "user", "content": [f"p{number}@company.test" for number in range(500)]})

    paths = found.paths_of(found.texts.secrets()["email"])

    assert (len(paths), len(walks)) == (500, 1)
    assert pointer(paths[7]) == "/session/entries/0/content/7"
