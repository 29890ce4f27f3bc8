"""scitt-cose, asked over lines of JSON. Runs in .venv-scitt-cose and knows nothing of this project.

The registered form of a transparent statement (tag 18, same protected header, empty unprotected header, same payload
and signature) is rebuilt here by cbor2, so that nothing of ours decides what the leaf is.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
import time
from typing import Any

import cbor2
from scitt_cose import (
    build_receipt,
    build_signed_statement,
    extract_receipts,
    merkle_root,
    parse_signed_statement,
    verify_consistency,
    verify_receipt,
)


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("scitt-cose", "cbor2")}


def judge(transparent: str, log_key: str, issuer_key: str) -> dict[str, Any]:
    """The whole transparent statement: issuer's signature, and each receipt for the form that was registered."""
    data = bytes.fromhex(transparent)
    parsed = parse_signed_statement(data, public_key_pem=issuer_key)
    protected, _, payload, signature = cbor2.loads(data).value
    registered = cbor2.dumps(cbor2.CBORTag(18, [protected, {}, payload, signature]))
    receipts = extract_receipts(data)
    judged = [receipt(found.hex(), hashlib.sha256(registered).hexdigest(), log_key) for found in receipts]
    return {
        "accepted": parsed["signature_verified"] is True and bool(judged) and all(each["ok"] for each in judged),
        "statement": parsed["signature_verified"],
        "receipts": judged,
    }


def receipt(receipt: str, entry: str, log_key: str) -> dict[str, Any]:
    result = verify_receipt(bytes.fromhex(receipt), leaf_entry_hex=entry, log_public_key_pem=log_key)
    return {
        "ok": result.ok,
        "root": result.root,
        "size": result.tree_size,
        "index": result.leaf_index,
        "iss": result.issuer,
        "iat": result.iat,
        "errors": result.errors,
    }


def seconds(transparent: list[str], log_key: str, issuer_key: str) -> dict[str, float]:
    """How long judging all of them takes: of the processor, and on the clock."""
    worked, began = time.process_time(), time.perf_counter()
    accepted = sum(judge(each, log_key, issuer_key)["accepted"] for each in transparent)
    return {
        "accepted": accepted,
        "processor": time.process_time() - worked,
        "clock": time.perf_counter() - began,
    }


def consistency(old: int, new: int, path: list[str], old_root: str, new_root: str) -> bool:
    return bool(verify_consistency(old_root, new_root, old, new, path))


def root(entries: list[str]) -> str:
    return str(merkle_root(entries))


def make(pem: str, log_pem: str, alg: str, payload: str, others: list[str], index: int) -> dict[str, str]:
    """A statement and a receipt made by the peer, for its place `index` among `others`."""
    statement = build_signed_statement(
        bytes.fromhex(payload),
        alg=alg,
        private_key_pem=pem,
        issuer="https://issuer.example",
        subject="urn:example:peer",
        content_type="application/json",
        kid=b"peer",
    )
    entry = hashlib.sha256(statement).hexdigest()
    entries = [*others[:index], entry, *others[index:]]
    minted = build_receipt(
        leaf_entry_hex=entry,
        leaf_index=index,
        tree_entries_hex=entries,
        alg=alg,
        log_private_key_pem=log_pem,
        iss="https://log.example",
        sub="urn:example:peer",
        kid=b"log",
        iat=1_772_355_600,
    )
    return {"statement": statement.hex(), "receipt": minted.hex(), "root": merkle_root(entries)}


ACTIONS: dict[str, Any] = {
    "versions": versions,
    "judge": judge,
    "receipt": receipt,
    "seconds": seconds,
    "consistency": consistency,
    "root": root,
    "make": make,
}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": ACTIONS[question.pop("do")](**question)}
    except Exception as error:  # noqa: BLE001 - whatever the peer raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))  # noqa: T201 - standard output is the answer
