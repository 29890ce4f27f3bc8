"""The chain of a session that grew: from a statement back to those it says it supersedes, as far as files are at hand.

``submit`` keeps the earlier statements as SESSION.1.cose, SESSION.2.cose … beside SESSION.cose. A link is the entry of
the earlier statement, a hash over all of it, so a file either is the one that is meant or it is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from transparency.cli.files import STDIO, read_input
from transparency.client.kept import checkpoint_of, prefix_length, supersedes_of
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.statements.statement import Statement

_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Link:
    """An earlier statement of the same session. ``is_prefix`` is None where that cannot be told."""

    file: str
    statement: Statement
    checkpoint: int | None
    is_prefix: bool | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The earlier statements, the newest first; ``missing`` is the entry after which no file was found."""

    links: tuple[Link, ...]
    missing: bytes | None


def follow(file: str, message: Sign1, record: bytes) -> Chain:
    """What *message*, read from *file*, supersedes; *record* is the record it is about."""
    wanted = supersedes_of(message.headers)
    beside = dict(_beside(file, record)) if wanted is not None else {}
    links: list[Link] = []
    while wanted is not None and wanted in beside:
        # Each is taken out once: a chain cannot run in a circle, but files can say anything.
        path, statement, prefix = beside.pop(wanted)
        links.append(Link(path, statement, checkpoint_of(statement.message.headers), prefix))
        wanted = supersedes_of(statement.message.headers)
    return Chain(tuple(links), wanted)


def _beside(file: str, record: bytes) -> Iterator[tuple[bytes, tuple[str, Statement, bool | None]]]:
    if file == STDIO:
        return
    stem = Path(file).name.removesuffix(".cose").removesuffix(".t")
    for path in islice(sorted(Path(file).parent.glob("*.cose")), _MOST_FILES):
        if path.name == Path(file).name or not path.name.startswith(f"{stem.rstrip('0123456789').rstrip('.')}."):
            continue
        try:
            statement, prefix = _read(read_input(path), record)
        except (TransparencyError, OSError):
            continue
        yield bytes(statement.entry), (str(path), statement, prefix)


def _read(data: bytes, record: bytes) -> tuple[Statement, bool | None]:
    message = Sign1.from_bytes(data)
    if message.payload is None:
        metadata = message.headers.get(labels.TRACE_METADATA_SIGNED)
        stated = metadata.get("content-hash") if isinstance(metadata, Mapping) else None
        length = prefix_length(record, bytes.fromhex(stated)) if isinstance(stated, str) and len(stated) == 64 else None
        return Statement.from_bytes(data, None if length is None else record[:length]), True
    statement = Statement.from_bytes(data)
    if statement.envelope is None:
        return statement, record.startswith(statement.payload)
    return statement, prefix_length(record, statement.payload) is not None or None
