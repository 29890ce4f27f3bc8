"""What the tests of OpenCode's conversion share: converting, walking over entries, the promise that no unit is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transparency.records import opencode
from transparency.records.format import OPENCODE, Format

FIXTURES = Path(__file__).parents[1] / "fixtures" / "records" / "opencode"
CONCATENATED = (FIXTURES / "sessions.concat.json").read_bytes()
EXPORT = (FIXTURES / "export.json").read_bytes()
CREATED = "2026-01-02T00:00:00.000Z"


def convert(data: bytes, form: Format = OPENCODE) -> list[dict[str, Any]]:
    return [draft.finish(data, CREATED) for draft in opencode.sessions(data, form)]


def flat(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        yield from flat(entry.get("children", []))


def of_type(record: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in flat(record["session"]["entries"]) if kind in (entry["type"], entry.get("event-type"))]


def sequence(*values: object) -> bytes:
    return "\n".join(json.dumps(value) for value in values).encode()


def assert_every_unit_is_named(data: bytes, records: list[dict[str, Any]]) -> None:
    named = [entry["source-ref"] for record in records for entry in flat(record["session"]["entries"])]
    units = list(opencode.units(data))
    missing = [unit for unit in units if unit.source_ref() not in named]
    dropped = {each["kind"]: each["count"] for record in records for each in record["source"]["dropped"]}
    assert len(missing) == dropped.get("empty-file", 0)
    assert sum(record["source"]["native-units"] for record in records) == len(units)
