"""The signed statement: what RFC 9943 §6 asks of it, and the one byte string it becomes."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose import labels
from transparency.cose.cbor import bstr, encode
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sign1
from transparency.errors import (
    MalformedError,
    PayloadMissingError,
    SignatureInvalidError,
    UnsupportedAlgorithmError,
)
from transparency.statements.statement import (
    Statement,
    entry_id,
    normalise,
    parse_entry_id,
    sign_envelope,
    sign_statement,
)

KEY = PrivateKey.generate(-7)
ISS = "https://issuer.example"
PAYLOAD = b'{"n":1}'


def headers(**changes: Any) -> dict[Any, Any]:
    """A protected header that is right, but for *changes* (by name of label; None removes)."""
    base: dict[str, Any] = {
        "ALG": KEY.alg,
        "CONTENT_TYPE": "application/json",
        "KID": KEY.public.kid,
        "CWT_CLAIMS": {labels.CLAIM_ISS: ISS, labels.CLAIM_SUB: "urn:run:1"},
    }
    base.update(changes)
    return {getattr(labels, name): value for name, value in base.items() if value is not None}


def signed(protected: dict[Any, Any], payload: bytes = PAYLOAD, **options: Any) -> bytes:
    return sign1(protected, payload, KEY, **options).to_bytes()


def good() -> bytes:
    return signed(headers())


def test_a_right_statement_is_read_and_verifies() -> None:
    statement = Statement.from_bytes(good())

    assert (statement.iss, statement.sub, statement.payload) == (ISS, "urn:run:1", PAYLOAD)
    statement.verify(KEY.public)
    with pytest.raises(SignatureInvalidError):
        statement.verify(PrivateKey.generate(-7).public)


@pytest.mark.parametrize("prefix", [b"", b"\xd3", b"\xd8\x62", b"\xd8\x12"])
def test_the_tag_18_is_required_in_its_shortest_form(prefix: bytes) -> None:
    """SS-1: untagged, another tag, or 18 in two bytes is refused."""
    with pytest.raises(MalformedError):
        Statement.from_bytes(prefix + good()[1:])


@pytest.mark.parametrize(
    "claims",
    [
        None,
        "text",
        {},
        {labels.CLAIM_ISS: ISS},
        {labels.CLAIM_SUB: "urn:run:1"},
        {labels.CLAIM_ISS: b"bytes", labels.CLAIM_SUB: "s"},
        {labels.CLAIM_ISS: ISS, labels.CLAIM_SUB: 7},
    ],
)
def test_iss_and_sub_are_text_in_the_protected_header(claims: object) -> None:
    """SS-2: CWT Claims with iss and sub, both text."""
    with pytest.raises(MalformedError):
        Statement.from_bytes(signed(headers(CWT_CLAIMS=claims)))


def test_iss_in_the_unprotected_header_does_not_count() -> None:
    """SS-2: what is not signed is not there."""
    data = signed(headers(CWT_CLAIMS=None), unprotected={labels.CWT_CLAIMS: {1: ISS, 2: "s"}})

    with pytest.raises(MalformedError, match="CWT Claims"):
        Statement.from_bytes(data)


def test_a_kid_is_needed_unless_a_certificate_stands_in_the_protected_header() -> None:
    """SS-3: kid, or x5t, or x5chain; a kid is a byte string."""
    with pytest.raises(MalformedError, match="kid"):
        Statement.from_bytes(signed(headers(KID=None)))
    with pytest.raises(MalformedError, match="kid"):
        Statement.from_bytes(signed(headers(KID=None), unprotected={labels.KID: KEY.public.kid}))
    with pytest.raises(MalformedError, match="byte string"):
        Statement.from_bytes(signed(headers(KID="a text kid")))

    assert Statement.from_bytes(signed(headers(KID=None, X5T=[-16, b"\0" * 32]))).kid is None
    assert Statement.from_bytes(signed(headers(KID=None, X5CHAIN=b"cert"))).kid is None


@pytest.mark.parametrize("iss", ["", "x" * 8193, "not a uri: at all", "ht tp://x", "https://x\n"])
@pytest.mark.parametrize("by_certificate", [True, False])
def test_iss_is_a_string_or_a_uri_of_bounded_length(iss: str, *, by_certificate: bool) -> None:
    """SS-4: RFC 8392 StringOrURI of 1 to 8192 characters, with x5t as without."""
    claims = {labels.CLAIM_ISS: iss, labels.CLAIM_SUB: "s"}
    identity: dict[str, Any] = {"KID": None, "X5T": [-16, b"\0" * 32]} if by_certificate else {}

    with pytest.raises(MalformedError, match="iss"):
        Statement.from_bytes(signed(headers(CWT_CLAIMS=claims, **identity)))


@pytest.mark.parametrize("iss", ["a", "did:web:example.com", "x" * 8192, "urn:uuid:1", "Acme Agents"])
def test_every_string_or_uri_of_allowed_length_is_an_iss(iss: str) -> None:
    """SS-4."""
    claims = {labels.CLAIM_ISS: iss, labels.CLAIM_SUB: "s"}

    assert Statement.from_bytes(signed(headers(CWT_CLAIMS=claims))).iss == iss


def test_the_signature_is_checked_over_the_protected_bytes_as_received() -> None:
    """SS-8: a protected map whose keys stand in another order is another byte string, and is kept as it is."""
    ordered = headers()
    reversed_map = b"\xa4" + b"".join(encode(k) + encode(v) for k, v in reversed(ordered.items()))
    assert reversed_map != encode(ordered)
    tbs = encode(["Signature1", reversed_map, b"", PAYLOAD])
    data = b"\xd2\x84" + bstr(reversed_map) + b"\xa0" + bstr(PAYLOAD) + bstr(KEY.sign(tbs))

    statement = Statement.from_bytes(data)

    statement.verify(KEY.public)
    assert statement.message.protected == reversed_map
    assert statement.normalised == data


def test_a_critical_label_that_is_not_understood_is_refused() -> None:
    """SS-9: crit is honoured (RFC 9052 §3.1)."""
    with pytest.raises(MalformedError, match="crit"):
        Statement.from_bytes(signed({**headers(CRIT=[-99999]), -99999: 1}))

    assert Statement.from_bytes(signed(headers(CRIT=[labels.CWT_CLAIMS]))).iss == ISS


def test_a_label_in_both_headers_is_refused() -> None:
    """SS-10."""
    with pytest.raises(MalformedError, match="both"):
        Statement.from_bytes(signed(headers(), unprotected={labels.KID: b"other"}))


def test_unknown_labels_pass_through_unchanged() -> None:
    """SS-11: `* label => any`; text and integer labels alike."""
    statement = Statement.from_bytes(signed({**headers(), "ccf.v1": {"x": 1}, -70000: [1, 2]}))

    assert statement.message.headers["ccf.v1"] == {"x": 1}
    assert statement.message.headers[-70000] == [1, 2]
    assert Statement.from_bytes(statement.normalised).message.protected == statement.message.protected


def test_a_detached_statement_needs_its_payload_and_gives_the_same_entry() -> None:
    """SS-12, LEAF-1: attached or detached is only transport."""
    attached = Statement.from_bytes(signed(headers()))
    detached = signed(headers(), detached=True)

    with pytest.raises(PayloadMissingError):
        Statement.from_bytes(detached)
    again = Statement.from_bytes(detached, PAYLOAD)

    assert again.message.payload is None
    assert (again.normalised, again.entry) == (attached.normalised, attached.entry)


def test_a_payload_given_beside_an_attached_one_must_be_it() -> None:
    with pytest.raises(MalformedError, match="not the one attached"):
        Statement.from_bytes(good(), b"other")


def test_an_issuer_can_say_when_the_payload_was_true() -> None:
    """SS-13: iat stands in the protected header and is read."""
    data = sign_statement(PAYLOAD, KEY, iss=ISS, sub="s", content_type="text/plain", iat=1_790_000_000)

    assert Statement.from_bytes(data).claims.iat == 1_790_000_000


@pytest.mark.parametrize("iat", ["2026", b"1", True, float("nan"), -1, 2**60])
def test_a_time_that_is_no_time_is_refused(iat: object) -> None:
    with pytest.raises(MalformedError):
        Statement.from_bytes(signed(headers(CWT_CLAIMS={1: ISS, 2: "s", 6: iat})))


@pytest.mark.parametrize("alg", ["ES256", -999, True])
def test_an_unknown_algorithm_is_refused_as_such(alg: object) -> None:
    good_one = Sign1.from_bytes(good())
    protected = encode(headers(ALG=alg))
    data = b"\xd2\x84" + bstr(protected) + b"\xa0" + bstr(PAYLOAD) + bstr(good_one.signature)

    with pytest.raises(UnsupportedAlgorithmError):
        Statement.from_bytes(data)


def test_alg_is_required_although_rfc_9943_draws_it_optional() -> None:
    protected = encode(headers(ALG=None))
    data = b"\xd2\x84" + bstr(protected) + b"\xa0" + bstr(PAYLOAD) + bstr(bytes(64))

    with pytest.raises(MalformedError, match="alg"):
        Statement.from_bytes(data)


@pytest.mark.parametrize("name", ["CONTENT_TYPE", "TYP", "KID", "X5T", "X5CHAIN"])
def test_null_is_not_the_same_as_absent(name: str) -> None:
    protected = headers(X5T=[-16, bytes(32)], KID=b"k") | {getattr(labels, name): None}
    with pytest.raises(MalformedError, match="null"):
        Statement.from_bytes(signed(protected))


# -- the leaf ---


def test_the_unprotected_header_is_emptied_in_the_normalised_form() -> None:
    """LEAF-1, REG-12: N carries `a0`, whatever was submitted; so a transparent statement is its statement (REG-16)."""
    plain = Statement.from_bytes(good())
    with_more = Statement.from_bytes(
        signed(headers(), unprotected={labels.TRACE_METADATA: {"x": 1}, labels.RECEIPTS: [b"r"], "note": "hi"})
    )

    assert with_more.normalised == plain.normalised == good()


def test_the_entry_is_the_digest_of_the_normalised_statement() -> None:
    """LEAF-2: entry = SHA-256(N); LEAF-6: its base64url is the id; LEAF-8: 32 bytes whatever the statement's size."""
    statement = Statement.from_bytes(signed(headers(), payload=b"x" * 1_000_000))

    assert statement.entry == hashlib.sha256(statement.normalised).digest()
    assert len(statement.entry) == 32
    assert parse_entry_id(statement.entry_id) == statement.entry
    assert len(statement.entry_id) == 43


