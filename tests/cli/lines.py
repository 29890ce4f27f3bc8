"""A repository whose lines are known, and records that say who wrote them; for ``blame`` and ``attribution``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import ISS, Run
from tests.client.scripted import ISSUER_KEY, LOG_KEY, OTHER_KEY, receipt_for
from tests.records.repository import AGENT, BASE, Repository
from tests.records.sessions import Claude
from transparency.cose.keys import encode_key_set
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import attach_receipts

BEFORE = "import os\n\nprint(1)\n"
AFTER = "import os\n\ndef written_by_the_agent():\n    return 42\n\nprint(1)\n"
PATH = "src/app.py"
TRACE = "550e8400-e29b-41d4-a716-446655440000"
TRACE_TYPE = "application/vnd.agent-trace.record+json"
TRUST = ("--records", "records", "--log-key", "log.keys", "--issuer-key", "issuer.pub.pem")


def make_repository(folder: Path) -> Repository:
    """A repository with one commit of a person and one of an agent; beside it keys and a folder for records."""
    made = Repository(folder / "repository")
    made.write(PATH, BEFORE, BASE)
    made.write(PATH, AFTER, AGENT)
    (folder / "log.keys").write_bytes(encode_key_set([LOG_KEY.public]))
    (folder / "issuer.pub.pem").write_bytes(ISSUER_KEY.public.to_pem())
    (folder / "other.pub.pem").write_bytes(OTHER_KEY.public.to_pem())
    (folder / "records").mkdir()
    return made


def session(repository: Repository) -> bytes:
    made = Claude()
    made.edit(PATH, BEFORE, repository.last_diff(PATH))
    made.shell("make format")
    return made.data()


def register(record: bytes, target: Path, content_type: str = "application/jsonl") -> str:
    """A transparent statement of a record, as a log gives it; its entry id."""
    sub = "s-1" if content_type == "application/jsonl" else TRACE
    statement = sign_statement(record, ISSUER_KEY, iss=ISS, sub=sub, content_type=content_type)
    target.write_bytes(attach_receipts(statement, [receipt_for(statement)]))
    return Statement.from_bytes(statement).entry_id


def trace(revision: dict[str, str] | None, *, path: str = PATH, **found: Any) -> bytes:
    """An Agent Trace that attributes one range to a model."""
    record: dict[str, Any] = {
        "version": "0.1.0",
        "id": TRACE,
        "timestamp": "2026-05-01T10:00:00Z",
        "files": [
            {
                "path": path,
                "conversations": [
                    {"contributor": {"type": "ai", "model_id": "p/traced"}, "ranges": [{**found}]},
                ],
            }
        ],
    }
    return json.dumps(record | ({"vcs": revision} if revision else {})).encode()


def blame(run: Run, target: str, *words: str, expected: int) -> list[dict[str, Any]]:
    result = run("blame", target, *words, "--json")
    assert result.exit_code == expected, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["lines"]
    return found
