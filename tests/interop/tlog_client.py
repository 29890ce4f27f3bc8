"""A second client of tiled logs, to be read at one sitting, written from the C2SP texts alone (they are named below).

Nothing of the project. It trusts no byte: from the entries it derives every leaf hash, every tile and the root, and
holds what the log serves against them. It is stricter than the texts in two things, so that a flipped bit anywhere is
found: every key it was given must have signed, and a partial tile must be served though a full one exists.
Whatever is wrong shows as a TlogError.
"""

from __future__ import annotations

import base64
import gzip
import re
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

ED25519, COSIGNATURE, ML_DSA_44 = 0x01, 0x04, 0x06
WIDTH = 256
LARGEST_NOTE = 1 << 20
LARGEST_SIZE = (1 << 63) - 1

Get = Callable[[str], bytes]
"""What lies at a path below the log's prefix; TlogError where nothing does."""


class TlogError(ValueError):
    """What was served is not what the texts, or the log's own signature, say."""


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise TlogError(otherwise)


def decimal(text: str) -> int:
    """An ASCII decimal "with no leading zeroes"."""
    need(re.fullmatch(r"0|[1-9][0-9]{0,18}", text, re.ASCII), f"not a decimal: {text[:30]!r}")
    need(int(text) <= LARGEST_SIZE, "a number too large")
    return int(text)


def base64_bytes(text: str) -> bytes:
    """RFC 4648 §4; one spelling for each byte string."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise TlogError(f"not base64: {text[:30]!r}") from error
    need(base64.b64encode(data).decode() == text, "base64 in another spelling")
    return data


def key_name(name: str) -> str:
    """signed-note: "non-empty and MUST NOT contain any Unicode spaces or plus"."""
    need(name and "+" not in name and not any(char.isspace() for char in name), f"not a key name: {name[:30]!r}")
    return name


# -- signed-note ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    name: str
    key_id: bytes
    kind: int
    public: bytes

    @classmethod
    def from_vkey(cls, text: str) -> Key:
        """signed-note, "Verifier keys"."""
        parts = text.split("+", 2)
        need(len(parts) == 3 and re.fullmatch("[0-9a-f]{8}", parts[1]), "a vkey is name+hex+base64")
        material = base64_bytes(parts[2])
        need(material, "a vkey without a key")
        key = cls(key_name(parts[0]), bytes.fromhex(parts[1]), material[0], material[1:])
        length = {ED25519: 32, COSIGNATURE: 32, ML_DSA_44: 1312}.get(key.kind)
        need(length == len(key.public), f"a key of type {key.kind} and {len(key.public)} bytes")
        expected = sha256(key.name.encode() + b"\n" + material).digest()[:4]
        need(expected == key.key_id, "the id of a vkey is not its hash")
        return key


@dataclass(frozen=True)
class Line:
    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True)
class Note:
    text: bytes
    lines: tuple[Line, ...]


def read_note(data: bytes) -> Note:
    """signed-note, "Format": the text, the last empty line, the signature lines."""
    need(len(data) <= LARGEST_NOTE, "a note too large")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise TlogError("a note that is not UTF-8") from error
    need(not re.search(rb"[\x00-\x09\x0b-\x1f]", data), "a control character in a note")
    body, blank, tail = data.rpartition(b"\n\n")
    need(blank and tail.endswith(b"\n"), "a note without signature lines")
    return Note(body + b"\n", tuple(_line(line) for line in tail.decode().split("\n")[:-1]))


def _line(text: str) -> Line:
    parts = text.split(" ")
    need(len(parts) == 3 and parts[0] == "\u2014", "a line that is no signature")
    signature = base64_bytes(parts[2])
    need(len(signature) > 4, "a signature line without a signature")
    return Line(key_name(parts[1]), signature[:4], signature[4:])


# -- tlog-checkpoint and tlog-cosignature --------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    origin: str
    size: int
    root: bytes
    # When each of the keys signed; 0 for a signature that does not say.
    times: dict[Key, int]


def open_checkpoint(data: bytes, keys: Sequence[Key]) -> Checkpoint:
    """The checkpoint in a note that every one of *keys* has signed, one of them with Ed25519 in the origin's name."""
    note = read_note(data)
    lines = note.text.decode().split("\n")[:-1]
    need(len(lines) >= 3 and all(lines), "a checkpoint has three lines or more, none empty")
    origin, size, root = lines[0], decimal(lines[1]), base64_bytes(lines[2])
    need(len(root) == 32, "a root hash has 32 bytes")
    need(size > 0 or root == sha256().digest(), "the empty tree has one root hash")
    times = {}
    for key in keys:
        signatures = [line.signature for line in note.lines if (line.name, line.key_id) == (key.name, key.key_id)]
        need(signatures, f"{key.name} has not signed with its key {key.key_id.hex()}")
        times[key] = max(_verify(key, signature, note.text, (origin, size, root)) for signature in signatures)
    need(any((key.kind, key.name) == (ED25519, origin) for key in times), "the log has not signed with Ed25519")
    return Checkpoint(origin, size, root, times)


