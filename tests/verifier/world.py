"""A small world to verify in: an issuer, a log of six entries with real heads, and ways to spoil what they made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from transparency.cose.keys import PrivateKey, Signer
from transparency.cose.sign1 import Sign1
from transparency.merkle.hashing import leaf_hash, node_hash
from transparency.merkle.proofs import consistency_path, inclusion_path, root_at
from transparency.statements.receipt import SignedHead, consistency_receipt, inclusion_receipt, sign_head
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import IssuerTrust, Leaf, LogTrust, Report, TrustedKey, TrustStore
from transparency.verifier.statement_checks import read_subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ES256: Final = -7
EDDSA: Final = -8
ISS: Final = "https://issuer.example"
LOG_ISS: Final = "https://log.example"
ORIGIN: Final = "log.example/tlog"
TIME: Final = 1_772_355_600
SHARED: Final = Path(__file__).parents[2].parent / "shared"
RECORDS: Final = Path(__file__).parents[1] / "fixtures" / "records"

ISSUER: Final = PrivateKey.generate(ES256)
OTHER_ISSUER: Final = PrivateKey.generate(ES256)
LOG_KEY: Final = PrivateKey.generate(ES256)
OTHER_LOG_KEY: Final = PrivateKey.generate(EDDSA)


@dataclass
class Log:
    """A log in memory: entries, and receipts under heads of any size."""

    key: PrivateKey = field(default_factory=lambda: LOG_KEY)
    iss: str = LOG_ISS
    origin: str = ORIGIN
    entries: list[bytes] = field(default_factory=lambda: [bytes([n]) * 32 for n in range(5)])

    def read(self, level: int, index: int) -> bytes:
        if level == 0:
            return leaf_hash(self.entries[index])
        return node_hash(self.read(level - 1, 2 * index), self.read(level - 1, 2 * index + 1))

    def add(self, entry: bytes) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1

    def root(self, size: int) -> bytes:
        return root_at(size, self.read)

    def head(self, size: int | None = None, time: int = TIME) -> SignedHead:
        size = len(self.entries) if size is None else size
        return sign_head(self.key, iss=self.iss, origin=self.origin, size=size, root=self.root(size), time=time)

    def receipt(self, index: int, size: int | None = None, time: int = TIME) -> bytes:
        head = self.head(size, time)
        return inclusion_receipt(head, index, inclusion_path(index, head.size, self.read))

    def register(self, statement: bytes, payload: bytes | None = None, *, time: int = TIME) -> bytes:
        """The transparent statement, as a client builds it."""
        index = self.add(Statement.from_bytes(statement, payload).entry)
        return attach_receipts(statement, [self.receipt(index, time=time)])

    def register_as(self, statement: bytes, leaf: Leaf) -> bytes:
        """The same of a log with another convention (LEAF-5)."""
        entry = read_subject(Sign1.from_bytes(statement), None).entry(leaf)
        assert entry is not None
        return attach_receipts(statement, [self.receipt(self.add(entry))])

    def consistency(self, old: int, new: int) -> bytes:
        return consistency_receipt(self.head(new), old, consistency_path(old, new, self.read))


def statement(
    payload: bytes = b"hello",
    *,
    signer: Signer = ISSUER,
    iss: str = ISS,
    sub: str = "urn:example:1",
    content_type: str = "application/octet-stream",
    **more: Any,
) -> bytes:
    return sign_statement(payload, signer, iss=iss, sub=sub, content_type=content_type, **more)


def trust(
    *,
    log_keys: Sequence[TrustedKey] = (),
    iss: str | None = LOG_ISS,
    origin: str | None = ORIGIN,
    leaf: Leaf = "digest",
) -> TrustStore:
    """Trust in LOG_KEY (or the keys given) and in ISSUER, each by name."""
    keys = tuple(log_keys) or (TrustedKey(LOG_KEY.public),)
    return TrustStore(logs=(LogTrust(keys, iss, origin, leaf),), issuers=(IssuerTrust((ISSUER.public,), ISS),))


def bare() -> TrustStore:
    return TrustStore.from_keys([LOG_KEY.public], [ISSUER.public])


def with_unprotected(data: bytes, more: Mapping[Any, Any]) -> bytes:
    message = Sign1.from_bytes(data)
    return message.with_unprotected({**message.unprotected, **more}).to_bytes()


def outcomes(report: Report) -> dict[str, str]:
    """Each check's outcome; of several receipts the last one's."""
    return {check.id: check.outcome for check in report.checks}


def failed(report: Report) -> list[str]:
    return [check.id for check in report.checks if check.outcome == "failed"]


DATA = statement()


def registered() -> tuple[Log, int]:
    """A log that holds DATA with an entry after it, and DATA's index."""
    log = Log()
    index = log.add(Statement.from_bytes(DATA).entry)
    log.add(b"\x77" * 32)
    return log, index
