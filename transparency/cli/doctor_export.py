"""What ``doctor`` asks of a log that is only files: no clock and no health, but a checkpoint and its tiles."""

from __future__ import annotations

import asyncio

from transparency.cli.connection import tls_context
from transparency.cli.doctor_checks import Finding
from transparency.cli.errors import describe, one_line
from transparency.client.static_layout import MARKER, MAX_MARKER, Marker
from transparency.client.tiles import TileClient, TiledTree
from transparency.errors import RedirectedError, ServiceRefusedError, TransparencyError
from transparency.notes.checkpoint import SignedCheckpoint

_TIMEOUT = 10.0


def look_at_export(log: str, cacert: str | None) -> Finding | None:
    """What is to be said of an export; None of a log that is served."""
    return asyncio.run(_look(log, cacert))


async def _look(log: str, cacert: str | None) -> Finding | None:
    async with TileClient(log, timeout=_TIMEOUT, retries=1, tls=tls_context(cacert)) as files:
        try:
            marker = await files.file(MARKER, MAX_MARKER)
        except (ServiceRefusedError, RedirectedError):
            return None
        try:
            Marker.from_bytes(marker)
            checkpoint = SignedCheckpoint.from_bytes(await files.checkpoint()).checkpoint
            await TiledTree(files, checkpoint).check_root()
        except TransparencyError as error:
            told = one_line(describe(error).message)
            return Finding("fail", "export", f"{told}; `transparency log export --check` writes what is missing")
    return Finding(
        "ok",
        "export",
        f"{checkpoint.size} entries of {checkpoint.origin}: the tiles at its edge give the root of its checkpoint",
    )
