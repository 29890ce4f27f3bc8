"""Search over HTTP: ``GET /search``, in JSON or CBOR, with receipts on request. Needs a token that may read.

An answer says what it speaks of: ``size`` of the log, how far the index is (``indexed``) and how much it lags. The next
page is the same query with that ``size`` and this answer's ``after``; it stays the same whatever is registered since.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from transparency.cose import base64url
from transparency.cose.cbor import encode
from transparency.errors import NotFoundError, StoreError
from transparency.log.folder import Folder
from transparency.log.log import Found, Log
from transparency.log.search import SearchIndex
from transparency.log.search_entry import IndexedEntry
from transparency.log.search_query import Page
from transparency.log.search_query import search as run
from transparency.server import media
from transparency.server.problems import ProblemError, unavailable
from transparency.server.search_parameters import parse
from transparency.server.service import SERVICE, negotiated
from transparency.statements.statement import Entry, entry_id

_HEADERS: Final = {"Cache-Control": "private, no-cache", "Vary": "Accept"}
_FACTS: Final = (
    "format",
    "sessions",
    "vendor",
    "agent",
    "version",
    "models",
    "tools",
    "folder",
    "paths",
    "start",
    "end",
)


async def search(request: web.Request) -> web.StreamResponse:
    """One page of entries."""
    service = request.app[SERVICE]
    kind = negotiated(request, media.JSON, media.CBOR)
    asked = parse(request.raw_path.partition("?")[2])
    size = service.log.newest_head().size
    if asked.size is not None and asked.size > size:
        raise ProblemError.malformed(f"'size' is beyond this log, which has {size} entries")
    query = asked.query(lambda entry: signed_bytes(service.log, entry))
    index = SearchIndex(Folder(service.log.data).search)
    try:
        # SQLite works without the interpreter's lock; the event loop goes on.
        page = await asyncio.to_thread(run, index, query)
    except (NotFoundError, StoreError):
        # The index is derived and apart: its damage is not the log's, and does not stop it.
        raise unavailable("The search index is being made; ask again later", 5.0) from None
    answer = _answer(page, service.log.newest_head().size)
    if asked.proofs:
        for hit, shown in zip(page.hits, answer["entries"], strict=True):
            shown["receipt"] = service.log.receipt(hit.index)
            await asyncio.sleep(0)  # a hundred receipts are many tiles: let others have their turn
    body = encode(answer) if kind == media.CBOR else _json(answer)
    return web.Response(body=body, headers={**_HEADERS, "Content-Type": kind})


def signed_bytes(log: Log, entry: Entry) -> bytes:
    """The digest of the bytes that an entry signs."""
    found = log.lookup(entry)
    if not isinstance(found, Found):
        raise NotFoundError(f"There is no entry {entry_id(entry)} on this log")
    return log.stored(found.index).tbs_digest


def _answer(page: Page, log_size: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "size": page.size,
        "indexed": page.indexed,
        "lag": max(log_size - page.indexed, 0),
        "entries": [_shown(hit) for hit in page.hits],
    }
    if page.after is not None:
        answer["after"] = page.after
    return answer


def _shown(hit: IndexedEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": hit.index, "entry": entry_id(hit.entry), "time": hit.time}
    if hit.issuer is None:
        return {**shown, "erased": True}
    shown |= {"issuer": hit.issuer, "subject": hit.subject}
    if hit.content is not None:
        shown["content"] = hit.content.hex()
    for name in _FACTS:
        value = getattr(hit.facts, name)
        if value not in (None, "", ()):
            shown[name] = list(value) if isinstance(value, tuple) else value
    if not hit.facts.complete:
        shown["complete"] = False
    if hit.awaits:
        shown["record"] = "not here"
    return shown


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, default=base64url.encode).encode()
