"""What no example can show: nothing is found without the salt, and every string comes back."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.redacting import items, redacted, restored, values
from transparency.cose import cbor
from transparency.records import strict_json
from transparency.records.disclosure import Disclosure, commit, read_header
from transparency.records.redaction_rules import luhn

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SECRET = st.sampled_from(
    ["jane@example.com", "4111 1111 1111 1111", "sk-abcdefghijklmnopqrstuvwx", "https://a:pw@b.c/"]
)
STRING = st.lists(st.one_of(TEXT, SECRET), max_size=5).map(" ".join)
JSON = st.recursive(
    st.one_of(STRING, st.integers(-(2**53), 2**53), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def random_salts() -> bytes:
    return secrets.token_bytes(32)


def claude_lines(contents: list[Any], *, ascii_only: bool) -> bytes:
    """A session of lines as Claude Code writes them, in either way to write what is not ASCII."""
    lines = [{"type": "user", "sessionId": "s-0123456789ab", "message": {"content": content}} for content in contents]
    return b"".join(json.dumps(line, ensure_ascii=ascii_only).encode() + b"\n" for line in lines)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, min_size=1, max_size=4), st.booleans())
def test_every_string_comes_back_with_the_side_file(contents: list[Any], ascii_only: bool) -> None:
    data = claude_lines(contents, ascii_only=ascii_only)

    result = redacted(data, salts=random_salts)

    assert result.data.count(b"\n") == data.count(b"\n")
    for line in result.data.splitlines():
        strict_json.loads(line)
    for item, redaction in zip(items(result), read_header(result.header) if result.header else (), strict=True):
        assert item.matches(redaction)
    assert restored(result) == values(data)


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.randoms(use_true_random=False))
def test_hostile_spellings_of_a_string_come_back_too(text: str, random: Any) -> None:
    """Any character may be written as it is, in an escape of its own, or (outside the BMP) as two of them."""
    content = f"{text} jane@example.com {text}"
    spelled = "".join(_spelled(character, random.random()) for character in content)
    data = f'{{"type":"user","sessionId":"s-0123456789ab","message":{{"content":"{spelled}"}}}}'.encode()
    assert json.loads(data)["message"]["content"] == content

    result = redacted(data, salts=random_salts)

    assert restored(result) == values(data)
    assert any("jane@example.com" in item.original for item in items(result))


def _spelled(character: str, chance: float) -> str:
    if chance < 0.4 or (character in '"\\' or character < " "):
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
    return "\\/" if character == "/" and chance < 0.7 else character


def test_equal_originals_have_different_commitments() -> None:
    result = redacted(claude_lines(["4111111111111111 and 4111111111111111"], ascii_only=True), salts=random_salts)

    first, second = read_header(result.header)

    assert [item.original for item in items(result)] == ["4111111111111111"] * 2
    assert first.commitment != second.commitment


def test_no_dictionary_attack_finds_a_redacted_card_number() -> None:
    """Somebody knows the bank and all but four digits: a thousand candidates, and all that the statement says.

    Each is hashed bare, and with whatever in the statement could have been the salt.
    """
    number = next(f"411111111111{rest:04d}" for rest in range(4321, 9999) if luhn(f"411111111111{rest:04d}"))
    data = claude_lines([f"card {number}"], ascii_only=True)
    result = redacted(data, salts=random_salts)
    candidates = [f"411111111111{rest:04d}" for rest in range(10_000) if luhn(f"411111111111{rest:04d}")]
    statement = cbor.encode(result.header) + result.data

    said = {redaction.commitment for redaction in read_header(result.header)}
    known = [b"", *(statement[at : at + 32] for at in range(len(statement) - 31))]
    tried = {hashlib.sha256(salt + candidate.encode()).digest() for candidate in candidates for salt in known}

    assert number in candidates
    assert number.encode() not in statement
    assert not said & tried
    # And the attack is a real one: with the salt the first pass finds it.
    salt = items(result)[0].salt
    assert said & {commit(salt, candidate) for candidate in candidates}


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), TEXT, st.binary(min_size=32, max_size=32), TEXT)
def test_only_the_salt_and_the_original_open_a_commitment(salt: bytes, text: str, other: bytes, wrong: str) -> None:
    (redaction,) = read_header([["email", "1:0:/x", commit(salt, text)]])

    right = Disclosure(1, "email", "1:0:/x", salt, text)

    assert right.matches(redaction)
    assert Disclosure.from_item(right.to_item()) == right
    if (other, wrong) != (salt, text):
        assert not Disclosure(1, "email", "1:0:/x", other, wrong).matches(redaction)
    assert not Disclosure(1, "email", "1:1:/x", salt, text).matches(redaction)
    assert not Disclosure(1, "jwt", "1:0:/x", salt, text).matches(redaction)
