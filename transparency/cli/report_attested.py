"""Attestations in reports: how one is shown, and which of the files given are such statements and no records."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from transparency.cli.files import SIGN1_HEAD, STDIO, read_input
from transparency.compliance.attestation import Attestation
from transparency.compliance.report import Attested
from transparency.compliance.stated import ATTESTATION, CONTENT_TYPES, read_stated
from transparency.cose import labels
from transparency.display import iso_utc, safe_text
from transparency.errors import TransparencyError
from transparency.statements.statement import Statement
from transparency.verifier import Report as Verification
from transparency.verifier import Verifier

# A larger file is a record: what people state is 64 KiB at most, and receipts are small.
_MOST: Final = 4 * 1024 * 1024
_MS: Final = 1_000
_GOOD: Final = ("verified", "warnings")


def attested(stated: Attestation, iss: str, entry: str | None, scope: str) -> Attested:
    return Attested(
        safe_text(stated.subject), stated.checks, f"{safe_text(stated.by)} ({safe_text(iss)})", stated.expires * _MS,
        entry, scope, safe_text(stated.statement, 1_000),
    )  # fmt: skip


def scope_text(stated: Attestation) -> str:
    parts = [f"what {safe_text(stated.iss)} registered" if stated.iss else "what was registered"]
    parts += [] if stated.since is None else [f"from {iso_utc(stated.since)}"]
    parts += [] if stated.until is None else [f"before {iso_utc(stated.until)}"]
    return "" if stated.covers_all else " ".join(parts)


@dataclass(slots=True)
class StatedFiles:
    """Of the files given, those in which people state something.

    Only what a trusted log admitted counts: a receipt that verifies, and a signature by a trusted key of the issuer.
    """

    verifier: Verifier
    now: int
    """Seconds since 1970."""
    in_force: list[tuple[Attestation, Attested]] = field(default_factory=list)
    lapsed: list[Attested] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def take(self, names: Sequence[str]) -> list[str]:
        """The names that are left: records and statements about records."""
        return [name for name in names if not self._is_stated(name)]

    def fills(self, iss: str | None, registered: int | None) -> frozenset[str]:
        """The checks that are attested of a record of *iss*, registered at this time (seconds); if it is known."""
        return frozenset(
            check
            for stated, _ in self.in_force
            if stated.covers_all or (iss and registered is not None and stated.covers(iss, registered))
            for check in stated.checks
        )

    def _is_stated(self, name: str) -> bool:
        path = Path(name)
        with contextlib.suppress(OSError, TransparencyError):
            if name != STDIO and path.is_file() and path.stat().st_size <= _MOST:
                data = read_input(name, may_be_empty=True)
                if data.startswith(SIGN1_HEAD):
                    return self._read(name, data)
        return False

    def _read(self, name: str, data: bytes) -> bool:
        statement = Statement.from_bytes(data)
        content_type = statement.message.headers.get(labels.CONTENT_TYPE)
        if content_type not in CONTENT_TYPES:
            return False
        if content_type != ATTESTATION:
            self.others[str(content_type)] += 1
            return True
        stated = read_stated(content_type, statement.payload)
        verification = self.verifier.verify(data)
        if not isinstance(stated, Attestation):
            self.refused.append((name, "it says that it is an attestation, and is none: it fills nothing"))
        elif verification.verdict not in _GOOD or not _registered(verification):
            self.refused.append((name, f"the attestation fills nothing: {verification.summary}"))
        elif not stated.stands(self.now):
            self.lapsed.append(attested(stated, statement.iss, statement.entry_id, scope_text(stated)))
        else:
            shown = attested(stated, statement.iss, statement.entry_id, scope_text(stated))
            self.in_force.append((stated, shown))
        return True


def _registered(verification: Verification) -> bool:
    passed = {check.id for check in verification.checks if check.outcome == "passed"}
    return {"registered", "issuer-signature"} <= passed
