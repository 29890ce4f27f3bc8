"""The summary of a VAC record: what it says, never more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transparency.errors import MalformedError
from transparency.records.vac import read_vac

SESSION = Path(__file__).parent.parent / "fixtures" / "records" / "session.vac.json"


def changed(**members: object) -> bytes:
    """The fixture with members of its session replaced (None: removed)."""
    record = json.loads(SESSION.read_bytes())
    for name, value in members.items():
        record["session"].pop(name.replace("_", "-"), None)
        if value is not None:
            record["session"][name.replace("_", "-")] = value
    return json.dumps(record).encode()


def test_a_record_is_summarised_from_its_own_members() -> None:
    record = read_vac(SESSION.read_bytes())

    assert record is not None
    assert record.version == "3.0.0-draft"
    assert record.session_id == "7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10"
    assert record.timestamp_start == "2026-03-01T09:00:00.000Z"
    assert record.timestamp_end == "2026-03-01T09:00:07.250Z"


def test_the_vendor_of_a_known_tool_comes_before_the_provider_of_the_model() -> None:
    record = read_vac(SESSION.read_bytes())

    assert record is not None
    assert record.agent_vendor == "anysphere"
    assert record.vendors == {"anysphere", "example-provider"}


def test_the_provider_is_the_vendor_where_the_tool_is_unknown() -> None:
    record = read_vac(changed(agent_meta={"model-id": "m", "model-provider": "p", "cli-name": "home-made"}))

    assert record is not None
    assert record.agent_vendor == "p"


def test_without_session_times_the_entries_give_them_and_created_never_does() -> None:
    record = read_vac(changed(session_start=None, session_end=None))
    timeless = read_vac(SESSION.with_name("timeless.vac.json").read_bytes().replace(
        b'"version"', b'"created": "2026-03-01T09:00:00Z", "version"'))  # fmt: skip

    assert record is not None
    assert (record.timestamp_start, record.timestamp_end) == (
        "2026-03-01T09:00:01Z",
        "2026-03-01T09:00:07.250Z",
    )
    assert timeless is not None
    assert (timeless.timestamp_start, timeless.timestamp_end) == (None, None)


def test_a_stated_time_of_the_wrong_type_is_not_replaced_by_an_entrys() -> None:
    record = read_vac(changed(session_start=1772355600.5))

    assert record is not None
    assert record.timestamp_start is None


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"\xd9\x10\x35\xa0", b"{}", b'{"version": "1", "id": "x", "files": []}',
     b'{"version": "3.0.0-draft", "id": "x", "session": "s"}', b'{"version": 3, "id": "x", "session": {}}'],
)  # fmt: skip
def test_what_is_not_vac_is_none(data: bytes) -> None:
    assert read_vac(data) is None


def test_members_of_the_wrong_type_are_not_given() -> None:
    record = read_vac(changed(session_id=5, agent_meta="x", entries={"a": 1}, session_start=None, session_end=None))

    assert record is not None
    assert (record.session_id, record.agent_vendor, record.timestamp_start) == (None, None, None)


def test_a_record_of_file_attribution_alone_is_vac_too() -> None:
    record = read_vac(b'{"version": "3.0.0-draft", "id": "x", "file-attribution": {"files": []}}')

    assert record is not None
    assert record.session_id is None


def test_a_record_with_a_key_twice_is_refused_not_merely_unknown() -> None:
    with pytest.raises(MalformedError, match="line 3, column 2"):
        read_vac(b'{"id": "EVIL", ' + SESSION.read_bytes().lstrip(b"{"))
