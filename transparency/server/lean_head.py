"""The head of a request as a worker reads it: only what most submitters send, only in its plainest form.

Everything else is None: then the connection goes, with every byte that was read, to the owner of the log, whose HTTP
library knows the rest of RFC 9112. So nothing here is lenient: what could be read in two ways is not read at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from transparency.server import media

END: Final = b"\r\n\r\n"
_REQUESTS: Final = {b"POST /entries HTTP/1.1": False, b"POST /entries/batch HTTP/1.1": True}
BEGINNING: Final = b"POST /entries"
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 §5.5: visible characters, spaces and tabs; no others, and nothing beyond ASCII here.
_VALUE: Final = re.compile(rb"[\t\x20-\x7e]*")
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,11}")
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_STATEMENTS: Final = frozenset({media.COSE.encode(), media.STATEMENT.encode()})
_SEQUENCE: Final = media.CBOR_SEQUENCE.encode()
_ANYTHING: Final = frozenset({b"*/*", media.COSE.encode()})
_PLAIN: Final = frozenset({
    b"user-agent", b"accept-encoding", b"accept-language", b"cache-control", b"pragma", b"date", b"traceparent",
    b"tracestate", b"x-request-id", b"x-forwarded-for", b"x-forwarded-proto", b"x-real-ip", b"forwarded", b"via",
})  # fmt: skip
"""Header fields that change nothing here."""


@dataclass(frozen=True, slots=True)
class Head:
    """``length`` is None for a chunked body, which only a batch may have."""

    batch: bool
    host: str
    length: int | None
    authorization: str | None
    close: bool
    expects: bool


@lru_cache(maxsize=1024)
def read_head(data: bytes) -> Head | None:
    """The head in *data*, up to the empty line and without it; None for what is to be read by others.

    A client's heads are alike, so most are known: the same bytes always mean the same.
    """
    lines = data.split(b"\r\n")
    batch = _REQUESTS.get(lines[0])
    if batch is None:
        return None
    fields: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            return None
        if name in fields:
            return None
        fields[name] = value.strip(b" \t")
    return _head(fields, batch=batch)


def _head(fields: dict[bytes, bytes], *, batch: bool) -> Head | None:  # noqa: PLR0911 - one for each way out
    host = fields.pop(b"host", None)
    if host is None or not _HOST.fullmatch(host):
        return None
    kind = fields.pop(b"content-type", None)
    if kind != _SEQUENCE if batch else kind not in _STATEMENTS:
        return None
    length = fields.pop(b"content-length", None)
    if length is None:
        # RFC 9112 §6.3: never both.
        if not batch or fields.pop(b"transfer-encoding", None) != b"chunked":
            return None
    elif not _LENGTH.fullmatch(length):
        return None
    connection = fields.pop(b"connection", b"keep-alive").lower()
    if connection not in (b"keep-alive", b"close"):
        return None
    expect = fields.pop(b"expect", None) if batch else None
    if expect is not None and expect.lower() != b"100-continue":
        return None
    accept = fields.pop(b"accept", b"*/*")
    if accept not in ((b"*/*", _SEQUENCE) if batch else _ANYTHING):
        return None
    authorization = fields.pop(b"authorization", None)
    if not fields.keys() <= _PLAIN:
        return None
    return Head(
        batch,
        host.decode(),
        None if length is None else int(length),
        None if authorization is None else authorization.decode(),
        connection == b"close",
        expect is not None,
    )
