"""The framing of a request's body (RFC 9112 §6, §7.1): by its length, or in chunks. Sans I/O, strict."""

from __future__ import annotations

import re

from transparency.errors import MalformedError

# RFC 9112 §7.1: the size, and extensions, which are ignored as the RFC asks; of visible characters, blanks and tabs.
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e]*)?")
# §7.1.2: fields behind the last chunk, which say nothing to us.
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e]*")
_MAX_LINE = 1024
_MAX_TRAILER_LINES = 32
_LINE_END = b"\r\n"


class Body:
    """Takes what comes behind the head; gives the content.

    ``broken`` is why nothing more can be read of it; what came before is content all the same.
    """

    def __init__(self, length: int | None) -> None:
        """*length* is the Content-Length; None: chunked."""
        self._chunked = length is None
        self._left = length or 0
        self._held = b""
        self._in_chunk = False
        self._trailer_lines: int | None = None
        self.complete = length == 0
        self.broken = ""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The content in *data*, and what is behind the body once that is complete."""
        if self.broken:
            return b"", b""
        if not self._chunked:
            content = data[: self._left]
            self._left -= len(content)
            self.complete = not self._left
            return content, data[len(content) :]
        content_parts: list[bytes] = []
        rest = b""
        try:
            rest = self._feed_chunks(self._held + data, content_parts)
        except MalformedError as error:
            self.broken = str(error)
        return b"".join(content_parts), rest

    def _feed_chunks(self, data: bytes, content: list[bytes]) -> bytes:
        at = 0
        while True:
            if self._in_chunk:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left or len(data) < at + len(_LINE_END):
                    break
                if data[at : at + len(_LINE_END)] != _LINE_END:
                    raise MalformedError("a chunk of the body does not end where it says")
                at += len(_LINE_END)
                self._in_chunk = False
            end = data.find(_LINE_END, at, at + _MAX_LINE)
            if end < 0:
                if len(data) - at >= _MAX_LINE:
                    raise MalformedError("a chunk of the body does not begin with its size")
                break
            line, at = data[at:end], end + len(_LINE_END)
            if self._trailer_lines is not None:
                if not line:
                    self.complete = True
                    self._held = b""
                    return data[at:]
                self._trailer(line)
            else:
                self._left = _size(line)
                self._in_chunk = self._left > 0
                if not self._in_chunk:
                    self._trailer_lines = 0
        self._held = data[at:]
        return b""

    def _trailer(self, line: bytes) -> None:
        self._trailer_lines = (self._trailer_lines or 0) + 1
        if self._trailer_lines > _MAX_TRAILER_LINES or not _FIELD.fullmatch(line):
            raise MalformedError("what follows the last chunk of the body is no trailer")


def _size(line: bytes) -> int:
    match = _SIZE.fullmatch(line)
    if match is None:
        raise MalformedError("a chunk of the body does not begin with its size")
    return int(match[1], 16)


def chunk(content: bytes) -> bytes:
    """*content*, not empty, as a chunk of an answer."""
    return b"%x\r\n%b\r\n" % (len(content), content)


LAST_CHUNK = b"0\r\n\r\n"
