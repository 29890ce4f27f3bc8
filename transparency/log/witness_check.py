"""Before a log starts: whatever its witnesses have cosigned, this copy must have (design §4, W-4).

A witness cannot lie a log into standing still: only a checkpoint with the log's own signature counts against it. A
witness that cannot be asked is named; where the log serves only what a quorum has cosigned, that quorum must answer.
"""

from __future__ import annotations

import asyncio
import logging

import aiohttp

from transparency.client.transport import unreachable
from transparency.errors import LogUnusableError, NoteError, SignatureInvalidError, UnreachableError
from transparency.log.checkpoints import PublishSettings
from transparency.log.log import Log, system_clock
from transparency.log.opening import OLD_COPY
from transparency.log.store import Store
from transparency.log.witnessing import Witness, WitnessError, Witnesses
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import TileHashes
from transparency.notes.checkpoint import Checkpoint, open_checkpoint, origin_hash
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.keyset import ServiceKeys

_OK = 200
_NOT_FOUND = 404
_logger = logging.getLogger("transparency.witnesses")


async def check_before_start(log: Log, settings: PublishSettings) -> None:
    """Ask the witnesses of a log that is open and not started, if it has any."""
    if settings.policy is None:
        return
    witnesses = Witnesses(settings.policy, timeout=settings.timeout, clock=system_clock)
    try:
        await check_against_witnesses(log.opened.store, log.service_keys, witnesses, closed=settings.closed)
    finally:
        await witnesses.close()


async def check_against_witnesses(store: Store, keys: ServiceKeys, witnesses: Witnesses, *, closed: bool) -> None:
    """Raise LogUnusableError if a witness has cosigned what this log has not, UnreachableError if too few answer."""
    answers = await asyncio.gather(*(_last_seen(witness, keys, witnesses) for witness in witnesses.all))
    answered: list[str] = []
    for witness, answer in zip(witnesses.all, answers, strict=True):
        if isinstance(answer, str):
            _logger.warning("witness %s was not asked what it has seen: %s", witness.label, answer)
            continue
        answered.extend(witness.names)
        if answer is not None:
            check_seen(store, answer, witness.label)
    if closed and not witnesses.policy.satisfied(answered):
        raise UnreachableError(
            "too few witnesses say what they have cosigned of this log to be sure that it is not an old copy; start it "
            "when they answer, or serve without them: --witness-quorum open"
        )


def check_seen(store: Store, seen: Checkpoint, who: str) -> None:
    """This copy of the log must have the tree that *who* has cosigned."""
    size = store.tip().size
    if seen.size > size:
        raise LogUnusableError(
            f"the log {seen.origin} has {size} entries here, and witness {who} has cosigned {seen.size}: "
            f"an older copy was put back. {OLD_COPY}"
        )
    if root_at(seen.size, TileHashes(store.tile)) != seen.root:
        raise LogUnusableError(
            f"the log {seen.origin} differs from the one that witness {who} has cosigned: at size {seen.size} its root "
            f"is another. {OLD_COPY}"
        )


async def _last_seen(witness: Witness, keys: ServiceKeys, witnesses: Witnesses) -> Checkpoint | str | None:
    """The last checkpoint a witness has of this log; None if it has none; why not, if it cannot be told."""
    url = witness.url / origin_hash(keys.log) / "checkpoint"
    try:
        status, body = await witnesses.exchange("GET", url)
    except WitnessError as error:
        return str(error)
    except (aiohttp.ClientError, OSError) as error:
        return str(unreachable(url, error))
    if status == _NOT_FOUND:
        return None
    if status != _OK:
        return f"it answered {status}"
    try:
        seen = open_checkpoint(body, checkpoint_vkeys(keys)).checkpoint
    except (NoteError, SignatureInvalidError) as error:
        return f"what it shows is not signed by this log ({error})"
    return seen if seen.origin == keys.log else "it shows another log"
