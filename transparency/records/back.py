"""A canonical record back into Agent Trace 0.1.0 or AgentLog 0.2.0, for tools that read those; and what is lost by it.

Both say less than VAC: Agent Trace only who wrote which lines, AgentLog no results but texts. So each way back returns,
beside the document, a sentence for everything that did not go along or had to be filled in. A record that came from the
same format gets back what its own document said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import agent_trace
from transparency.records.back_agentlog import to_agentlog
from transparency.records.back_result import Back, NotConvertibleError, require_vac
from transparency.records.canonical import UNKNOWN, name_uuid, time_member
from transparency.records.canonical_json import dumps
from transparency.records.format import AGENT_TRACE

__all__ = ["Back", "NotConvertibleError", "to_agent_trace", "to_agentlog"]

VERSION: Final = "0.1.0"
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_VCS: Final = ("git", "jj", "hg", "svn")
_MAX_MODEL: Final = 250


def to_agent_trace(record: Mapping[str, Any]) -> Back:
    """The trace record of a VAC record (-00) that has file-attribution; without it there is nothing to trace."""
    require_vac(record)
    attribution = record.get("file-attribution")
    if attribution is None:
        raise NotConvertibleError("the record has no file-attribution, and Agent Trace holds nothing else")
    original = _original(record)
    if original is not None:
        return Back(original, ())
    lost: list[str] = []
    session = record["session"]
    made: dict[str, Any] = {"version": VERSION, "id": _identity(record, lost), "timestamp": _time(record, lost)}
    vcs = _vcs(record, lost)
    if vcs is not None:
        made["vcs"] = vcs
    if "recording-agent" in record:
        tool = record["recording-agent"]
        made["tool"] = {name: tool[name] for name in ("name", "version") if isinstance(tool.get(name), str)}
    provider = session["agent-meta"]["model-provider"]
    made["files"] = [_file(file, provider, lost) for file in attribution["files"]]
    made["metadata"] = _metadata(record)
    lost += _left_behind(record)
    return Back(made, tuple(dict.fromkeys(lost)))


def _original(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The trace this record was made from, where it still says the same: ``native`` alone is not to be believed."""
    native, source = record.get("native"), record.get("source")
    original = native.get("agent-trace") if isinstance(native, dict) else None
    if (
        not isinstance(original, dict)
        or not isinstance(source, dict)
        or source.get("format") != AGENT_TRACE.trace_format
    ):
        return None
    try:
        made = agent_trace.sessions(dumps(original), AGENT_TRACE)[0].finish(b"", "1970-01-01T00:00:00.000Z")
    except MalformedError:
        return None
    compared = ("id", "file-attribution", "vcs")
    return original if all(made.get(name) == record.get(name) for name in compared) else None


def _identity(record: Mapping[str, Any], lost: list[str]) -> str:
    identity: str = record["id"]
    if _UUID.fullmatch(identity):
        return identity
    lost.append("the record's id is no UUID; the trace has one made from it")
    return name_uuid(identity)


def _time(record: Mapping[str, Any], lost: list[str]) -> str:
    """When the trace was recorded; never a time that the record does not give."""
    session = record["session"]
    for holder, name in ((record, "created"), (session, "session-end"), (session, "session-start")):
        stamp = time_member(holder.get(name))[0]
        if stamp is not None:
            if name != "created":
                lost.append(f"the record does not say when it was created; the trace has its {name}")
            return stamp
    raise NotConvertibleError("the record has no time, and Agent Trace requires one")


def _vcs(record: Mapping[str, Any], lost: list[str]) -> dict[str, str] | None:
    vcs = record.get("vcs") or record["session"].get("environment", {}).get("vcs")
    if vcs is None:
        return None
    if vcs.get("type") not in _VCS or "revision" not in vcs:
        lost.append("vcs: Agent Trace requires a revision, of git, jj, hg or svn")
        return None
    if vcs.keys() & {"branch", "repository"}:
        lost.append("branch and repository")
    return {"type": vcs["type"], "revision": vcs["revision"]}


def _file(file: Mapping[str, Any], provider: str, lost: list[str]) -> dict[str, Any]:
    return {
        "path": file["path"],
        "conversations": [_conversation(conversation, provider, lost) for conversation in file["conversations"]],
    }


def _conversation(conversation: Mapping[str, Any], provider: str, lost: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if "url" in conversation:
        made["url"] = conversation["url"]
    if "contributor" in conversation:
        made["contributor"] = _contributor(conversation["contributor"], provider, lost)
    made["ranges"] = list(_ranges(conversation["ranges"], provider, lost))
    if "related" in conversation:
        made["related"] = [dict(related) for related in conversation["related"]]
    return made


def _ranges(ranges: list[Mapping[str, Any]], provider: str, lost: list[str]) -> Iterator[dict[str, Any]]:
    for found in ranges:
        if found["start-line"] < 1 or found["end-line"] < 1:
            lost.append("ranges from line 0: lines are counted from 1")
            continue
        made: dict[str, Any] = {"start_line": found["start-line"], "end_line": found["end-line"]}
        if "content-hash" in found:
            made["content_hash"] = _hash(found["content-hash"], found.get("content-hash-alg", "sha-256"))
        if "contributor" in found:
            made["contributor"] = _contributor(found["contributor"], provider, lost)
        yield made


def _hash(digest: str, algorithm: str) -> str:
    if algorithm == UNKNOWN:
        return digest
    return f"{'sha256' if algorithm == 'sha-256' else algorithm}:{digest}"


def _contributor(contributor: Mapping[str, Any], provider: str, lost: list[str]) -> dict[str, str]:
    made = {"type": contributor["type"]}
    model = contributor.get("model-id")
    if model is None:
        return made
    # models.dev writes provider/model (seed 000 §6.7); the provider is that of the session.
    if "/" not in model and provider != UNKNOWN:
        model = f"{provider}/{model}"
    if len(model) > _MAX_MODEL:
        lost.append(f"a model-id longer than {_MAX_MODEL} characters")
        return made
    return {**made, "model_id": model}


def _metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """The session, so that it can be found again."""
    session_id = record["session"]["session-id"]
    return {"session_id": session_id.hex() if isinstance(session_id, bytes) else session_id}


def _left_behind(record: Mapping[str, Any]) -> Iterator[str]:
    session = record["session"]
    if session["entries"]:
        what = "what the trace said beside lines and contributors" if session.get("synthetic") else "the conversation"
        yield f"{what}: {len(session['entries'])} entries"
    for name in ("session-start", "session-end", "environment"):
        if name in session:
            yield name
    for name in ("actors", "source"):
        if name in record:
            yield f"the record's {name}"
