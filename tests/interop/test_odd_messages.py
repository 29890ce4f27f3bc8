"""Odd headers, receipts and proofs, all properly signed: mini_verify and our verifier judge them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.interop.trees import (
    ISS,
    LOG_ISS,
    ORIGIN,
    RECEIPTS,
    TIME,
    VDP,
    flip,
    private_key,
    proof_of,
    rebuilt,
    receipt_of,
    statement,
    transparent,
    tree_around,
    with_receipt,
)
from tests.interop.verdicts import HEADERS, LOG_HEADERS, agreed, rebuilt_odd, registered, signed
from transparency.cose.cbor import encode
from transparency.statements.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

ODD_STATEMENTS: Final[dict[str, dict[Any, Any]]] = {
    "no kid": {4: ...},
    "kid of another key": {4: b"another"},
    "no claims": {15: ...},
    "claims are an array": {15: [ISS]},
    "no iss": {15: {2: "x"}},
    "iss is bytes": {15: {1: b"x", 2: "x"}},
    "iss is empty": {15: {1: "", 2: "x"}},
    "iss is no URI": {15: {1: "https://a b", 2: "x"}},
    "no content type": {3: ...},
    "typ": {16: "application/x"},
    "unknown labels": {"name": [1, {b"k": None}], -99999: {1: True}},
    "crit that is understood": {2: [15, 4]},
    "crit of something missing": {2: [395]},
    "crit that is not understood": {2: [-99999], -99999: 1},
    "crit is empty": {2: []},
    "crit is no array": {2: 15},
    "crit names a boolean": {2: [True]},
    "crit names bytes": {2: [b"x"]},
    "vds, so a receipt": {395: 1},
    "alg is text": {1: "ES256"},
    "alg is unknown": {1: -99},
    "alg is true": {1: True},
    "alg of another curve": {1: -35},
    "same curve, other name": {1: -9},
    "no alg": {1: ...},
    "envelope without a digest": {258: -16, 3: ...},
    "envelope and content type": {258: -16},
    "259 without 258": {259: "text/plain"},
    "260 without 258": {260: "https://store.example"},
    "unknown hash": {258: -15, 3: ...},
    "nested 16 deep": {"deep": [[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]},
    "nested 17 deep": {"deep": [[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]},
}
ODD_UNPROTECTED: Final[dict[str, dict[Any, Any]]] = {
    "alg": {1: -7},
    "crit": {2: [1]},
    "258": {258: -16},
    "259": {259: "text/plain"},
    "label 3": {3: "text/plain"},
    "anything": {"x": 1, -7: [None, {"y": b""}]},
    "a byte string as label": {b"x": 1},
    "nested 16 deep": {"deep": [[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]},
    "nested 17 deep": {"deep": [[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]},
    "receipts are one byte string": {RECEIPTS: b"x"},
    "receipts are empty": {RECEIPTS: []},
    "receipts hold a number": {RECEIPTS: [1]},
}


def without_dots(headers: Mapping[Any, Any]) -> dict[Any, Any]:
    return {label: value for label, value in headers.items() if value is not ...}


@pytest.mark.parametrize("oddity", sorted(ODD_STATEMENTS))
def test_both_judge_odd_statements_alike(oddity: str) -> None:
    headers = without_dots(HEADERS | ODD_STATEMENTS[oddity])
    message = signed(headers, private_key("ES256"), b"content", {})

    agreed(registered(message))


@pytest.mark.parametrize("oddity", sorted(ODD_UNPROTECTED))
def test_both_judge_odd_unprotected_headers_alike(oddity: str) -> None:
    headers = {label: value for label, value in HEADERS.items() if label not in ODD_UNPROTECTED[oddity] or label == 1}
    message = signed(headers, private_key("ES256"), b"content", ODD_UNPROTECTED[oddity])

    agreed(registered(message))


ODD_RECEIPTS: Final[dict[str, dict[Any, Any]]] = {
    "as it should be": {},
    "no kid": {4: ...},
    "kid of a stranger": {4: b"stranger"},
    "kid is text": {4: "stranger"},
    "no claims": {15: ...},
    "claims are an array": {15: [1]},
    "iss is bytes": {15: {1: b"x"}},
    "iat is negative": {15: {6: -1}},
    "iat is huge": {15: {6: 2**63}},
    "tree-size is true": {15: {-70110: True}},
    "tree-size is text": {15: {-70110: "6"}},
    "tree-size of another tree": {15: {-70110: 7}},
    "no tree-size": {15: {1: LOG_ISS, 2: ORIGIN}},
    "another vds": {395: 2},
    "another vds of a stranger": {395: 2, 4: b"stranger"},
    "another vds without kid": {395: 2, 4: ...},
    "vds is true": {395: True},
    "vds is text of a stranger": {395: "1", 4: b"stranger"},
    "no vds": {395: ...},
    "no vds, of a stranger": {395: ..., 4: b"stranger"},
    "unknown alg": {1: -99},
    "unknown alg of a stranger": {1: -99, 4: b"stranger"},
    "alg is text": {1: "ES256"},
    "no alg": {1: ...},
    "crit that is understood": {2: [395, 15]},
    "crit that is not understood": {2: ["x"], "x": 1},
    "unknown labels": {"x": 1, -5: b""},
}
ODD_PROOFS: Final[dict[str, Any]] = {
    "proof as a bare array": lambda size, index, path: {-1: [[size, index, path]]},
    "no array of proofs": lambda size, index, path: {-1: encode([size, index, path])},
    "empty array": lambda *_: {-1: []},
    "empty map": lambda *_: {},
    "unknown kind": lambda size, index, path: {-1: [encode([size, index, path])], -3: [b""]},
    "twice the same": lambda size, index, path: {-1: [encode([size, index, path])] * 2},
    "a second that is another": lambda size, index, path: {
        -1: [encode([size, index, path]), encode([size, index, [flip(path[0]), *path[1:]]])]
    },
    "only consistency": lambda size, _, path: {-2: [encode([2, size, path])]},
    "consistency beside it": lambda size, index, path: {
        -1: [encode([size, index, path])],
        -2: [encode([2, size, path])],
    },
    "malformed consistency beside it": lambda size, index, path: {-1: [encode([size, index, path])], -2: [b"\x80"]},
    "four elements": lambda size, index, path: {-1: [encode([size, index, path, 0])]},
    "a number": lambda *_: {-1: [encode(5)]},
    "a map": lambda size, index, path: {-1: [encode({0: size, 1: index, 2: path})]},
    "index is true": lambda size, _, path: {-1: [encode([size, True, path])]},
    "index is negative": lambda size, _, path: {-1: [encode([size, -1, path])]},
    "size past 2^63": lambda size, index, path: {-1: [encode([2**63, index, path])]},
    "path is a map": lambda size, index, path: {-1: [encode([size, index, dict(enumerate(path))])]},
    "path holds numbers": lambda size, index, path: {-1: [encode([size, index, [1, *path[1:]]])]},
    "path of 65": lambda size, index, path: {-1: [encode([size, index, [path[0]] * 65])]},
    "trailing byte": lambda size, index, path: {-1: [encode([size, index, path]) + b"\x00"]},
}


@pytest.mark.parametrize("oddity", sorted(ODD_RECEIPTS))
def test_both_judge_odd_receipts_alike(oddity: str) -> None:
    plain = statement(3)
    tree = tree_around(Statement.from_bytes(plain).entry, 4, 6)
    headers = without_dots(LOG_HEADERS | ODD_RECEIPTS[oddity])
    odd = signed(headers, tree.key, tree.root(6), {VDP: {-1: [encode([6, 4, tree.path(4)])]}})

    verdict = agreed(with_receipt(plain, rebuilt_odd(odd, None)))
    assert agreed(with_receipt(plain, odd)) == verdict, "an attached root changes nothing"
    assert agreed(with_receipt(plain, rebuilt_odd(odd, bytes(32)))) in {"failed", "cannot-tell"}
    assert oddity != "as it should be" or verdict == "verified"


NULLS: Final[dict[str, dict[Any, Any]]] = {"kid": {4: None}, "claims": {15: None}} | {
    name: {15: {1: LOG_ISS, 2: ORIGIN, 6: TIME, -70110: 6} | {label: None}}
    for label, name in ((1, "iss"), (2, "sub"), (6, "iat"), (-70110, "tree-size"))
}


@pytest.mark.parametrize("label", sorted(NULLS))
def test_both_refuse_a_receipt_with_null_where_a_value_belongs(label: str) -> None:
    plain = statement(3)
    tree = tree_around(Statement.from_bytes(plain).entry, 4, 6)
    odd = signed(LOG_HEADERS | NULLS[label], tree.key, tree.root(6), {VDP: {-1: [encode([6, 4, tree.path(4)])]}})

    assert agreed(with_receipt(plain, rebuilt_odd(odd, None))) == "failed"


def test_both_refuse_null_instead_of_an_array_of_receipts() -> None:
    assert agreed(rebuilt(statement(), unprotected={RECEIPTS: None})) == "failed"


@pytest.mark.parametrize("oddity", sorted(ODD_PROOFS))
def test_both_judge_odd_proofs_alike(oddity: str) -> None:
    good = transparent(statement(3), 4, 6)
    receipt = receipt_of(good)
    odd = rebuilt(receipt, unprotected={VDP: ODD_PROOFS[oddity](*proof_of(receipt))})

    verdict = agreed(with_receipt(good, odd))

    assert (verdict == "verified") == (oddity in {"twice the same", "consistency beside it"})
