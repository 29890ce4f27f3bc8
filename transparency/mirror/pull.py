"""Following logs: a mirror that asks for what is new itself, and then does with it what it does with an upload.

Nothing of what a log serves is believed. Its checkpoint goes the way of add-checkpoint, with a proof from its tiles;
its entries go the way of add-entries, package by package. So a log that is followed and one that pushes are mirrored
by the same rules, and both may happen at once. What is damaged here is asked for first (mending.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from transparency.client.client import LogClient
from transparency.client.tiles import TileClient
from transparency.display import safe_text
from transparency.errors import (
    NoteError,
    ProofError,
    ServiceRefusedError,
    SignatureInvalidError,
    StoreError,
    TransparencyError,
)
from transparency.merkle.tiles import WIDTH
from transparency.mirror.condition import Code, Condition, Conditions
from transparency.mirror.mending import fetch
from transparency.mirror.mirror import Mirror
from transparency.mirror.shelf import Shelf
from transparency.mirror.source import SourceTree
from transparency.mirror.statements import StatementStore, may_not_read, pages
from transparency.mirror.uploads import BATCH_BYTES, BATCH_PACKAGES
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint, origin_hash
from transparency.notes.requests import AddCheckpoint
from transparency.notes.upload import Package, UploadHead
from transparency.server.problems import ProblemError
from transparency.server.unexpected import log_unexpected
from transparency.witness.decide import Answer
from transparency.witness.keeper import Keeper
from transparency.witness.logs import KnownLog

MOST_NAMED: Final = 8
_OK: Final = 200
_CONFLICT: Final = 409
_UNPROCESSABLE: Final = 422
_logger = logging.getLogger("transparency.mirror")


@dataclass(frozen=True, slots=True)
class PullSettings:
    interval: float = 10.0
    timeout: float = 30.0
    retries: int = 2
    tls: ssl.SSLContext | None = None
    # By origin: of each log its own, which no other log is shown.
    tokens: Mapping[str, str] = field(default_factory=dict)


class Puller:
    """Looks at every log on the list that has a URL, again and again. Owner: the event loop."""

    def __init__(
        self,
        mirror: Mirror,
        keeper: Keeper,
        conditions: Conditions,
        settings: PullSettings,
        shelf: Shelf,
        statements: StatementStore,
    ) -> None:
        self._shelf = shelf
        self._statements = statements
        # Of these logs there are no statements to be had.
        self._silent: set[str] = set()
        self._mirror = mirror
        self._keeper = keeper
        self._conditions = conditions
        self._settings = settings

    async def run(self) -> None:
        """Until it is cancelled, or the mirror cannot keep what it is given. A log that is slow holds up nobody."""
        under_way: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for origin in [origin for origin, task in under_way.items() if task.done()]:
                    under_way.pop(origin).result()
                for log in await self._logs():
                    if log.origin not in under_way:
                        under_way[log.origin] = asyncio.create_task(self._follow(log))
                await asyncio.sleep(self._settings.interval)
        finally:
            for task in under_way.values():
                task.cancel()
            await asyncio.gather(*under_way.values(), return_exceptions=True)

    async def round(self) -> None:
        """Every log once, side by side."""
        await asyncio.gather(*map(self._follow, await self._logs()))

    async def _logs(self) -> list[KnownLog]:
        """Those that have a URL, by the list as it is now."""
        await asyncio.to_thread(self._keeper.logs.refresh)
        logs = [log for log in self._keeper.logs.all() if log.url is not None]
        for origin in set(self._conditions.all) - {log.origin for log in logs}:
            self._conditions.forget(origin)
        return logs

    async def _follow(self, log: KnownLog) -> None:
        if log.origin not in self._mirror.damaged or await self._mend(log):
            self._conditions.note(log.origin, await self._judged(log, self._look))

    async def _mend(self, log: KnownLog) -> bool:
        """Put back what is damaged here, bundle by bundle; whether the log is whole now."""
        found = await self._judged(log, self._fetch_again)
        if log.origin not in self._mirror.damaged:
            return True
        if found.code is Code.BAD_TILE:
            words = f"what the log shows there is not what was cosigned: {found.detail}"
            self._mirror.note_tried(log.origin, words, logging.ERROR)
        elif found.code is Code.CURRENT:
            self._mirror.note_tried(log.origin, "what the log has of it does not make it whole", logging.ERROR)
        else:
            words = f"it could not be fetched again: {found.detail}"
            self._mirror.note_tried(log.origin, words, logging.WARNING)
        return False

    async def _fetch_again(self, log: KnownLog) -> Condition:
        mended: list[int] = []
        async with self._tiles(log) as client:
            # A place that is damaged again right after it was put back is left to the next round.
            while (wanted := self._mirror.wanted(log.origin)) is not None and wanted.index not in mended:
                if await asyncio.to_thread(self._mirror.mend, log.origin, await fetch(client, wanted)):
                    mended.append(wanted.index)
        if log.origin not in self._mirror.damaged:
            places = ", ".join(str(index * WIDTH) for index in mended[:MOST_NAMED])
            _logger.warning(
                "%s: mended: entries from %s on were fetched again, are those that were proven before, and are here",
                safe_text(log.origin, 100), f"{places} and others" if len(mended) > MOST_NAMED else places,
            )  # fmt: skip
        return Condition(Code.CURRENT)

    async def _judged(self, log: KnownLog, work: Callable[[KnownLog], Awaitable[Condition]]) -> Condition:
        """What it comes to, be it an error."""
        try:
            found = await work(log)
        except StoreError:
            raise
        except ProofError as error:
            found = Condition(Code.BAD_TILE, str(error))
        except (NoteError, SignatureInvalidError) as error:
            found = Condition(Code.BAD_CHECKPOINT, str(error))
        except ProblemError as error:
            found = Condition(Code.BUSY, error.detail)
        except TransparencyError as error:
            found = Condition(Code.UNREACHABLE, str(error))
        except ModuleNotFoundError as error:
            found = Condition(Code.UNREACHABLE, f"a log in a bucket needs the extra `export`: no {error.name} here")
        except Exception as error:  # noqa: BLE001 - a fault of ours about one log is no reason to leave the others
            log_unexpected("following a log", error)
            found = Condition(Code.UNREACHABLE, f"it could not be looked at ({type(error).__name__}); this is a bug")
        return found

    def _tiles(self, log: KnownLog) -> TileClient:
        assert log.url is not None  # noqa: S101 - chosen by that
        settings = self._settings
        return TileClient(log.url, timeout=settings.timeout, retries=settings.retries, tls=settings.tls)

    async def _look(self, log: KnownLog) -> Condition:
        async with self._tiles(log) as client:
            signed = open_checkpoint(await client.checkpoint(), log.vkeys)
            if signed.checkpoint.origin != log.origin:
                return Condition(Code.BAD_CHECKPOINT, f"it is of another log: {signed.checkpoint.origin}")
            tree = SourceTree(client, signed.checkpoint)
            found = await self._point(signed, tree) or await self._fill(signed, tree)
        if found.code is Code.CURRENT and log.origin not in self._silent:
            await self._keep_statements(log)
        return found

    async def _point(self, signed: SignedCheckpoint, tree: SourceTree) -> Condition | None:
        """Make it the pending checkpoint; a condition where it does not become that."""
        size = tree.size
        pending = self._mirror.pending(signed.checkpoint.origin)
        old = 0 if pending is None else pending.size
        if size < old:
            return Condition(Code.ROLLBACK, f"it shows {size} entries, and had {old} before")
        await tree.check_root()
        path = tuple(await tree.consistency_path(old)) if 0 < old < size else ()
        answer = await self._keeper.add(AddCheckpoint(old, path, signed.to_bytes()).to_bytes())
        if answer.status == _OK:
            return None
        if answer.status == _CONFLICT:
            return Condition(Code.BUSY, "another has moved the pending checkpoint meanwhile")
        if answer.status == _UNPROCESSABLE:
            return Condition(Code.SPLIT_VIEW, answer.detail)
        return Condition(Code.BAD_CHECKPOINT, answer.detail)

    async def _fill(self, signed: SignedCheckpoint, tree: SourceTree) -> Condition:
        """Every entry that is not here yet, and then the cosignature."""
        origin = signed.checkpoint.origin
        start = min(self._mirror.next_entry(origin), tree.size)
        head = UploadHead(origin.encode(), start, tree.size)
        upload = await asyncio.to_thread(self._mirror.begin, head, lambda _: True)
        if isinstance(upload, Answer):
            return Condition(Code.BUSY, "another is ahead of what this log shows here")
        async with contextlib.aclosing(_batches(tree, start)) as batches:
            async for batch in batches:
                await asyncio.to_thread(self._mirror.save, upload, batch)
        done = await asyncio.to_thread(self._mirror.finish, upload)
        if done.status != _OK:
            return Condition(Code.BUSY, "another is ahead of what this log shows here")
        return Condition(Code.CURRENT)

    async def _keep_statements(self, log: KnownLog) -> None:
        """What the log says beside its entries, as far as they are cosigned; if it says that to us at all."""
        assert log.url is not None  # noqa: S101 - chosen by that
        settings, shelved = self._settings, self._shelf.find(origin_hash(log.origin))
        start = await asyncio.to_thread(self._statements.end, log.origin)
        if start >= shelved.record.size:
            return
        token = settings.tokens.get(log.origin)
        async with LogClient(log.url, token=token, timeout=settings.timeout, retries=1, tls=settings.tls) as client:
            try:
                async with contextlib.aclosing(pages(client, start, shelved.record.size, shelved.entry)) as found:
                    async for page in found:
                        await asyncio.to_thread(self._statements.keep, log.origin, page.rows, page.erased)
            except ServiceRefusedError as error:
                if not may_not_read(error):
                    raise
                self._silent.add(log.origin)


async def _batches(tree: SourceTree, start: int) -> AsyncGenerator[Sequence[Package], None]:
    """As many packages as are kept in one flush of the disk."""
    batch: list[Package] = []
    held = 0
    async for package in tree.packages(start):
        batch.append(package)
        held += sum(map(len, package.entries))
        if len(batch) >= BATCH_PACKAGES or held >= BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
