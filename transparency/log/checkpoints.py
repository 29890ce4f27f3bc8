"""The publisher: signs tree heads as C2SP checkpoints, has them witnessed, keeps them, and only then shows them.

Safety argument
---------------
A log must never sign two checkpoints that contradict each other (CP-2), and a restart must never show an older one.

1. Only the newest *released* head is signed: committed to the store, its mark written. Whatever is killed, the log
   comes back with that tree or refuses to start, so a checkpoint of that size can have no other root.
2. What is signed goes to the witnesses first, if there are any. That shows it to them, which 1 allows.
3. With enough cosignatures, or without them where the operator said so (fail-open), the note is stored, durably. The
   store refuses another text under the newest size, and any smaller size.
4. Then it is served. A crash between 3 and 4: the next start serves what was stored. Nothing older is served again.
5. A signed time says that this is the largest tree as of then: a larger tree must never have an earlier one, whatever
   the clock does and wherever the process ends. What witnesses are shown before it is stored is signed at its head's
   time, which is committed. Any other time is stored with its checkpoint before anybody is shown it.

The event loop owns it. It never holds up the sequencer: witnesses are waited for here, and its one write a publication
queues behind batches as theirs queue behind it. Sizes are published at most once an interval, so the partial tiles
that clients may ask for are few.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from transparency.errors import LogUnusableError, NoteError, OverloadedError, TransparencyError
from transparency.log.appender import Clock
from transparency.log.log import Log, system_clock
from transparency.log.published import Published, with_signatures
from transparency.log.role import Role
from transparency.log.waiting import is_set_within
from transparency.log.witnessing import Witnesses
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.note import Note, Signature
from transparency.notes.policy import WitnessPolicy
from transparency.notes.signer import NoteSigner
from transparency.notes.vkey import ED25519, VerifierKey
from transparency.policy import keyset
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.verifier.evidence import log_times

INTERVAL_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 1.0
WITNESS_SECONDS: Final = 5.0

_logger = logging.getLogger("transparency.checkpoints")


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """How checkpoints are published. A log that does not grow is signed anew every *refresh* seconds: it lives."""

    interval: float = INTERVAL_SECONDS
    refresh: float = REFRESH_SECONDS
    policy: WitnessPolicy | None = None
    # Fail-closed: without the quorum's cosignatures a checkpoint is not served.
    closed: bool = True
    timeout: float = WITNESS_SECONDS


class CheckpointPublisher:
    """Made for a log that is open; started once it has started, stopped before it stops."""

    def __init__(self, log: Log, settings: PublishSettings | None = None, clock: Clock = system_clock) -> None:
        self.settings = settings or PublishSettings()
        self._log = log
        self._store = log.opened.store
        self._clock = clock
        self.published = Published(self._store)
        # What is stored last; what is served may be less, while witnesses are waited for.
        self._kept = self.published.newest
        self._signed: SignedCheckpoint | None = None
        self.witnesses: Witnesses | None = None
        if self.settings.policy is not None:
            self.witnesses = Witnesses(self.settings.policy, timeout=self.settings.timeout, clock=clock)
            last = self.published.newest
            if last is not None and self.settings.closed and not self.witnesses.satisfied(last.note.signatures):
                # From before there were witnesses, or of others: it waits for these.
                self.published.newest = None
        self._time = self._last_time()
        # Who published last: another role or epoch, and what is kept may be another node's.
        self._term = self._current_term()
        self.failures = 0
        self._complaint = ""
        self._signers: dict[bytes, NoteSigner] = {}
        self._grown = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Publish in time from now on. Without witnesses the newest head is published when this returns."""
        self._open_signers()
        self._log.sequencer.on_published.append(self._note_growth)
        done = False
        if self.witnesses is None:
            with contextlib.suppress(OverloadedError):  # a node that led a moment ago
                done = await self.publish()
        self._task = asyncio.create_task(self._run(done=done), name="checkpoints")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self.witnesses is not None:
            await self.witnesses.close()
        if self._writing is not None:
            with contextlib.suppress(TransparencyError):  # the sequencer has told of it
                await self._writing

    async def publish(self) -> bool:
        """Publish the newest head now; False if too few witnesses cosigned it, and that keeps it from being served."""
        async with self._lock:
            self._grown.clear()
            if self._follows():
                return True
            signed = await self._newest()
            lines: tuple[Signature, ...] = ()
            if self.witnesses is not None:
                lines = await self.witnesses.collect(signed, self.published.consistency, self._add_late)
                if self.settings.closed and not self.witnesses.satisfied(lines):
                    return False
            await self._serve(with_signatures(self._base(signed), (*signed.note.signatures, *lines)))
            return True

    def _follows(self) -> bool:
        """Where another node leads, it publishes. What it stored is served here, and continued by who leads next."""
        role, _ = term = self._current_term()
        if role is Role.FRONT_END or term != self._term:
            note = self._store.newest_checkpoint()
            self._kept = self.published.newest = None if note is None else SignedCheckpoint.from_bytes(note)
            self._signed, self._time = None, self._last_time()
            self._term = term
        return role is Role.FRONT_END

    def _current_term(self) -> tuple[Role, int]:
        return self._log.role, self._log.opened.appender.tip.epoch

    async def _newest(self) -> SignedCheckpoint:
        """The newest head, signed: by the keys in force, and anew when its time is old."""
        head = self._log.newest_head()
        checkpoint = Checkpoint(self._log.origin, head.size, head.root)
        self._check_follows(checkpoint)
        kept = self._kept is not None and self._kept.checkpoint == checkpoint
        last, lines = self._signed, {(key.name, key.key_id) for key in self.vkeys()}
        if last is not None and last.checkpoint == checkpoint:
            old = kept and self._clock() >= self._time + self.settings.refresh / 2
            if not old and lines == {(line.name, line.key_id) for line in last.note.signatures}:
                return last
        first_stored = kept or self.witnesses is None
        self._time = max(self._clock() if first_stored else 0, head.time, self._time)
        self._signed = signed = await self._sign(checkpoint)
        if kept and self.witnesses is not None:  # else nobody is shown it before it is stored
            await self._keep(with_signatures(self._base(signed), signed.note.signatures))
        return signed

    def proof(self, index: int) -> bytes | None:
        """The tlog-proof of an entry; None while no published checkpoint covers it."""
        found = self.published.proof(index, self.suits)
        return None if found is None else found.to_bytes()

    def suits(self, lines: Collection[Signature]) -> bool:
        """Whether a checkpoint with these lines can be checked by today's keys of the log, and today's quorum."""
        ours = {(key.name, key.key_id) for key in self.vkeys()}
        if not any((line.name, line.key_id) in ours for line in lines):
            return False
        return self.witnesses is None or self.witnesses.satisfied(lines)

    def vkeys(self) -> tuple[VerifierKey, ...]:
        """Who signs checkpoints now."""
        return tuple(signer.vkey for signer in self._open_signers())

    @property
    def witnessed(self) -> bool:
        """Whether what is served has the cosignatures of a quorum."""
        newest = self.published.newest
        return newest is not None and self._is_witnessed(newest)

    @property
    def cosignatures(self) -> int:
        """How many keys of the policy's witnesses cosigned what is served."""
        newest = self.published.newest
        return 0 if newest is None or self.witnesses is None else len(self.witnesses.cosigners(newest.note.signatures))

    @property
    def behind(self) -> int:
        """Entries that are released and not under a published checkpoint yet."""
        return max(self._log.sequencer.size - self.published.size, 0)

    # -- in time -------------------------------------------------------------------------------------------------

    def _note_growth(self, _size: int) -> None:
        self._grown.set()

    async def _run(self, *, done: bool) -> None:
        """For as long as the log goes on: a node that leads no more, and all while nobody does, will have to again."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while self._log.sequencer.failed is None:
            if not done:
                begun, done = loop.time(), await self._try()
            pause = self.settings.interval if done else max(self.settings.interval, RETRY_SECONDS)
            await asyncio.sleep(max(begun + pause - loop.time(), 0))
            if done and not self.behind:
                await is_set_within(self._grown, self.settings.refresh)
            done = False

    async def _try(self) -> bool:
        """Whatever goes wrong, receipts go on and the last checkpoint is still served; it is tried again."""
        try:
            if await self.publish():
                self._complaint = ""
                return True
            reason = "too few witnesses cosigned it"
        except TransparencyError as error:
            reason = str(error)
        except Exception as error:
            reason = type(error).__name__
            _logger.exception("a checkpoint could not be published")
        self.failures += 1
        if reason != self._complaint:  # once, not every second
            _logger.error("the newest tree head is not published, the checkpoint before still is: %s", reason)
        self._complaint = reason
        return False

    # -- signing and serving -------------------------------------------------------------------------------------

    async def _sign(self, checkpoint: Checkpoint) -> SignedCheckpoint:
        signers, time = self._open_signers(), self._time
        # A thread: a key that lives elsewhere may take its time.
        lines = await asyncio.to_thread(lambda: [signer.sign(checkpoint.text, time) for signer in signers])
        return with_signatures(SignedCheckpoint(Note(checkpoint.text), checkpoint), lines)

    def _last_time(self) -> int:
        """What the log signed as the time of the newest checkpoint it kept."""
        if self._kept is None:
            return 0
        times = log_times(self._kept, checkpoint_vkeys(self._log.service_keys))
        return max(times.values(), default=0)

    def _check_follows(self, checkpoint: Checkpoint) -> None:
        """Before it is signed. The tree only grows, so this cannot fail; if it did, a signature would be a fork."""
        if self._kept is None:
            return
        before = self._kept.checkpoint
        same = before.size == checkpoint.size and before.root != checkpoint.root
        if checkpoint.size < before.size or same or self.published.root_at(before.size) != before.root:
            raise LogUnusableError(
                f"the tree of size {checkpoint.size} does not follow the published checkpoint of size {before.size}"
            )

    def _is_witnessed(self, signed: SignedCheckpoint) -> bool:
        return self.witnesses is not None and self.witnesses.enough(signed.note.signatures)

    def _base(self, signed: SignedCheckpoint) -> SignedCheckpoint:
        """What is stored already, if it says the same: cosignatures it has are kept."""
        last = self._kept
        return last if last is not None and last.checkpoint == signed.checkpoint else signed

    async def _serve(self, signed: SignedCheckpoint) -> None:
        await self._keep(signed)
        self.published.newest = signed

    async def _keep(self, signed: SignedCheckpoint) -> None:
        data, size, witnessed = signed.to_bytes(), signed.checkpoint.size, self._is_witnessed(signed)
        # The sequencer takes a write that was cancelled for one that failed, so this one is never cancelled.
        self._writing = asyncio.ensure_future(
            self._log.sequencer.write(lambda: self._store.put_checkpoint(size, data, witnessed=witnessed))
        )
        await asyncio.shield(self._writing)
        self._kept = signed

    async def _add_late(self, checkpoint: Checkpoint, lines: tuple[Signature, ...]) -> None:
        """A cosignature that came after the checkpoint was served: it is added while that is still the newest."""
        async with self._lock:
            last = None if self._follows() else self.published.newest
            if last is not None and last.checkpoint == checkpoint:
                await self._serve(with_signatures(self._base(last), lines))

    def _open_signers(self) -> list[NoteSigner]:
        """Those of the key set in force, by its times: an announced pair takes over by itself."""
        keys = self._log.service_keys
        public = keys.at(keyset.CHECKPOINTS, self._log.sequencer.decision_time())
        for key in public:
            if key.thumbprint not in self._signers:
                signer = self._log.opened.folder.load_key(keyset.CHECKPOINTS, key)
                try:
                    self._signers[key.thumbprint] = NoteSigner(self._log.origin, signer)
                except NoteError as error:
                    raise LogUnusableError(f"the origin cannot be the name of a checkpoint key: {error}") from error
        signers = [self._signers[key.thumbprint] for key in public]
        if not any(signer.vkey.kind == ED25519 for signer in signers):
            raise LogUnusableError("the key set in force has no Ed25519 checkpoint key; witnesses ask for one (TL-6)")
        return signers
