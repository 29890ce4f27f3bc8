"""A real log in a folder, with an issuer it accepts, in one line. For tests of this package and of its users.

>>> import asyncio, tempfile
>>> from pathlib import Path
>>> from transparency.testing import make_log, running
>>> made = make_log(Path(tempfile.mkdtemp()) / "log")
>>> async def register() -> int:
...     async with running(made) as log:
...         return (await log.register(made.issuer.sign(b"hello"))).index
>>> asyncio.run(register())
2
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transparency.cose import labels
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.log.appender import Clock
from transparency.log.create import create_log
from transparency.log.documents import sign_document
from transparency.log.durable import DurableFile
from transparency.log.folder import Config, Folder
from transparency.log.fsck import FsckReport, fsck
from transparency.log.log import Log
from transparency.log.opening import open_log
from transparency.log.store import Store
from transparency.policy import keyset
from transparency.policy.document import Issuer, Policy
from transparency.statements.statement import sign_statement
from transparency.testing.clock import FakeClock
from transparency.testing.faults import FaultyStore


@dataclass(frozen=True, slots=True)
class SampleIssuer:
    """An issuer with one key. Ed25519 unless another is given: the quickest to sign and to check."""

    iss: str = "https://issuer.example"
    key: PrivateKey = field(default_factory=lambda: PrivateKey.generate(algorithm("Ed25519").id))

    def sign(self, payload: bytes, *, sub: str = "sample", exp: int | None = None) -> bytes:
        """A statement over *payload*. The same payload gives the same statement, hence the same entry."""
        headers: dict[int | str, Any] = {}
        if exp is not None:
            headers[labels.CWT_CLAIMS] = {labels.CLAIM_ISS: self.iss, labels.CLAIM_SUB: sub, labels.CLAIM_EXP: exp}
        return sign_statement(
            payload, self.key, iss=self.iss, sub=sub, content_type="application/octet-stream", headers=headers
        )

    def as_policy_issuer(self) -> Issuer:
        return Issuer(self.iss, (self.key.public,))


@dataclass(frozen=True, slots=True)
class MadeLog:
    """Where a log lies and what a test needs to use it."""

    data: Path
    watermark: Path
    issuer: SampleIssuer
    clock: Clock

    def open(
        self,
        *,
        wrap_store: Callable[[Store], Store] | None = None,
        open_mark_file: Callable[[Path], DurableFile] = DurableFile,
    ) -> Log:
        """The log, opened with every check of a start and not started. *wrap_store* puts a store above SQLite's."""
        return Log(
            open_log(
                self.data,
                clock=self.clock,
                watermark=self.watermark,
                wrap_store=wrap_store,
                open_mark_file=open_mark_file,
            ),
            self.clock,
        )

    def open_faulty(self, around: Callable[[Store], Store] = lambda store: store) -> tuple[Log, FaultyStore]:
        """As :meth:`open`, above a store that fails when it is told to; *around* is put between it and SQLite's."""
        made: list[FaultyStore] = []

        def wrap(store: Store) -> FaultyStore:
            made.append(FaultyStore(around(store)))
            return made[0]

        return self.open(wrap_store=wrap), made[0]

    def fsck(self) -> FsckReport:
        return fsck(self.data, watermark=self.watermark)

    def next_policy(self, log: Log, change: Callable[[Policy, str], Policy]) -> bytes:
        """The signed statement of the policy that *change* makes from the one in force and its entry id."""
        folder = Folder(self.data)
        signer = folder.load_key(keyset.POLICY, log.policy.policy_key)
        return sign_document(change(log.policy, log.policy_entry_id), signer, log.iss)

    @property
    def origin(self) -> str:
        return Config.read(Folder(self.data).config).origin


def make_log(
    path: Path,
    *,
    clock: Clock | None = None,
    issuer: SampleIssuer | None = None,
    origin: str | None = None,
    db: str | None = None,
) -> MadeLog:
    """A new log in *path*, which must be absent or empty, its tree in *db* if given. Its mark lies beside it."""
    clock = clock or FakeClock()
    issuer = issuer or SampleIssuer()
    created = create_log(path, clock=clock, origin=origin, issuers=(issuer.as_policy_issuer(),), db=db)
    return MadeLog(path, created.watermark, issuer, clock)


@asynccontextmanager
async def running(made: MadeLog) -> AsyncIterator[Log]:
    """The log, opened and started for the time of the block; leaving it drains and closes."""
    log = made.open()
    await log.start()
    try:
        yield log
    finally:
        await log.stop()


async def settled(log: Log) -> None:
    """Have what *log* has acknowledged in the files of its folder, for who looks there while it runs.

    It is there a moment later anyway (decision 0020). Commands wait for that; who runs in the event loop of the log
    itself would wait in vain.
    """
    await log.sequencer.write(log.opened.appender.settle)
