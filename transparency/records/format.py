"""The record formats this project reads: how each is named in a header, typed on the wire, and whose tool writes it.

Names are those of formats.md 9.1. ``trace-format`` and content type go into signed headers, so they never change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JSON: Final = "application/json"
JSONL: Final = "application/jsonl"
AGENT_CONVERSATION: Final = "application/agent-conversation"


@dataclass(frozen=True, slots=True)
class Format:
    """One format. ``vendor`` is None where the record itself says who made the tool."""

    trace_format: str
    name: str
    content_type: str
    vendor: str | None = None
    event_prefix: str = ""


VAC_JSON: Final = Format("ietf-vac-v3.0", "VAC record (JSON)", AGENT_CONVERSATION, event_prefix="vac")
VAC_CBOR: Final = Format("ietf-vac-v3.0", "VAC record (CBOR)", AGENT_CONVERSATION, event_prefix="vac")
CLAUDE: Final = Format("claude-jsonl", "Claude Code session", JSONL, "anthropic", "claude")
GEMINI_JSON: Final = Format("gemini-json", "Gemini CLI session", JSON, "google", "gemini")
GEMINI_JSONL: Final = Format("gemini-jsonl", "Gemini CLI session (JSONL)", JSONL, "google", "gemini")
CODEX: Final = Format("codex-jsonl", "Codex CLI rollout", JSONL, "openai", "codex")
OPENCODE: Final = Format("opencode-json", "OpenCode objects", JSON, "opencode", "opencode")
OPENCODE_EXPORT: Final = Format("opencode-export-json", "OpenCode export", JSON, "opencode", "opencode")
CURSOR: Final = Format("cursor-jsonl", "Cursor transcript", JSONL, "anysphere", "cursor")
AGENTLOG: Final = Format("agentlog-0.2", "AgentLog 0.2.0", "application/agentlog+json", event_prefix="agentlog")
AGENTLOG_01: Final = Format("agentlog-0.1", "AgentLog 0.1.0", "application/agentlog+json", event_prefix="agentlog")
AGENT_TRACE: Final = Format(
    "agent-trace-0.1", "Agent Trace", "application/vnd.agent-trace.record+json", event_prefix="agent-trace"
)
AGENT_TRACE_JSONL: Final = Format("agent-trace-0.1", "Agent Trace (JSONL)", JSONL, event_prefix="agent-trace")
A2A: Final = Format("a2a-traceability-v1", "A2A traceability", JSON, event_prefix="a2a")
# Not a record: a signed statement, whose payload is one. It has no trace-format.
COSE: Final = Format("", "COSE signed statement", "application/cose")

FORMATS: Final = (
    VAC_JSON, VAC_CBOR, CLAUDE, GEMINI_JSON, GEMINI_JSONL, CODEX, OPENCODE, OPENCODE_EXPORT, CURSOR, AGENTLOG,
    AGENTLOG_01, AGENT_TRACE, AGENT_TRACE_JSONL, A2A,
)  # fmt: skip
