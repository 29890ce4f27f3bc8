"""Redaction: secrets leave the native file; the format, the lines and every other byte stay."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from pathlib import Path

import pytest

from tests.records.redacting import CARD, RECORDS, SECRETS, items, redacted, restored, salts, values
from transparency.errors import MalformedError
from transparency.records import convert, tree
from transparency.records import format as known
from transparency.records.detect import detect
from transparency.records.disclosure import MAX_REDACTIONS, Location, commit, read_header, strings_at
from transparency.records.json_text import pointer
from transparency.records.redact import read_side_file, redact, side_file_bytes
from transparency.records.redaction_rules import BUILTIN
from transparency.records.strict_json import BOM

FIXTURES = sorted(
    path
    for path in RECORDS.rglob("*.json*")
    if path.is_file()
    and "folder" not in path.parts
    and path.name != "least-february.json"  # no session, no known shape
)
CLAUDE = (RECORDS / "claude" / "session.jsonl").read_bytes()


def line(text: str, **more: object) -> bytes:
    content = {"role": "user", "content": text}
    return json.dumps(
        {"type": "user", "sessionId": "s-0123456789ab", "uuid": "u1", "message": content, **more}
    ).encode()


def with_secret(data: bytes, secret: str) -> bytes:
    """The record with the secret in the first long enough text of it, as the record's own tool would write it."""
    written = json.dumps(secret)[1:-1].encode()
    place = re.search(rb'"(?:text|content|output|message|intent|name|toolName)": ?"([A-Za-z][^"\\]{3,})"', data)
    assert place is not None
    return data[: place.start(1) + 1] + b" " + written + b" " + data[place.start(1) + 1 :]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_record_without_secrets_stays_as_it_is(path: Path) -> None:
    data = path.read_bytes()

    result = redacted(data)

    assert result.data == data
    assert (result.header, result.side_file["items"]) == ([], [])


@pytest.mark.parametrize(("rule", "secret"), SECRETS, ids=[rule for rule, _ in SECRETS])
@pytest.mark.parametrize(
    "name",
    [
        "claude/session.jsonl",
        "codex/session.jsonl",
        "gemini/session.json",
        "gemini/session.jsonl",
        "opencode/export.json",
        "opencode/sessions.concat.json",
        "cursor/tool-use.jsonl",
        "agentlog/every-event.agentlog.json",
        "a2a/proto.json",
        "vac/published.json",
    ],
)
def test_each_kind_of_secret_leaves_each_format(name: str, rule: str, secret: str) -> None:
    data = with_secret((RECORDS / name).read_bytes(), secret)

    result = redacted(data)

    (item,) = items(result)
    mark = f"[REDACTED:{rule}:1]".encode()
    assert (item.rule, item.original) == (rule, secret)
    assert result.data == data.replace(json.dumps(secret)[1:-1].encode(), mark)
    assert detect(result.data).format is detect(data).format
    assert result.data.count(b"\n") == data.count(b"\n")
    assert restored(result) == values(data)
    convert.convert(result.data, created="2026-01-01T00:00:00Z")


def test_the_location_of_a_mark_is_its_line_its_offset_and_the_pointer_to_its_string() -> None:
    data = CLAUDE + line("write to jane@example.com and joe@example.org", extra={"a/b": ["x@example.net"]}) + b"\n"
    number = data.count(b"\n")

    result = redacted(data)

    assert [(item.rule, item.location) for item in items(result)] == [
        ("email", f"{number}:9:/message/content"),
        ("email", f"{number}:32:/message/content"),
        ("email", f"{number}:0:/extra/a~1b/0"),
    ]
    found = strings_at(result.data, [Location.from_text(item.location) for item in items(result)], by_line=True)
    assert found[number, "/message/content"] == "write to [REDACTED:email:1] and [REDACTED:email:2]"


def test_the_statement_says_rule_location_and_a_salted_commitment_and_nothing_else() -> None:
    result = redacted(line(f"card {CARD}"))

    (redaction,) = read_header(result.header)
    (item,) = items(result)

    assert result.header == [["card-number", "1:5:/message/content", commit(item.salt, CARD)]]
    assert item.matches(redaction)
    assert CARD.encode() not in result.data


def test_keys_are_never_rewritten() -> None:
    data = line("x", **{"jane@example.com": "joe@example.com"})

    result = redacted(data)

    assert b'"jane@example.com": "[REDACTED:email:1]"' in result.data


def test_numbers_are_left_as_they_are() -> None:
    data = line("x", number=int(CARD))

    assert redacted(data).data == data


def test_a_secret_written_in_escapes_is_found_and_what_is_around_it_keeps_its_spelling() -> None:
    data = (
        rb'{"type":"user","sessionId":"s-0123456789ab","message":{"content":'
        rb'"\ud83d\ude00 \u006aane\u0040example\u002ecom \/ \u00e9 \"\\ \ud83d\ude00 joe@example.org\n"}}'
    )

    result = redacted(data)

    assert [item.original for item in items(result)] == ["jane@example.com", "joe@example.org"]
    assert result.data.endswith(
        rb'"\ud83d\ude00 [REDACTED:email:1] \/ \u00e9 \"\\ \ud83d\ude00 [REDACTED:email:2]\n"}}'
    )
    assert restored(result) == values(data)


