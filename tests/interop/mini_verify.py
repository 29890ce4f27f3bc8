"""A second verifier, to be read at one sitting, written from docs/profile.md alone (§ names its sections).

Nothing of the project, no CBOR library. Left out: RSA, ML-DSA, floats, consistency receipts, faults of key files, and
what of trace-metadata needs the record to be read. Keys come without an identity: iss and sub are only claimed.
Whatever is wrong shows as a ValueError: python mini_verify.py FILE --log-key K --issuer-key I [--payload F]
"""

import contextlib
import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

ALGORITHMS = {1: {-7, -9}, 2: {-35, -51}, 3: {-36, -52}, 6: {-8, -19}}  # of each curve, §13
CURVES: dict[int, Any] = {1: (ec.SECP256R1(), SHA256()), 2: (ec.SECP384R1(), SHA384()), 3: (ec.SECP521R1(), SHA512())}
UNDERSTOOD = {1, 2, 3, 4, 15, 16, 258, 259, 260, 395, -70100, -70101, -70102}
DIGESTS: dict[Any, str] = {-16: "sha256", -43: "sha384", -44: "sha512"}
METADATA = {"session-id", "agent-vendor", "trace-format", "timestamp-start"}  # these are required, §14


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def bstr(data: bytes) -> bytes:
    info = 24 + (len(data) >= 1 << 8) + (len(data) >= 1 << 16) + (len(data) >= 1 << 32)
    size = len(data).to_bytes(1 << info - 24, "big")
    return bytes([64 + len(data)]) + data if len(data) < 24 else bytes([64 + info]) + size + data


def item(data: bytes, at: int, level: int) -> tuple[Any, int]:
    """§1: the item at `at`, with `level` containers open around it, and where it ends."""
    need(at < len(data), "CBOR ends too early")
    major, info = divmod(data[at], 32)
    need(info < 28 and major != 6, "an indefinite length, a reserved head or a tag")
    start, at = at + 1, at + 1 + (1 << info - 24 if info > 23 else 0)
    value = int.from_bytes(data[start:at], "big") if info > 23 else info
    if major == 7:
        need(info in {20, 21, 22}, "a simple value other than false, true, null (or a float: not read here)")
        return (False, True, None)[info - 20], at
    need(at <= len(data) and (info < 24 or value >= (24, 256, 1 << 16, 1 << 32)[info - 24]), "a head cut or too long")
    if major < 2:
        return (~value if major else value), at
    need(value <= len(data) - at and (level < 16 or major < 4), "more than the input holds, or nested too deeply")
    if major < 4:
        return (data[at : at + value].decode() if major == 3 else data[at : at + value]), at + value
    items: list[Any] = []
    for _ in range(value * (major - 3)):
        found, at = item(data, at, level + 1)
        items.append(found)
    keys = items[::2] if major == 5 else []
    need(all(type(key) in {int, str, bytes} for key in keys) and len(set(keys)) == len(keys), "a map key twice, or odd")
    return (dict(zip(keys, items[1::2], strict=True)) if major == 5 else items), at


def decode(data: bytes, at: int = 0, level: int = 0) -> Any:
    value, end = item(data, at, level)
    need(end == len(data), "bytes after the item")
    return value


def read_keys(data: bytes) -> list[SimpleNamespace]:
    """§12, from one PEM key, a COSE_Key or a COSE_KeySet."""
    found, keys = decode(b"\xa0" if data.startswith(b"-----") else data), []
    for key in [each for each in (found if type(found) is list else [found]) if each.get(1, 2) in {1, 2}]:
        public: Any = None if key else load_pem_public_key(data)
        if key.get(1) == 1:
            public = ed25519.Ed25519PublicKey.from_public_bytes(key[-2])
        elif key:
            point = bytes([2 + key[-3]]) + key[-2] if type(key[-3]) is bool else b"\x04" + key[-2] + key[-3]
            public = ec.EllipticCurvePublicKey.from_encoded_point(CURVES[key[-1]][0], point)
        if isinstance(public, ed25519.Ed25519PublicKey):
            curve, hashed = 6, b"\xa3\x01\x01\x20\x06\x21" + bstr(public.public_bytes_raw())
        else:
            point = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]
            curve, half = {64: 1, 96: 2, 132: 3}[len(point)], len(point) // 2
            hashed = bytes([0xA4, 1, 2, 0x20, curve, 0x21]) + bstr(point[:half]) + b"\x22" + bstr(point[half:])
        name = hashlib.sha256(hashed).digest()
        keys.append(SimpleNamespace(public=public, curve=curve, names={name, key.get(2, name)}, alg=key.get(3)))
    return keys


