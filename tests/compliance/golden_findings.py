"""Golden findings: what the record checks say of our fixtures, one file for each format.

python -m tests.compliance.golden_findings      # writes them anew, to be looked at with git diff
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transparency.compliance.record_checks import check_record
from transparency.compliance.subject import Signing, subjects
from transparency.records import tree

FIXTURES = Path(__file__).parents[1] / "fixtures" / "records"
GOLDEN = Path(__file__).parent / "golden"
NOW = 1_798_761_600_000  # 2027-01-01
SIGNING = Signing(
    iss="https://issuer.example", alg="ES256", signature=True, trusted=True, content_hash="equal", receipts=1,
    inclusion=True, log_trusted=True, witnesses=(1, 1), registered=NOW,
)  # fmt: skip
# One of each format that this project reads; the others are variations that the tests of the converters are about.
SOURCES = {
    "vac": "vac/published.json",
    "vac-february": "vac/february.json",
    "claude": "claude/session.jsonl",
    "claude-folder": "claude/folder",
    "codex": "codex/session.jsonl",
    "gemini-json": "gemini/session.json",
    "gemini-jsonl": "gemini/session.jsonl",
    "opencode": "opencode/sessions.concat.json",
    "opencode-export": "opencode/export.json",
    "cursor": "cursor/tool-use.jsonl",
    "agentlog": "agentlog/every-event.agentlog.json",
    "agentlog-0.1": "agentlog/earlier-version.agentlog.json",
    "agent-trace": "agent-trace/record.json",
    "a2a": "a2a/proto.json",
}


def read(name: str) -> bytes:
    """A fixture; a folder is packed into one record."""
    path = FIXTURES / name
    if path.is_dir():
        files = (file for file in path.rglob("*") if file.is_file())
        return tree.pack({file.relative_to(path).as_posix(): file.read_bytes() for file in files})
    return path.read_bytes()


def findings(name: str) -> list[dict[str, Any]]:
    """For each session its findings by check: verdict, sentence, places."""
    return [
        {
            each.check: f"{each.verdict}: {each.summary}" + "".join(f" {pointer}" for pointer in each.pointers[:3])
            for each in check_record(subject)
        }
        for subject in subjects(read(SOURCES[name]), SIGNING, retention=("audit", 3 * 365 * 86_400), now=NOW)
    ]


def write() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in SOURCES:
        text = json.dumps(findings(name), indent=1, ensure_ascii=False)
        (GOLDEN / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
