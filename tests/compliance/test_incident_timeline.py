"""What an incident's query finds in a record, and that no record makes more of it than a timeline."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verifier.world import Log, statement
from transparency.compliance.incident import Incident
from transparency.compliance.incident_page import SHOWN_LINES, index_page, readme, timeline_page
from transparency.compliance.incident_query import IncidentQuery, strings
from transparency.compliance.incident_timeline import Piece, Timeline, to_bytes
from transparency.compliance.subject import RecordSubject
from transparency.compliance.survey import Survey
from transparency.errors import MalformedError
from transparency.testing import SampleIssuer

MINUTE = 60_000
START = 1_772_700_000_000  # 2026-03-05T08:40:00Z


def at(minutes: int) -> str:
    return f"2026-03-05T08:{40 + minutes:02d}:00Z"


def call(name: str, minutes: int, path: str, identity: str, output: str = "done") -> list[dict[str, Any]]:
    return [
        {
            "type": "tool-call",
            "name": name,
            "call-id": identity,
            "input": {"file_path": path},
            "timestamp": at(minutes),
        },
        {"type": "tool-result", "call-id": identity, "output": output, "timestamp": at(minutes + 1)},
    ]


def record(*entries: Any, **session: Any) -> dict[str, Any]:
    base = {"session-id": "s", "entries": list(entries), "environment": {"working-dir": "/srv/shop"}}
    return {"session": base | session}


def events_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    """What a timeline tells of one canonical record, registered."""
    about = {"format": "interactive", "agent-meta": {"model-id": "m", "model-provider": "p"}}
    whole = {"version": "1.0.0", "id": "r", "created": at(0), "session": about | value["session"]}
    timeline = Timeline(IncidentQuery())
    timeline.keep(timeline.look(Piece(Log().register(statement(json.dumps(whole).encode())))))
    made = timeline.to_json()
    assert [entry["record"] for entry in made["entries"]] == ["read"]
    return list(made["events"])


def found(query: IncidentQuery, value: dict[str, Any], registered: int | None = None) -> list[str]:
    """Type and tool of what is found."""
    rows = query.rows(Survey(RecordSubject(value)), registered)
    return [f"{row.kind} {call.entry['name']}" if call is not None else row.kind for row, call in rows]


TWO = record(
    {"type": "user", "content": "Please CHANGE it", "timestamp": at(0)},
    *call("Edit", 1, "/srv/shop/src/cart.py", "a"), *call("Bash", 5, "/etc/passwd", "b", "root:x"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (IncidentQuery(), ["user", "tool-call Edit", "tool-result Edit", "tool-call Bash", "tool-result Bash"]),
        (IncidentQuery(tools=("Edit", "Write")), ["tool-call Edit", "tool-result Edit"]),
        (IncidentQuery(paths=("src/*",)), ["tool-call Edit", "tool-result Edit"]),
        (IncidentQuery(paths=("src/cart.py",)), ["tool-call Edit", "tool-result Edit"]),
        (IncidentQuery(paths=("/srv/shop/*",)), ["tool-call Edit", "tool-result Edit"]),
        (IncidentQuery(paths=("cart.py",)), []),
        (IncidentQuery(tools=("Edit",), paths=("/etc/passwd",)), []),
        (IncidentQuery(texts=("change IT",)), ["user"]),
        (IncidentQuery(texts=("passwd",)), ["tool-call Bash", "tool-result Bash"]),
        (IncidentQuery(since=START + 2 * MINUTE, until=START + 5 * MINUTE), ["tool-result Edit"]),
        (IncidentQuery(sessions=("other",)), []),
    ],
)
def test_a_query_finds_calls_with_their_results(query: IncidentQuery, expected: list[str]) -> None:
    assert found(query, TWO) == expected


def test_an_entry_without_any_time_is_kept_unless_its_session_or_registration_speaks_against_it() -> None:
    said = {"type": "user", "content": "x"}
    asked = IncidentQuery(since=START, until=START + MINUTE)

    assert found(asked, record(said)) == ["user"]
    assert found(asked, record(said), registered=START - 1) == []
    assert found(asked, record(said, **{"session-start": at(5), "session-end": at(6)})) == []


@pytest.mark.parametrize(
    ("member", "value"),
    [("from", "yesterday"), ("from", "2026-03-05T08:00:00Z"), ("tools", "Edit"), ("texts", [""]), ("paths", [1]),
     ("sessions", ["x"] * 65), ("more", [])],
)  # fmt: skip
def test_what_is_no_query_is_refused(member: str, value: Any) -> None:
    with pytest.raises(MalformedError):
        IncidentQuery.from_json(IncidentQuery().to_json() | {member: value})


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, "not said"),
        ({"status": ""}, "not said"),
        ({"is-error": False}, "ok"),
        ({"status": "completed"}, "ok"),
        ({"status": "running"}, "running"),
        ({"is-error": True}, "error"),
        ({"status": "denied"}, "denied"),
    ],
)
def test_a_result_is_only_called_what_its_record_says(members: dict[str, Any], expected: str) -> None:
    asked, answered = call("Edit", 1, "/srv/a", "a")

    assert [event["result"] for event in events_of(record(asked, answered | members))] == ["", expected]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["type", "name", "call-id", "input", "timestamp", "content", "children", "output", "file_path"])
        | st.text(max_size=5), inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(_JSON, max_size=5), st.dictionaries(st.sampled_from(["session-start", "environment"]), _JSON))
def test_no_record_breaks_a_query_or_a_page(entries: list[Any], session: dict[str, Any]) -> None:
    query = IncidentQuery(since=0, texts=("a", "<"), tools=(), paths=())

    rows = list(query.rows(Survey(RecordSubject(record(*entries, **session))), None))

    for row, call in rows:
        said = [each.casefold() for part in (row, call) if part is not None for each in strings(part.entry)]
        assert any("a" in each or "<" in each for each in said)


def test_an_account_of_an_incident_prints_back_the_same_and_nothing_else_is_one() -> None:
    account = Incident(
        IncidentQuery(tools=("Edit",)), "now", "sw 1", "https://log", ("m",), ("l",), {"a": "b"}, (("w", "y"),)
    )
    data = account.to_bytes()

    assert Incident.from_bytes(data) == account
    for broken in (data[:-1], data.replace(b'"kind"', b'"Kind"'), b"[]", b"{", data.replace(b'"w"', b"7")):
        with pytest.raises(MalformedError):
            Incident.from_bytes(broken)


def test_the_pages_show_hostile_accounts_inert() -> None:
    evil = "<img src=x onerror=alert(1)>\x1b]0;x\x07\u202e"
    account = Incident(IncidentQuery(texts=(evil,)), evil, evil, evil, (evil,), (evil,), {evil: evil}, ((evil, evil),))
    made = Timeline(account.query).to_json()

    for page in (readme, index_page, timeline_page):
        text = page(account.to_json(), made).decode()
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert b"<img" not in index_page(account.to_json(), made) + timeline_page(account.to_json(), made)


def test_a_page_keeps_line_breaks_and_wraps_whatever_a_record_calls_its_tools() -> None:
    """Names of strangers make no table wider than its page, on screen or on paper."""
    account = Incident(IncidentQuery(), "now", "sw 1", "https://log", ("m",), ("l",))
    events = events_of(record(*call("T" * 300, 1, "/srv/a", "a", "one\r\n<b>two\n\tthree" + "\n" * 500)))
    made = Timeline(account.query).to_json() | {"events": events}
    page = timeline_page(account.to_json(), made).decode()

    assert "<td>one<br>&lt;b&gt;two<br>\\u{0009}three<br>" in page
    assert page.count("<br>") == SHOWN_LINES
    assert '<table class="held events">' in page
    assert '<table class="held">' in index_page(account.to_json(), made).decode()
    assert ".held{table-layout:fixed}.held td,.held th{white-space:normal;overflow-wrap:anywhere}" in page


def test_a_statement_without_a_receipt_has_no_place_in_a_timeline() -> None:
    issuer = SampleIssuer()

    with pytest.raises(MalformedError, match="receipt"):
        Timeline(IncidentQuery()).look(Piece(issuer.sign(b"{}")))


def test_json_of_a_bundle_is_ascii_in_one_order() -> None:
    assert to_bytes({"b": "ü\x7f", "a": 1}) == b'{\n "a": 1,\n "b": "\\u00fc\\u007f"\n}\n'
