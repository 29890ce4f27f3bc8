"""A repository whose lines are known, and records that say who wrote them; for ``blame`` and ``attribution``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import ISS
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
