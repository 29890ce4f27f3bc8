"""A tiled log that is nothing but files, written from the C2SP texts alone: what others may serve, for our client.

It shares the hashing of :mod:`tests.interop.tlog_client`, which is of the texts too, and nothing of the project.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from tests.interop.tlog_client import COSIGNATURE, ED25519, ML_DSA_44, WIDTH, Tree, leaf_hash, tile_path, tiles_of


class Signer:
    """A key under a name: a log's (0x01) or a witness' (0x04) with Ed25519, anybody's with ML-DSA-44 (0x06)."""

    def __init__(self, name: str, kind: int) -> None:
        self.name = name
        self.kind = kind
        self._key = MLDSA44PrivateKey.generate() if kind == ML_DSA_44 else Ed25519PrivateKey.generate()
        self._material = bytes([kind]) + self._key.public_key().public_bytes_raw()
        self._id = sha256(name.encode() + b"\n" + self._material).digest()[:4]

    @property
    def vkey(self) -> str:
        return f"{self.name}+{self._id.hex()}+{_base64(self._material)}"

    def line(self, text: bytes, time: int) -> bytes:
        """The signature line for a checkpoint's text."""
        stamp = time.to_bytes(8, "big")
        if self.kind == ED25519:
            signature = self._key.sign(text)
        elif self.kind == COSIGNATURE:
            signature = stamp + self._key.sign(b"cosignature/v1\ntime %d\n%b" % (time, text))
        else:
            origin, size, root = text.decode().split("\n")[:3]
            names = [bytes([len(name.encode())]) + name.encode() for name in (self.name, origin)]
            tree = bytes(8) + int(size).to_bytes(8, "big") + base64.b64decode(root)
            signature = stamp + self._key.sign(b"subtree/v1\n\0" + names[0] + stamp + names[1] + tree)
        return f"\u2014 {self.name} {_base64(self._id + signature)}\n".encode()


class Writer:
    """``files`` are what a web server has to serve. Partial tiles that became full are deleted, as the text allows."""

    def __init__(self, origin: str, signers: Sequence[Signer]) -> None:
        self.origin = origin
        self.signers = signers
        self.entries: list[bytes] = []
        self.files: dict[str, bytes] = {}

    def publish(self, entries: Sequence[bytes], time: int) -> None:
        self.entries += entries
        size = len(self.entries)
        tree = Tree([leaf_hash(entry) for entry in self.entries])
        for level, index, width in tiles_of(size):
            places = slice(index * WIDTH, index * WIDTH + width)
            self._write(level, index, width, b"".join(tree.levels[level][places]))
            if level == 0:
                bundle = b"".join(len(entry).to_bytes(2, "big") + entry for entry in self.entries[places])
                self._write("entries", index, width, bundle)
        text = f"{self.origin}\n{size}\n{_base64(tree.mth(0, size))}\n".encode()
        self.files["checkpoint"] = text + b"\n" + b"".join(signer.line(text, time) for signer in self.signers)

    def _write(self, level: int | str, index: int, width: int, content: bytes) -> None:
        self.files[tile_path(level, index, width)] = content
        if width == WIDTH:
            partial = f"{tile_path(level, index, WIDTH)}.p/"
            for path in [path for path in self.files if path.startswith(partial)]:
                del self.files[path]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
