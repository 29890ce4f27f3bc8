"""Small real logs for the log checks: made, filled through registration, and reported on as the command does it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transparency.cli.report_log import run
from transparency.cli.report_options import ReportOptions
from transparency.compliance.finding import Finding
from transparency.compliance.report import Report
from transparency.cose import labels
from transparency.display import iso_utc
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Config, Folder
from transparency.statements.statement import sign_statement
from transparency.testing import FakeClock, MadeLog, SampleIssuer, make_log
from transparency.verifier import TrustStore

NOW: Final = 1_790_000_000
"""When these logs begin: 2026-09-21T14:13:20Z."""
DAY: Final = 86_400


def world(path: Path, issuer: SampleIssuer | None = None) -> MadeLog:
    return make_log(path / "log", clock=FakeClock(NOW), issuer=issuer)


def session(
    name: str, *, at: int = NOW - 60, tool: str = "Edit", tokens: int = 100, failed: bool = False,
    said: str = "Fix it.",
    mode: str | None = "default", version: str = "2.1.0",
) -> bytes:  # fmt: skip
    """A Claude Code session: a person asks, the agent calls a tool once, the tool answers, the agent closes."""
    common: dict[str, Any] = {"sessionId": name, "version": version, "cwd": "/home/a", "timestamp": iso_utc(at)}
    usage = {"input_tokens": tokens - tokens // 2, "output_tokens": tokens // 2}
    call = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {"file_path": "/home/a/src/x.py"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done", "is_error": failed}
    asked = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": said}}
    if mode is not None:
        asked["permissionMode"] = mode
    lines = [
        asked,
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1",
         "message": {"role": "assistant", "model": "m-1", "content": [call], "usage": usage}},
        {"type": "user", "uuid": "u3", "parentUuid": "u2", "message": {"role": "user", "content": [result]}},
        {"type": "assistant", "uuid": "u4", "parentUuid": "u3",
         "message": {"role": "assistant", "model": "m-1", "content": [{"type": "text", "text": "Done."}]}},
    ]  # fmt: skip
    return b"".join(json.dumps({**common, **line}).encode() + b"\n" for line in lines)


def sign(
    issuer: SampleIssuer, record: bytes, *, sub: str = "s", content_type: str = "application/jsonl",
    headers: Mapping[int | str, Any] | None = None,
) -> bytes:  # fmt: skip
    return sign_statement(record, issuer.key, iss=issuer.iss, sub=sub, content_type=content_type, headers=headers)


def envelope(issuer: SampleIssuer, record: bytes, *, sub: str = "s") -> bytes:
    """A statement that holds the record's digest only."""
    headers: dict[int | str, Any] = {
        labels.PAYLOAD_HASH_ALG: labels.HASH_SHA256, labels.PREIMAGE_CONTENT_TYPE: "application/jsonl",
    }  # fmt: skip
    digest = hashlib.sha256(record).digest()
    return sign_statement(digest, issuer.key, iss=issuer.iss, sub=sub, content_type=None, headers=headers)


def upload(made: MadeLog, record: bytes) -> None:
    store = ArtifactStore(Folder(made.data).artifacts, reserve=0)
    with store.receive(hashlib.sha256(record).hexdigest()) as incoming:
        incoming.write(record)
        incoming.finish()


def report_on(made: MadeLog, *, settings: str = "[log]\nseed = 7\n", **more: Any) -> Report:
    """The report of the command, on one process, by the log's clock."""
    key = Config.read(Folder(made.data).config).policy_key.hex()
    options: dict[str, Any] = {
        "now": made.clock() * 1000, "frameworks": (), "trust": TrustStore(), "data": made.data, "policy_key": key,
        "settings": settings.encode(), "jobs": 1, "quiet": True,
    }  # fmt: skip
    return run(ReportOptions(**(options | more)))


def findings(made: MadeLog, **more: Any) -> dict[str, Finding]:
    """What the log checks found, by their ids."""
    return {finding.check: finding for finding in report_on(made, **more).log}
