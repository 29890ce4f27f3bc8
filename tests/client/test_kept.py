"""The statement kept beside a session: reused, continued, or not ours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from transparency.client.kept import Kept
from transparency.cose import labels
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1
from transparency.statements.statement import sign_envelope, sign_statement

KEY = PrivateKey.generate(algorithm("ES256").id)
OTHER = PrivateKey.generate(algorithm("ES256").id)
RECORD = b'{"n":1}\n{"n":2}\n'
LONGER = RECORD + b'{"n":3}\n'


def attached(record: bytes = RECORD) -> bytes:
    return sign_statement(record, KEY, iss="https://a.example", sub="s", content_type="application/jsonl")


def enveloped(record: bytes = RECORD) -> bytes:
    return sign_envelope(hashlib.sha256(record).digest(), KEY, iss="https://a.example", sub="s")


@pytest.mark.parametrize("make", [attached, enveloped])
def test_the_same_bytes_are_covered_and_longer_ones_continue(make: Callable[[], bytes]) -> None:
    same, grown = Kept.read(make(), RECORD, KEY.public), Kept.read(make(), LONGER, KEY.public)

    assert same is not None
    assert (same.covers, same.is_prefix) == (True, True)
    assert grown is not None
    assert (grown.covers, grown.is_prefix) == (False, True)
    assert grown.next_links() == {labels.SUPERSEDES: bytes(grown.statement.entry), labels.SESSION_CHECKPOINT: 2}


def test_other_bytes_are_no_prefix_and_of_a_digest_it_is_not_known() -> None:
    whole, digest = Kept.read(attached(), b"else", KEY.public), Kept.read(enveloped(), b"else", KEY.public)

    assert whole is not None
    assert whole.is_prefix is False
    assert digest is not None
    assert digest.is_prefix is None


@pytest.mark.parametrize(
    "data", [b"", b"text", attached()[:-1], Sign1.from_bytes(attached()).with_payload(LONGER).to_bytes()]
)
def test_what_is_no_statement_by_the_key_is_nothing(data: bytes) -> None:
    assert Kept.read(data, RECORD, KEY.public) is None
    assert Kept.read(attached(), RECORD, OTHER.public) is None
