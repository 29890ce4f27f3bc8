"""Codex rollouts for tests: the fixtures, and how to take them apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transparency.records import codex
from transparency.records.canonical import SessionDraft
from transparency.records.format import CODEX

FIXTURES = Path(__file__).parent.parent / "fixtures/records/codex"
SAMPLES = Path(__file__).parents[3] / "shared/samples/codex-cli"
CREATED = "2026-06-01T00:00:00.000Z"

Entry = dict[str, Any]


def read(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def draft_of(data: bytes) -> SessionDraft:
    [draft] = codex.sessions(data, CODEX)
    return draft


def record_of(data: bytes) -> dict[str, Any]:
    return draft_of(data).finish(data, CREATED)


def entries_of(data: bytes) -> list[Entry]:
    return draft_of(data).entries


def by_id(name: str, entry_id: str) -> Entry:
    [entry] = [entry for entry in entries_of(read(name)) if entry["id"] == entry_id]
    return entry


def by_call(name: str, call_id: str) -> tuple[Entry, Entry]:
    call, result = [entry for entry in entries_of(read(name)) if entry.get("call-id") == call_id]
    return call, result


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def item(**payload: object) -> dict[str, object]:
    return {"timestamp": "2026-05-04T09:00:00.000Z", "type": "response_item", "payload": payload}
