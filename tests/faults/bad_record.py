"""Records that fail: one in which as much is wrong as one record can get wrong, and one for each check beside it."""

from __future__ import annotations

import json

from tests.compliance.cases import CASES
from tests.compliance.records_under_check import Record, good
from transparency.compliance.finding import Verdict
from transparency.compliance.record_checks import check_record
from transparency.compliance.subject import subjects


def bad() -> bytes:
    record: Record = good()
    record |= {"vcs": {"type": "git", "revision": "0123456"}}
    record["source"] |= {"raw-hash": "abcd", "native-units": 11}
    record["file-attribution"]["files"][0]["conversations"][0]["ranges"][0]["start-line"] = 9
    session = record["session"]
    session |= {"session-start": "2026-04-02T10:08:00Z", "session-end": "2026-04-02T09:00:00Z"}
    session["agent-meta"] |= {"model-id": "unknown", "models": ["example-1", "example-2"]}
    entries = session["entries"]
    entries[0] |= {"timestamp": "2014-04-02T10:00:00Z", "parent-id": "e3"}
    entries[2] |= {"content": " ", "actor": "unknown", "timestamp": "2026-04-02T10:00:30Z"}
    entries[3] |= {"timestamp": "2026-04-02T10:01:30Z", "input": {"command": "rm -rf / --no-preserve-root"}}
    entries[5] |= {"call-id": "call-2"}
    entries[7] |= {"id": "e6", "parent-id": "nowhere", "content": "charge 4111 1111 1111 1111 please"}
    del entries[5]["is-error"]
    return json.dumps(record).encode()


def failing_records() -> list[bytes]:
    """Of every check a record that fails it, where that is in the record and not in who signed or kept it."""
    cases = [case for case in CASES if case.verdict is Verdict.FAIL and case.change is not None]
    records = [json.dumps(record).encode() for case in cases if (record := case.subject().record) is not None]
    return [bad(), b"no record at all", *records]


def failing(data: bytes) -> set[str]:
    """The checks that fail whoever signed it."""
    return {
        each.check
        for subject in subjects(data, None)
        for each in check_record(subject)
        if each.verdict is Verdict.FAIL and not each.check.startswith("R7.")
    }
