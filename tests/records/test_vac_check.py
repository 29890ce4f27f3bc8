"""A VAC record checked by both profiles: what is named, where, and what is only warned of."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

from transparency.records import vac_cbor
from transparency.records.vac_check import check_trace_metadata, check_vac
from transparency.records.violation import MAX_VIOLATIONS

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "vac"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples" / "vac"


def record(name: str = "published") -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_bytes())


def with_entries(*entries: object) -> Any:
    made = record("least-published")
    made["session"]["entries"] = list(entries)
    return made


def found(value: object, profile: Any = "-00") -> list[tuple[str, str]]:
    return [(violation.pointer, violation.message) for violation in check_vac(value).violations[profile]]


def test_the_verdict_names_the_profile_that_is_met() -> None:
    assert check_vac(record("published")).profile == "-00"
    assert check_vac(record("february")).profile == "19 Feb"
    assert check_vac(record("least-published")).profile == "both"
    assert check_vac({"version": 3}).profile == "none"


def test_a_violation_says_where_and_what() -> None:
    value = record()
    value["session"]["entries"][1]["token-usage"]["input"] = 12.0

    assert found(value) == [
        (
            "/session/entries/1/token-usage/input",
            "this is a float, not an unsigned integer of at most 64 bits",
        )
    ]


def test_violations_come_in_document_order_however_deep() -> None:
    value = record()
    value["version"] = None
    value["session"]["entries"][1]["children"][1]["children"][0]["status"] = 1
    value["session"]["entries"][2]["event-type"] = 5
    value["recording-agent"] = []

    assert [where for where, _ in found(value)] == [
        "/version",
        "/session/entries/1/children/1/children/0/status",
        "/session/entries/2/event-type",
        "/recording-agent",
    ]


@pytest.mark.parametrize(
    ("entry", "where", "message"),
    [
        ("hello", "", "this is the text 'hello', not an entry (a map)"),
        ({}, "", "type is missing, which every entry must have"),
        ({"type": 1}, "/type", "this is an integer, not one of user, assistant, tool-call"),
        ({"type": "note"}, "/type", "this is 'note', not one of user, assistant, tool-call"),
        ({"type": "tool-call", "input": {}}, "", "name is missing, which tool-call-entry must have"),
        ({"type": "tool-result"}, "", "output is missing, which tool-result-entry must have"),
        ({"type": "reasoning"}, "", "content is missing, which reasoning-entry must have"),
        ({"type": "system-event"}, "", "event-type is missing, which event-entry must have"),
        ({"type": "system-event", "event-type": "e", "data": []}, "/data", "this is an array, not a map (data)"),
    ],
)
def test_an_entry_is_judged_by_the_alternative_its_type_selects(entry: Any, where: str, message: str) -> None:
    (violation,) = found(with_entries(entry))

    assert violation[0] == "/session/entries/0" + where
    assert violation[1].startswith(message)


@pytest.mark.parametrize(
    ("entry", "met", "missed"),
    [
        ({"type": "user", "timestamp": 1775124002250.5}, "19 Feb", "-00"),
        ({"type": "reasoning"}, "19 Feb", "-00"),
        ({"type": "user", "stop-reason": 1}, "-00", "19 Feb"),
    ],
)
def test_of_a_profile_that_is_not_met_twenty_violations_are_listed_where_the_other_is(
    entry: Any, met: Any, missed: Any
) -> None:
    value = with_entries(*([entry] * 25))

    assert check_vac(value).profile == met
    assert len(found(value, missed)) == 21
    assert found(value, missed)[-1] == ("", "more than 20 violations; the rest is not listed")


def test_a_late_violation_of_the_other_profile_brings_the_whole_lists() -> None:
    value = with_entries(*([{"type": "user", "timestamp": 1775124002250.5}] * 25), {"type": "user", "id": 1})

    assert [where for where, _ in found(value, "19 Feb")] == ["/session/entries/25/id"]
    assert [where for where, _ in found(value)] == [
        *(f"/session/entries/{index}/timestamp" for index in range(25)),
        "/session/entries/25/id",
    ]


def test_the_profiles_type_the_members_of_a_tool_call_differently() -> None:
    value = with_entries({"type": "tool-call", "name": "n", "input": None, "status": 1})

    assert check_vac(value).profile == "-00"


@pytest.mark.parametrize(
    "holder",
    [
        ("file-attribution",),
        ("file-attribution", "files", 0),
        ("file-attribution", "files", 0, "conversations", 0),
        ("file-attribution", "files", 0, "conversations", 0, "contributor"),
        ("file-attribution", "files", 0, "conversations", 0, "ranges", 1),
        ("file-attribution", "files", 0, "conversations", 0, "related", 0),
    ],
    ids=lambda holder: str(holder[-1]),
)
@pytest.mark.parametrize("name", ["published", "february"])
def test_the_maps_of_file_attribution_are_closed(name: str, holder: tuple[Any, ...]) -> None:
    value = record(name)
    place = value
    for step in holder:
        place = place[step]
    place["a/b~c"] = 1

    profile = "-00" if name == "published" else "19 Feb"
    ((where, message),) = found(value, profile)
    assert where == "".join(f"/{step}" for step in holder) + "/a~1b~0c"
    assert "is closed" in message


def test_the_spelling_of_the_other_profile_is_named() -> None:
    value = record()
    range_ = value["file-attribution"]["files"][0]["conversations"][0]["ranges"][1]
    range_["start_line"] = range_.pop("start-line")

    assert [message for _, message in found(value)] == [
        "start-line is missing, which range must have",
        "range is closed and has no such member: this profile spells it start-line",
    ]


@pytest.mark.parametrize("key", [1, b"id", -7])
def test_keys_are_text_in_every_map_that_has_a_rule_and_free_inside_any(key: Any) -> None:
    outside, inside = record("least-published"), with_entries({"type": "user", "content": {key: 1}})
    outside[key] = 1

    assert [where for where, _ in found(outside)] == [""]
    assert check_vac(inside).profile == "both"


@pytest.mark.parametrize(
    ("value", "published", "february"),
    [
        ("2026-04-02T10:00:00Z", True, True),
        ("2026-04-02T10:00:00.123456789012+23:59", True, True),
        ("2026-04-02T10:00:00Z\n", False, False),
        ("x2026-04-02T10:00:00Z", False, False),
        ("2026-04-02t10:00:00z", False, False),
        ("2026-04-02T10:00:00", False, False),
        (0, True, True),
        (2**64 - 1, True, True),
        (2**64, False, False),
        (-1, False, True),
        (-(2**64) - 1, False, False),
        (1775124002250.0, False, True),
        (True, False, False),
        (None, False, False),
        (b"2026-04-02T10:00:00Z", False, False),
    ],
)
def test_times(value: object, published: bool, february: bool) -> None:
    made = {**record("least-published"), "created": value}

    assert (not found(made), not found(made, "19 Feb")) == (published, february)


def test_a_session_id_of_bytes_is_for_the_published_profile_alone() -> None:
    value = record("least-published")
    value["session"]["session-id"] = b"\x01\x02"

    assert check_vac(value).profile == "-00"
    assert found(value, "19 Feb") == [("/session/session-id", "this is bytes, not text")]


def test_trace_metadata_is_closed_and_its_times_follow_the_profile() -> None:
    metadata = {"session-id": "s", "agent-vendor": "v", "trace-format": "t", "timestamp-start": 1.5}

    assert check_trace_metadata(metadata).profile == "19 Feb"
    assert check_trace_metadata({**metadata, "timestamp-start": 1}).profile == "both"
    assert check_trace_metadata({**metadata, "note": "n"}).profile == "none"


# --- warnings -----------------------------------------------------------------------------------------------------


def warned(value: object) -> list[tuple[str, str]]:
    return [(warning.pointer, warning.message) for warning in check_vac(value).warnings]


def test_small_epoch_numbers_are_probably_seconds() -> None:
    value = with_entries({"type": "user", "children": [{"type": "user", "timestamp": 1775124002}]})

    ((where, message),) = warned(value)
    assert where == "/session/entries/0/children/0/timestamp"
    assert "seconds" in message
    assert check_vac(value).profile == "both"


def test_a_day_that_its_month_does_not_have_is_warned_of() -> None:
    assert warned({**record("least-published"), "created": "2026-02-30T10:00:00Z"}) == [
        ("/created", "this month has no such day")
    ]
    assert warned({**record("least-published"), "created": "2028-02-29T10:00:00Z"}) == []


def test_a_session_that_ends_before_it_starts_is_warned_of() -> None:
    value = record("least-published")
    value["session"] |= {"session-start": "2026-04-02T10:00:00Z", "session-end": "2026-04-02T11:00:00+02:00"}

    assert warned(value) == [("/session/session-end", "the session ends before it starts")]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a\\..\\x", "C:\\x", "", "a\x1b[31m"])
def test_attributed_paths_that_leave_the_repository_are_warned_of(path: str) -> None:
    value = record()
    value["file-attribution"]["files"][0]["path"] = path

    assert [where for where, _ in warned(value)] == ["/file-attribution/files/0/path"]


def test_ranges_that_cannot_be_are_warned_of() -> None:
    value = record()
    ranges = value["file-attribution"]["files"][0]["conversations"][0]["ranges"]
    ranges[0] |= {"start-line": 0, "content-hash": "abc"}
    ranges[1] |= {"start-line": 7, "end-line": 6}

    at = "/file-attribution/files/0/conversations/0/ranges"
    assert [where for where, _ in warned(value)] == [
        f"{at}/0/start-line",
        f"{at}/0/content-hash",
        f"{at}/1/end-line",
    ]


def test_fixtures_that_say_nothing_odd_are_not_warned_of() -> None:
    assert warned(record("published")) == []


# --- hostile ------------------------------------------------------------------------------------------------------


def test_children_nested_twenty_thousand_deep_cost_no_stack() -> None:
    innermost: dict[str, Any] = {"type": "reasoning"}
    entry = innermost
    for _ in range(20_000):
        entry = {"type": "user", "children": [entry]}
    value = with_entries(entry)

    verdict = check_vac(value)

    assert verdict.profile == "19 Feb"
    # Unlinked step by step: Python frees nested values recursively.
    while entry is not innermost:
        entry = entry.pop("children").pop()


def test_a_million_wrong_entries_give_a_bounded_report() -> None:
    value = with_entries(*([{}] * 1_000_000))

    assert len(found(value)) == MAX_VIOLATIONS + 1
    assert "not listed" in found(value)[-1][1]


def test_a_long_uri_with_a_late_misfit_is_refused_in_linear_time() -> None:
    value = record()
    conversation = value["file-attribution"]["files"][0]["conversations"][0]
    conversation["url"] = "//" + "a" * 2_000_000 + "#\n"

    before = time.process_time()
    assert [where for where, _ in found(value)] == ["/file-attribution/files/0/conversations/0/url"]
    assert time.process_time() - before < 2


def test_text_of_the_record_is_short_and_escaped_in_messages() -> None:
    ((_, message),) = found(with_entries({"type": "\x1b[31m\u202e" + "x" * 10_000}))

    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 250


def test_the_checker_does_not_change_what_it_checks() -> None:
    value = record("february")
    before = copy.deepcopy(value)

    check_vac(value)

    assert value == before


# --- real records -------------------------------------------------------------------------------------------------


def _samples() -> list[Path]:
    names = ("*.vac.json", "*.vac.cbor", "signed/*.payload.json")
    return sorted(path for name in names for path in SAMPLES.glob(name))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside this checkout (../shared/samples)")
def test_every_real_record_is_valid_by_both_profiles() -> None:
    assert len(_samples()) >= 8
    for path in _samples():
        data = path.read_bytes()
        value = vac_cbor.loads(data) if path.suffix == ".cbor" else json.loads(data)

        assert check_vac(value).profile == "both", path.name
        assert check_vac(value).warnings == (), path.name
