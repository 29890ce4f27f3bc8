"""pycose and merkle-json, asked over lines of JSON. Runs in .venv-pycose and knows nothing of this project."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

if sys.argv[1]:
    sys.path.insert(0, sys.argv[1])

import cbor2
import pycose
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from merkle_json import MerkleJson
from pycose.algorithms import Es256
from pycose.keys import CoseKey
from pycose.messages import CoseMessage, Sign1Message


def versions() -> dict[str, str]:
    """What is really loaded: cbor2 by the folder it came from, since a shadowed one has two versions installed."""
    folder = Path(cbor2.__file__).parents[1]
    (cbor2_version,) = {found.version for found in importlib.metadata.distributions(name="cbor2", path=[str(folder)])}
    return {
        "pycose": importlib.metadata.version("pycose"),
        "cbor2": cbor2_version,
        "ecdsa module": sys.modules[Es256.verify.__func__.__globals__["VerifyingKey"].__module__].__name__,
        "pycose folder": str(Path(pycose.__file__).parent),
    }


def verify(message: str, key: str, payload: str | None = None) -> bool:
    sign1 = CoseMessage.decode(bytes.fromhex(message))
    sign1.key = CoseKey.decode(bytes.fromhex(key))
    return bool(sign1.verify_signature(bytes.fromhex(payload) if payload is not None else None))


def sign(pem: str, protected: str, payload: str, *, detached: bool = False) -> str:
    """A message whose protected header pycose itself encodes, from the map in `protected`."""
    content = bytes.fromhex(payload)
    sign1 = Sign1Message(phdr=cbor2.loads(bytes.fromhex(protected)), payload=None if detached else content)
    sign1.key = CoseKey.from_pem_private_key(pem)
    encoded: bytes = sign1.encode(detached_payload=content if detached else None)
    return encoded.hex()


def seconds(message: str, key: str, rounds: int) -> dict[str, float]:
    """The same ES256 signature, checked over and over by pycose and by cryptography in this one process."""
    sign1 = CoseMessage.decode(bytes.fromhex(message))
    sign1.key = cose_key = CoseKey.decode(bytes.fromhex(key))
    signed, raw = sign1._create_sig_structure(), sign1.signature
    numbers = ec.EllipticCurvePublicNumbers(
        int.from_bytes(cose_key.x, "big"), int.from_bytes(cose_key.y, "big"), ec.SECP256R1()
    )
    public = numbers.public_key()
    der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    verified = sign1.verify_signature()  # also warms both up

    started = time.perf_counter()
    for _ in range(rounds):
        verified = verified and sign1.verify_signature()
    between = time.perf_counter()
    for _ in range(rounds):
        public.verify(der, signed, ec.ECDSA(hashes.SHA256()))
    return {"verified": verified, "pycose": between - started, "cryptography": time.perf_counter() - between}


def merkle_hash(document: object) -> str:
    return str(MerkleJson().hash(document))


ACTIONS: dict[str, Any] = {
    "versions": versions,
    "verify": verify,
    "sign": sign,
    "seconds": seconds,
    "merkle_hash": merkle_hash,
}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": ACTIONS[question.pop("do")](**question)}
    except Exception as error:  # noqa: BLE001 - whatever the peer raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))  # noqa: T201 - standard output is the answer
