"""The objects of an OpenCode source, put together by session.

Most objects name their session. Others are linked: a part by its message, a share by its address, a project by its id.
What is left (bare arrays in a concatenation) goes to the session of the object before it, as OpenCode's own tools write
them, and ``Placed.by`` says so: a reviewer must be able to tell a fact from a guess.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from transparency.errors import MalformedError
from transparency.records.canonical import name_uuid
from transparency.records.opencode_entries import Part
from transparency.records.opencode_objects import StoredObject, stored, stored_units


@dataclass(frozen=True, slots=True)
class Placed:
    """An object that is neither message nor part. ``by`` is "position" or "first" where its session was guessed."""

    stored: StoredObject
    by: str | None


@dataclass(slots=True)
class StoredSession:
    """One session's objects, in file order. ``parts`` are by message, under None where they name none."""

    id: str
    info: StoredObject | None = None
    project: StoredObject | None = None
    messages: list[StoredObject] = field(default_factory=list)
    parts: dict[str | None, list[Part]] = field(default_factory=dict)
    others: list[Placed] = field(default_factory=list)
    units: int = 0

    def add(self, each: StoredObject, by: str | None) -> None:
        self.units += 1
        if each is self.info:
            return
        if each.kind == "message" and by is None:
            self.messages.append(each)
        elif each.kind == "part" and by is None:
            self.parts.setdefault(each.message, []).append(Part(each.unit, each.value))
        else:
            # Also a message or part whose session is a guess: it must not pass for one of this conversation.
            self.others.append(Placed(each, by))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the session's own object says; empty where there is none."""
        return self.info.value if self.info is not None else {}


def grouped(data: bytes) -> list[StoredSession]:
    """Every object of the source in exactly one session; sessions in the order in which they are first named."""
    objects = [stored(unit) for unit in stored_units(data)]
    if not objects:
        raise MalformedError("there is no JSON value in this OpenCode source")
    found, session_of_message = _named(objects)
    if not found:
        derived = name_uuid(hashlib.sha256(data).hexdigest())
        found[derived] = StoredSession(derived)
    links = _links(found.values())
    before: str | None = None
    for each in objects:
        session, by = each.session, None
        if session is None and each.message is not None:
            session = session_of_message.get(each.message)
        if session is None:
            session = next((links[key] for key in _keys(each) if key in links), None)
        if session is None:
            session, by = (before, "position") if before is not None else (next(iter(found)), "first")
        else:
            before = session
        found[session].add(each, by)
    _find_projects(found.values(), objects)
    return list(found.values())


def _named(objects: Iterable[StoredObject]) -> tuple[dict[str, StoredSession], dict[str, str]]:
    """The sessions that any object names, and the session of each message."""
    found: dict[str, StoredSession] = {}
    session_of_message: dict[str, str] = {}
    for each in objects:
        if each.session is None:
            continue
        session = found.setdefault(each.session, StoredSession(each.session))
        if each.kind == "message" and isinstance(each.value.get("id"), str):
            session_of_message.setdefault(each.value["id"], each.session)
        if each.kind == "session" and session.info is None and isinstance(each.value, dict):
            session.info = each
    return found, session_of_message


def _links(found: Iterable[StoredSession]) -> dict[tuple[str, str], str]:
    """Sessions by what is known of them: the project they ran in, the address and the id they are shared under."""
    links: dict[tuple[str, str], str] = {}
    for session in found:
        share, project = session.facts.get("share"), session.facts.get("projectID")
        if isinstance(share, dict) and isinstance(share.get("url"), str):
            links.setdefault(("url", share["url"]), session.id)
        if isinstance(project, str):
            links.setdefault(("project", project), session.id)
        # OpenCode names a share by the last eight characters of the session's id.
        links.setdefault(("share", session.id[-8:]), session.id)
    return links


def _keys(each: StoredObject) -> Iterable[tuple[str, str]]:
    names = {"share": (("url", "url"), ("share", "id")), "project": (("project", "id"),)}.get(each.kind, ())
    return ((key, each.value[name]) for key, name in names if isinstance(each.value.get(name), str))


def _find_projects(found: Iterable[StoredSession], objects: Iterable[StoredObject]) -> None:
    """A project's entry stands in one record, but every session that ran in the project has its facts."""
    projects: dict[str, StoredObject] = {}
    for each in objects:
        if each.kind == "project" and isinstance(each.value.get("id"), str):
            projects.setdefault(each.value["id"], each)
    for session in found:
        wanted = session.facts.get("projectID")
        session.project = projects.get(wanted) if isinstance(wanted, str) else None
