"""A log whose service is not there, only its files: what a service would answer is computed from them (docs/export.md).

A receipt is a tree head and a path, so the heads and the tiles are all receipts there will ever be, in a file for 256
entries instead of one for each. Nothing computed here is believed for that: a receipt carries the log's signature, a
tlog-proof that of its checkpoint, and whoever asked checks them as if the log had answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from yarl import URL

from transparency.client.static_layout import (
    KEY_SET,
    KEYS,
    MARKER,
    MAX_HEADS,
    MAX_MARKER,
    MAX_STATEMENTS,
    Marker,
    heads_path,
    large_path,
    read_heads,
    read_items,
    receipt_path,
    statements_path,
    write_heads,
)
from transparency.client.tiles import TileClient, TiledTree
from transparency.client.transport import Answer, Transport
from transparency.cose import cbor
from transparency.cose.keys import PublicKey
from transparency.errors import (
    MalformedError,
    RedirectedError,
    ServiceRefusedError,
    TransparencyError,
    UnreachableError,
)
from transparency.merkle.proofs import consistency_path, inclusion_path
from transparency.merkle.tiles import WIDTH, tile_width
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.proof import TlogProof
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys
from transparency.statements.media_types import CBOR, CBOR_SEQUENCE, COSE
from transparency.statements.receipt import (
    Receipt,
    SignedHead,
    consistency_receipt,
    inclusion_receipt,
    with_tlog_proof,
)
from transparency.statements.statement import Entry, entry_id, parse_entry_id
from transparency.statements.transparent import attach_receipts

MAX_RECEIPT: Final = 256 * 1024
MAX_KEYS: Final = 16 * 1024 * 1024
MAX_LARGE: Final = 128 * 1024 * 1024
PAGE_BYTES: Final = 4 * 1024 * 1024
# Of the entries that were read to find one, so many are remembered: some 40 MB.
REMEMBERED: Final = 1 << 18
_ABSENT: Final = (403, 404)  # a bucket that may not be listed says 403 of what it does not have
_ROW: Final = (int, bytes, int, int, (bytes, type(None)), (bytes, type(None)))
_TEXT: Final = "text/plain; charset=utf-8"


def may_be_static(error: ServiceRefusedError | RedirectedError) -> bool:
    """Whether an answer is what a server of files gives to a question.

    It redirects who asks for ``entries/ID`` where receipts are files: that is a folder then. Nobody goes there.
    """
    return isinstance(error, RedirectedError) or error.status in _ABSENT


class StaticLog:
    """One log's files, asked as its service would be, where that has answered that there is no such thing."""

    def __init__(self, url: URL, transport: Transport) -> None:
        self._url = url
        self._files = TileClient(str(url), transport=transport)
        self._marker: Marker | None = None
        self._tree: TiledTree | None = None
        self._places: dict[bytes, int] = {}

    async def answer(self, url: URL) -> Answer | None:  # noqa: PLR0911 - a table in effect
        """What the service would say to GET *url*; None if this is no export, or nothing that can be computed."""
        path, query = self._path_of(url), url.query
        if path is None or not await self._is_export():
            return None
        match path.split("/"):
            case [".well-known", "scitt-keys"]:
                return _made(await self._files.file(KEY_SET, MAX_KEYS), CBOR)
            case [".well-known", "scitt-keys", segment]:
                return _made(await self._key(segment), CBOR)
            case ["entries", name]:
                return _made(await self._receipt(parse_entry_id(name), query), COSE)
            case ["entries", name, "proof"]:
                return _made(await self._proof(await self._find(parse_entry_id(name))), _TEXT)
            case ["entries", name, "statement"]:
                return _made(await self._statement(parse_entry_id(name)), COSE)
            case ["consistency"]:
                return _made(await self._consistency(query), COSE)
            case ["export", "entries"]:
                return _made(await self._rows_from(_number(query, "from") or 0), CBOR_SEQUENCE)
            case ["export", "heads"]:
                return _made(await self._heads_from(_number(query, "from") or 0), CBOR_SEQUENCE)
        return None

    def _path_of(self, url: URL) -> str | None:
        base = self._url.raw_path.rstrip("/") + "/"
        if url.raw_path.startswith(base):
            return url.raw_path.removeprefix(base)
        # A service has its keys at the root of its origin (RFC 8615), an export below its own prefix.
        known = url.raw_path.removeprefix("/")
        return known if known.startswith(KEY_SET) else None

    async def _is_export(self) -> bool:
        if self._marker is None:
            try:
                self._marker = Marker.from_bytes(await self._files.file(MARKER, MAX_MARKER))
            except (ServiceRefusedError, RedirectedError):
                return False
            except MalformedError as error:
                raise UnreachableError(
                    f"{MARKER} in {self._url} is broken, so nothing can be read from this export: {error}; "
                    "`transparency log export` to an empty place makes another"
                ) from error
        return True

    # -- the tree ------------------------------------------------------------------------------------------------

    async def _signed(self) -> tuple[SignedCheckpoint, TiledTree]:
        try:
            signed = SignedCheckpoint.from_bytes(await self._files.checkpoint())
        except MalformedError as error:
            raise UnreachableError(f"the checkpoint in {self._url} is none: {error}") from error
        if self._tree is None or self._tree.checkpoint != signed.checkpoint:
            self._tree = TiledTree(self._files, signed.checkpoint)
        return signed, self._tree

    async def _find(self, entry: Entry) -> int:
        """The index of an entry: where its receipt says, if that is a file, else by reading them, the newest first."""
        known = self._places.get(entry)
        if known is not None:
            return known
        _, tree = await self._signed()
        known = await self._hinted(entry, tree)
        if known is not None:
            return known
        for bundle in reversed(range(-(-tree.size // WIDTH))):
            first = bundle * WIDTH
            async for index, found in tree.entries(first, first + WIDTH):
                if len(self._places) < REMEMBERED:
                    self._places[found] = index
                if found == entry:
                    known = index
            if known is not None:
                return known
        raise _missing(f"there is no such entry among the {tree.size} in {self._url}")

    async def _hinted(self, entry: Entry, tree: TiledTree) -> int | None:
        """The index that the receipt's file speaks of, if the entry is there.

        Nothing else is taken from that file: it is for clients that compute nothing, and what it says may be anything.
        """
        if self._marker is None or self._marker.receipts is None:
            return None
        try:
            stored = await self._files.file(receipt_path(entry_id(entry)), MAX_RECEIPT)
            for proof in Receipt.from_bytes(stored).inclusion[:1]:
                async for index, found in tree.entries(proof.index, proof.index + 1):
                    return index if found == entry else None
        except TransparencyError:
            pass
        return None

    async def _proof(self, index: int) -> bytes:
        signed, tree = await self._signed()
        return TlogProof(index, tuple(await tree.inclusion_path(index)), signed.to_bytes()).to_bytes()

    # -- receipts ------------------------------------------------------------------------------------------------

    async def _receipt(self, entry: Entry, query: Mapping[str, str]) -> bytes:
        size, witnessed = _number(query, "size"), query.get("witnessed") == "1"
        index = await self._find(entry)
        receipt = await self._receipt_at(index, size)
        return with_tlog_proof(receipt, await self._proof(index)) if witnessed else receipt

    async def _receipt_at(self, index: int, size: int | None = None) -> bytes:
        _, tree = await self._signed()
        head = await self._head_for(index) if size is None else await self._head_of(size)
        if index >= head.size:
            raise _missing(f"the tree head of size {head.size} does not cover index {index}")
        return inclusion_receipt(head, index, await tree.computed(lambda read: inclusion_path(index, head.size, read)))

    async def _head_for(self, index: int) -> SignedHead:
        """As a service chooses it (log/receipts.py): the first that covers the entry, while its key is in use."""
        _, tree = await self._signed()
        first = next(head for head in await self._heads(index // WIDTH) if head.size > index)
        newest = await self._head_of(tree.size)
        keys = ServiceKeys.from_toml(await self._files.file(KEYS, MAX_KEYS))
        current = (*keys.current(keyset.RECEIPTS), *keys.at(keyset.RECEIPTS, newest.time))
        return first if any(key.kid == first.kid for key in current) else newest

    async def _head_of(self, size: int) -> SignedHead:
        _, tree = await self._signed()
        heads = await self._heads((size - 1) // WIDTH) if 1 <= size <= tree.size else []
        for head in heads:
            if head.size == size:
                return head
        raise _missing(f"this log has signed no tree head of size {size}")

    async def _heads(self, bundle: int) -> list[SignedHead]:
        _, tree = await self._signed()
        width = tile_width(0, bundle, tree.size)
        body, _ = await self._files.wide(lambda wide: heads_path(bundle, wide), width, MAX_HEADS)
        try:
            # A full file may know of heads beyond the checkpoint that is read here.
            heads = [head for head in read_heads(body) if head.size <= tree.size]
        except MalformedError as error:
            raise UnreachableError(f"{heads_path(bundle)} in {self._url} does not hold tree heads: {error}") from error
        if not heads or heads[-1].size < min((bundle + 1) * WIDTH, tree.size):
            raise UnreachableError(f"{heads_path(bundle)} in {self._url} does not cover its entries")
        return heads

    async def _consistency(self, query: Mapping[str, str]) -> bytes:
        _, tree = await self._signed()
        old, new = _number(query, "from") or 0, _number(query, "to")
        if not 0 < old < (tree.size if new is None else new):
            raise _missing(f"a consistency proof leads to a larger tree; {old} is not below the one asked for")
        await self._head_of(old)
        head = await self._head_of(tree.size if new is None else new)
        return consistency_receipt(head, old, await tree.computed(lambda read: consistency_path(old, head.size, read)))

    async def _key(self, segment: str) -> bytes:
        keys = cbor.decode(await self._files.file(KEY_SET, MAX_KEYS), max_depth=4)
        for item in keys if isinstance(keys, list) else ():
            encoded = cbor.encode(item)
            if segment in keyset.segments_of(PublicKey.from_cose_key_bytes(encoded).kid):
                return encoded
        raise _missing("no key could be found for this kid value")

    # -- statements ----------------------------------------------------------------------------------------------

    async def _heads_from(self, after: int) -> bytes:
        _, tree = await self._signed()
        if after >= tree.size:
            return b""
        return write_heads(head for head in await self._heads(after // WIDTH) if after < head.size <= tree.size)

    async def _rows_from(self, start: int) -> bytes:
        """A page as ``GET /export/entries`` gives it: at least one entry, unless there is none left."""
        _, tree = await self._signed()
        if self._marker is None or self._marker.statements is None:
            raise _missing(f"{self._url} holds no statements: they are exported where `--statements` asks for them")
        if start >= tree.size:
            return b""
        page = bytearray()
        for row in await self._rows(start // WIDTH):
            if row[0] >= start:
                page += cbor.encode(await self._whole(row))
            if len(page) >= PAGE_BYTES:
                break
        return bytes(page)

    async def _rows(self, bundle: int) -> list[list[Any]]:
        _, tree = await self._signed()
        width = tile_width(0, bundle, tree.size)
        body, wide = await self._files.wide(lambda wide: statements_path(bundle, wide), width, MAX_STATEMENTS)
        try:
            rows = read_items(body, _ROW)
        except MalformedError as error:
            raise UnreachableError(f"{statements_path(bundle)} in {self._url} is none: {error}") from error
        if [row[0] for row in rows] != list(range(bundle * WIDTH, bundle * WIDTH + wide)):
            raise UnreachableError(f"{statements_path(bundle)} in {self._url} does not hold its entries")
        return rows[:width]

    async def _whole(self, row: list[Any]) -> list[Any]:
        """With what lies in a file of its own."""
        if row[4] is not None:
            return row
        path = large_path(entry_id(Entry(row[1])))
        value = cbor.decode(await self._files.file(path, MAX_LARGE), max_depth=2)
        if not isinstance(value, list) or [type(each) for each in value] != [bytes, bytes]:
            raise UnreachableError(f"{path} in {self._url} is not a statement and its collateral")
        return [*row[:4], *value]

    async def _statement(self, entry: Entry) -> bytes:
        if self._marker is None or self._marker.statements is None:
            raise _missing(f"{self._url} holds no statements: they are exported where `--statements` asks for them")
        index = await self._find(entry)
        row = await self._whole((await self._rows(index // WIDTH))[index % WIDTH])
        if row[4] == b"":
            raise ServiceRefusedError(410, "Gone", "the statement was erased; its receipt stays")
        return attach_receipts(row[4], [await self._receipt_at(index)])


def _made(body: bytes, kind: str) -> Answer:
    return Answer(200, {"Content-Type": kind}, body, None)


def _missing(words: str) -> ServiceRefusedError:
    return ServiceRefusedError(404, "Not found", words)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 16:
        raise MalformedError(f"{name} is not a number")
    return int(text)
