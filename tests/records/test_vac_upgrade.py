"""VAC to VAC: -00 stays what it is, 19 Feb becomes -00 without losing or inventing anything (formats.md 8.2)."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.records import cddl_oracle
from tests.records.vac_mutants import mutants
from transparency.errors import MalformedError
from transparency.records import canonical_json, strict_json, vac_cbor
from transparency.records.format import VAC_JSON
from transparency.records.vac_check import check_vac
from transparency.records.vac_upgrade import check, itself, units, upgrade

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "vac"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples" / "vac"


def raw(name: str) -> bytes:
    return (FIXTURES / f"{name}.json").read_bytes()


def upgraded(data: bytes) -> dict[str, Any]:
    (record,) = upgrade(data)
    return record


def february(**changes: object) -> bytes:
    """The least session of the 19 Feb profile, with a float time so that -00 does not take it, and changes."""
    record = json.loads(raw("least-published")) | {"created": 1775124005125.5} | changes
    return json.dumps(record).encode()


def with_entries(*entries: object) -> bytes:
    session = json.loads(raw("least-published"))["session"]
    return february(session={**session, "entries": list(entries)})


def test_a_record_of_00_is_itself_byte_for_byte() -> None:
    assert itself(raw("published")) == raw("published")
    assert upgraded(raw("published")) == json.loads(raw("published"))
    assert itself(raw("february")) is None
    assert itself(b"\xef\xbb\xbf" + raw("published")) is None


def test_the_whole_february_record_becomes_valid_and_valid_only_once() -> None:
    record = upgraded(raw("february"))
    again = canonical_json.dumps(record)

    assert cddl_oracle.valid(record, "-00")
    assert itself(again) == again
    assert upgraded(again) == record


def test_the_record_keeps_its_name_and_gains_its_source() -> None:
    data = raw("february")
    record = upgraded(data)

    assert record["id"] == json.loads(data)["id"]
    assert record["source"] == {
        "format": "ietf-vac-v3.0",
        "media-type": "application/agent-conversation",
        "raw-hash": hashlib.sha256(data).hexdigest(),
        "raw-hash-alg": "sha-256",
        "raw-size": len(data),
        "converter": "agent-transparency",
        "converter-version": "1",
        "lossless": True,
        "dropped": [],
        "filled": [
            "/session/entries/1/children/0/content",
            "/session/entries/1/children/1/children/0/output",
            "/session/entries/1/children/1/input",
            "/session/entries/3/children/0/event-type",
        ],
        "native-units": 4,
        "profile": "19 Feb",
    }


def test_names_in_the_closed_maps_are_spelled_anew_in_their_order() -> None:
    (conversation,) = upgraded(raw("february"))["file-attribution"]["files"][0]["conversations"]

    assert list(conversation["ranges"][0]) == [
        "start-line",
        "end-line",
        "content-hash",
        "content-hash-alg",
        "contributor",
    ]
    assert conversation["contributor"] == {"type": "ai", "model-id": "example/small-1"}


def test_underscores_elsewhere_are_nobodys_business() -> None:
    record = upgraded(with_entries({"type": "user", "start_line": 1, "content": {"model_id": "m"}}))

    assert record["session"]["entries"][0]["start_line"] == 1
    assert record["session"]["entries"][0]["content"] == {"model_id": "m"}


def test_a_missing_session_is_synthesised_and_says_so() -> None:
    record = upgraded(raw("february-attribution"))

    assert record["session"] == {
        "session-id": "attribution-1",
        "agent-meta": {"model-id": "example/small-1", "model-provider": "example"},
        "entries": [],
        "synthetic": True,
    }
    assert record["source"]["filled"] == ["/session"]
    assert upgraded(raw("least-february"))["session"]["agent-meta"] == {
        "model-id": "unknown",
        "model-provider": "unknown",
    }


def test_maps_without_their_required_member_move_whole_to_native() -> None:
    original, record = json.loads(raw("february")), upgraded(raw("february"))

    assert "vcs" not in record
    assert "recording-agent" not in record
    assert record["native"] == {"created": 1775124005125.5, "recording-agent": {"version": "0.1"}} | {
        "vcs": original["vcs"]
    }
    environment = record["session"]["environment"]
    assert "vcs" not in environment
    assert environment["native"] == {"vcs": original["session"]["environment"]["vcs"]}


def test_an_environment_without_a_folder_moves_with_all_it_holds() -> None:
    session = {**json.loads(raw("least-published"))["session"], "environment": {"vcs": {"branch": "b"}}}

    made = upgraded(february(session=session))["session"]

    assert "environment" not in made
    assert made["native"] == {"environment": {"vcs": {"branch": "b"}}}


def test_what_stands_under_native_is_never_overwritten() -> None:
    taken = upgraded(february(native={"vcs": 1, "a": 2}, vcs={}))
    no_map = upgraded(february(native=[1], vcs={}))
    sourced = upgraded(february(source="mine"))

    assert taken["native"] == {"native": {"vcs": 1, "a": 2, "created": 1775124005125.5}, "vcs": {}}
    assert no_map["native"] == {"native": [1], "created": 1775124005125.5, "vcs": {}}
    assert sourced["native"]["source"] == "mine"
    assert sourced["source"]["profile"] == "19 Feb"


def test_a_tool_call_without_a_name_becomes_an_event_that_holds_it() -> None:
    call = {"type": "tool-call", "input": {"a": 1}, "id": "i", "timestamp": 1775124004500.0, "data": 3}
    child = {"type": "tool-call", "name": "n"}

    (event,) = upgraded(with_entries({**call, "children": [child]}))["session"]["entries"]

    del event["source-ref"]
    assert event == {
        "type": "system-event",
        "event-type": "vac/tool-call",
        "data": call,
        "timestamp": "2026-04-02T10:00:04.500Z",
        "id": "i",
        "children": [{"type": "tool-call", "name": "n", "input": None}],
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1775124002250.75, "2026-04-02T10:00:02.250Z"),
        (-1.5, "1969-12-31T23:59:59.998Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-59958144000000.0, "0070-01-01T00:00:00.000Z"),
        (1e300, None),
        (-(2**64), None),
    ],
)
def test_floats_and_negative_times_become_rfc_3339_and_stay_under_native(value: float, text: str | None) -> None:
    (entry,) = upgraded(with_entries({"type": "user", "timestamp": value}))["session"]["entries"]

    assert entry.get("timestamp") == text
    assert entry["native"] == {"timestamp": value}


def test_times_that_00_takes_are_left_alone() -> None:
    times = [5, "2026-04-02T10:00:00Z"]
    record = upgraded(with_entries(*({"type": "user", "timestamp": time} for time in times)))

    assert [entry["timestamp"] for entry in record["session"]["entries"]] == times


def test_every_entry_names_the_bytes_it_comes_from() -> None:
    data = raw("february")
    found = list(units(data))
    entries = upgraded(data)["session"]["entries"]

    assert [entry["source-ref"] for entry in entries] == [unit.source_ref() for unit in found]
    assert [json.loads(unit.raw) for unit in found] == [unit.value for unit in found]
    assert all(unit.raw in data for unit in found)


def test_what_the_rules_do_not_make_valid_is_refused_with_its_place() -> None:
    both = {"start_line": 1, "start-line": 1, "end-line": 2}
    files = [{"path": "p", "conversations": [{"ranges": [both]}]}]

    with pytest.raises(MalformedError, match=r"/session/entries/0/type"):
        upgraded(with_entries({"type": "note"}))
    with pytest.raises(MalformedError, match=r"ranges/0/start_line"):
        upgraded(february(**{"file-attribution": {"files": files}}))
    with pytest.raises(MalformedError, match="is a map"):
        upgraded(b"[]")


def test_an_upgrade_that_would_nest_too_deep_to_be_read_is_refused() -> None:
    deep: Any = 1
    for _ in range(strict_json.MAX_DEPTH - 4):
        deep = [deep]
    data = with_entries({"type": "tool-call", "input": deep})
    strict_json.loads(data)

    with pytest.raises(MalformedError, match="deep"):
        upgraded(data)


def test_cbor_records_upgrade_alike() -> None:
    value = json.loads(raw("february"))
    data = vac_cbor.dumps(value, tagged=True)

    (from_cbor,) = upgrade(data)
    from_json = upgraded(raw("february"))

    assert [unit.value for unit in units(data)] == value["session"]["entries"]
    assert [vac_cbor.loads(unit.raw) for unit in units(data)] == value["session"]["entries"]
    for record in (from_cbor, from_json):
        del record["source"]
        for entry in record["session"]["entries"]:
            del entry["source-ref"]
    assert from_cbor == from_json


def test_a_cbor_record_of_00_is_itself_and_its_bytes_are_declared_where_json_shows_them() -> None:
    value = json.loads(raw("published"))
    plain = vac_cbor.dumps(value)
    value["session"]["session-id"] = b"\xfb\xff\x01"
    binary = vac_cbor.dumps(value)

    assert itself(plain) == plain
    assert upgrade(plain) == [json.loads(raw("published"))]
    assert itself(binary) == binary
    (shown,) = upgrade(binary)
    assert shown["session"]["session-id"] == "-_8B"
    assert shown["source"]["json-form"] == ["/session/session-id"]
    assert shown["source"]["profile"] == "-00"


def test_every_mutant_that_is_valid_by_19_feb_upgrades_to_a_valid_00() -> None:
    originals = [json.loads(path.read_bytes()) for path in sorted(FIXTURES.glob("february*.json"))]
    seen = 0
    for mutant in mutants(originals, 1500, seed=7):
        if not cddl_oracle.valid(mutant, "19 Feb"):
            continue
        try:
            data = vac_cbor.dumps(mutant)
        except MalformedError:  # an integer beyond 64 bits inside "any"
            continue
        before = copy.deepcopy(mutant)

        (record,) = upgrade(data)

        assert cddl_oracle.valid(record, "-00"), mutant
        assert mutant == before
        assert itself(canonical_json.dumps(record)) is not None
        seen += 1
    assert seen > 150


def test_checking_reports_the_nearest_profile_and_the_warnings() -> None:
    assert check(raw("published"), VAC_JSON) == []
    assert [item.level for item in check(february(created=5.5), VAC_JSON)] == ["warning"]
    (missing,) = check(b'{"version":"3.0.0-draft","session":null}', VAC_JSON)[:1]
    assert missing.level == "violation"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside this checkout (../shared/samples)")
def test_every_real_record_is_itself() -> None:
    paths = [*SAMPLES.glob("*.vac.*"), *SAMPLES.glob("signed/*.payload.json")]
    assert len(paths) >= 8
    for path in paths:
        data = path.read_bytes()

        assert itself(data) == data, path.name
        assert check_vac(upgrade(data)[0]).profile == "both", path.name
        assert sum(1 for _ in units(data)) > 0, path.name
