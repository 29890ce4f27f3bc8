"""trace-metadata: written from the record alone, and each member compared with it (formats.md 3.3, 3.4)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from transparency.client.signing import About
from transparency.cose.labels import HASH_SHA256, HASH_SHA512
from transparency.errors import MalformedError
from transparency.records import claude
from transparency.records.canonical import SessionDraft
from transparency.records.format import Format
from transparency.records.trace_metadata import (
    Finding,
    TraceMetadata,
    compare,
    describe,
    describe_or_reason,
    look_at,
)
from transparency.records.unit import Unit

RECORDS = Path(__file__).parent.parent / "fixtures" / "records"
SESSION = (RECORDS / "session.vac.json").read_bytes()
CLAUDE = (RECORDS / "claude" / "session.jsonl").read_bytes()
TIMELESS = (RECORDS / "timeless.vac.json").read_bytes()


def metadata(**members: object) -> dict[str, Any]:
    """What ``describe`` writes for SESSION, with members replaced (None: removed)."""
    described = describe(SESSION)
    assert described is not None
    stated = described.to_map() | {name.replace("_", "-"): value for name, value in members.items()}
    return {name: value for name, value in stated.items() if value is not None}


def levels(findings: list[Finding]) -> dict[str, str]:
    return {finding.member: finding.level for finding in findings if finding.level != "pass"}


def test_describe_writes_what_the_record_gives_and_the_hash_of_its_exact_bytes() -> None:
    described = describe(SESSION)

    assert described is not None
    assert described.to_map() == {
        "session-id": "7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10",
        "agent-vendor": "anysphere",
        "trace-format": "ietf-vac-v3.0",
        "timestamp-start": "2026-03-01T09:00:00.000Z",
        "timestamp-end": "2026-03-01T09:00:07.250Z",
        "content-hash": hashlib.sha256(SESSION).hexdigest(),
        "content-hash-alg": "sha-256",
    }


def test_what_describe_writes_agrees_with_the_record() -> None:
    findings = compare(metadata(), SESSION, where="label 100")

    assert {finding.level for finding in findings} == {"pass"}
    assert len(findings) == 6


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (TIMELESS, "timestamp-start"),
        (
            b'{"version": "3.0.0-draft", "id": "x", "session": {}}',
            "session-id, agent-vendor, timestamp-start",
        ),
        (b'{"type": "user"}\n{"type": "assistant"}\n', "strict JSON"),
        (b"plain text", "not a VAC record"),
    ],
)
def test_nothing_is_invented_and_the_reason_is_said(data: bytes, reason: str) -> None:
    assert describe(data) is None
    assert reason in describe_or_reason(data)[1]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"content_hash": "00" * 32}, {"content-hash": "fail"}),
        ({"content_hash": hashlib.sha256(SESSION).hexdigest()[:32]}, {"content-hash": "fail"}),
        ({"content_hash": " " + hashlib.sha256(SESSION).hexdigest()[1:]}, {"content-hash": "fail"}),
        ({"content_hash_alg": "sha-512"}, {"content-hash": "fail"}),
        ({"content_hash": None}, {"content-hash": "not-checked"}),
        ({"content_hash_alg": None}, {}),
        ({"content_hash": hashlib.sha256(SESSION).hexdigest().upper(), "content_hash_alg": "SHA-256"}, {}),
        ({"content_hash": hashlib.sha512(SESSION).hexdigest(), "content_hash_alg": "sha-512"}, {}),
        ({"content_hash_alg": "md5"}, {"content-hash": "not-checked"}),
        ({"session_id": "another"}, {"session-id": "fail"}),
        ({"session_id": b"7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10"}, {}),
        ({"trace_format": "claude-jsonl"}, {"trace-format": "fail"}),
        ({"timestamp_start": "2026-03-01T10:00:00+01:00"}, {}),
        ({"timestamp_start": 1772355600000}, {}),
        ({"timestamp_start": "1999-01-01T00:00:00Z"}, {"timestamp-start": "fail"}),
        ({"timestamp_end": "2026-03-01T09:00:07.251Z"}, {"timestamp-end": "fail"}),
        ({"timestamp_end": None}, {}),
        ({"agent_vendor": "openai"}, {"agent-vendor": "warn"}),
        ({"agent_vendor": "example-provider"}, {}),
        ({"extra": 1}, {"shape": "fail"}),
        ({"session_id": None}, {"shape": "fail"}),
        ({"timestamp_start": 1772355600.5}, {"shape": "fail"}),
        ({"timestamp_start": True}, {"shape": "fail"}),
        ({"agent_vendor": b"openai"}, {"shape": "fail"}),
    ],
)
def test_each_member_is_compared_with_the_record(members: dict[str, Any], expected: dict[str, str]) -> None:
    assert levels(compare(metadata(**members), SESSION, where="label 100")) == expected


@pytest.mark.parametrize("value", [None, 5, [], "session-id"])
def test_what_is_no_map_has_the_wrong_shape(value: object) -> None:
    assert levels(compare(value, SESSION, where="label 100")) == {"shape": "fail"}


def test_times_the_payload_does_not_have_are_not_checked() -> None:
    stated = metadata(content_hash=hashlib.sha256(TIMELESS).hexdigest(), agent_vendor="unknown")

    findings = compare(stated, TIMELESS, where="label 100")

    assert levels(findings) == {"timestamp-start": "not-checked", "timestamp-end": "not-checked"}
    assert not any(finding.unknown for finding in findings)


def test_an_unknown_hash_algorithm_leaves_the_question_open() -> None:
    findings = compare(metadata(content_hash_alg="blake3"), SESSION, where="label 100")

    assert [finding.member for finding in findings if finding.unknown] == ["content-hash"]


def test_a_payload_with_a_key_twice_cannot_be_a_vac_record() -> None:
    doubled = b'{"id": "EVIL", ' + SESSION.lstrip(b"{")

    findings = compare(metadata(content_hash=None), doubled, where="label 100")

    assert levels(findings)["trace-format"] == "fail"


def test_a_format_that_is_not_read_yet_is_not_checked() -> None:
    jsonl = b'{"type": "user"}\n{"type": "assistant"}\n'
    stated = metadata(trace_format="claude-jsonl", content_hash=hashlib.sha256(jsonl).hexdigest())

    assert set(levels(compare(stated, jsonl, where="label 100")).values()) == {"not-checked"}


def test_a_header_that_promises_vac_over_something_else_contradicts_it() -> None:
    stated = metadata(content_hash=hashlib.sha256(b"text").hexdigest())

    assert levels(compare(stated, b"text", where="label 100")) == {"trace-format": "fail"}


def test_of_an_envelope_the_content_hash_is_checked_even_without_the_record() -> None:
    digest = hashlib.sha256(SESSION).digest()

    agreeing = compare(metadata(), None, where="-70100", envelope=(HASH_SHA256, digest))
    lying = compare(metadata(), None, where="-70100", envelope=(HASH_SHA256, bytes(32)))
    other = compare(metadata(), None, where="-70100", envelope=(HASH_SHA512, bytes(64)))

    assert [finding.member for finding in agreeing if finding.level == "pass"] == ["content-hash"]
    assert levels(lying)["content-hash"] == "fail"
    assert [finding.member for finding in other if finding.unknown] == ["content-hash"]


def test_a_message_never_repeats_what_the_header_says() -> None:
    findings = compare(metadata(session_id="\x1b[31mforged", extra=1), SESSION, where="label 100")
    findings += compare(metadata(session_id="\x1b[31mforged"), SESSION, where="label 100")

    assert not any("forged" in finding.message for finding in findings)


def test_the_map_and_the_object_are_two_forms_of_one_thing() -> None:
    assert TraceMetadata.from_map(metadata()).to_map() == metadata()
    with pytest.raises(MalformedError, match="closed"):
        TraceMetadata.from_map(metadata() | {5: "five"})


def test_reindented_json_has_another_hash() -> None:
    reindented = json.dumps(json.loads(SESSION), indent=4).encode()

    assert levels(compare(metadata(), reindented, where="label 100")) == {"content-hash": "fail"}


def test_a_record_is_read_once_for_all_that_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    sessions = claude.sessions

    def counted(data: bytes, format_: Format) -> list[SessionDraft]:
        times.append(len(data))
        return sessions(data, format_)

    monkeypatch.setattr(claude, "sessions", counted)
    about = About.of(CLAUDE)

    assert about.metadata == describe_or_reason(CLAUDE, look_at(CLAUDE))[0]
    assert len(times) == 2  # once for About, once for the look above


def test_a_unit_named_by_many_entries_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Unit({"line": 1}, b"{}", {})
    first = unit.source_ref()
    monkeypatch.setattr(hashlib, "sha256", None)

    assert unit.source_ref() == unit.without_bytes().source_ref() == first
