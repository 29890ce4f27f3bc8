"""The form: a detached statement and its payload in one multipart/form-data body (AMB-9; RFC 7578, RFC 2046 §5.1.1).

The body is in memory and bounded already, so this is a plain function over bytes. It takes what form libraries write
and nothing else: no preamble, no nested parts, no transfer encodings that would give one payload two spellings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from transparency.server import media
from transparency.server.problems import ProblemError

STATEMENT_PART = "statement"
PAYLOAD_PART = "payload"
_PARTS = (STATEMENT_PART, PAYLOAD_PART)
_STATEMENT_TYPES = (media.COSE, media.STATEMENT, media.OCTETS)
_PLAIN_ENCODINGS = ("binary", "8bit", "7bit")
MAX_PART_HEADER = 4096
# RFC 2046 §5.1.1: 1 to 70 characters of bchars, not ending with a space.
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_DISPOSITION = "form-data"


@dataclass(frozen=True, slots=True)
class StatementForm:
    statement: bytes
    payload: bytes

    @classmethod
    def from_bytes(cls, body: bytes, boundary: str | None) -> StatementForm:
        if boundary is None or not _BOUNDARY.fullmatch(boundary):
            raise ProblemError.malformed("multipart/form-data needs a boundary of 1 to 70 characters (RFC 2046 §5.1.1)")
        parts: dict[str, bytes] = {}
        # There are at most two, so a part that is there twice leaves the other one missing.
        for header, content in _parts(body, b"--" + boundary.encode()):
            parts[_name(header)] = content
        for name in _PARTS:
            if name not in parts:
                raise ProblemError.malformed(f"the form has no part '{name}'; it takes 'statement' and 'payload'")
        return cls(parts[STATEMENT_PART], parts[PAYLOAD_PART])


def _parts(body: bytes, dash_boundary: bytes) -> list[tuple[bytes, bytes]]:
    if not body.startswith(dash_boundary):
        raise ProblemError.malformed("the form does not begin with its boundary")
    delimiter = b"\r\n" + dash_boundary
    parts: list[tuple[bytes, bytes]] = []
    at = len(dash_boundary)
    while not body.startswith(b"--", at):
        if len(parts) == len(_PARTS):
            raise ProblemError.malformed("the form has more than its two parts, 'statement' and 'payload'")
        if not body.startswith(b"\r\n", at):
            raise ProblemError.malformed("a boundary of the form is not followed by a line end")
        head_end = body.find(b"\r\n\r\n", at, at + MAX_PART_HEADER)
        if head_end < 0:
            raise ProblemError.malformed("a part of the form has no header, or one that is too long")
        end = body.find(delimiter, head_end + 2)
        if end < 0:
            raise ProblemError.malformed("the form ends inside a part")
        if end < head_end + 4:
            raise ProblemError.malformed("a part of the form has no content")
        parts.append((body[at + 2 : head_end], body[head_end + 4 : end]))
        at = end + len(delimiter)
    if body[at + 2 :] not in (b"", b"\r\n"):
        raise ProblemError.malformed("the form goes on after its last boundary")
    return parts


def _name(header: bytes) -> str:
    """The part's name, after its header was found to say nothing that changes what its content means."""
    name = None
    fields = _fields(header)
    disposition = media.MediaType.parse(f"x/{fields.get('content-disposition', '')}")
    if disposition is not None and disposition.name == f"x/{_DISPOSITION}":
        name = disposition.parameters.get("name")
    if name is None:
        raise ProblemError.malformed("a part of the form has no name (RFC 7578 §4.2)")
    if name not in _PARTS:
        raise ProblemError.malformed("the form has an unknown part; it takes 'statement' and 'payload'")
    if fields.get("content-transfer-encoding", "binary").lower() not in _PLAIN_ENCODINGS:
        raise ProblemError.malformed(f"the part '{name}' has a transfer encoding (RFC 7578 §4.7 forbids it)")
    if name == STATEMENT_PART and "content-type" in fields:
        kind = media.MediaType.parse(fields["content-type"])
        if kind is None or kind.name not in _STATEMENT_TYPES:
            raise ProblemError.malformed("the part 'statement' is not application/cose")
    return name


def _fields(header: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    try:
        lines = header.decode("utf-8").split("\r\n")
    except UnicodeDecodeError:
        raise ProblemError.malformed("the header of a part of the form is not text") from None
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None or match[1].lower() in fields or "\n" in line or "\r" in line:
            raise ProblemError.malformed("the header of a part of the form is malformed")
        fields[match[1].lower()] = match[2]
    return fields
