"""A client of mirrors, written from C2SP tlog-mirror and draft-ietf-plants-merkle-tree-certs §4.4 alone.

It shares the hashing of :mod:`tests.interop.tlog_client`, which is of the texts too, and nothing of the project.
"""

from __future__ import annotations

import base64
import gzip
import struct
import urllib.error
import urllib.request
from collections.abc import Sequence

from tests.interop.tlog_client import Tree, decimal, leaf_hash, need, split

PACKAGES = 32


def subtree_proof(tree: Tree, start: int, end: int, size: int) -> list[bytes]:
    """SUBTREE_PROOF(start, end, D_n)."""
    return _subproof(tree, start, end, 0, size, known=True)


def _subproof(tree: Tree, start: int, end: int, begin: int, stop: int, *, known: bool) -> list[bytes]:
    """SUBTREE_SUBPROOF over leaves [begin, stop), by its cases."""
    if (start, end) == (begin, stop):
        return [] if known else [tree.mth(begin, stop)]
    middle = begin + split(stop - begin)
    if end <= middle:
        return [*_subproof(tree, start, end, begin, middle, known=known), tree.mth(middle, stop)]
    if middle <= start:
        return [*_subproof(tree, start, end, middle, stop, known=known), tree.mth(begin, middle)]
    return [*_subproof(tree, middle, end, middle, stop, known=False), tree.mth(begin, middle)]


def consistency_proof(tree: Tree, old: int, new: int) -> list[bytes]:
    """RFC 6962 §2.1.2: the one of the subtree that begins the tree."""
    return subtree_proof(tree, 0, old, new) if 0 < old < new else []


class Pusher:
    """One log to one mirror."""

    def __init__(self, mirror: str, origin: str) -> None:
        self.mirror = mirror
        self.origin = origin
        self.answers: list[int] = []

    def push(self, entries: Sequence[bytes], note: bytes) -> bytes:
        """The mirror's signature lines for the checkpoint in *note*, of the tree over *entries*."""
        size, tree = len(entries), Tree([leaf_hash(entry) for entry in entries])
        old = 0
        while True:
            lines = [f"old {old}", *(base64.b64encode(each).decode() for each in consistency_proof(tree, old, size))]
            status, kind, body = self._post("add-checkpoint", "\n".join(lines).encode() + b"\n\n" + note, {})
            if status == 200:
                break
            need((status, kind) == (409, "text/x.tlog.size"), f"add-checkpoint was answered {status}")
            old = decimal(body.decode().removesuffix("\n"))
        start, end, ticket = 0, size, b""
        while True:
            request = self._upload(tree, entries, start, end, ticket)
            headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
            status, kind, body = self._post("add-entries", gzip.compress(request), headers)
            if status == 200:
                need(end == size, "another checkpoint was cosigned")
                return body
            need(status in (202, 409), f"add-entries was answered {status}")
            need(kind == "text/x.tlog.mirror-info", f"add-entries was answered with {kind}")
            lines = body.decode().split("\n")
            need(len(lines) == 4 and not lines[3], "three lines, each followed by a newline")
            end, start, ticket = decimal(lines[0]), decimal(lines[1]), base64.b64decode(lines[2], validate=True)

    def _upload(self, tree: Tree, entries: Sequence[bytes], start: int, end: int, ticket: bytes) -> bytes:
        origin = self.origin.encode()
        body = struct.pack(">H", len(origin)) + origin + struct.pack(">QQH", start, end, len(ticket)) + ticket
        rounded = start // 256 * 256
        count = -(-end // 256) - rounded // 256 if start < end else 0
        for i in range(min(count, PACKAGES)):
            first, last = max(start, rounded + i * 256), min(end, rounded + (i + 1) * 256)
            for entry in entries[first:last]:
                body += struct.pack(">H", len(entry)) + entry
            proof = subtree_proof(tree, rounded + i * 256, last, end)
            body += bytes([len(proof)]) + b"".join(proof)
        return body

    def _post(self, what: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        request = urllib.request.Request(f"{self.mirror}/{what}", body, headers)  # noqa: S310 - the test gives it
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                answer = response.status, response.headers["Content-Type"], bytes(response.read())
        except urllib.error.HTTPError as error:
            with error:
                answer = error.code, error.headers["Content-Type"], error.read()
        self.answers.append(answer[0])
        return answer
