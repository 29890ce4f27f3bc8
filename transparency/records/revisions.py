"""Revisions as records name them: git commits, Jujutsu change ids, Mercurial changesets (seed 000 §6.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# git: SHA-1 or SHA-256, whole or at least seven digits of it; jj writes change ids in the letters k to z; hg: 12 or 40.
_FORMS: Final = {
    "git": re.compile(r"[0-9a-f]{7,64}"),
    "jj": re.compile(r"[k-z]{4,32}"),
    "hg": re.compile(r"[0-9a-f]{12,40}"),
}


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a version control system."""

    type: str
    id: str

    def __str__(self) -> str:
        return f"{self.type}:{self.id}"

    def matches(self, other: Revision) -> bool:
        """Whether both may be the same one: ids are often shortened, so one may begin the other."""
        return self.type == other.type and (self.id.startswith(other.id) or other.id.startswith(self.id))


def parse_revision(text: str, *, default: str | None = None) -> Revision | None:
    """``git:a1b2…``, ``jj:kkmpptxz``, ``hg:a1b2…``; a bare id is of the *default* system. None if it is none."""
    kind, colon, identity = text.strip().partition(":")
    if not colon:
        kind, identity = default or "", kind
    # A jj id may come with the letters of the other spelling in upper case, hex ids in either.
    identity = identity.lower()
    form = _FORMS.get(kind)
    return Revision(kind, identity) if form is not None and form.fullmatch(identity) else None


def revisions_of(record: Mapping[str, Any]) -> list[Revision]:
    """The revisions that a record (VAC -00) says it belongs to: its own, and that of its environment."""
    session = record.get("session")
    environment = session.get("environment") if isinstance(session, Mapping) else None
    inner = environment.get("vcs") if isinstance(environment, Mapping) else None
    made = []
    for vcs in (record.get("vcs"), inner):
        if isinstance(vcs, Mapping) and isinstance(vcs.get("type"), str) and isinstance(vcs.get("revision"), str):
            found = parse_revision(f"{vcs['type']}:{vcs['revision']}")
            if found is not None:
                made.append(found)
    return made
