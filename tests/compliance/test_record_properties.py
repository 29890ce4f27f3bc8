"""Whatever a record holds, each check gives one finding, the same each time, in time that grows as the record does."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compliance.records_under_check import BASELINE, SIGNING, Record, good
from transparency.compliance.record_checks import RECORD_CHECKS, check_record
from transparency.compliance.subject import RecordSubject
from transparency.compliance.survey import Survey
from transparency.compliance.texts import Texts

NAMES = [
    "type", "content", "timestamp", "id", "parent-id", "call-id", "children", "native", "data", "event-type", "actor",
    "token-usage", "input", "output", "status", "is-error", "encrypted", "model-id", "session", "entries", "source",
    "agent-meta", "models", "vcs", "revision", "file-attribution", "files", "conversations", "ranges", "start-line",
    "environment", "working-dir", "actors", "created", "session-end", "source-ref", "raw-hash", "dropped",
    "permissionMode", "sandbox_policy", "truncated", "command", "file_path", "not-attributed",
    "child-session-ids", "recording-agent",
]  # fmt: skip
TEXTS = [
    "", "user", "tool-call", "tool-result", "reasoning", "system-event", "human", "2026-04-02T10:00:00Z", "a@b.example",
    "rm -rf /", "://u:p@h", "-----BEGIN ", "[truncated]", "\ud800", "\0", "\u202e", "e1", "4111111111111111", "…",
]  # fmt: skip
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.sampled_from(TEXTS), st.text(max_size=8),
    st.binary(max_size=4),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


def places(value: object) -> list[tuple[Any, Any]]:
    """Every (container, key) of a record."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            stack.append(node[key])  # type: ignore[index]
    return found


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_mutated_record_gives_36_findings_and_the_same_again(data: st.DataObject) -> None:
    record = copy.deepcopy(good())
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(places(record)))
        container[key] = data.draw(values)
    subject = RecordSubject(record, "ietf-vac-v3.0", (), SIGNING, ("audit", 10**9), BASELINE, {"e1": False}, 1)

    findings = check_record(subject)

    assert [each.check for each in findings] == [check.id for check in RECORD_CHECKS]
    assert findings == check_record(copy.deepcopy(subject))
    json.dumps([each.to_json() for each in findings])


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), values, max_size=8))
def test_anything_at_all_gives_36_findings(record: Record) -> None:
    assert len(check_record(RecordSubject(record))) == len(RECORD_CHECKS)


def test_entries_nested_very_deeply_are_all_seen() -> None:
    record = good()
    deep: Record = {"type": "user", "content": "x"}
    for _ in range(5_000):
        deep = {"type": "assistant", "children": [deep]}
    record["session"]["entries"] = [deep]

    findings = {each.check: each for each in check_record(RecordSubject(record))}

    assert findings["R4.1"].counts["entries"] == 5_001


class Counted(dict[str, Any]):
    """A map that counts how often it is asked: work that no clock has to measure."""

    asked = 0

    def get(self, key: str, default: object = None) -> Any:
        Counted.asked += 1
        return super().get(key, default)


def work(entries: list[dict[str, Any]]) -> int:
    record = good()
    record["session"]["entries"] = [Counted(each) for each in entries]
    Counted.asked = 0
    check_record(RecordSubject(record))
    return Counted.asked


@pytest.mark.parametrize(
    "make",
    [
        lambda number: {"type": "tool-call", "name": "Bash", "input": {"command": "ls"}, "call-id": f"c{number}"},
        lambda number: {"type": "tool-result", "output": "x", "call-id": "never"},
        lambda number: {"type": "user", "id": f"e{number}", "parent-id": f"e{number + 1}"},
        lambda number: {"type": "system-event", "event-type": "x", "data": {"model": f"m{number}"}},
    ],
)
def test_twice_the_entries_are_twice_the_work(make: Callable[[int], dict[str, Any]]) -> None:
    once, twice = (work([make(number) for number in range(count)]) for count in (400, 800))

    assert twice <= 2 * once + 100


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), values, max_size=4), max_size=4))
def test_every_text_is_found_again_at_its_place(entries: list[dict[str, Any]]) -> None:
    """The fast walk that gathers texts and the slow one that names their places see the same texts."""
    record = good()
    record["session"]["entries"] = entries
    survey = Survey(RecordSubject(record))
    blob = survey.texts.blob
    starts = [0, *(at + 1 for at, byte in enumerate(blob) if byte == 0xFF)][:-1]

    for start, path in zip(starts, (survey.paths_of([start])[0] for start in starts), strict=True):
        value: Any = record
        for key in _keys(path):
            value = value[key]
        text = value if isinstance(value, str) else str(value)
        assert blob[start:].startswith(text.encode("utf-8", "surrogatepass") + b"\xff")


def _keys(path: Any) -> list[Any]:
    keys: list[Any] = []
    while path is not None:
        path, key = path
        keys.append(key)
    return keys[::-1]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab01 -@.:/=_\n", max_size=40), st.text(alphabet="x9 -\"'=,\n", max_size=6), st.integers(0, 3))
def test_what_a_rule_finds_in_one_text_is_found_among_many(before: str, gap: str, which: int) -> None:
    """The windows that the rules are asked about lose no secret of a usual length."""
    secret, rule = (
        ("ghp_" + "a1B2" * 9, "api-key"),
        ("eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxIn0abc12345678" + "." + "s" * 43, "jwt"),
        ("4111" + "1111" * 3, "card-number"),
        ("Bearer " + "abcDEF0123456789abcd", "bearer-token"),
    )[which]
    # Words and numbers that run into the secret make it a part of something else.
    text = f"{before}\n{gap}\n {secret}\n{gap}"

    found = Texts([{"content": "first"}, {"content": text}, {"content": "last"}], frozenset()).secrets()

    assert rule in found