def indefinite_forms() -> list[bytes]:
    message = Sign1.from_bytes(good())
    protected, payload, signature = bstr(message.protected), bstr(PAYLOAD), bstr(message.signature)
    chunked = b"\x5f" + payload + b"\xff"
    long_head = b"\x58" + bytes([len(PAYLOAD)]) + PAYLOAD
    duplicate = encode({1: -7})[1:]
    twice = b"\xa5" + encode(headers())[1:] + duplicate
    return [
        b"\xd2\x9f" + protected + b"\xa0" + payload + signature + b"\xff",
        b"\xd2\x84" + protected + b"\xa0" + chunked + signature,
        b"\xd2\x84" + protected + b"\xa0" + long_head + signature,
        b"\xd2\x84" + protected + b"\xbf\xff" + payload + signature,
        b"\xd2\x84" + protected + b"\xa0" + payload + b"\x5f" + signature + b"\xff",
        b"\xd2\x98\x04" + protected + b"\xa0" + payload + signature,
        b"\xd2\x84" + bstr(twice) + b"\xa0" + payload + signature,
        b"\xd2\x84" + protected + b"\xa2\x18\x64\x00\x18\x64\x00" + payload + signature,
        good() + b"\x00",
        good()[:-1],
        b"\xd2\x85" + protected + b"\xa0" + payload + signature + b"\x00",
        b"\xd2\x83" + protected + b"\xa0" + payload,
    ]