def _verify(key: Key, signature: bytes, text: bytes, head: tuple[str, int, bytes]) -> int:
    """The time that the signature is of, if it has one. A known key that fails makes the whole note bad."""
    try:
        if key.kind == ED25519:
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature, text)
            return 0
        need(len(signature) == 8 + (64 if key.kind == COSIGNATURE else 2420), "a cosignature of the wrong length")
        time = int.from_bytes(signature[:8], "big")
        need(time <= LARGEST_SIZE, "a time beyond 2^63 - 1")
        if key.kind == COSIGNATURE:
            message = b"cosignature/v1\ntime %d\n%b" % (time, text)
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature[8:], message)
        else:
            origin, size, root = head
            message = b"subtree/v1\n\0" + _short(key.name) + struct.pack(">Q", time) + _short(origin)
            message += struct.pack(">QQ", 0, size) + root
            MLDSA44PublicKey.from_public_bytes(key.public).verify(signature[8:], message)
    except InvalidSignature as error:
        raise TlogError(f"the signature of {key.name} does not verify") from error
    return time


def _short(text: str) -> bytes:
    data = text.encode()
    need(1 <= len(data) <= 255, "a name too long for an ML-DSA-44 cosignature")
    return bytes([len(data)]) + data


# -- RFC 6962 §2.1 -------------------------------------------------------------------------------------------------


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def split(size: int) -> int:
    """The largest power of two smaller than *size*."""
    return 1 << (size - 1).bit_length() - 1


