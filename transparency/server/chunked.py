"""The framing of a request's body (RFC 9112 §6, §7.1): by its length, or in chunks. Sans I/O, strict."""

from __future__ import annotations

import re

from transparency.errors import MalformedError

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
# No extensions and no trailer: nobody sends them, and both have been ways to smuggle.
_MAX_SIZE_LINE = 10
_LINE_END = b"\r\n"


class Body:
    """Takes what comes behind the head; gives the content."""

    def __init__(self, length: int | None) -> None:
        """*length* is the Content-Length; None: chunked."""
        self._chunked = length is None
        self._left = length or 0
        self._held = b""
        self._in_chunk = False
        self.complete = length == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The content in *data*, and what is behind the body once that is complete."""
        if not self._chunked:
            content = data[: self._left]
            self._left -= len(content)
            self.complete = not self._left
            return content, data[len(content) :]
        return self._feed_chunks(self._held + data)

    def _feed_chunks(self, data: bytes) -> tuple[bytes, bytes]:
        content = []
        at = 0
        while at < len(data) or self._in_chunk:
            if self._in_chunk:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left or len(data) < at + len(_LINE_END):
                    break
                _expect(data[at : at + len(_LINE_END)])
                at += len(_LINE_END)
                self._in_chunk = False
                continue
            end = data.find(_LINE_END, at, at + _MAX_SIZE_LINE)
            if end < 0:
                if len(data) - at >= _MAX_SIZE_LINE:
                    raise MalformedError("a chunk of the body does not begin with its size")
                break
            self._left = _size(data[at:end])
            if self._left == 0:
                if len(data) < end + 2 * len(_LINE_END):
                    break
                _expect(data[end + len(_LINE_END) : end + 2 * len(_LINE_END)])
                self.complete = True
                self._held = b""
                return b"".join(content), data[end + 2 * len(_LINE_END) :]
            at = end + len(_LINE_END)
            self._in_chunk = True
        self._held = data[at:]
        return b"".join(content), b""


def _size(line: bytes) -> int:
    if not _SIZE.fullmatch(line):
        raise MalformedError("a chunk of the body does not begin with its size")
    return int(line, 16)


def _expect(line: bytes) -> None:
    if line != _LINE_END:
        raise MalformedError("a chunk of the body does not end where it says")


def chunk(content: bytes) -> bytes:
    """*content*, not empty, as a chunk of an answer."""
    return b"%x\r\n%b\r\n" % (len(content), content)


LAST_CHUNK = b"0\r\n\r\n"