def read_sign1(data: bytes) -> SimpleNamespace:  # §2
    need(type(data) is bytes and data[:2] == b"\xd2\x84", "not tag 18 and an array of four")
    protected, unprotected, payload, signature = decode(data, 1, level=-1)
    need(type(protected) is type(signature) is bytes and type(payload) in {bytes, type(None)}, "not a COSE_Sign1")
    headers = decode(protected) if protected else {}
    need(type(headers) is type(unprotected) is dict and bool(headers) == bool(protected), "a header is not a map")
    crit = headers.get(2, [1])
    need(type(crit) is list and crit and not {2, *headers} & unprotected.keys(), "crit, or a label in both headers")
    need(all(type(label) in {int, str} for label in (*headers, *unprotected, *crit)), "a label of another type")
    need(set(crit) <= headers.keys() & UNDERSTOOD and type(headers.get(1)) is int, "crit not understood, or no alg")
    return SimpleNamespace(**locals())


def is_signed(message: SimpleNamespace, payload: bytes, key: SimpleNamespace) -> bool:  # §2, §13
    signed = b"\x84\x6aSignature1" + bstr(message.protected) + b"\x40" + bstr(payload)
    alg, signature, half = message.headers[1], message.signature, len(message.signature) // 2
    if alg in ALGORITHMS[key.curve] and key.alg in {None, alg}:
        with contextlib.suppress(InvalidSignature):
            if key.curve == 6:
                return key.public.verify(signature, signed) is None
            r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
            key.public.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(CURVES[key.curve][1]))
            return half * 2 == len(signature) and half == (CURVES[key.curve][0].key_size + 7) // 8
    return False


def root_of(entry: bytes, size: int, index: int, path: list[bytes]) -> bytes:  # §5
    root, fn, sn = hashlib.sha256(b"\x00" + entry).digest(), index, size - 1
    for sibling in path:
        need(sn, "path too long")
        right = fn % 2 or fn == sn
        root = hashlib.sha256(b"\x01" + (sibling + root if right else root + sibling)).digest()
        while right and fn and not fn % 2:
            fn, sn = fn >> 1, sn >> 1
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0, "path too short")
    return root


def check_receipt(data: bytes, entry: bytes | None, keys: list[SimpleNamespace]) -> bool:
    """§7: False when the receipt is by a stranger, or there is no entry to check it for."""
    message, included = read_sign1(data), []
    headers, vdp = message.headers, message.unprotected.get(396)
    kid, claims, vds = headers.get(4), headers.get(15, {}), headers.get(395)
    need(type(kid) is bytes or 4 not in headers, "kid is no byte string")
    trusted = [key for key in keys if kid is None or kid in key.names]
    if type(vds) is int and vds != 1 and kid is not None and not trusted:
        return False
    need(vds == 1 and type(vds) is int, "another verifiable data structure")
    need(message.payload is None or len(message.payload) == 32, "payload is no root")
    need(type(vdp) is dict and vdp and vdp.keys() <= {-1, -2}, "396 is no map of proofs")
    for label, array in vdp.items():
        need(type(array) is list and array and all(type(each) is bytes for each in array), "no array of proofs")
        for proof in map(decode, array):
            need(type(proof) is list and [type(each) for each in proof] == [int, int, list], "no proof")
            size, index, path = proof
            need(min(size, index) >= 0 and max(size, index) < 2**63 and (label == -2 or index < size), "size or index")
            need(len(path) <= 64 and all(type(each) is bytes and len(each) == 32 for each in path), "no path of hashes")
            included += [proof] if label == -1 else []
    need(type(claims) is dict and all(type(claims.get(name, "")) is str for name in (1, 2)), "iss or sub")
    need(all(type(each) is int and 0 <= each < 2**63 for each in (claims.get(6, 0), claims.get(-70110, 0))), "claims")
    if not trusted or entry is None:
        return False
    need(all(size == claims.get(-70110, size) for size, _, _ in included), "tree-size is not the one that was signed")
    roots = {root_of(entry, *proof) for proof in included}
    need(len(roots) == 1 and message.payload in {None, *roots}, "not one root")
    need(any(is_signed(message, max(roots), key) for key in trusted), "the log's signature")
    return True


