"""A log with everything an audit has to follow: three policies, two rotated keys, a compromised key, certificates."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transparency.cose import labels
from transparency.cose.keys import PrivateKey
from transparency.cose.x509 import write_chain, write_x5t
from transparency.cose.x509_path import Root
from transparency.log.audit import AuditReport, audit
from transparency.log.audit_sources import FolderSource
from transparency.log.documents import sign_document
from transparency.log.folder import Config, Folder
from transparency.log.log import Log
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.policy.hold import ENTRY
from transparency.policy.issuer import Issuer
from transparency.statements.statement import entry_id, sign_statement
from transparency.testing import FakeClock, MadeLog, SampleIssuer, make_log, running
from transparency.testing.pki import BEGINS, Authority, Holder

CERTIFIED = "https://certified.example"
ONCE = "https://once.example"
STOLEN = "https://stolen.example"


@dataclass(frozen=True, slots=True)
class Audited:
    """Where the log lies, and where in it what is to be found."""

    made: MadeLog
    policy_key: bytes
    root: Authority
    issuing: Authority
    leaf: Holder
    once: SampleIssuer
    # A statement by a plain key, one whose chain came beside it, one whose chain is signed.
    plain: int
    beside: int
    signed_chain: int
    # The second policy, the second key set, the first manifest, and the size of the log.
    policy: int
    keys: int
    manifest: int
    # What the service said of itself besides: a hold on the entry whose chain is signed.
    hold: int
    size: int

    def audit(self) -> AuditReport:
        return audit_folder(self.made.data, self.policy_key)

    def certify(self, payload: bytes) -> bytes:
        return certified(self.leaf, payload, beside=True)

    def reissued(self) -> bytes:
        """The intermediate certificate made anew: same name, same key, valid under the same root."""
        return self.root.authority("Issuing", key=self.issuing.key).der


def audit_folder(data: Path, policy_key: bytes) -> AuditReport:
    with FolderSource(data) as source:
        return audit(source, policy_key)


def pinned(made: MadeLog) -> bytes:
    """What an auditor wrote down when the log was made."""
    return Config.read(Folder(made.data).config).policy_key


def certified(leaf: Holder, payload: bytes, *, beside: bool) -> bytes:
    """A statement by the holder of a certificate: its chain beside it, named by a signed x5t, or signed itself."""
    chain = write_chain(leaf.chain)
    protected: dict[int | str, Any] = {labels.X5T: write_x5t(leaf.der)} if beside else {labels.X5CHAIN: chain}
    unprotected: dict[int | str, Any] = {labels.X5CHAIN: chain} if beside else {}
    return sign_statement(
        payload, leaf.signer, iss=CERTIFIED, sub="s", content_type="text/plain", headers=protected,
        unprotected=unprotected,
    )  # fmt: skip


async def rotate(made: MadeLog, log: Log, role: str = keyset.RECEIPTS) -> int:
    """Put a new key in the place of the one in use; the index of the key set."""
    folder = Folder(made.data)
    new = PrivateKey.generate(-7 if role == keyset.RECEIPTS else -8)
    folder.save_key(role, new)
    following = log.service_keys.rotated(
        role, new.public, previous=log.service_keys_entry_id, now=log.sequencer.decision_time()
    )
    signer = folder.load_key(keyset.POLICY, log.policy.policy_key)
    return (await log.update_keys(sign_document(following, signer, log.iss))).index


async def make_audited(path: Path) -> Audited:
    clock = FakeClock(BEGINS + 1000)
    made = make_log(path, clock=clock)
    root = Authority.create("Root")
    issuing = root.authority("Issuing")
    leaf = issuing.leaf("agent")
    once, stolen = (SampleIssuer(iss, PrivateKey.generate(-7)) for iss in (ONCE, STOLEN))

    def second(old: Policy, previous: str) -> Policy:
        more = (
            Issuer(CERTIFIED, roots=(Root(root.der),)),
            replace(once.as_policy_issuer(), duplicates="refuse"),
            stolen.as_policy_issuer(),
        )
        return old.following(previous, (*old.issuers, *more))

    async with running(made) as log:
        plain = (await log.register(made.issuer.sign(b"one"))).index
        clock.advance(60)
        policy = (await log.update_policy(made.next_policy(log, second))).index
        beside = (await log.register(certified(leaf, b"two", beside=True))).index
        signed_chain = (await log.register(certified(leaf, b"three", beside=False))).index
        await log.register(once.sign(b"four"))
        await log.register(stolen.sign(b"five"))
        clock.advance(60)
        keys = await rotate(made, log)
        (first,) = await log.manifests.make()
        clock.advance(60)
        await log.update_policy(
            made.next_policy(
                log, lambda old, entry: old.with_compromise(STOLEN, stolen.key.public, since=5, previous=entry)
            )
        )
        await log.register(made.issuer.sign(b"six"))
        await rotate(made, log, keyset.OPERATIONS)
        held = entry_id(log.stored(signed_chain).entry)
        hold = (await log.erasures.hold(ENTRY, held, "A. Counsel", "case 17")).index
        await rotate(made, log)
        await log.accept(certified(leaf, b"seven", beside=True))
    async with running(made) as log:
        await log.register(certified(leaf, b"seven", beside=True))  # waits for what was accepted
        await log.register(made.issuer.sign(b"eight"))
        await log.manifests.make()
        size = log.newest_head().size
    return Audited(
        made, pinned(made), root, issuing, leaf, once, plain, beside, signed_chain, policy, keys, first.index,
        hold, size,
    )  # fmt: skip


@contextmanager
def tampering(data: Path) -> Iterator[sqlite3.Connection]:
    """Somebody writes into the store, past all software."""
    database = sqlite3.connect(Folder(data).database)
    try:
        with database:
            yield database
    finally:
        database.close()


def flip(data: Path, index: int, *, at: int = -1) -> None:
    """One byte of a stored statement is another."""
    with tampering(data) as database:
        (statement,) = database.execute("SELECT statement FROM entries WHERE idx = ?", (index,)).fetchone()
        changed = bytearray(statement)
        changed[at] ^= 1
        database.execute("UPDATE entries SET statement = ? WHERE idx = ?", (bytes(changed), index))
