"""Records as commands are given them: native files, canonical ones, and statements that carry or accompany one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import SIGN1_HEAD, read_input
from transparency.cli.json_lines import now
from transparency.cli.sessions import one
from transparency.cli.verify_inputs import SUFFIX, find_payload, payload_beside
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.records import convert
from transparency.statements.chain import stated_digest
from transparency.statements.envelope import Envelope
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of

MAX_STATEMENTS: Final = 100_000


@dataclass(frozen=True)
class StatementFile:
    """A statement found in a folder, with its record: in it, or beside it."""

    path: str
    data: bytes
    record: bytes
    given: bytes | None
    """The record, where it was beside the statement: what a verifier must be handed."""

    @cached_property
    def entry_id(self) -> str | None:
        try:
            return Statement.from_bytes(self.data, self.given).entry_id
        except TransparencyError:
            return None

    def records(self) -> list[dict[str, Any]]:
        """The canonical records; none where the payload is no record of an agent."""
        try:
            return canonical(self.record)
        except TransparencyError:
            return []


def canonical(data: bytes) -> list[dict[str, Any]]:
    """The canonical records of any record, one for each session."""
    return convert.convert(data, created=now())


def read_records(file: str) -> tuple[list[dict[str, Any]], bool]:
    """The canonical records of a file, and whether it is a statement."""
    data = one(file).read()
    signed = data.startswith(SIGN1_HEAD)
    if signed:
        data = record_of(file, open_statement(file, data))
    try:
        return canonical(data), signed
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error


def open_statement(file: str, data: bytes) -> Sign1:
    """The statement in a file, which may lack its record; nothing of it is verified."""
    try:
        message = Sign1.from_bytes(data)
        receipts_of(message)
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file} is not a readable statement: {error}") from error
    if labels.VDS in message.headers:
        raise CommandError(Exit.BAD_INPUT, f"{file} is a receipt", "`transparency inspect` shows it.")
    return message


def record_of(
    file: str, message: Sign1, payload: str | None = None, fetch: Callable[[str], bytes] | None = None
) -> bytes:
    """The record a statement is about: in it, named, beside it, or *fetched* by its SHA-256; never another one."""
    try:
        envelope = Envelope.from_headers(message.headers, message.unprotected, message.payload or b"")
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    if envelope is None and message.payload is not None:
        if not message.payload:
            raise CommandError(Exit.BAD_INPUT, f"{file}: the payload is empty, so there is no record to read")
        return message.payload
    place = payload if payload is not None else payload_beside(file)
    if place is None and fetch is not None and envelope is not None and envelope.hash_alg == labels.HASH_SHA256:
        return fetch((message.payload or b"").hex())
    if place is None:
        raise CommandError(
            Exit.NO_INPUT, f"{file} does not hold the record, and it is not beside it",
            "Put it there (x beside x.cose); `transparency show` takes --payload FILE, or --fetch --log URL.",
        )  # fmt: skip
    record = read_input(place)
    if not _is_signed(message, envelope, record):
        raise CommandError(
            Exit.BAD_INPUT, f"{place} is not the record this statement is about: its digest differs",
            "Give the right one with --payload FILE.",
        )  # fmt: skip
    return record


def _is_signed(message: Sign1, envelope: Envelope | None, record: bytes) -> bool:
    """By the digest that was signed; of a detached payload without one only a verifier can tell."""
    if envelope is not None:
        return envelope.digest(record) == message.payload
    stated = stated_digest(message)
    return stated is None or hashlib.sha256(record).digest() == stated


def read_statement(file: str, data: bytes) -> StatementFile | None:
    """A statement with its record; None where there is no record, or no statement."""
    try:
        message = Sign1.from_bytes(data)
    except TransparencyError:
        return None
    if message.payload is not None and labels.PAYLOAD_HASH_ALG not in message.headers:
        return StatementFile(file, data, message.payload, None)
    given, _ = find_payload(file, data)
    return None if given is None else StatementFile(file, data, given, given)


def statements_in(folders: Sequence[Path]) -> Iterator[StatementFile]:
    """The statements in folders and their sub-folders, by name; those without a record are left out."""
    count = 0
    for folder in folders:
        for path in sorted(folder.rglob(f"*{SUFFIX}")):
            if not path.is_file():
                continue
            count += 1
            if count > MAX_STATEMENTS:
                raise CommandError(Exit.BAD_INPUT, f"more than {MAX_STATEMENTS} statements are not searched")
            data = read_input(path, may_be_empty=True)
            found = read_statement(str(path), data) if data.startswith(SIGN1_HEAD) else None
            if found is not None:
                yield found
