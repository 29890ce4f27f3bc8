"""Known headers: what is read by its form is what would have been read in full, to the last value and word.

Compared by ``repr``: so types, the order of keys and not-a-numbers count as well.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose import labels
from transparency.cose.cbor import bstr, encode
from transparency.errors import TransparencyError
from transparency.statements import known_headers
from transparency.statements import statement as module
from transparency.statements.known_headers import MAX_ALIKE, MAX_KNOWN, KnownHeaders
from transparency.statements.statement import Statement

KID = bytes(range(32))
PRIVATE = -70_500


def header(sub: object = "urn:s:1", iat: object = 1_790_000_000, **more: object) -> dict[Any, Any]:
    claims = {labels.CLAIM_ISS: "https://issuer.example", labels.CLAIM_SUB: sub, labels.CLAIM_IAT: iat}
    given = {int(name[1:]): value for name, value in more.items()}
    protected = {labels.ALG: -7, labels.CONTENT_TYPE: "application/json", labels.KID: KID, labels.CWT_CLAIMS: claims}
    return protected | given


def in_order(value: dict[Any, Any]) -> bytes:
    """A map whose keys stand as they were given: their order is free (AMB-13)."""
    items = b"".join(
        encode(key) + (in_order(item) if isinstance(item, dict) else encode(item)) for key, item in value.items()
    )
    return encode(dict.fromkeys(range(len(value))))[:1] + items


def message(protected: bytes, payload: bytes = b"{}", signature: bytes = bytes(64)) -> bytes:
    return b"\xd2\x84" + bstr(protected) + b"\xa0" + bstr(payload) + bstr(signature)


def read(data: bytes, known: KnownHeaders[Statement]) -> Statement | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_KNOWN", known)
        try:
            return Statement.from_bytes(data)
        except TransparencyError as error:
            return f"{type(error).__name__}: {error}"


def in_full(data: bytes) -> Statement | str:
    return read(data, KnownHeaders())


def knowing(*messages: bytes) -> KnownHeaders[Statement]:
    """What is known after *messages*, each of which was learnt."""
    known: KnownHeaders[Statement] = KnownHeaders()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_headers, "LEARN_EVERY", 1)
        for data in messages:
            read(data, known)
    return known


def is_known(data: bytes, known: KnownHeaders[Statement]) -> bool:
    return known.find(Statement.from_bytes(data).message.protected) is not None


LEAVES = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.binary(max_size=40) | st.text(max_size=40)
VALUES = st.recursive(
    LEAVES | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
SUBJECTS = st.text(min_size=1, max_size=300) | st.sampled_from(
    ["urn:a:b", "a:b c", "", "x" * 23, "y" * 24, "z" * 255, "é" * 200]
)
TIMES = st.integers(0, 2**54) | st.sampled_from([65_535, 65_536, 2**32 - 1, 2**32]) | st.floats(0, 1e10)
EXTRA = st.dictionaries(st.sampled_from([5, 7, 100, PRIVATE, -70_100, "note"]), VALUES, max_size=3)
FIRM = st.fixed_dictionaries(
    {}, optional={labels.TYP: st.just("a/b"), labels.X5T: st.just([-16, bytes(32)]), labels.CRIT: st.just([labels.ALG])}
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_header_of_a_known_form_is_read_as_it_would_be_in_full(data: st.DataObject) -> None:
    firm, extra = data.draw(FIRM), data.draw(EXTRA)
    first = header(data.draw(SUBJECTS), data.draw(TIMES)) | firm | extra
    second = header(data.draw(SUBJECTS), data.draw(TIMES)) | firm | {label: data.draw(VALUES) for label in extra}
    order = data.draw(st.permutations(list(first)))
    one, other = (message(in_order({label: each[label] for label in order})) for each in (first, second))
    known = knowing(one)

    assert repr(read(other, known)) == repr(in_full(other))
    assert repr(read(one, known)) == repr(in_full(one))


@settings(max_examples=500, deadline=None)
@given(
    at=st.integers(0, 400),
    width=st.integers(0, 3),
    instead=st.binary(max_size=3),
    sub=SUBJECTS,
    iat=TIMES,
    value=VALUES,
)
def test_damage_anywhere_is_found_and_said_as_if_nothing_were_known(
    at: int, width: int, instead: bytes, sub: str, iat: float, value: object
) -> None:
    protected = encode(header(sub, iat) | {PRIVATE: value})
    at %= len(protected)
    damaged = protected[:at] + instead + protected[at + width :]
    known = knowing(message(encode(header() | {PRIVATE: 1})), message(encode(header() | {PRIVATE: {"a": "b"}})))

    assert repr(read(message(damaged), known)) == repr(in_full(message(damaged)))


@given(
    st.binary(max_size=6), st.binary(max_size=6), st.sampled_from([b"\xa0", b"\xa1\x04\x41x", b"\xa1\x18\x63\x00", b""])
)
def test_what_stands_around_the_header_is_read_as_ever(before: bytes, behind: bytes, unprotected: bytes) -> None:
    protected = encode(header())
    known = knowing(message(protected))
    for data in (
        before + message(protected),
        message(protected) + behind,
        b"\xd2\x84" + bstr(protected) + unprotected + before + bstr(b"{}") + behind,
        b"\xd2\x84" + bstr(protected) + unprotected + b"\xf6" + bstr(bytes(64)),
    ):
        assert repr(read(data, known)) == repr(in_full(data))


def test_subject_time_and_what_other_labels_say_may_change_and_it_is_still_known() -> None:
    known = knowing(message(encode(header(_100={"session-id": "a"}))))
    again = message(encode(header("urn:s:22", 1_790_000_001, _100={"session-id": "b", "x": [1]})))

    assert is_known(again, known)
    assert not is_known(message(encode(header(_101={"session-id": "a"}))), known)
    assert not is_known(message(encode(header(_100=1, _16="a/b"))), known)


def test_a_hash_envelope_is_known_and_its_digest_is_measured_as_ever() -> None:
    """HE-4."""

    def envelope(sub: str, size: int) -> bytes:
        said = header(sub) | {labels.PAYLOAD_HASH_ALG: labels.HASH_SHA256, labels.PREIMAGE_CONTENT_TYPE: "a/b"}
        del said[labels.CONTENT_TYPE]
        return message(encode(said), bytes(size))

    known = knowing(envelope("a", 32))

    assert is_known(envelope("b", 32), known)
    for size in (0, 31, 32, 33, 48):
        assert repr(read(envelope("b", size), known)) == repr(in_full(envelope("b", size)))
    assert "a SHA-256 digest has 32" in str(read(envelope("b", 31), known)).replace("sha-256", "SHA-256")


def test_what_is_read_shares_nothing_that_could_be_changed() -> None:
    known = knowing(message(encode(header(_100={"a": [1]}))))
    data = message(encode(header("other", _100={"a": [1]})))
    first, second = read(data, known), read(data, known)
    assert isinstance(first, Statement)
    assert isinstance(second, Statement)

    first.message.headers[100]["a"].append(2)
    first.message.headers[labels.CWT_CLAIMS]["x"] = 1
    first.message.headers["y"] = 1  # type: ignore[index]

    assert repr(second) == repr(read(data, known)) == repr(in_full(data))


def test_it_is_bounded_and_what_is_new_is_learnt_also_after_it_was_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_headers, "LEARN_EVERY", 1)
    known: KnownHeaders[Statement] = KnownHeaders()
    for number in range(MAX_KNOWN + 10):
        read(message(encode(header() | {labels.KID: number.to_bytes(4, "big") * 8})), known)
    for number in range(2 * MAX_ALIKE):
        read(message(encode(header() | {200 + number: 1})), known)

    table = known._known
    assert len(table) <= MAX_KNOWN
    assert max(len(alike) for alike in table.values()) == MAX_ALIKE
    assert is_known(message(encode(header("x") | {labels.KID: (MAX_KNOWN + 9).to_bytes(4, "big") * 8})), known)


def test_only_some_of_what_is_not_known_is_learnt() -> None:
    known: KnownHeaders[Statement] = KnownHeaders()
    data = [message(encode(header(f"s{number}"))) for number in range(known_headers.LEARN_EVERY + 1)]

    seen = []
    for one in data:
        read(one, known)
        seen.append(is_known(one, known))

    assert seen == [False] * (known_headers.LEARN_EVERY - 1) + [True, True]


@pytest.mark.parametrize(
    "odd", [{labels.KID: b"k", labels.CONTENT_TYPE: 0}, {labels.X5T: [-16, bytes(32)]}, {PRIVATE: bytes(2000)}]
)
def test_what_has_no_form_of_use_is_read_in_full_each_time(odd: dict[Any, Any]) -> None:
    data = message(encode(header() | odd))
    known = knowing(data)
    assert isinstance(in_full(data), Statement)

    assert known._known == {}
    assert repr(read(data, known)) == repr(in_full(data))
