"""A VAC record as far as its outside must agree with it: who, which session, from when to when.

VAC is draft-birkholz-verifiable-agent-conversations; both of its profiles (19 Feb and -00) say "3.0.0-draft",
and this summary reads both. It is not a validity check: a member of the wrong type is simply not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from transparency.records import strict_json
from transparency.records.timestamps import is_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TRACE_FORMAT: Final = "ietf-vac-v3.0"
CONTENT_TYPE: Final = "application/agent-conversation"

# Who makes the tool, which is not who makes the model behind it (formats.md 3.2 row 11, 9.1).
CLI_VENDORS: Final[Mapping[str, str]] = {
    "claude-code": "anthropic",
    "gemini-cli": "google",
    "codex-cli": "openai",
    "codex": "openai",
    "opencode": "opencode",
    "cursor": "anysphere",
}

Timestamp = str | int


@dataclass(frozen=True, slots=True)
class VacRecord:
    """What a VAC record says of itself; None where it says nothing, or nothing of the right type."""

    version: str
    record_id: str
    session_id: str | None
    model_provider: str | None
    cli_name: str | None
    timestamp_start: Timestamp | None
    timestamp_end: Timestamp | None

    @property
    def agent_vendor(self) -> str | None:
        """The vendor of the tool if it is a known one, else the provider of the model."""
        return self.cli_vendor or self.model_provider

    @property
    def cli_vendor(self) -> str | None:
        """The maker of a known tool."""
        return CLI_VENDORS.get(self.cli_name or "")

    @property
    def vendors(self) -> frozenset[str]:
        """Every name that agent-vendor may have without contradicting the record."""
        return frozenset(name for name in (self.cli_vendor, self.model_provider) if name is not None)


def read_vac(data: bytes) -> VacRecord | None:
    """The summary of a VAC JSON record, None for anything else.

    MalformedError when the bytes begin as a JSON object and are not strictly one: a lenient parser may read
    them as VAC, so "not VAC" would say too much.
    """
    if data.lstrip(b" \t\r\n")[:1] != b"{":
        return None
    return summarise(strict_json.loads(data))


def summarise(value: object) -> VacRecord | None:
    """The summary of a parsed JSON value that looks like VAC (formats.md 9), else None."""
    if not isinstance(value, dict):
        return None
    version, record_id, session = value.get("version"), value.get("id"), value.get("session")
    if not isinstance(version, str) or not isinstance(record_id, str):
        return None
    if not isinstance(session, dict):
        # The 19 Feb profile lets a record have file-attribution alone.
        if session is not None or not isinstance(value.get("file-attribution"), dict):
            return None
        session = {}
    meta = session.get("agent-meta")
    meta = meta if isinstance(meta, dict) else {}
    entries = session.get("entries")
    entries = entries if isinstance(entries, list) else []
    return VacRecord(
        version=version,
        record_id=record_id,
        session_id=_text(session.get("session-id")),
        model_provider=_text(meta.get("model-provider")),
        cli_name=_text(meta.get("cli-name")),
        timestamp_start=_time(session.get("session-start"), entries),
        timestamp_end=_time(session.get("session-end"), reversed(entries)),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(stated: object, entries: Iterable[Any]) -> Timestamp | None:
    """The stated time; else that of the first of the entries that carries one. Never ``created``."""
    if stated is not None:
        return stated if isinstance(stated, str | int) and is_timestamp(stated) else None
    for entry in entries:
        if isinstance(entry, dict) and is_timestamp(entry.get("timestamp")):
            time = entry["timestamp"]
            return time if isinstance(time, str | int) else None
    return None