def test_spans_that_overlap_become_one() -> None:
    result = redacted(line("see https://bob:4111111111111111!@host.example.com/x"))

    (item,) = items(result)

    assert (item.rule, item.original) == ("url-password", "4111111111111111!")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://bob:pw@db.example/x", "https://bob:[REDACTED:url-password:1]@db.example/x"),
        ("http://a:p@ss@db.example or jane@b.example", "[REDACTED:url-password:1]@db.example or [REDACTED:email:2]"),
        ("x://jane@a.example:pw@db.example", "x://[REDACTED:email:1]:[REDACTED:url-password:2]@db.example"),
    ],
)  # fmt: skip
def test_a_password_in_a_url_goes_and_its_host_stays(text: str, left: str) -> None:
    assert left in redacted(line(text)).data.decode()


def test_a_text_that_looks_like_a_mark_is_not_one() -> None:
    data = line("[REDACTED:email:1] by jane@example.com")

    result = redacted(data)

    assert result.header[0][1] == "1:22:/message/content"
    assert restored(result) == values(data)


def test_what_a_growing_session_had_before_is_redacted_alike() -> None:
    first = line("jane@example.com") + b"\n"
    second = first + line("joe@example.org") + b"\n"

    before, after = redacted(first), redacted(second)

    assert after.data.startswith(before.data)


def test_a_byte_order_mark_and_blank_lines_stay() -> None:
    data = BOM + b"\n" + line("jane@example.com") + b"\r\n\n"

    result = redacted(data)

    assert result.data == data.replace(b"jane@example.com", b"[REDACTED:email:1]")
    assert result.header[0][1].startswith("2:")


def test_a_packed_folder_is_packed_again_with_the_sizes_it_has_then() -> None:
    folder = RECORDS / "claude" / "folder"
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    name = next(name for name in sorted(files) if name.endswith(".jsonl"))
    files[name] += line("jane@example.com") + b"\n"
    packed = tree.pack(files)

    result = redacted(packed)

    redactions = read_header(result.header)
    changed = {file.path: file.data for file in tree.unpack(result.data)}
    assert changed == files | {name: files[name].replace(b"jane@example.com", b"[REDACTED:email:1]")}
    found = strings_at(result.data, [redactions[0].location], by_line=True)
    assert list(found.values()) == ["[REDACTED:email:1]"]


def test_a_signed_statement_is_refused() -> None:
    with pytest.raises(MalformedError, match="redact the record"):
        redact(b"\xd2", known.COSE, BUILTIN, salts())


def test_a_record_that_is_not_strict_is_refused_with_line_and_column() -> None:
    with pytest.raises(MalformedError, match="line 2, column"):
        redacted(line("x") + b'\n{"type": "user", "type": "user", "sessionId": "s"}\n')


def test_more_than_a_header_holds_is_refused_and_said() -> None:
    data = line(" ".join(f"a{number}@example.com" for number in range(MAX_REDACTIONS + 1)))

    with pytest.raises(MalformedError, match="a statement declares at most 3500 redactions"):
        redacted(data)


def test_a_salt_of_another_length_is_refused() -> None:
    with pytest.raises(MalformedError, match="a salt has 32 bytes"):
        redacted(line("jane@example.com"), salts=lambda: b"short")


def test_the_side_file_reads_back() -> None:
    result = redacted(line("jane@example.com, joe@example.org \u202e"))

    side = read_side_file(side_file_bytes(result.side_file))

    assert side.items == items(result)
    assert side.record != side.original


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[]",
        b'{"transparency-redactions": 2}',
        b'{"transparency-redactions": 1, "record-sha-256": "", "original-sha-256": "", "items": [1]}',
        b'{"transparency-redactions": 1, "record-sha-256": "", "original-sha-256": "", "items": [{"item": 2,'
        b' "rule": "x", "location": "1:0:", "original": "", "salt": "' + b"00" * 32 + b'"}]}',
    ],
)
def test_what_is_no_side_file_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_side_file(data)


def test_a_large_session_is_worked_through_line_by_line() -> None:
    lines = [line("tool output, nothing secret " * 700, number=number) for number in range(1000)]
    lines[500] = line("jane@example.com")
    data = b"\n".join(lines) + b"\n"
    tracemalloc.start()
    began = time.process_time()

    result = redacted(data)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.header) == 1
    assert peak < 3 * len(data)  # the result, its pieces, and one line at a time
    assert time.process_time() - began < 30


def test_a_deep_path_is_written_as_a_pointer() -> None:
    assert pointer(("a/b", 0, "~", "")) == "/a~1b/0/~0/"