@pytest.mark.parametrize("data", indefinite_forms())
def test_what_is_not_in_the_one_form_is_refused(data: bytes) -> None:
    """LEAF-3, SS-10: indefinite lengths, long heads, trailing bytes, duplicate keys: two encodings, one leaf."""
    with pytest.raises(MalformedError):
        Statement.from_bytes(data)


@given(st.binary(min_size=32, max_size=32))
def test_an_entry_id_is_the_only_spelling_of_its_entry(entry: bytes) -> None:
    """LEAF-6."""
    text = entry_id(entry)

    assert parse_entry_id(text) == entry
    for other in (text + "=", text[:-1], " " + text[1:], text[:-1] + chr(ord(text[-1]) + 1)):
        if other != text:
            with pytest.raises(MalformedError):
                parse_entry_id(other)


@given(st.data())
def test_no_flipped_bit_gives_the_same_entry(data: st.DataObject) -> None:
    """LEAF-1: the entry binds every byte of the statement."""
    original = good()
    position = data.draw(st.integers(0, len(original) - 1))
    bit = data.draw(st.integers(0, 7))
    flipped = bytearray(original)
    flipped[position] ^= 1 << bit
    try:
        other = Statement.from_bytes(bytes(flipped))
    except (MalformedError, UnsupportedAlgorithmError):
        return

    assert other.entry != Statement.from_bytes(original).entry


