"""Frames: whole messages over a stream between the processes of one server. Sans I/O.

A frame is its length (4 bytes, big-endian, of what follows), its kind (1 byte) and a CBOR value. Both ends are this
program, over a pair of sockets that no one else can open, so the values are not judged again; a length is all the same:
a peer that lost its place must not have this one wait for four gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import cbor2

from transparency.errors import MalformedError

# More than a worker may have under way (server/registrar.py), with what stands around it.
MAX_FRAME: Final = 128 * 1024 * 1024
_HEAD: Final = struct.Struct(">IB")
_KIND_BYTES: Final = 1


def frame(kind: int, value: object) -> bytes:
    body = cbor2.dumps(value)
    if len(body) + _KIND_BYTES > MAX_FRAME:
        raise ValueError(f"a frame of {len(body)} bytes is longer than any may be")
    return _HEAD.pack(len(body) + _KIND_BYTES, kind) + body


class FrameReader:
    """Puts frames together from pieces as they come."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """Each frame that *data* completes: its kind and value."""
        held = self._held
        held += data
        at = 0
        try:
            while len(held) - at >= _HEAD.size:
                length, kind = _HEAD.unpack_from(held, at)
                if not _KIND_BYTES <= length <= MAX_FRAME:
                    raise MalformedError(f"a frame says that it has {length} bytes")
                end = at + _HEAD.size - _KIND_BYTES + length
                if len(held) < end:
                    return
                with memoryview(held) as view:
                    body = bytes(view[at + _HEAD.size : end])  # one copy, not two
                at = end
                yield kind, _value(body)
        finally:
            del held[:at]


def _value(body: bytes) -> Any:  # noqa: ANN401 - whatever the other side sent
    try:
        return cbor2.loads(body)
    except (cbor2.CBORDecodeError, ValueError) as error:
        raise MalformedError("a frame holds no CBOR value") from error
