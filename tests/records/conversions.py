"""What every conversion must keep, whatever the format: used on our fixtures and on the real samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from transparency.records import canonical_json, convert, strict_json
from transparency.records.detect import Detected
from transparency.records.vac_check import check_vac

CREATED = "2026-11-16T00:00:00.000Z"

Ref = tuple[tuple[str, str | int], ...]


def references(records: list[dict[str, Any]]) -> Iterator[Ref]:
    """The source-ref of every entry, children included."""
    for record in records:
        for entry in convert.flat(record["session"]["entries"]):
            yield tuple(sorted(entry["source-ref"].items()))


def assert_nothing_is_lost(data: bytes, detected: Detected) -> list[dict[str, Any]]:
    """Convert *data*: every record is a valid -00 one, every unit is named or counted as dropped, nothing else is."""
    records = convert.convert(data, created=CREATED, detected=detected)

    units = {tuple(sorted(unit.source_ref().items())) for unit in convert.units(data, detected)}
    named = set(references(records))
    dropped = sum(item["count"] for record in records for item in record["source"]["dropped"])
    assert records
    assert not named - units, "an entry names a unit that is not in the file"
    assert len(units - named) <= dropped, "a unit is in no entry and not counted as dropped"
    for record in records:
        assert not check_vac(record).violations["-00"]
        assert strict_json.loads(canonical_json.dumps(record)) == record
    return records


def assert_repeatable(data: bytes, detected: Detected) -> None:
    """Converting again gives the same bytes, but for ``created``."""
    first = list(convert.convert_to_bytes(data, created=CREATED, detected=detected))
    second = list(convert.convert_to_bytes(data, created="2027-01-01T00:00:00Z", detected=detected))
    assert first == [record.replace(b'"2027-01-01T00:00:00Z"', f'"{CREATED}"'.encode()) for record in second]
