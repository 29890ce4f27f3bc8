"""Incident: what was asked, how it was looked for, and what was not available: the responder's own account of it.

It is ``incident.json`` of a bundle. Unlike the timeline it cannot be computed again from the evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.compliance.incident_query import IncidentQuery
from transparency.compliance.incident_timeline import to_bytes
from transparency.errors import MalformedError

KIND: Final = "transparency-incident/1"
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_LIST: Final = 100_000
MAX_CHARS: Final = 4_096
_TEXTS: Final = ("made", "software", "log")
_MEMBERS: Final = frozenset({"kind", "query", "clocks", "method", "limits", "not-available", *_TEXTS})


@dataclass(frozen=True, slots=True)
class Incident:
    """``clocks`` are times to be kept, by name; ``not_available`` is (what, why)."""

    query: IncidentQuery
    made: str
    software: str
    log: str
    method: tuple[str, ...]
    limits: tuple[str, ...]
    clocks: Mapping[str, str] = field(default_factory=dict)
    not_available: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "query": self.query.to_json(),
            "clocks": dict(self.clocks),
            "method": list(self.method),
            "limits": list(self.limits),
            "not-available": [{"what": what, "why": why} for what, why in self.not_available],
            **{name: getattr(self, name) for name in _TEXTS},
        }

    def to_bytes(self) -> bytes:
        return to_bytes(self.to_json())

    @classmethod
    def from_bytes(cls, data: bytes) -> Incident:
        """Read one; MalformedError for whatever ``to_bytes`` does not write."""
        said = read_json(data, MAX_BYTES)
        if not isinstance(said, dict) or said.keys() != _MEMBERS or said["kind"] != KIND:
            raise MalformedError(f"it is not what an incident is ({KIND})")
        clocks, missing = said["clocks"], said["not-available"]
        if not isinstance(clocks, dict) or not isinstance(missing, list) or len(missing) > MAX_LIST:
            raise MalformedError("its clocks are not a map, or what is not available is not a list")
        if not all(isinstance(each, dict) and each.keys() == {"what", "why"} for each in missing):
            raise MalformedError("what is not available has what and why")
        incident = cls(
            IncidentQuery.from_json(said["query"]),
            _text(said["made"]),
            _text(said["software"]),
            _text(said["log"]),
            _texts(said["method"]),
            _texts(said["limits"]),
            {_text(name): _text(value) for name, value in clocks.items()},
            tuple((_text(each["what"]), _text(each["why"])) for each in missing),
        )
        if incident.to_bytes() != data:
            raise MalformedError("it is not written in the one form it has")
        return incident


def read_json(data: bytes, most: int) -> Any:  # noqa: ANN401 - JSON
    """JSON of a bundle, to be held against what writes it: what reads otherwise there is refused by its caller."""
    if len(data) > most:
        raise MalformedError(f"it has more than {most} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError("it is not JSON") from error


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_LIST:
        raise MalformedError("method and limits are lists of texts")
    return tuple(_text(each) for each in value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHARS:
        raise MalformedError(f"a text of an incident has at most {MAX_CHARS} characters")
    return value
