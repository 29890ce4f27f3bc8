"""The export: a log as plain files, for a web server or a bucket behind a CDN (client/static_layout.py has the layout).

Safety argument
---------------
1. The checkpoint is written last. Whatever a checkpoint at the target promises was there before it, so that a reader
   never sees one whose tiles are missing, wherever an export was killed.
2. Everything else but the documents in force has a name that says what is in it: a full bundle is the same for ever,
   and a partial one has its width in its name. Two exporters write the same bytes, or other files. (What is erased is
   taken out of its bundle; whoever writes that bundle reads it from the log, which has erased it.)
3. The checkpoint, the key sets and the policy are swapped only for newer ones, compared and set where there is no
   lock. An exporter that is late changes nothing.
4. ``export.json`` says how far each part is written. It is written after what it speaks of and only speaks of what
   stays true, so an older one over a newer costs work and nothing else. A run goes on from there, whoever was killed.
5. A target that holds another log, or a tree that this log's does not continue, is left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from transparency.client.static_layout import (
    ARTIFACTS,
    KEY_SET,
    KEYS,
    MARKER,
    POLICY,
    Marker,
    document_path,
    heads_path,
    receipt_path,
    statements_path,
    write_heads,
)
from transparency.errors import GoneError, MalformedError, NotFoundError, StoreError
from transparency.log.documents import read_keys, read_policy
from transparency.log.static_found import check_history, read_checkpoint, read_marker
from transparency.log.static_source import Source
from transparency.log.static_statements import Statements
from transparency.log.static_target import Target
from transparency.log.static_writer import Writer
from transparency.log.store import DOCUMENTS, Kind, StoredEntry
from transparency.merkle.proofs import inclusion_path
from transparency.merkle.tiles import HEIGHT, WIDTH, TileHashes, tile_path, widths
from transparency.notes.bundle import write_bundle
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.paths import CHECKPOINT, entries_path
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.document import Policy
from transparency.policy.key_directory import KeyDirectory
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import SignedHead, inclusion_receipt
from transparency.statements.statement import Entry, Statement, entry_id
from transparency.statements.transparent import attach_receipts
from transparency.verifier.evidence import log_times

# Bundles between two notes of how far it is; what a killed run wrote after the last one is written again.
CHUNK: Final = 64

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """What is exported beside the tree. What a target has once is kept up to date from then on, asked for or not."""

    statements: bool = False
    receipts: bool = False
    artifacts: bool = False


@dataclass(slots=True)
class Exported:
    """What a run did. ``ahead``: the target had a larger tree already, and was left as it was."""

    origin: str
    size: int
    before: int = 0
    written: int = 0
    bytes: int = 0
    erased: int = 0
    mended: int = 0
    ahead: bool = False
    awaited: tuple[int, ...] = field(default=())


def export(
    source: Source, target: Target, parts: Parts, progress: Progress | None = None, *, check: bool = False
) -> Exported:
    """Bring *target* up to the checkpoint of *source*.

    With *check* every file that should be there is read, and written anew where it is missing or another: what the
    marker says was written may have been lost since.
    """
    with Writer(target, check=check) as writer:
        return _Run(source, target, writer, parts, progress or _silent, check=check).run()


class _Run:
    def __init__(
        self, source: Source, target: Target, writer: Writer, parts: Parts, progress: Progress, *, check: bool
    ) -> None:
        self._source = source
        self._target = target
        self._writer = writer
        self._progress = progress
        self._tree = source.signed.checkpoint
        self._keys = ServiceKeys.from_toml(source.keys)
        self._vkeys = checkpoint_vkeys(self._keys)
        self._hashes = TileHashes(source.tile)
        marker = read_marker(target, self._tree.origin)
        self._there = None if marker is None else read_checkpoint(target, self._tree.origin, self._vkeys)
        self._before = 0 if self._there is None else self._there.checkpoint.size
        self._marker = _asked_for(marker or Marker(self._tree.origin), parts)
        if check:
            self._marker = _from_the_start(self._marker)
        self._fresh = check or self._marker != marker
        self._statements: Statements | None = None
        if self._marker.statements is not None:
            self._statements = Statements(source, target, writer, self._marker.awaited)
        self._heads: Iterator[SignedHead] = iter(())
        self._held: SignedHead | None = None

    def run(self) -> Exported:
        size, before = self._tree.size, self._before
        result = Exported(self._tree.origin, size, before)
        if self._source.root_at(size) != self._tree.root:
            raise StoreError("the log's tiles do not give the root of its checkpoint; nothing was written")
        if self._there is not None:
            check_history(self._target, self._there, self._source, self._vkeys)
        if before > size:
            result.ahead = True
            return result
        if self._fresh:
            self._note()
        if size > before or self._fresh:
            self._write_bundles()
        self._write_documents()
        if self._marker.artifacts:
            self._sync_artifacts(result)
        if self._statements is not None:
            result.awaited = self._statements.carry_out(size)
            result.erased += self._statements.erased
        self._writer.flush()
        newest = self._source.signed.to_bytes()
        if self._target.swap(CHECKPOINT, newest, self._keeps_checkpoint):
            self._writer.count(len(newest))
        there = read_checkpoint(self._target, self._tree.origin, self._vkeys)
        result.ahead = there is not None and there.checkpoint.size > size
        if size > before or self._fresh or result.awaited != self._marker.awaited:
            if not result.ahead:
                self._clear_up(before)
                edges = (size,) if self._statements is not None and size % WIDTH else ()
                self._marker = replace(self._marker, pruned=before, edges=edges)
            # Also by one that was overtaken: what it wrote may be older than what was erased, and is looked at again.
            self._marker = replace(self._marker, awaited=result.awaited)
            self._note()
        result.written, result.bytes, result.mended = self._writer.written, self._writer.bytes, self._writer.mended
        return result

    # -- bundles -------------------------------------------------------------------------------------------------

    def _write_bundles(self) -> None:
        """Every full bundle that is not there yet, then the right edge."""
        size, full = self._tree.size, self._tree.size // WIDTH
        parts = (self._marker.tiles, self._marker.statements, self._marker.receipts)
        start = min(min(done for done in parts if done is not None) // WIDTH, full)
        self._heads = self._source.heads(start * WIDTH)
        if self._statements is not None and self._marker.statements is not None:
            self._statements.begin(self._marker.statements // WIDTH * WIDTH, size)
        for first in range(start, full, CHUNK):
            stop = min(first + CHUNK, full)
            self._write_some(first, stop)
            self._write_above(first, stop)
            self._writer.flush()
            done = stop * WIDTH
            self._marker = replace(
                self._marker,
                tiles=max(self._marker.tiles, done),
                statements=None if self._marker.statements is None else max(self._marker.statements, done),
                receipts=None if self._marker.receipts is None else max(self._marker.receipts, done),
                awaited=self._marker.awaited if self._statements is None else self._statements.orders,
            )
            self._note()
            self._progress(done, size)
        if size % WIDTH:
            if self._statements is not None:
                # Before it is there: whoever comes after a run that was killed knows where to clear up.
                self._marker = replace(self._marker, edges=tuple(sorted({*self._marker.edges, size})))
                self._note()
            self._write_some(full, full + 1)
        self._writer.expecting = size == self._before
        for level, width in list(enumerate(widths(size)))[1:]:
            index = size >> HEIGHT * (level + 1)
            if width:
                self._writer.put(tile_path(level, index, width), self._source.tile(level, index))
        self._progress(size, size)

    def _write_some(self, first: int, stop: int) -> None:
        for index, (tile, entries) in enumerate(self._source.bundles(first, stop), first):
            width = len(entries)
            end = index * WIDTH + width
            heads = self._covering(end)
            self._writer.expecting = end <= self._before
            if end > self._marker.tiles:
                self._writer.put(tile_path(0, index, width), tile)
                self._writer.put(entries_path(index, width), write_bundle(entries))
                self._writer.put(heads_path(index, width), write_heads(heads))
                self._write_registered(self._source.documents(index * WIDTH, end) or (), heads)
            if self._marker.receipts is not None and end > self._marker.receipts:
                for at, entry in enumerate(entries, index * WIDTH):
                    self._writer.put(receipt_path(entry_id(Entry(entry))), self._receipt(at, heads))
            if self._statements is not None and self._marker.statements is not None and end > self._marker.statements:
                rows = self._statements.write(index, width)
                if self._source.documents(0, 0) is None:
                    self._write_registered([row for row in rows if row.kind in DOCUMENTS], heads)

    def _write_above(self, first: int, stop: int) -> None:
        """The full tiles of the levels above that end within these bundles."""
        for level in range(1, len(widths(self._tree.size))):
            shift = HEIGHT * level
            for index in range(first >> shift, stop >> shift):
                self._writer.expecting = (index + 1) << HEIGHT + shift <= self._before
                self._writer.put(tile_path(level, index), self._source.tile(level, index))

    def _covering(self, end: int) -> list[SignedHead]:
        """The heads that the entries up to *end*, from those of the last call on, are first covered by."""
        found = [] if self._held is None else [self._held]
        while not found or found[-1].size < end:
            head = next(self._heads, None)
            if head is None:
                raise StoreError(f"no tree head covers the entries before {end}")
            found.append(head)
        # One that reaches beyond covers the first entries of the next bundle, too.
        self._held = found[-1] if found[-1].size > end else None
        return found

    def _receipt(self, index: int, heads: Sequence[SignedHead]) -> bytes:
        head = next(head for head in heads if head.size > index)
        return inclusion_receipt(head, index, inclusion_path(index, head.size, self._hashes))

    # -- documents, artifacts, checkpoint ------------------------------------------------------------------------

    def _write_registered(self, rows: Sequence[StoredEntry], heads: Sequence[SignedHead]) -> None:
        """The statements that registered policies and key sets, each with its receipt."""
        for row in rows:
            statement = Statement.from_bytes(row.statement)
            if row.kind is Kind.POLICY:
                path = document_path("policy", read_policy(statement, whole=False).generation)
            else:
                path = document_path("keys", read_keys(statement).generation)
            self._writer.put(path, attach_receipts(row.statement, [self._receipt(row.index, heads)]))

    def _write_documents(self) -> None:
        keys, policy = self._keys.generation, Policy.heading(self._source.policy).generation
        self._swap(KEYS, self._source.keys, lambda there: ServiceKeys.from_toml(there).generation > keys)
        self._swap(POLICY, self._source.policy, lambda there: Policy.heading(there).generation > policy)
        directory = KeyDirectory.of(self._keys).key_set
        # Keys stay in it for ever, and what is known of them is only added to: the longer one is the newer.
        self._swap(KEY_SET, directory, lambda there: len(there) > len(directory))

    def _swap(self, path: str, data: bytes, is_newer: Callable[[bytes], bool]) -> None:
        def keeps(there: bytes | None) -> bool:
            if there is None or there == data:
                return there == data
            try:
                return is_newer(there)
            except MalformedError:
                return False

        if self._target.swap(path, data, keeps):
            self._writer.count(len(data))

    def _sync_artifacts(self, result: Exported) -> None:
        store = self._source.artifacts()
        if store is None:
            raise StoreError("records are exported from the log's own folder: name it with --data")
        there = {path.removeprefix(ARTIFACTS) for path in self._target.paths(ARTIFACTS)}
        here = set(store.digests())
        for digest in sorted(here - there):
            if not store.is_sound(digest):
                raise StoreError(f"artifact {digest} is damaged; `transparency log fsck` tells more")
            try:
                with store.open(digest) as file:
                    length = file.seek(0, os.SEEK_END)
                    file.seek(0)
                    self._target.put(ARTIFACTS + digest, file)
            except (GoneError, NotFoundError):
                continue  # erased meanwhile
            self._writer.count(length)
        for digest in sorted(there - here):
            self._target.delete(ARTIFACTS + digest)
            result.erased += 1

    def _keeps_checkpoint(self, data: bytes | None) -> bool:
        """Of one size, the one that was signed later stays, or has more signatures: witnesses answer one by one."""
        ours = self._source.signed
        if data is None or data == ours.to_bytes():
            return data is not None
        there = SignedCheckpoint.from_bytes(data)
        return self._age(there) > self._age(ours)

    def _age(self, signed: SignedCheckpoint) -> tuple[int, int, int]:
        times = log_times(signed, self._vkeys).values()
        return signed.checkpoint.size, max(times, default=0), len(signed.note.signatures)

    def _clear_up(self, before: int) -> None:
        """Partial bundles that nobody needs: those of the checkpoint before last whose tile was full at the last one.

        A reader may still be reading under the last checkpoint. Partial bundles of *statements* go at once, since they
        may hold what was erased; who misses one finds the full one, or asks again.
        """
        size, old = self._tree.size, self._marker.pruned
        for level in range(len(widths(old))):
            index = old >> HEIGHT * (level + 1)
            if (index + 1) << HEIGHT * (level + 1) <= before:
                paths = [tile_path(level, index, 1)]
                paths += [entries_path(index, 1), heads_path(index, 1)] if level == 0 else []
                for path in paths:
                    self._delete_below(path.removesuffix("1"))
        for edge in self._marker.edges:
            narrower = size % WIDTH if edge // WIDTH == size // WIDTH else WIDTH
            self._delete_below(statements_path(edge // WIDTH, 1).removesuffix("1"), narrower)

    def _delete_below(self, prefix: str, width: int = WIDTH) -> None:
        """Partial bundles narrower than *width*: a wider one is that of an exporter who is ahead.

        What else lies there, a desktop or a copying tool has left, and it is theirs.
        """
        for path in list(self._target.paths(prefix)):
            name = path.removeprefix(prefix)
            if name.isascii() and name.isdigit() and int(name) < width:
                self._target.delete(path)

    def _note(self) -> None:
        self._target.put(MARKER, self._marker.to_bytes())


def _asked_for(marker: Marker, parts: Parts) -> Marker:
    if parts.statements and marker.statements is None:
        marker = replace(marker, statements=0)
    if parts.receipts and marker.receipts is None:
        marker = replace(marker, receipts=0)
    return replace(marker, artifacts=True) if parts.artifacts else marker


def _from_the_start(marker: Marker) -> Marker:
    """As if nothing were written yet of what is there: all of it is looked at."""
    return replace(
        marker,
        tiles=0,
        statements=None if marker.statements is None else 0,
        receipts=None if marker.receipts is None else 0,
    )


def _silent(_done: int, _total: int) -> None:
    """No progress asked for."""
