"""Where an incident's evidence comes from: a log over HTTP, or a data folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from transparency.cli.audit import open_source
from transparency.cli.connection import connect, tls_context
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.keyfiles import load_public
from transparency.cli.search import Pages, index_behind
from transparency.compliance.incident import MAX_CHARS
from transparency.compliance.incident_query import IncidentQuery
from transparency.cose import base64url
from transparency.cose.keys import encode_key_set
from transparency.display import iso_utc
from transparency.errors import GoneError, MalformedError, NotFoundError, ServiceRefusedError, TransparencyError
from transparency.policy import keyset, toml
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.document import Policy
from transparency.policy.keyset import ServiceKeys
from transparency.verifier.bundle import CHECKPOINT, KEYS, MAX_RECORD, POLICY, TRUST, VKEYS

if TYPE_CHECKING:
    from transparency.client.search import SearchHit
    from transparency.client.sync import SyncLogClient
    from transparency.log.store import Store

# Clocks may be wrong by so much: a record is registered after what it tells of, by the log's clock.
SLACK: Final = 24 * 60 * 60
MAX_QUERIES: Final = 256
_MS: Final = 1_000
_NO_SUCH_THING: Final = 404


@dataclass(slots=True)
class Missing:
    """What could not be had, and why; the first so many by name."""

    most: int = 5_000
    told: list[tuple[str, str]] = field(default_factory=list)
    more: int = 0

    def tell(self, what: str, why: str) -> None:
        if len(self.told) < self.most:
            self.told.append((what, why))
        else:
            self.more += 1

    @property
    def count(self) -> int:
        return len(self.told) + self.more

    def shown(self) -> list[tuple[str, str]]:
        """For the account of an incident."""
        told = [(what[:MAX_CHARS], why[:MAX_CHARS]) for what, why in self.told]
        return [*told, ("others", f"{self.more} more")] if self.more else told


class Source(Protocol):
    """A log to find evidence in. ``size`` is how many entries it had when it was asked."""

    name: str
    size: int

    def find(self, query: IncidentQuery, missing: Missing, *, scan: bool) -> list[tuple[int, str]]:
        """(index, entry) of what may match, in order, and of every record that an index could not read."""

    def statement(self, index: int, entry: str) -> bytes: ...
    def artifact(self, digest: bytes) -> bytes: ...
    def proof(self, index: int, entry: str) -> bytes: ...
    def documents(self) -> tuple[Policy, bytes, ServiceKeys]:
        """The policy in force, as read and as it stands, and the key set."""

    def checkpoint(self) -> bytes | None: ...


class RemoteLog:
    """Over HTTP. The search index finds candidates by the names in a query; their records decide."""

    def __init__(self, url: str, client: SyncLogClient, cacert: str | None) -> None:
        self.name = url
        self.size = 0
        self._client = client
        self._cacert = cacert

    def find(self, query: IncidentQuery, missing: Missing, *, scan: bool) -> list[tuple[int, str]]:
        base = [("order", "oldest")]
        if query.since is not None:
            base.append(("from", iso_utc(max(0, query.since // _MS - SLACK))))
        kinds = {"issuer": query.issuers, "session": query.sessions, "tool": query.tools, "path": query.paths}
        options = [[(kind, value) for value in values] for kind, values in kinds.items() if values]
        queries = list(itertools.islice(itertools.product(*options), MAX_QUERIES + 1))
        if len(queries) > MAX_QUERIES and not scan:
            raise CommandError(
                Exit.USAGE, f"these conditions make more than {MAX_QUERIES} queries", "Give fewer, or --scan."
            )
        found: dict[int, str] = {}
        every = Pages(self._client, base)
        for hit in every.read(None):
            if hit.facts.get("erased"):
                missing.tell(f"entry {hit.index} {hit.entry_id}", "it was erased")
            elif query.issuers and hit.facts.get("issuer") not in query.issuers:
                continue
            elif scan or not options or not _is_indexed(hit):
                found[hit.index] = hit.entry_id
        self.size = every.size + every.lag
        if every.lag:
            missing.tell("the newest entries", index_behind(every.lag))
        for each in [] if scan or not options else queries:
            found |= {hit.index: hit.entry_id for hit in Pages(self._client, [*base, *each]).read(None)}
        return sorted(found.items())

    def statement(self, index: int, entry: str) -> bytes:  # noqa: ARG002 - a folder asks by it
        return self._client.statement(entry)

    def artifact(self, digest: bytes) -> bytes:
        return self._client.artifact(digest.hex(), most=MAX_RECORD)

    def proof(self, index: int, entry: str) -> bytes:  # noqa: ARG002 - a folder asks by it
        return self._client.proof(entry, wait=False)

    def documents(self) -> tuple[Policy, bytes, ServiceKeys]:
        data = self._client.policy()
        return Policy.from_toml(data), data, self._client.service_keys()

    def checkpoint(self) -> bytes | None:
        import asyncio

        from transparency.client.tiles import TileClient

        async def ask() -> bytes:
            async with TileClient(self.name, tls=tls_context(self._cacert)) as client:
                return await client.checkpoint()

        try:
            return asyncio.run(ask())
        except ServiceRefusedError as error:
            if error.status == _NO_SUCH_THING:
                return None
            raise


def _is_indexed(hit: SearchHit) -> bool:
    """Whether the index read the whole record: of one that is not here it knows at most what the statement says."""
    facts = hit.facts
    read = any(facts.get(name) for name in ("agent", "version", "models", "tools", "folder", "paths"))
    return read and facts.get("record") is None and facts.get("complete", True)


class LogFolder:
    """A data folder, or a copy of one: every entry is looked at."""

    def __init__(self, data: Path, store: Store) -> None:
        from transparency.log.artifacts import ArtifactStore
        from transparency.log.folder import Folder
        from transparency.log.published import Published
        from transparency.log.receipts import Receipts

        self.name = str(data)
        self._store = store
        self._artifacts = ArtifactStore(Folder(data.absolute()).artifacts)
        self.size = store.tip().size
        self._receipts = Receipts(store, lambda: self.size)
        self._published = Published(store)
        self._keys = self.documents()[2]

    def find(self, query: IncidentQuery, missing: Missing, *, scan: bool) -> list[tuple[int, str]]:  # noqa: ARG002 - always
        from transparency.log.store import Kind
        from transparency.statements.statement import entry_id

        least = 0 if query.since is None else query.since // _MS - SLACK
        found = []
        for row in self._store.entries(0, self.size):
            head = self._store.head_covering(row.index) if least else None
            if row.kind is not Kind.STATEMENT or (head is not None and head.time < least):
                continue
            if row.erased:
                missing.tell(f"entry {row.index} {entry_id(row.entry)}", "it was erased")
            else:
                found.append((row.index, entry_id(row.entry)))
        return found

    def statement(self, index: int, entry: str) -> bytes:  # noqa: ARG002 - a log asks by it
        from transparency.statements.certificates import with_collateral
        from transparency.statements.statement import Statement
        from transparency.statements.transparent import attach_receipts

        row = self._store.entry(index)
        if row is None or row.erased:
            raise GoneError("it was erased")
        statement = with_collateral(Statement.from_bytes(row.statement), row.collateral)
        receipt = self._receipts.inclusion(index, self._receipts.head_for(index, self._keys))
        return attach_receipts(statement.message.to_bytes(), [receipt])

    def artifact(self, digest: bytes) -> bytes:
        with self._artifacts.open(digest.hex()) as file:
            record = file.read(MAX_RECORD + 1)
        if len(record) > MAX_RECORD:
            raise MalformedError(f"it has more than the {MAX_RECORD} bytes that a bundle holds of one")
        return record

    def proof(self, index: int, entry: str) -> bytes:  # noqa: ARG002 - a log asks by it
        proof = self._published.proof(index, lambda _: True)
        if proof is None:
            raise NotFoundError("no published checkpoint covers the entry yet")
        return proof.to_bytes()

    def documents(self) -> tuple[Policy, bytes, ServiceKeys]:
        from transparency.log.documents import read_keys, read_policy
        from transparency.log.store import Kind
        from transparency.statements.statement import Statement

        policies, keys = (self._store.newest_documents(kind, self.size, 1) for kind in (Kind.POLICY, Kind.KEYS))
        if not policies or not keys:
            raise CommandError(Exit.CANNOT_TELL, f"{self.name}: the log has neither policy nor keys")
        policy = Statement.from_bytes(policies[0].statement)
        return read_policy(policy), policy.payload, read_keys(Statement.from_bytes(keys[0].statement))

    def checkpoint(self) -> bytes | None:
        return self._store.newest_checkpoint()


@contextmanager
def opened(
    data: Path | None, log: str | None, token: str | None, cacert: str | None, log_key: tuple[str, ...]
) -> Iterator[Source]:
    if data is not None:
        from transparency.log.folder import Folder
        from transparency.log.stores import open_for_reading

        with open_source(data, None, None, None):
            store = open_for_reading(Folder(data.absolute()))
            try:
                yield LogFolder(data, store)
            finally:
                store.close()
    elif log is not None:
        pinned = load_public(log_key) if log_key else None
        with connect(log, token=token, cacert=cacert, pinned_keys=pinned) as client:
            yield RemoteLog(log, client, cacert)
    else:
        raise CommandError(Exit.USAGE, "nothing to look in", "Name a log with --log, or a folder with --data.")


def log_files(source: Source, issuers: set[str], missing: Missing) -> dict[str, bytes]:
    """What the log says of itself, for the bundle: keys, policy, checkpoint. All of it is only claimed."""
    from transparency.cli.keys import trust_entry

    policy, text, keys = source.documents()
    files = {
        POLICY: text,
        KEYS: encode_key_set(list(keys.ever(keyset.RECEIPTS))),
        TRUST: trust_entry(keys) + b"".join(_issuer(policy, iss) for iss in sorted(issuers)),
    }
    try:
        vkeys = checkpoint_vkeys(keys)
        checkpoint = source.checkpoint()
    except TransparencyError as error:
        missing.tell(CHECKPOINT, str(error))
        return files
    if vkeys:
        files[VKEYS] = "".join(f"{key.text}\n" for key in vkeys).encode()
    if checkpoint is None:
        missing.tell(CHECKPOINT, "the log has published none")
    else:
        files[CHECKPOINT] = checkpoint
    return files


def _issuer(policy: Policy, iss: str) -> bytes:
    """A ``[[issuer]]`` table of the keys that the policy in force has for *iss*; nothing where it has none."""
    rule = policy.rule_for(iss)
    if rule is None or not rule.keys:
        return b""
    keys = ", ".join(toml.quote(f"cose-key:{base64url.encode(key.to_cose_key_bytes())}") for key in rule.keys)
    return f"\n[[issuer]]\niss = {toml.quote(iss)}\nkeys = [{keys}]\n".encode()
