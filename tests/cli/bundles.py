"""A log with an incident on it, and a bundle of its evidence, for the tests of ``incident`` and of ``verify DIR``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.conftest import ROOT, Served, serving, shell
from tests.cli.filling import fill

RECORDS = ROOT / "tests" / "fixtures" / "records"
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"


def hostile_session() -> bytes:
    """A session that deletes something, and tries to run in whatever shows it."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"rm -rf / # {HOSTILE}"}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": HOSTILE, "is_error": True}
    lines: list[dict[str, Any]] = [
        {"type": "assistant", "timestamp": "2026-03-05T08:00:00.000Z", "message": {"model": "m", "content": [call]}},
        {"type": "user", "timestamp": "2026-03-05T08:00:01.000Z", "message": {"role": "user", "content": [answer]}},
    ]
    about = {"sessionId": "hostile", "version": "2.1.0", "cwd": "/home/a"}
    return b"".join(json.dumps(about | {"uuid": f"u{n}"} | line).encode() + b"\n" for n, line in enumerate(lines))


def padded() -> bytes:
    """More than a statement holds: it goes to the log as an envelope, with its record beside."""
    return hostile_session().replace(b"hostile", b"large") + b"".join(
        json.dumps({"type": "user", "uuid": f"p{n}", "sessionId": "large", "timestamp": "2026-03-05T09:00:00.000Z",
                    "message": {"role": "user", "content": "x" * 100}}).encode() + b"\n"
        for n in range(700)
    )  # fmt: skip


@contextmanager
def log_with_incident(folder: Path) -> Iterator[Served]:
    """Sessions of three agents, one hostile, one beside, one that only its issuer has: entry 3, and 5 to 9."""
    files = {
        "claude.jsonl": (RECORDS / "claude" / "session.jsonl").read_bytes(),
        "codex.jsonl": (RECORDS / "codex" / "session.jsonl").read_bytes(),
        "opencode.json": (RECORDS / "opencode" / "export.json").read_bytes(),
        "hostile.jsonl": hostile_session(),
        "large.jsonl": padded(),
        "private.jsonl": hostile_session().replace(b"hostile", b"private"),
    }
    with serving(folder, "--open") as log:
        fill(log, files, {"private.jsonl": ("--private", "--sub", "private")})
        assert shell("keys", "--log", log.url, "--trust", "trust.toml", cwd=folder).returncode == 0
        yield log


def trust(log: Served) -> tuple[str | Path, ...]:
    """What somebody who trusts that log and that issuer says to ``verify``."""
    return ("--trust", log.data.parent / "trust.toml", "--issuer-key", log.public)


def copied(bundle: Path, target: Path) -> Path:
    shutil.copytree(bundle, target)
    return target


def files_of(bundle: Path) -> list[str]:
    return sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
