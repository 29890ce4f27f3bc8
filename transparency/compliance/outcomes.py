"""How calls ended: what a record says of errors, refusals and aborts. Read by R8.2, R9.1 and R10.1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from transparency.compliance.survey import EVENT, RESULT, Row, Survey, as_map, as_text

ERROR: Final = "error"
DENIED: Final = "denied"
ABORTED: Final = "aborted"

_FAILED: Final = frozenset({"error", "failed", "failure", "timeout", "errored"})
_DENIED: Final = frozenset({"denied", "declined", "rejected", "refused"})
_ABORTED: Final = frozenset({"aborted", "cancelled", "canceled", "interrupted", "killed"})
# Words by which tools say in a result that a person or a rule said no (Claude Code, Codex).
_REFUSAL: Final = re.compile(
    r"(?:doesn't want to proceed with this tool use|user rejected|rejected by user|permission denied by"
    r"|has been denied|exec command rejected)",
    re.IGNORECASE,
)
_LOOK: Final = 400


def outcomes(survey: Survey) -> dict[Row, str]:
    """Entries that ended badly, and how: error, denied or aborted. Read once for each survey."""
    known = survey.__dict__.get("_outcomes")
    if known is None:
        known = {row: outcome for row in survey.rows if (outcome := _outcome_of(row))}
        survey.__dict__["_outcomes"] = known
    return known


def _outcome_of(row: Row) -> str:
    if row.kind == RESULT:
        return _of_result(row.entry)
    return _of_event(row.entry) if row.kind == EVENT else _of_message(row.entry)


def _of_result(entry: Mapping[str, object]) -> str:
    status = as_text(entry.get("status")).lower()
    native = as_map(entry.get("native"))
    if status in _DENIED or native.get("toolDenialKind"):
        return DENIED
    if status in _ABORTED or as_map(native.get("toolUseResult")).get("interrupted") is True:
        return ABORTED
    if entry.get("is-error") is True or status in _FAILED:
        said = entry.get("output")
        return DENIED if isinstance(said, str) and _REFUSAL.search(said[:_LOOK]) else ERROR
    return ""


def _of_event(entry: Mapping[str, object]) -> str:
    name = as_text(entry.get("event-type")).rpartition("/")[2]
    if name in ("error", "stream_error", "api_error", "turn_failed"):
        return ERROR
    if name in ("turn_aborted", "aborted", "interrupted"):
        return ABORTED
    if name == "approval":
        decision = as_text(as_map(entry.get("data")).get("decision") or as_map(entry.get("data")).get("status")).lower()
        return DENIED if decision in _DENIED else ""
    return ""


def _of_message(entry: Mapping[str, object]) -> str:
    native = entry.get("native")
    if not isinstance(native, dict):
        return ""
    if native.get("isApiErrorMessage") is True:
        return ERROR
    return ABORTED if native.get("isAbortedMidStream") is True else ""
