"""Readable views of the objects that travel: a nested mapping each, printed as lines or as JSON.

Nothing here checks a signature; ``verify`` does. Private key material never enters a view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from transparency.cli.files import SIGN1_HEAD
from transparency.cli.keyfiles import public_of
from transparency.cli.note_views import note_view, proof_view
from transparency.cli.output import timestamp
from transparency.compliance.stated import read_stated
from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PublicKey, read_public_keys
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, PayloadMissingError, TransparencyError
from transparency.records import vac
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of

_MAX_SHOWN = 64
_TIMES = frozenset({"time", "expires", "since", "until"})
_FORMS: Mapping[str, str] = {
    "Review": "review by a person", "Attestation": "attestation of an operator", "Period": "attestation of a witness",
}  # fmt: skip
_NAMES: Mapping[Any, str] = {
    labels.ALG: "alg", labels.CRIT: "crit", labels.CONTENT_TYPE: "content-type", labels.KID: "kid",
    labels.CWT_CLAIMS: "cwt-claims", labels.TYP: "typ", labels.X5CHAIN: "x5chain", labels.X5T: "x5t",
    labels.TRACE_METADATA: "trace-metadata", labels.TRACE_METADATA_SIGNED: "trace-metadata-signed",
    labels.PAYLOAD_HASH_ALG: "payload-hash-alg", labels.PREIMAGE_CONTENT_TYPE: "preimage-content-type",
    labels.PAYLOAD_LOCATION: "payload-location", labels.SUPERSEDES: "supersedes",
    labels.SESSION_CHECKPOINT: "session-checkpoint", labels.RECEIPTS: "receipts", labels.VDS: "vds",
    labels.VDP: "vdp",
}  # fmt: skip


def view(data: bytes) -> dict[str, Any]:
    """What *data* is and says; MalformedError where it is nothing this package knows."""
    if data.startswith(SIGN1_HEAD):
        return _message(data)
    if b"PRIVATE KEY-----" in data:
        return _private_key(data)
    for known in (note_view, _record):
        found = known(data)
        if found is not None:
            return found
    try:
        keys = read_public_keys(data)
    except TransparencyError as error:
        msg = f"this is neither a COSE_Sign1 message, a checkpoint or proof, a key nor a VAC record ({error})"
        raise MalformedError(msg) from error
    if len(keys) == 1:
        return {"kind": "public key", **_key(keys[0])}
    return {"kind": "key set", "count": len(keys), "key": [_key(key) for key in keys]}


def receipt_view(data: bytes) -> dict[str, Any]:
    """A receipt: who signed which tree head, and the paths it carries."""
    receipt = Receipt.from_bytes(data)
    body: dict[str, Any] = {
        "log": receipt.sub,
        "service": receipt.iss,
        "time": timestamp(receipt.iat),
        "signed-tree-size": receipt.tree_size,
        "algorithm": _alg(receipt.alg),
        "key-id": None if receipt.kid is None else receipt.kid.hex(),
    }
    body["inclusion-proof"] = [
        {"leaf-index": proof.index, "tree-size": proof.size, "path": [node.hex() for node in proof.path]}
        for proof in receipt.inclusion
    ]
    body["consistency-proof"] = [
        {"from-size": proof.old_size, "to-size": proof.new_size, "path": [node.hex() for node in proof.path]}
        for proof in receipt.consistency
    ]
    carried = receipt.message.unprotected.get(labels.TLOG_PROOF)
    if carried is not None:
        body["tlog-proof"] = _proof_or_reason(carried)
    return {name: value for name, value in body.items() if value != []}


def _proof_or_reason(data: object) -> dict[str, Any]:
    """The proof that a receipt carries (-70104), with the lines of witnesses."""
    try:
        return proof_view(data) if isinstance(data, bytes) else {"not-readable": "not a byte string"}
    except TransparencyError as error:
        return {"not-readable": str(error)}


def _message(data: bytes) -> dict[str, Any]:
    message = Sign1.from_bytes(data)
    if labels.VDS in message.headers:
        return {"kind": "receipt", **receipt_view(data)}
    receipts = receipts_of(message)
    body: dict[str, Any] = {"kind": "transparent statement" if receipts else "signed statement"}
    body |= _statement(data, message)
    if receipts:
        body["receipt"] = [_receipt_or_reason(receipt) for receipt in receipts]
    return body


def _statement(data: bytes, message: Sign1) -> dict[str, Any]:
    try:
        statement = Statement.from_bytes(data)
    except PayloadMissingError:
        profile, entry_id, envelope = "payload detached", None, None
    except TransparencyError as error:
        profile, entry_id, envelope = f"not a statement a log registers: {error}", None, None
    else:
        profile, entry_id, envelope = "RFC 9943", statement.entry_id, statement.envelope
    claims = message.headers.get(labels.CWT_CLAIMS)
    claims = claims if isinstance(claims, Mapping) else {}
    kid = message.headers.get(labels.KID)
    body: dict[str, Any] = {
        "issuer": claims.get(labels.CLAIM_ISS),
        "subject": claims.get(labels.CLAIM_SUB),
        "algorithm": _alg(message.headers.get(labels.ALG)),
        "key-id": kid.hex() if isinstance(kid, bytes) else kid,
        "content-type": message.headers.get(labels.CONTENT_TYPE),
        "entry-id": entry_id,
        "profile": profile,
    }
    for claim, name in ((labels.CLAIM_IAT, "issued"), (labels.CLAIM_NBF, "not-before"), (labels.CLAIM_EXP, "expires")):
        if isinstance(claims.get(claim), int):
            body[name] = timestamp(claims[claim])
    body["payload"] = _payload(message.payload)
    stated = None if message.payload is None else read_stated(message.headers.get(labels.CONTENT_TYPE), message.payload)
    if stated is not None:
        body["states"] = stated_view(stated)
    if envelope is not None:
        body["payload"] = {
            "form": "hash envelope (RFC 9995)", "digest": f"{envelope.hash_name} {(message.payload or b'').hex()}",
            "record-type": envelope.preimage_content_type, "record-location": envelope.location,
        }  # fmt: skip
    known = {labels.ALG, labels.KID, labels.CONTENT_TYPE, labels.CWT_CLAIMS, labels.RECEIPTS,
             labels.PAYLOAD_HASH_ALG, labels.PREIMAGE_CONTENT_TYPE, labels.PAYLOAD_LOCATION}  # fmt: skip
    for title, headers in (
        ("protected", message.headers),
        ("unprotected", message.unprotected),
    ):
        rest = {_NAMES.get(label, str(label)): _value(value) for label, value in headers.items() if label not in known}
        if rest:
            body[title] = rest
    return body


def _payload(payload: bytes | None) -> dict[str, Any]:
    if payload is None:
        return {"form": "detached"}
    body: dict[str, Any] = {"form": "attached", "bytes": len(payload), "sha-256": hashlib.sha256(payload).hexdigest()}
    record = _record(payload)
    if record is not None:
        body["record"] = record
    return body


def stated_view(stated: object) -> dict[str, Any]:
    """A review, an attestation or a witness' period: its own members, in words."""
    assert is_dataclass(stated)  # noqa: S101 - all forms that are read are
    assert not isinstance(stated, type)  # noqa: S101 - and this is one of them
    shown: dict[str, Any] = {"form": _FORMS.get(type(stated).__name__, type(stated).__name__)}
    for each in fields(stated):
        value = getattr(stated, each.name)
        if each.name in _TIMES and isinstance(value, int):
            value = timestamp(value)
        shown[each.name.replace("_", "-")] = _plain(value)
    return {name: value for name, value in shown.items() if value not in (None, "", [], {})}


