"""Records as commands are given them: native files, canonical ones, and statements that carry or accompany one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input
from transparency.cli.verify_inputs import SUFFIX, find_payload
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.records import convert
from transparency.statements.statement import Statement

SIGN1_HEAD: Final = b"\xd2"
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
    return convert.convert(data, created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def read_records(file: str) -> tuple[list[dict[str, Any]], bool]:
    """The canonical records of a file, and whether it is a statement."""
    data = read_input(file)
    signed = data.startswith(SIGN1_HEAD)
    if signed:
        found = read_statement(file, data)
        if found is None:
            raise CommandError(
                Exit.NO_INPUT, f"{file}: the record is not in this statement, nor beside it",
                "Put it beside the statement (x beside x.cose).",
            )  # fmt: skip
        data = found.record
    try:
        return canonical(data), signed
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error


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
