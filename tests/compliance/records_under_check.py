"""A small record on which all 36 checks pass, and how to change one thing about it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from transparency.compliance.baseline import TokenBaseline
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.record_checks import check_record
from transparency.compliance.settings import DEFAULT, Settings
from transparency.compliance.subject import RecordSubject, Signing

Record = dict[str, Any]
Change = Callable[[Record], object]
PASS, WARN, FAIL, NOT_APPLICABLE, ATTEST = (
    Verdict.PASS,
    Verdict.WARN,
    Verdict.FAIL,
    Verdict.NOT_APPLICABLE,
    Verdict.ATTEST,
)

END = 1_775_124_600_000  # 2026-04-02T10:10:00Z
HOUR = 3_600_000
YEAR = 365 * 86_400
RAW = "ab" * 32

SIGNING = Signing(
    iss="https://issuer.example",
    sub="session-1",
    alg="ES256",
    kid="key-1",
    signature=True,
    trusted=True,
    content_hash="equal",
    metadata=(("timestamp-start", "passed", ""), ("timestamp-end", "passed", ""), ("session-id", "passed", "")),
    receipts=1,
    inclusion=True,
    log_trusted=True,
    witnesses=(2, 3),
    entry="1" * 64,
    index=7,
    registered=END + HOUR,
)
BASELINE = TokenBaseline(30, 1_000.0, 100.0)


def good() -> Record:
    """One question, one edit, one answer, one more question, and an approval between."""
    time = "2026-04-02T10:0{}:00.000Z".format
    entries: list[dict[str, Any]] = [
        {"type": "system-event", "event-type": "system-prompt", "data": {"value": "Be careful."}, "actor": "system"},
        {"type": "user", "content": "Please fix the typo.", "actor": "human"},
        {"type": "reasoning", "content": "The typo is in line 3.", "actor": "agent"},
        {
            "type": "tool-call",
            "name": "Edit",
            "input": {"file_path": "/work/project/a.py", "old_string": "teh", "new_string": "the"},
            "call-id": "call-1",
            "model-id": "example-1",
            "actor": "agent",
        },
        {"type": "system-event", "event-type": "agentlog/approval", "data": {"decision": "approved"}, "actor": "human"},
        {"type": "tool-result", "output": "done", "call-id": "call-1", "is-error": False, "actor": "tool"},
        {
            "type": "assistant",
            "content": "It is fixed.",
            "model-id": "example-1",
            "token-usage": {"input": 900, "output": 100},
            "actor": "agent",
        },
        {"type": "user", "content": "Thank you.", "actor": "human"},
    ]
    for number, entry in enumerate(entries):
        entry |= {
            "id": f"e{number}",
            "timestamp": time(number),
            "source-ref": {"line": number + 1, "sha-256": "0" * 64},
        }
        if number:
            entry["parent-id"] = f"e{number - 1}"
    return {
        "version": "3.0.0-draft",
        "id": "record-1",
        "created": "2026-04-02T10:11:00Z",
        "recording-agent": {"name": "recorder", "version": "1.2"},
        "actors": [{"id": "ann@company.example", "name": "Ann", "type": "human"}],
        "vcs": {"type": "git", "revision": "0123456789abcdef0123456789abcdef01234567"},
        "source": {
            "raw-hash": RAW, "raw-hash-alg": "sha-256", "lossless": True, "dropped": [], "native-units": 8,
            "converter": "agent-transparency", "converter-version": "1",
        },
        "file-attribution": {
            "files": [
                {
                    "path": "a.py",
                    "conversations": [
                        {
                            "contributor": {"type": "ai", "model-id": "example-1"},
                            "ranges": [
                                {"start-line": 3, "end-line": 3, "content-hash": "cd" * 32}
                            ],
                        }
                    ],
                }
            ]
        },
        "session": {
            "session-id": "session-1",
            "session-start": time(0),
            "session-end": "2026-04-02T10:10:00.000Z",
            "agent-meta": {
                "model-id": "example-1", "model-provider": "example", "cli-name": "example-cli", "cli-version": "2.0",
            },
            "environment": {"working-dir": "/work/project", "sandboxes": ["/work/project"]},
            "entries": entries,
        },
    }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One change, and what one check then says. ``counts`` are those that matter; ``says`` is part of the summary."""

    check: str
    verdict: Verdict
    name: str
    change: Change | None = None
    signing: dict[str, Any] | None = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    settings: Settings = DEFAULT
    counts: dict[str, int | str] = field(default_factory=dict)
    pointers: tuple[str, ...] = ()
    says: str = ""

    def __str__(self) -> str:
        return f"{self.check}-{self.verdict}-{self.name}".replace(" ", "-")

    def subject(self) -> RecordSubject:
        record = copy.deepcopy(good())
        if self.change is not None:
            self.change(record)
        signing = None if self.signing is None else replace(SIGNING, **self.signing)
        facts = {"retention": ("audit", 2 * YEAR), "baseline": BASELINE, "resolved": {RAW: True}, "now": END + 2 * HOUR}
        return replace(RecordSubject(record, "ietf-vac-v3.0", (), signing), **{**facts, **self.facts})

    def finding(self) -> Finding:
        return found(self.subject(), self.check, self.settings)


def found(subject: RecordSubject, check: str, settings: Settings = DEFAULT) -> Finding:
    (finding,) = (each for each in check_record(subject, settings) if each.check == check)
    return finding


def assert_case(case: Case) -> None:
    finding = case.finding()

    assert finding.verdict == case.verdict, finding
    assert case.says in finding.summary
    assert {name: finding.counts.get(name) for name in case.counts} == case.counts
    if case.pointers:
        assert finding.pointers == case.pointers
    if case.verdict is NOT_APPLICABLE:
        assert finding.summary, "an n-a finding says why"


UNAVAILABLE: dict[str, Any] = {"record": None}


def entry(number: int) -> Callable[[Record], Any]:
    return lambda record: record["session"]["entries"][number]


def put(number: int, **members: object) -> Change:
    """Set members of an entry; underscores are hyphens."""
    named = {name.replace("_", "-"): value for name, value in members.items()}
    return lambda record: entry(number)(record).update(named)


def drop(number: int, *names: str) -> Change:
    return lambda record: [entry(number)(record).pop(name) for name in names]


def session(**members: object) -> Change:
    named = {name.replace("_", "-"): value for name, value in members.items()}
    return lambda record: record["session"].update(named)


def top(**members: object) -> Change:
    named = {name.replace("_", "-"): value for name, value in members.items()}
    return lambda record: record.update(named)


def without(*names: str) -> Change:
    return lambda record: [record.pop(name) for name in names]


def session_without(*names: str) -> Change:
    return lambda record: [record["session"].pop(name) for name in names]


def all_entries(**members: object) -> Change:
    named = {name.replace("_", "-"): value for name, value in members.items()}
    return lambda record: [each.update(named) for each in record["session"]["entries"]]


def no_entry_has(*names: str) -> Change:
    return lambda record: [each.pop(name, None) for each in record["session"]["entries"] for name in names]


def only(*numbers: int) -> Change:
    """Keep these entries alone."""

    def change(record: Record) -> None:
        record["session"]["entries"] = [record["session"]["entries"][number] for number in numbers]

    return change


def both(*changes: Change) -> Change:
    return lambda record: [change(record) for change in changes]


EMPTY = session(entries=[])