def _plain(value: object) -> Any:  # noqa: ANN401 - any member, as JSON
    if isinstance(value, tuple):
        return [_plain(item) for item in value[:_MAX_SHOWN]]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, bytes):
        # A checkpoint: a signed note is text.
        return value.decode("utf-8", "replace").splitlines()[:_MAX_SHOWN]
    return _value(value)


def _record(data: bytes) -> dict[str, Any] | None:
    try:
        record = vac.read_vac(data)
    except MalformedError:
        return None
    if record is None:
        return None
    return {
        "kind": "VAC record",
        "version": record.version,
        "session": record.session_id,
        "tool": record.cli_name,
        "model-provider": record.model_provider,
        "start": record.timestamp_start,
        "end": record.timestamp_end,
    }


def _receipt_or_reason(data: bytes) -> dict[str, Any]:
    try:
        return receipt_view(data)
    except TransparencyError as error:
        return {"not-readable": str(error)}


def _private_key(data: bytes) -> dict[str, Any]:
    public = public_of(data)
    if public is None:
        return {"kind": "private key", "form": "encrypted, or not one that is supported"}
    return {"kind": "private key", "note": "only its public part is shown", **_key(public)}


def _key(key: PublicKey) -> dict[str, Any]:
    return {
        "type": key.kty_name,
        "algorithm": _alg(key.alg if key.alg is not None else key.default_alg),
        "thumbprint": key.thumbprint.hex(),
        "key-id": key.kid.hex(),
    }


def _alg(value: object) -> str | None:
    if value is None:
        return None
    known = ALGORITHMS.get(value) if isinstance(value, int) and not isinstance(value, bool) else None
    return f"{known.name} ({value})" if known is not None else f"unknown ({_value(value)})"


def _value(value: object) -> Any:  # noqa: ANN401 - any CBOR value, as JSON
    """Any CBOR value in a form that JSON has, bounded."""
    if isinstance(value, bytes):
        return value.hex() if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN].hex()}… ({len(value)} bytes)"
    if isinstance(value, Mapping):
        return {str(_value(name)): _value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item) for item in value[:_MAX_SHOWN]]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
