"""A log with records to erase: an issuer whose class is over in days, artifacts, and a marker to look for."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.log.searching import session
from transparency.cose import labels
from transparency.log.artifacts import ArtifactStore
from transparency.log.audit import Outcome as Outcomes
from transparency.log.audit import audit
from transparency.log.audit_sources import FolderSource
from transparency.log.erasure import Outcome, Request
from transparency.log.folder import Config, Folder
from transparency.log.log import Log
from transparency.log.retention import Plan, plan
from transparency.log.search import SearchIndex
from transparency.log.stores import open_for_reading
from transparency.policy.document import Policy
from transparency.policy.retention import RetentionClass, Term
from transparency.statements.statement import sign_statement
from transparency.testing import FakeClock, MadeLog, SampleIssuer, make_log

MARKER = b"Margarete-Steiff-7319"
SESSION = "s-17"
WEEK = 7 * 24 * 3600
SHORT = RetentionClass("short", Term(days=7))


@dataclass(frozen=True, slots=True)
class Erasing:
    made: MadeLog
    clock: FakeClock

    @property
    def issuer(self) -> SampleIssuer:
        return self.made.issuer

    @property
    def folder(self) -> Folder:
        return Folder(self.made.data)

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore(self.folder.artifacts)

    def plan(self) -> Plan:
        store = open_for_reading(self.folder)
        try:
            return plan(store, self.artifacts, self.clock())
        finally:
            store.close()

    def index(self) -> None:
        """Bring the search index up to the log, as the worker does."""
        store = open_for_reading(self.folder)
        try:
            with SearchIndex(self.folder.search) as search:
                search.catch_up(store, self.artifacts)
                search.renew_erased(store, self.artifacts)
        finally:
            store.close()


def make(path: Path, issuer: SampleIssuer | None = None) -> Erasing:
    clock = FakeClock()
    return Erasing(make_log(path / "log", clock=clock, issuer=issuer), clock)


async def shorten(erasing: Erasing, log: Log) -> None:
    """From here on what the issuer registers is kept for a week."""

    def change(old: Policy, entry: str) -> Policy:
        (issuer,) = old.issuers
        return replace(
            old, generation=old.generation + 1, previous=entry, retention=(SHORT,),
            issuers=(replace(issuer, retention="short"),),
        )  # fmt: skip

    await log.update_policy(erasing.made.next_policy(log, change))


def record(lines: int = 600) -> bytes:
    """A session too large for one page of a database, full of what must not be found afterwards, by search neither."""
    return b"".join(session(SESSION, path=f"/home/{MARKER.decode()}/{number}.py") for number in range(lines))


def upload(erasing: Erasing, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    with erasing.artifacts.receive(digest) as incoming:
        incoming.write(data)
        incoming.finish()
    return digest


def envelope(issuer: SampleIssuer, data: bytes, *, sub: str = SESSION, session: str | None = None) -> bytes:
    headers: dict[int | str, object] = {
        labels.PAYLOAD_HASH_ALG: labels.HASH_SHA256,
        labels.PREIMAGE_CONTENT_TYPE: "application/jsonl",
    }
    if session is not None:
        headers[labels.TRACE_METADATA_SIGNED] = {
            "session-id": session, "agent-vendor": "anthropic", "trace-format": "claude-jsonl",
            "timestamp-start": "2026-11-01T10:00:00Z",
        }  # fmt: skip
    return sign_statement(
        hashlib.sha256(data).digest(), issuer.key, iss=issuer.iss, sub=sub, content_type=None, headers=headers
    )


async def by_order(log: Log, *indexes: int, order: str = "order 4711") -> Outcome:
    return await log.erasures.erase(Request(log.status().size, indexes, "data protection officer", order))


async def by_term(log: Log, planned: Plan) -> Outcome:
    indexes = [each.index for due in planned.due for each in due.references]
    return await log.erasures.erase(Request(planned.size, indexes))


async def state_audit(erasing: Erasing, log: Log) -> None:
    """What has to stand on the log before a payload may go: a manifest, and an audit without findings."""
    await log.manifests.make()
    with FolderSource(erasing.made.data) as source:
        report = audit(source, Config.read(erasing.folder.config).policy_key)
    assert report.clean
    assert report.certain
    head = log.newest_head()
    assert head.size == report.size
    await log.erasures.audited(report.size, head.root, report.entries[Outcomes.ERASED])


def files_with(needle: bytes, folders: Iterable[Path]) -> list[str]:
    """Every file below *folders* in which *needle* can be read, byte for byte."""
    folders = list(folders)
    while True:
        # Beside a running log a file may go, or get its name, between being listed and being read: then once more.
        with contextlib.suppress(FileNotFoundError):
            return [
                str(path.relative_to(folder))
                for folder in folders
                for path in sorted(folder.rglob("*"))
                if path.is_file() and needle in path.read_bytes()
            ]
