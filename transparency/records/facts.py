"""The facts of a record: what it can be searched by (sessions, agent, models, tools, paths, times), and no more.

A finding aid, not evidence: nothing is checked and nothing depends on it. So a record is not converted for it, which
takes several times as long: it is parsed leniently and only the members that name something are looked at, by the walk
of its format (:mod:`facts_agents`, :mod:`facts_exchange`). What cannot be read gives no facts, and never an error.
Counts and lengths are bounded; a value that is too long is left out, never cut: it would be found under a name that it
does not have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from transparency.errors import MalformedError
from transparency.records import facts_agents as agents
from transparency.records import facts_exchange as exchange
from transparency.records import format as known
from transparency.records import vac
from transparency.records.canonical import name_uuid, time_member
from transparency.records.detect import Detected, detect
from transparency.records.facts_gathering import Gathering
from transparency.records.paths import relative_path
from transparency.records.strict_json import without_bom
from transparency.records.timestamps import instant

# Of these a converter derives the session's id from the bytes where the record has none; the others always have one.
_UNNAMED: Final = frozenset({known.A2A, known.VAC_JSON, known.VAC_CBOR, known.OPENCODE})


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """Texts as the record has them, in the order in which it first names them; times in milliseconds since 1970.

    A path under the working directory (``folder``) is relative to it. ``complete`` is False where a bound left
    something out.
    """

    format: str = ""
    sessions: tuple[str, ...] = ()
    vendor: str | None = None
    agent: str | None = None
    version: str | None = None
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    folder: str | None = None
    paths: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    complete: bool = True


NONE: Final = RecordFacts()


def facts(data: bytes, detected: Detected | None = None) -> RecordFacts:
    """What *data* can be found by; :data:`NONE` for what is no record, or cannot be read as one."""
    try:
        format_ = (detected or detect(data)).format
        body = without_bom(data)
        found = Gathering()
        if format_ is known.COSE:
            return NONE  # a signed statement is not a record
        _WALKS[format_](body, found)
    except (MalformedError, ValueError, RecursionError, MemoryError):
        return NONE
    if not found.sessions and format_ not in _UNNAMED:
        found.session(name_uuid(hashlib.sha256(body).hexdigest()))
    return _finish(found, format_)


def _finish(found: Gathering, format_: known.Format) -> RecordFacts:
    return RecordFacts(
        format_.trace_format,
        tuple(found.sessions),
        found.vendor or format_.vendor or vac.CLI_VENDORS.get(found.agent or ""),
        found.agent,
        found.version,
        tuple(found.models),
        tuple(found.tools),
        found.folder,
        tuple(dict.fromkeys(relative_path(path, found.folder) for path in found.paths)),
        _milliseconds(found.start) or _milliseconds(found.first),
        _milliseconds(found.end) or _milliseconds(found.last),
        found.complete,
    )


def _milliseconds(value: object) -> int | None:
    return None if value is None else instant(time_member(value)[0])


_WALKS: Final[Mapping[known.Format, Callable[[bytes, Gathering], None]]] = {
    known.VAC_JSON: exchange.vac_in_json,
    known.VAC_CBOR: exchange.vac_in_cbor,
    known.CLAUDE: agents.claude,
    known.CURSOR: agents.cursor,
    known.CODEX: agents.codex,
    known.GEMINI_JSON: agents.gemini,
    known.GEMINI_JSONL: agents.gemini,
    known.OPENCODE: agents.opencode,
    known.OPENCODE_EXPORT: agents.opencode_export,
    known.AGENTLOG: exchange.agentlog,
    known.AGENTLOG_01: exchange.agentlog,
    known.AGENT_TRACE: exchange.agent_trace,
    known.AGENT_TRACE_JSONL: exchange.agent_trace,
    known.A2A: exchange.a2a,
}
