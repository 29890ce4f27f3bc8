"""``verify --log``: a statement that has no receipt gets its receipt from the log, or from an export of it.

Nothing is believed for where it came from: the receipt is checked like any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from transparency.cli.connection import connect
from transparency.cli.output import warn
from transparency.cose.sign1 import Sign1
from transparency.errors import PayloadMissingError, ServiceRefusedError, TransparencyError
from transparency.statements.statement import Statement, entry_id
from transparency.statements.transparent import attach_receipts, receipts_of

Complete = Callable[[bytes, bytes | None], bytes]
"""A statement, and its record if that is apart: the statement with a receipt, if it had none and there is one."""

_F = TypeVar("_F", bound=Callable[..., Any])
_NOT_FOUND = 404


def fetch_options() -> Callable[[_F], _F]:
    """``--log`` and ``--cacert``, given or not: no setting makes `verify` ask anybody."""

    def decorate(function: _F) -> _F:
        function = click.option(
            "--cacert", type=click.Path(), metavar="FILE", help="For --log: trust this CA file for TLS, too."
        )(function)
        return click.option(
            "--log", "log", metavar="FOLDER|URL",
            help="Fetch the receipt of a statement that has none from this log, or from an export of it.",
        )(function)  # fmt: skip

    return decorate


@contextlib.contextmanager
def fetching(log: str | None, cacert: str | None, *, witnessed: bool) -> Iterator[Complete | None]:
    """What completes statements from *log*; with a proof to a checkpoint as well if they are to be *witnessed*."""
    if log is None:
        yield None
        return
    with connect(log, cacert=cacert) as client:

        def complete(data: bytes, record: bytes | None) -> bytes:
            try:
                if receipts_of(Sign1.from_bytes(data)):
                    return data
                name = entry_id(Statement.from_bytes(data, record).entry)
            except (TransparencyError, PayloadMissingError):
                return data  # the verifier says what is wrong with it
            try:
                return attach_receipts(data, [client.receipt(name, wait=False, witnessed=witnessed)])
            except ServiceRefusedError as error:
                if error.status != _NOT_FOUND:
                    raise
                warn(f"{log} has no entry {name}: there is no receipt for this statement")
                return data

        yield complete