# -- the hash envelope ---


def envelope_headers(**changes: Any) -> dict[Any, Any]:
    return headers(CONTENT_TYPE=None, PAYLOAD_HASH_ALG=-16, **changes)


DIGEST = hashlib.sha256(b"the record").digest()


def test_a_hash_envelope_says_what_it_is_a_digest_of() -> None:
    data = sign_envelope(
        DIGEST, KEY, iss=ISS, sub="s", preimage_content_type="application/json", location="https://x/y"
    )
    envelope = Statement.from_bytes(data).envelope

    assert envelope is not None
    assert (envelope.hash_name, envelope.location) == ("sha-256", "https://x/y")
    assert envelope.digest(b"the record") == DIGEST


@pytest.mark.parametrize("label", [labels.PAYLOAD_HASH_ALG, labels.PREIMAGE_CONTENT_TYPE, labels.PAYLOAD_LOCATION])
def test_envelope_labels_in_the_unprotected_header_are_refused(label: int) -> None:
    """HE-1, HE-2: 258, 259 and 260 stand in the protected header only."""
    value: Any = -16 if label == labels.PAYLOAD_HASH_ALG else "text"

    with pytest.raises(MalformedError, match="protected header only"):
        Statement.from_bytes(signed(headers(), DIGEST, unprotected={label: value}))


@pytest.mark.parametrize("place", ["protected", "unprotected"])
def test_a_hash_envelope_has_no_content_type_of_its_own(place: str) -> None:
    """HE-3."""
    protected = envelope_headers()
    unprotected = {}
    if place == "protected":
        protected[labels.CONTENT_TYPE] = "application/json"
    else:
        unprotected[labels.CONTENT_TYPE] = "application/json"

    with pytest.raises(MalformedError, match="content type"):
        Statement.from_bytes(signed(protected, DIGEST, unprotected=unprotected))


@pytest.mark.parametrize(("hash_alg", "length"), [(-16, 32), (-43, 48), (-44, 64)])
def test_the_digest_has_the_length_of_its_algorithm(hash_alg: int, length: int) -> None:
    """HE-4."""
    protected = {**envelope_headers(), labels.PAYLOAD_HASH_ALG: hash_alg}

    assert Statement.from_bytes(signed(protected, bytes(length))).envelope
    for wrong in (length - 1, length + 1, 0):
        with pytest.raises(MalformedError, match="digest"):
            Statement.from_bytes(signed(protected, bytes(wrong)))


def test_the_payload_location_is_never_fetched() -> None:
    """HE-5: reading a statement with a location that would hang or fail succeeds at once, from a pure package."""
    data = sign_envelope(DIGEST, KEY, iss=ISS, sub="s", location="http://127.0.0.1:1/never")

    assert Statement.from_bytes(data).envelope


def test_labels_259_and_260_mean_nothing_without_258() -> None:
    """HE-2."""
    with pytest.raises(MalformedError, match="without 258"):
        Statement.from_bytes(signed(headers(PREIMAGE_CONTENT_TYPE="text/plain")))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_statement_or_an_error_of_ours(data: bytes) -> None:
    with pytest.raises((MalformedError, UnsupportedAlgorithmError, PayloadMissingError)):
        Statement.from_bytes(data)


def test_a_plain_statement_is_its_own_normalised_form() -> None:
    """LEAF-1: what was read without an unprotected header and with its payload is kept to the byte."""
    key = PrivateKey.generate(-7)
    data = sign_statement(b"{}", key, iss="https://a.example", sub="s", content_type="application/json")
    statement = Statement.from_bytes(data)

    assert statement.normalised == data
    assert statement.normalised == normalise(statement.message.protected, b"{}", statement.message.signature)