class Tree:
    """MTH(D[begin:end]) over given leaf hashes. ``levels[l]`` are the hashes that tiles of level *l* consist of."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.levels = [leaves]
        while len(self.levels[-1]) >= WIDTH:
            below = self.levels[-1]
            # "A partial tile … MUST NOT be hashed into a tile at the level above."
            tiles = [below[at : at + WIDTH] for at in range(0, len(below) - WIDTH + 1, WIDTH)]
            self.levels.append([_full(tile) for tile in tiles])

    def mth(self, begin: int, end: int) -> bytes:
        if begin == end:
            return sha256().digest()
        # The left of each split is a whole power of two; where that is one of 256, it is in a tile.
        level, rest = divmod((end - begin).bit_length() - 1, 8)
        if rest == 0 and end - begin == (span := 1 << 8 * level):
            return self.levels[level][begin // span]
        middle = begin + split(end - begin)
        return node_hash(self.mth(begin, middle), self.mth(middle, end))


def _full(hashes: list[bytes]) -> bytes:
    """A full tile is a perfect tree: pair by pair."""
    while len(hashes) > 1:
        hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """§2.1.1 read backwards: PATH(m, D[n]) ends with the hash of the half that m is not in."""
    need(0 <= index < size, "an index outside the tree")
    if size == 1:
        need(not path, "a proof too long")
        return leaf
    need(path, "a proof too short")
    half = split(size)
    if index < half:
        return node_hash(root_by_path(leaf, index, half, path[:-1]), path[-1])
    return node_hash(path[-1], root_by_path(leaf, index - half, size - half, path[:-1]))


# -- tlog-tiles ----------------------------------------------------------------------------------------------------


def tile_path(level: int | str, index: int, width: int) -> str:
    """``tile/<L>/<N>[.p/<W>]``; *level* may be "entries"."""
    elements = [f"{index % 1000:03d}"]
    while index := index // 1000:
        elements.insert(0, f"x{index % 1000:03d}")
    return f"tile/{level}/{'/'.join(elements)}" + (f".p/{width}" if width < WIDTH else "")


def tiles_of(size: int) -> Iterator[tuple[int, int, int]]:
    """Level, index and width of each tile that a tree of *size* consists of."""
    level = 0
    while count := size // WIDTH**level:
        yield from ((level, index, WIDTH) for index in range(count // WIDTH))
        if count % WIDTH:
            yield level, count // WIDTH, count % WIDTH
        level += 1


def paths_of(size: int) -> list[str]:
    """Every resource that a log with a checkpoint of *size* must serve."""
    paths = [tile_path(*tile) for tile in tiles_of(size)]
    return ["checkpoint", *paths, *(tile_path("entries", *tile[1:]) for tile in tiles_of(size) if tile[0] == 0)]


def read_bundle(data: bytes, width: int) -> list[bytes]:
    """Sequences "of big-endian uint16 length-prefixed log entries"."""
    entries, at = [], 0
    while at < len(data):
        begin = at + 2
        at = begin + int.from_bytes(data[at:begin], "big")
        entries.append(data[begin:at])
    need(at == len(data), "a bundle that ends within an entry")
    need(len(entries) == width, f"a bundle of {len(entries)} entries where there are {width}")
    return entries


@dataclass(frozen=True)
class Audited:
    checkpoint: Checkpoint
    entries: list[bytes]
    tree: Tree


def audit(get: Get, keys: Sequence[Key], note: bytes | None = None) -> Audited:
    """Read the whole log under its checkpoint (or under *note*, an older one) and derive it anew from its entries."""
    checkpoint = open_checkpoint(get("checkpoint") if note is None else note, keys)
    entries: list[bytes] = []
    for level, index, width in tiles_of(checkpoint.size):
        if level == 0:
            entries += read_bundle(get(tile_path("entries", index, width)), width)
    tree = Tree([leaf_hash(entry) for entry in entries])
    for level, index, width in tiles_of(checkpoint.size):
        derived = tree.levels[level][index * WIDTH : index * WIDTH + width]
        path = tile_path(level, index, width)
        need(get(path) == b"".join(derived), f"{path} is not what the entries hash to")
    need(tree.mth(0, checkpoint.size) == checkpoint.root, "the root is not what the entries hash to")
    return Audited(checkpoint, entries, tree)


def over_http(prefix: str) -> Get:
    """The resources at a URL, by the types and codings that tlog-tiles names."""

    def get(path: str) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the test gives the address
            f"{prefix}/{path}", headers={"Accept-Encoding": "gzip, identity"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310
                body, headers = response.read(), response.headers
        except urllib.error.HTTPError as error:
            error.close()
            raise TlogError(f"{path}: HTTP {error.code}") from error
        text = "text/plain; charset=utf-8"
        expected = text if path == "checkpoint" else "application/octet-stream"
        need(headers["Content-Type"] == expected, f"{path} has the type {headers['Content-Type']}")
        coding = headers.get("Content-Encoding", "identity")
        need(coding in {"gzip", "identity"}, f"{path} has the coding {coding}")
        return gzip.decompress(body) if coding == "gzip" else bytes(body)

    return get


# -- tlog-proof ----------------------------------------------------------------------------------------------------


def verify_proof(data: bytes, entry: bytes, keys: Sequence[Key]) -> tuple[int, Checkpoint]:
    """The entry's index, and the checkpoint that every one of *keys* has signed and that it is under."""
    head, blank, note = data.partition(b"\n\n")
    need(blank, "a proof without a checkpoint")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise TlogError("a proof that is not ASCII") from error
    need(lines.pop(0) == "c2sp.org/tlog-proof@v1", "not a tlog proof")
    if lines and lines[0].startswith("extra "):
        base64_bytes(lines.pop(0).removeprefix("extra "))
    need(lines and lines[0].startswith("index "), "a proof without an index")
    index = decimal(lines.pop(0).removeprefix("index "))
    path = [base64_bytes(line) for line in lines]
    need(all(len(step) == 32 for step in path), "a step of a proof is a SHA-256 hash")
    checkpoint = open_checkpoint(note, keys)
    derived = root_by_path(leaf_hash(entry), index, checkpoint.size, path)
    need(derived == checkpoint.root, "the path does not lead to the root")
    return index, checkpoint
