"""What the index knows of one entry: derived from its stored statement and, of a hash envelope, from the artifact.

Pure of SQLite: an entry gives an :class:`IndexedEntry`, an IndexedEntry gives its terms. Of an erased statement only
entry and time are left.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from transparency.cose import labels
from transparency.errors import GoneError, MalformedError, NotFoundError, TransparencyError
from transparency.log.artifacts import ArtifactStore
from transparency.log.store import StoredEntry
from transparency.records.facts import NONE, RecordFacts, facts
from transparency.records.paths import is_outside
from transparency.records.timestamps import instant
from transparency.records.trace_metadata import TraceMetadata
from transparency.statements.statement import Entry, Statement

# A larger artifact is kept and found by its envelope, but not read.
MAX_RECORD: Final = 256 * 1024 * 1024
MAX_FOLDERS: Final = 32


class Kind(IntEnum):
    """What a term is. The numbers stand in hashes on disk: they never change."""

    ISSUER = 1
    SUBJECT = 2
    SESSION = 3
    AGENT = 4
    MODEL = 5
    TOOL = 6
    PATH = 7
    FOLDER = 8
    CONTENT = 9
    SIGNED = 10


class Term(NamedTuple):
    """One thing an entry can be found by; digests in hexadecimal, a folder with its last slash."""

    kind: Kind
    value: str


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """``content`` is the digest of the record, ``signed`` that of the signed bytes, which siblings share (LEAF-7).

    ``awaits``: the record is not here, and is indexed when it arrives.
    """

    index: int
    entry: Entry
    time: int
    issuer: str | None = None
    subject: str | None = None
    signed: bytes | None = None
    content: bytes | None = None
    facts: RecordFacts = NONE
    awaits: bool = False

    def terms(self) -> Iterator[Term]:
        """Every term once."""
        found = self.facts
        if self.issuer is None or self.subject is None:
            return
        yield Term(Kind.ISSUER, self.issuer)
        yield Term(Kind.SUBJECT, self.subject)
        if self.signed is not None:
            yield Term(Kind.SIGNED, self.signed.hex())
        if self.content is not None:
            yield Term(Kind.CONTENT, self.content.hex())
        for name in dict.fromkeys(agent_names(found)):
            yield Term(Kind.AGENT, name)
        for kind, values in _LISTS:
            for value in getattr(found, values):
                yield Term(kind, value)
        for folder in dict.fromkeys(folder for path in found.paths for folder in folders(path)):
            yield Term(Kind.FOLDER, folder)
        if found.folder is not None and found.paths:
            # A path that is relative is found by its whole name, too, and all of them by the folder they are in.
            whole = found.folder.rstrip("/") + "/"
            inside = [path for path in found.paths if not is_outside(path)]
            for path in inside:
                yield Term(Kind.PATH, whole + path)
            if inside:
                yield Term(Kind.FOLDER, whole)

    def to_json(self) -> str | None:
        if self.issuer is None:
            return None
        said = {
            name: value for name, value in _members(self.facts) if value is not True and value not in (None, (), "")
        }
        return json.dumps({"iss": self.issuer, "sub": self.subject, **said}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> IndexedEntry:
        index, entry, time, awaits, signed, content, text = row
        if text is None:
            return cls(index, entry, time)
        said: dict[str, Any] = json.loads(text)
        issuer, subject = said.pop("iss"), said.pop("sub")
        said |= {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
        found = RecordFacts(**said)
        return cls(index, entry, time, issuer, subject, signed, content, found, awaits == 1)


def _members(found: RecordFacts) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(found, name)) for name in _NAMES)


_NAMES: Final = tuple(member.name for member in fields(RecordFacts))
_LISTS: Final = ((Kind.SESSION, "sessions"), (Kind.MODEL, "models"), (Kind.TOOL, "tools"), (Kind.PATH, "paths"))


def agent_names(found: RecordFacts) -> Iterator[str]:
    """An agent is found by its vendor, its name, and its name with its version."""
    if found.vendor:
        yield found.vendor
    if found.agent:
        yield found.agent
        if found.version:
            yield f"{found.agent}/{found.version}"


def folders(path: str) -> Iterator[str]:
    """The folders a path lies in, each with its slash, the outermost first."""
    at = -1
    for _ in range(MAX_FOLDERS):
        at = path.find("/", at + 1)
        if at < 0 or at == len(path) - 1:
            return
        yield path[: at + 1]


def derive(row: StoredEntry, time: int, artifacts: ArtifactStore) -> IndexedEntry:
    """What *row*, registered at *time*, can be found by. Never fails for what an entry holds."""
    if not row.statement:
        return IndexedEntry(row.index, row.entry, time)
    try:
        statement = Statement.from_bytes(row.statement)
    except TransparencyError:
        return IndexedEntry(row.index, row.entry, time)  # damaged: fsck says so
    entry = IndexedEntry(row.index, row.entry, time, statement.iss, statement.sub, row.tbs_digest)
    if statement.envelope is None:
        digest = hashlib.sha256(statement.payload).digest()
        return replace(entry, content=digest, facts=facts(statement.payload))
    entry = replace(entry, content=statement.payload)
    if statement.envelope.hash_alg != labels.HASH_SHA256:
        return replace(entry, facts=stated(statement))  # artifacts are kept by their SHA-256 only
    record = _read(artifacts, statement.payload.hex())
    if record is None:
        return replace(entry, facts=stated(statement), awaits=True)
    return replace(entry, facts=_united(facts(record), stated(statement)))


def _read(artifacts: ArtifactStore, digest: str) -> bytes | None:
    try:
        if artifacts.size(digest) > MAX_RECORD:
            return b""
        with artifacts.open(digest) as file:
            return file.read(MAX_RECORD)
    except (GoneError, NotFoundError, OSError):
        return None


def stated(statement: Statement) -> RecordFacts:
    """What the issuer signed of a record that may not be here (the signed copy of trace-metadata)."""
    try:
        said = TraceMetadata.from_map(statement.message.headers.get(labels.TRACE_METADATA_SIGNED))
    except MalformedError:
        return NONE
    session = said.session_id if isinstance(said.session_id, str) else said.session_id.decode("utf-8", "replace")
    return RecordFacts(
        said.trace_format,
        (session,),
        said.agent_vendor,
        start=instant(said.timestamp_start),
        end=instant(said.timestamp_end),
    )


def _united(found: RecordFacts, stated: RecordFacts) -> RecordFacts:
    """The record's own facts, and the session that was signed for it."""
    if found == NONE:
        return stated
    return replace(found, sessions=tuple(dict.fromkeys((*found.sessions, *stated.sessions))))