def verify(data: bytes, log_keys: list[Any], issuer_keys: list[Any], given: bytes | None = None) -> list[str]:
    """§8, §16: what remains undecided; nothing, if all is verified. `given` is the payload, or an envelope's record."""
    message = read_sign1(data)
    headers, unprotected, payload = message.headers, message.unprotected, message.payload
    claims, kid, receipts, record = headers.get(15), headers.get(4), unprotected.get(394, []), given
    need(395 not in headers and type(claims) is dict, "a receipt, or no claims")
    need(all(type(claims.get(name)) is str for name in (1, 2)), "no iss or sub")
    stray = unprotected if 258 in headers else unprotected | headers
    need(not {258, 259, 260} & stray.keys(), "half a hash envelope, or an unprotected one")
    if 258 in headers:
        need(type(headers[258]) is int and headers[258] in DIGESTS and 3 not in headers | unprotected, "hash envelope")
        need(payload is None or len(payload) == hashlib.new(DIGESTS[headers[258]]).digest_size, "no digest")
        given = None if record is None else hashlib.new(DIGESTS[headers[258]], record).digest()
    need(given is None or payload in {None, given}, "another payload or record than the one that was signed")
    payload = given if payload is None else payload
    record = record if 258 in headers else payload
    for copy in [each[label] for each, label in ((headers, -70100), (unprotected, 100)) if label in each]:
        need(type(copy) is dict and copy == headers.get(-70100, copy), "trace-metadata is no map, or there are two")
        need(METADATA <= copy.keys() <= METADATA | {"timestamp-end", "content-hash", "content-hash-alg"}, "its members")
        alg = str(copy.get("content-hash-alg", "sha-256")).lower().replace("-", "")
        digest = hashlib.new(alg, record or b"").hexdigest() if alg in DIGESTS.values() else None
        need(None in {record, digest} or str(copy.get("content-hash", digest)).lower() == digest, "content-hash")
        record = record if digest else None  # an unknown content-hash-alg leaves the question open
    parts = (b"\xd2\x84", bstr(message.protected), b"\xa0", bstr(payload or b""), bstr(message.signature))
    entry = None if payload is None else hashlib.sha256(b"".join(parts)).digest()
    named = [key for key in issuer_keys if type(kid) is bytes and kid in key.names] or issuer_keys
    need(payload is None or not named or any(is_signed(message, payload, key) for key in named), "issuer's signature")
    need(type(receipts) is list and len(receipts) <= 64 and (receipts or 394 not in unprotected), "no list of receipts")
    registered = sum(check_receipt(each, entry, log_keys) for each in receipts)
    known = {"issuer": named, "registration": registered, "payload or record": record is not None}
    return [question for question, answer in known.items() if not answer]


if __name__ == "__main__":
    given = dict(zip(["file", *sys.argv[2::2]], [Path(name).read_bytes() for name in sys.argv[1::2]], strict=True))
    try:
        keys = [read_keys(given[flag]) for flag in ("--log-key", "--issuer-key")]
        undecided = verify(given["file"], keys[0], keys[1], given.get("--payload"))
    except ValueError as error:
        sys.exit(f"failed: {error}")
    sys.exit(f"cannot tell: {', '.join(undecided)}" if undecided else None)
