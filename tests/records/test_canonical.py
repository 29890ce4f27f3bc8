"""What every converter writes: times, ids and what is left over (formats.md 8.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.records.conversions import CREATED
from transparency.records.canonical import time_member
from transparency.records.convert import convert


@pytest.mark.parametrize(
    ("native", "canonical"),
    [
        ("2026-03-01T09:00:00.123Z", "2026-03-01T09:00:00.123Z"),
        ("2026-03-01t10:00:00.5+01:00", "2026-03-01T09:00:00.500Z"),
        (1772355600123, "2026-03-01T09:00:00.123Z"),
        (1772355600, "2026-03-01T09:00:00.000Z"),
        (-1500, "1969-12-31T23:35:00.000Z"),
        ("0999-12-31T23:59:59Z", "0999-12-31T23:59:59.000Z"),
        (253402300799999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_native_time_becomes_utc_with_milliseconds_and_its_original_is_kept(native: object, canonical: str) -> None:
    assert time_member(native) == (canonical, {} if native == canonical else {"timestamp": native})


@pytest.mark.parametrize("native", ["yesterday", True, [], 1e300, 10**300, -(10**300), "2026-02-30T00:00:00Z"])
def test_what_is_no_time_is_kept_and_not_said_to_be_one(native: object) -> None:
    assert time_member(native) == (None, {"timestamp": native})


@pytest.mark.parametrize(
    "data",
    [
        {"type": "user", "sessionId": "s", "rewound-by": {"line": 9}, "message": {"content": "x"}},
        {"role": "user", "message": {"content": "x"}, "rewound-by": {"line": 9}, "sessionId": "s", "type": "user"},
        {"id": "msg_1", "sessionID": "ses_1", "role": "user", "rewound-by": {"line": 9}},
        {"timestamp": "2026-05-01T10:00:00Z", "type": "response_item",
         "payload": {"type": "message", "role": "user", "content": "x", "rewound-by": {"line": 9}}},
        {"sessionId": "s", "projectHash": "p",
         "messages": [{"id": "m", "type": "user", "content": "x", "rewound-by": {"line": 9}}]},
        {"specVersion": "0.2.0", "id": "s", "agent": {"name": "a"},
         "events": [{"type": "message", "role": "user", "content": "x", "rewound-by": {"line": 9}}]},
    ],
)  # fmt: skip
def test_a_file_cannot_write_the_marks_that_converters_write(data: dict[str, Any]) -> None:
    (record,) = convert(json.dumps(data).encode(), created=CREATED)

    native = record["session"]["entries"][0]["native"]
    assert native["verbatim"] == {"rewound-by": {"line": 9}}
    assert not native.keys() & {"rewound-by"}
