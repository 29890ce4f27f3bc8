"""What a log is asked besides its entries, for the log checks: checkpoints, a sample verified again, a query drill.

Everything is verified against what the pass has proven on the way: the key set and the policies that the log itself
registered, from the policy key on. Nothing here trusts what a server says of itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Protocol

from transparency.client.search import SearchPage
from transparency.compliance.log_facts import AccessFacts, CheckpointFacts, DrillFacts, SampleFacts
from transparency.compliance.log_settings import LogSettings
from transparency.display import iso_utc
from transparency.errors import NoteError, ProofError, ServiceRefusedError, SignatureInvalidError, TransparencyError
from transparency.log.access_check import check_access
from transparency.log.access_digests import digests_in
from transparency.log.folder import Config, Folder
from transparency.log.store import Store
from transparency.merkle.proofs import inclusion_path
from transparency.merkle.tiles import TileHashes
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.policy import WitnessPolicy
from transparency.policy import keyset
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.keyset import ServiceKeys
from transparency.statements.certificates import with_collateral
from transparency.statements.receipt import SignedHead, inclusion_receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier.trust import IssuerTrust, LogTrust, TrustedKey, TrustStore
from transparency.verifier.verify import Options, Verifier
from transparency.witness.examiner import Artifact
from transparency.witness.log_pass import Drawn, Findable

MAX_PROBLEMS: Final = 100
_DAY: Final = 86_400
_PAGES: Final = 10
_MS: Final = 1_000
_NOT_FOUND: Final = 404


# -- checkpoints (L5) --------------------------------------------------------------------------------------------------


class CheckpointsSeen:
    """Holds checkpoints one by one against the tree, the log's keys and the witness policy."""

    def __init__(self, keys: ServiceKeys, policy: WitnessPolicy | None) -> None:
        self._keys = keys
        self._vkeys = checkpoint_vkeys(keys)
        self._own = {(key.name, key.key_id) for key in self._vkeys}
        # Which log signed is checked by the keys that its key set lists, not by those that a file names.
        self._policy = None if policy is None else replace(policy, logs=())
        self._published = self._cosigned = self._newest = 0
        self._problems: list[tuple[int, str]] = []
        self._witnesses: Counter[str] = Counter()
        self._lag: int | None = None

    def see(self, note: bytes, root: bytes | None, time: int | None = None) -> None:
        """One checkpoint; *root* is that of the tree at its size, *time* that of the head there."""
        self._published += 1
        size = -1
        try:
            signed = SignedCheckpoint.from_bytes(note)
            size = signed.checkpoint.size
            verify_log_signatures(signed, self._vkeys)
            self._newest = max(self._newest, size)
            self._witnessed(signed, time)
        except (NoteError, SignatureInvalidError) as error:
            self.find(size, str(error))
            return
        if signed.checkpoint.origin != self._keys.log:
            self.find(size, "it is another log's")
        elif root != signed.checkpoint.root:
            self.find(size, "it is not over the tree that the log's entries give")

    def find(self, size: int, what: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append((size, what))

    def _witnessed(self, signed: SignedCheckpoint, time: int | None) -> None:
        others = [line.name for line in signed.note.signatures if (line.name, line.key_id) not in self._own]
        if self._policy is None:
            self._witnesses.update(others)
            self._cosigned += bool(others)
            return
        result = self._policy.check(signed)
        self._witnesses.update(result.counted)
        self._cosigned += result.ok
        times = [each.time for each in result.cosignatures if each.time]
        if times and time is not None:
            self._lag = max(times) - time

    def facts(self, *, all_of_them: bool) -> CheckpointFacts:
        return CheckpointFacts(
            self._published, tuple(self._problems), self._cosigned, self._policy is not None, dict(self._witnesses),
            self._newest, self._lag, all_of_them,
        )  # fmt: skip


def folder_checkpoints(store: Store, keys: ServiceKeys, policy: WitnessPolicy | None, upto: int) -> CheckpointFacts:
    """Every checkpoint that a log has published, up to the size that was replayed; the replay has checked the heads."""
    seen = CheckpointsSeen(keys, policy)
    for size, note in store.checkpoints():
        if size > upto:
            break
        head = store.head(size)
        seen.see(note, None if head is None else head.root, None if head is None else head.time)
    return seen.facts(all_of_them=True)


@dataclass(frozen=True, slots=True)
class Served:
    """The checkpoint that a running log shows, and what is wrong with the tiles under it ("" if nothing is)."""

    note: bytes
    size: int
    problem: str


def served_checkpoint(url: str, tls: ssl.SSLContext | None) -> Served | None:
    """Ask a log for its newest checkpoint and the right edge of its tree; None where it publishes none."""
    # Here, and not above: whoever reads a folder needs no aiohttp.
    from transparency.client.tiles import TileClient, TiledTree  # noqa: PLC0415

    async def ask() -> Served | None:
        async with TileClient(url, tls=tls) as client:
            try:
                note = await client.checkpoint()
            except ServiceRefusedError as error:
                if error.status == _NOT_FOUND:
                    return None
                raise
            try:
                checkpoint = SignedCheckpoint.from_bytes(note).checkpoint
                await TiledTree(client, checkpoint).check_root()
            except (NoteError, ProofError) as error:
                return Served(note, -1, str(error))
            return Served(note, checkpoint.size, "")

    return asyncio.run(ask())


def served_facts(
    served: Served, head: SignedHead | None, keys: ServiceKeys, policy: WitnessPolicy | None
) -> CheckpointFacts:
    """The one checkpoint that is served, against the head of its size that the replay has checked."""
    seen = CheckpointsSeen(keys, policy)
    if served.problem:
        seen.find(served.size, served.problem)
    else:
        seen.see(served.note, None if head is None else head.root, None if head is None else head.time)
    return seen.facts(all_of_them=False)


# -- a sample, verified again (L6, L4) ---------------------------------------------------------------------------------


class Fetch(Protocol):
    """The transparent statement of a drawn entry; a TransparencyError where it cannot be had."""

    def __call__(self, drawn: Drawn) -> bytes: ...


def folder_fetch(store: Store) -> Fetch:
    """From a data folder: the stored statement with a receipt made from the newest head and the tiles."""
    hashes = TileHashes(store.tile)

    def fetch(drawn: Drawn) -> bytes:
        row, head = store.entry(drawn.index), store.newest_head()
        if row is None or head is None or row.erased:
            raise TransparencyError("the statement is not there any more")
        statement = with_collateral(Statement.from_bytes(row.statement), row.collateral)
        receipt = inclusion_receipt(head, drawn.index, inclusion_path(drawn.index, head.size, hashes))
        return attach_receipts(statement.message.to_bytes(), [receipt])

    return fetch


@dataclass(slots=True)
class Sampling:
    """Verifies drawn entries from outside, by the verifier: as anybody would who was handed the file."""

    keys: ServiceKeys
    fetch: Fetch
    artifact: Artifact

    def run(self, drawn: Iterable[Drawn], seed: int, settings: LogSettings, now: int) -> SampleFacts:
        count = verified = without = recent = recent_fetched = 0
        slowest = 0.0
        failed: list[tuple[str, str]] = []
        for one in drawn:
            count += 1
            is_recent = one.time >= now - settings.immediate_days * _DAY
            recent += is_recent
            began = monotonic()
            try:
                data = self.fetch(one)
                record = self._record(data)
            except TransparencyError as error:
                failed.append((one.entry, str(error)))
                continue
            slowest = max(slowest, monotonic() - began)
            recent_fetched += is_recent
            problem = self._verify(one, data, record)
            if problem:
                failed.append((one.entry, problem))
            elif Statement.from_bytes(data).envelope is not None and record is None:
                without += 1
            else:
                verified += 1
        return SampleFacts(
            seed, count, verified, without, tuple(failed), int(slowest * _MS), recent, recent_fetched,
        )  # fmt: skip

    def _record(self, data: bytes) -> bytes | None:
        statement = Statement.from_bytes(data)
        if statement.envelope is None:
            return None
        try:
            record = self.artifact(statement.payload)
        except TransparencyError:
            return None  # erased, not there, not for us: counted as without its record
        return record if record is not None and hashlib.sha256(record).digest() == statement.payload else None

    def _verify(self, one: Drawn, data: bytes, record: bytes | None) -> str:
        """Why it does not verify; "" if it does."""
        statement = Statement.from_bytes(data)
        if statement.entry_id != one.entry:
            return "another statement was given for this entry"
        issuers = () if one.rule is None else (IssuerTrust(one.rule.keys, one.iss, one.rule.roots),)
        without = statement.envelope is not None and record is None
        verifier = Verifier(TrustStore((log_trust(self.keys),), issuers), Options(receipt_only=without))
        report = verifier.verify(data, record)
        return "" if report.verdict in ("verified", "warnings") else report.summary


def log_trust(keys: ServiceKeys) -> LogTrust:
    receipts = [item for item in keys.keys if item.role == keyset.RECEIPTS and not item.never_used]
    trusted = tuple(TrustedKey(item.key, item.until, item.compromised_since) for item in receipts)
    return LogTrust(trusted, keys.iss, keys.log)


# -- the query drill (L8) ----------------------------------------------------------------------------------------------

Search = Callable[[list[tuple[str, str]]], SearchPage]


def drill(search: Search, wanted: Iterable[Findable]) -> DrillFacts:
    """Ask a running log for entries that are known to be there: by time, tool and path, then with proofs."""
    queries = found = proofs = lag = 0
    slowest = slowest_proofs = 0.0
    missed: list[str] = []
    for one in wanted:
        queries += 1
        window = (("from", iso_utc(one.time)), ("to", iso_utc(one.time + 1)), ("tool", one.tool), ("path", one.path))
        began = monotonic()
        there, page = _is_found(search, list(window), one.entry)
        slowest = max(slowest, monotonic() - began)
        lag = max(lag, page.lag)
        if not there:
            missed.append(one.entry)
            continue
        found += 1
        began = monotonic()
        proven = search([*window, ("proofs", "receipts"), ("limit", "1")])
        slowest_proofs = max(slowest_proofs, monotonic() - began)
        proofs += sum(hit.receipt is not None for hit in proven.hits)
    return DrillFacts(
        queries, found, int(slowest * _MS), proofs, int(slowest_proofs * _MS), lag, tuple(missed)
    )  # fmt: skip


def _is_found(search: Search, query: list[tuple[str, str]], entry: str) -> tuple[bool, SearchPage]:
    page = search(query)
    for _ in range(_PAGES):
        if any(hit.entry_id == entry for hit in page.hits) or page.after is None:
            break
        page = search([*query, ("size", str(page.size)), ("after", str(page.after))])
    return any(hit.entry_id == entry for hit in page.hits), page


# -- the access log (L12) ----------------------------------------------------------------------------------------------


def access_facts(folder: Folder) -> AccessFacts | None:
    """The files of the access log against the digests on the log; None where only a copy of the database is there."""
    if not folder.config.exists():
        return None
    report = check_access(folder.access_log, Config.read(folder.config).origin, digests_in(folder))
    return AccessFacts(report.lines, report.covered, tuple(report.findings[:MAX_PROBLEMS]))
