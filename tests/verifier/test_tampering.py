"""No change to what was signed, wherever and however small, is ever verified."""

from __future__ import annotations

import hashlib
import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.verifier.world import ISS, ISSUER, RECORDS, Log, bare, statement, trust
from transparency.cose import labels
from transparency.cose.sign1 import sign1
from transparency.records.trace_metadata import describe
from transparency.statements.statement import sign_envelope
from transparency.verifier import Options, Verifier, render_text

SESSION = (RECORDS / "session.vac.json").read_bytes()
SESSION_ID = "7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10"
DESCRIBED = describe(SESSION)
assert DESCRIBED is not None
SIGNED: dict[int | str, object] = {labels.TRACE_METADATA_SIGNED: DESCRIBED.to_map()}

PLAIN = Log().register(statement())
SMALL = b'{"version": "3.0.0-draft", "id": "x", "session": {"session-id": "s", "entries": []}}'
RECORD = Log().register(statement(SMALL, sub="s", content_type="application/agent-conversation"))
ENVELOPE = Log().register(
    sign_envelope(hashlib.sha256(SESSION).digest(), ISSUER, iss=ISS, sub=SESSION_ID, headers=SIGNED)
)

# Warm, as in bulk: a remembered head must not help a changed file.
VERIFIERS = [Verifier(trust()), Verifier(bare()), Verifier(trust(), Options(receipt_only=True))]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_single_bit_of_a_transparent_statement_counts() -> None:
    """Everything is signed, or leads to what is: also labels 394 and 396 and the path. Exhaustive, not drawn."""
    for verifier in VERIFIERS:
        assert verifier.verify(PLAIN).verdict == "verified"
    for bit in range(8 * len(PLAIN)):
        for verifier in VERIFIERS:
            assert verifier.verify(flipped(PLAIN, bit)).verdict != "verified", bit


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([PLAIN, RECORD, ENVELOPE]), st.data())
def test_no_flipped_bit_is_ever_verified(data: bytes, draw: st.DataObject) -> None:
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    payload = SESSION if data is ENVELOPE else None

    for verifier in VERIFIERS:
        assert verifier.verify(data, payload).verdict == "verified"
        assert verifier.verify(flipped(data, bit), payload).verdict != "verified"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(PLAIN)), st.integers(0, len(PLAIN)), st.binary(max_size=8))
@example(0, 0, b"")
def test_no_splice_is_ever_verified(start: int, end: int, middle: bytes) -> None:
    start, end = min(start, end), max(start, end)
    spliced = PLAIN[:start] + middle + PLAIN[end:]

    for verifier in VERIFIERS:
        assert (verifier.verify(spliced).verdict == "verified") == (spliced == PLAIN)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 8 * len(SESSION) - 1))
def test_no_flipped_bit_of_an_envelopes_record_is_ever_verified(bit: int) -> None:
    assert VERIFIERS[0].verify(ENVELOPE, flipped(SESSION, bit)).verdict == "failed"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_a_report_and_never_an_exception(data: bytes) -> None:
    for prefix in (b"", b"\xd2\x84", PLAIN[: len(PLAIN) // 2]):
        assert VERIFIERS[0].verify(prefix + data).verdict == "failed"


_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary(max_size=40) | st.text(max_size=40)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.integers(-5, 8) | st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
_LABELS = st.sampled_from([3, 4, 15, 16, 33, 34, 100, 258, 259, 260, 394, 395, 396, -70100, -70101, "note"])


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(_LABELS, _VALUES, max_size=6), st.dictionaries(_LABELS, _VALUES, max_size=4), st.booleans())
def test_whatever_an_issuer_puts_in_its_headers_gives_a_report_and_never_an_exception(
    headers: dict[int | str, object], unprotected: dict[int | str, object], detached: bool
) -> None:
    unprotected = {label: value for label, value in unprotected.items() if label not in headers}
    data = sign1(headers, b"hello", ISSUER, unprotected=unprotected, detached=detached).to_bytes()

    for verifier in VERIFIERS:
        for payload in (None, b"hello"):
            report = verifier.verify(data, payload)
            assert report.verdict in ("failed", "cannot-tell")
            assert json.dumps(report.to_json())
            assert render_text(report)
