"""What tests of ``submit`` share: sessions to submit, and a look at what came of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import ROOT
from transparency.statements.statement import Statement

RECORDS = ROOT / "tests" / "fixtures" / "records"
CLAUDE = RECORDS / "claude" / "session.jsonl"

Submit = Callable[..., dict[str, Any]]
Verify = Callable[..., int]


def large(lines: int = 2000) -> bytes:
    """A Claude session of more than 64 KiB: the fixture, and many answers after it."""
    base = CLAUDE.read_bytes()
    more = [
        {"type": "user", "uuid": f"x{n}", "sessionId": "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c",
         "timestamp": "2026-03-02T11:00:00.000Z", "message": {"role": "user", "content": f"and number {n}"}}
        for n in range(lines)
    ]  # fmt: skip
    return base + b"".join(json.dumps(line).encode() + b"\n" for line in more)


def statement_of(path: str) -> Statement:
    return Statement.from_bytes(Path(path).read_bytes())
