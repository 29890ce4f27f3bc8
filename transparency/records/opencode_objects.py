"""The objects OpenCode stores: what each one is, and which session it says it belongs to.

OpenCode keeps a session as many small JSON values (session, message, part, project, share, diffs, todos), each in a
file whose path says what it is: ``part/<message>/<part>.json``. Concatenated, the paths are gone and the members must
do. Nothing here guesses: an object that names no session gets none, and the converter says how it placed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import json_sequence, tree
from transparency.records.json_sequence import Extent
from transparency.records.native import text
from transparency.records.recognise import OPENCODE_PARTS
from transparency.records.unit import Unit

# Folders of the storage tree, now and before 2026 (`session/info`, `session/message`, …); the name after them is an id.
_FOLDERS: Final[Mapping[str, str]] = {
    "session": "session",
    "info": "session",
    "message": "message",
    "part": "part",
    "project": "project",
    "share": "share",
    "session_share": "share",
    "session_diff": "diffs",
    "todo": "todos",
}
# Kinds whose file is named by the session that owns it.
_NAMED_BY_SESSION: Final = frozenset({"session", "share", "diffs", "todos"})
_OBJECTS: Final = frozenset({"session", "message", "part", "project", "share"})
# A file that was cut to nothing: there is no value to keep.
EMPTY: Final = "empty-file"
KINDS: Final = frozenset(_FOLDERS.values())


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A unit, hashed, with what it is. ``session`` and ``message`` are None where no member and no path names them."""

    unit: Unit
    kind: str
    session: str | None
    message: str | None

    @property
    def value(self) -> Any:  # noqa: ANN401 - a JSON value
        return self.unit.value


def units(data: bytes) -> Iterator[Unit]:
    """Every object of concatenated values or of a packed tree, or every message of an export."""
    yield from export_units(data) if is_export(data) else stored_units(data)


def stored_units(data: bytes) -> Iterator[Unit]:
    """Every object of concatenated values or of a packed tree."""
    if tree.is_packed(data):
        yield from _packed_units(data)
        return
    for index, found in enumerate(json_sequence.values(data)):
        yield Unit({"index": index}, found.raw, found.value)


def _packed_units(data: bytes) -> Iterator[Unit]:
    for file in tree.unpack(data):
        try:
            found = list(json_sequence.values(file.data))
        except MalformedError as error:
            raise MalformedError(f"{file.path}: {error}") from None
        if len(found) <= 1:
            # The whole file, so that its hash is the one any tool gives; a file cut to nothing is still a unit.
            yield Unit({"path": file.path}, file.data, found[0].value if found else None)
            continue
        for index, each in enumerate(found):
            yield Unit({"path": file.path, "index": index}, each.raw, each.value)


def is_export(data: bytes) -> bool:
    """Whether this is ``opencode export``: one object with an object ``info`` and an array ``messages``."""
    try:
        opening = {name: data[place.start : place.start + 1] for name, place in json_sequence.members(data)}
    except MalformedError:
        return False
    return opening.get("info") == b"{" and opening.get("messages") == b"["


def export_units(data: bytes) -> Iterator[Unit]:
    """The messages of an export, one by one: the whole is never parsed at once."""
    for name, extent in json_sequence.members(data):
        if name == "messages":
            for index, item in enumerate(json_sequence.items(data, extent)):
                found = json_sequence.read(data, item)
                yield Unit({"index": index}, found.raw, found.value)


def export_frame(data: bytes) -> dict[str, Any]:
    """Everything of an export but its messages."""
    places: dict[str, Extent] = dict(json_sequence.members(data))
    return {name: json_sequence.read(data, place).value for name, place in places.items() if name != "messages"}


def stored(unit: Unit) -> StoredObject:
    """What this unit is. Its own members decide before its path does."""
    value = unit.value
    folder, owner = _place(unit.ref.get("path"))
    is_empty, unit = value is None and not unit.raw.strip(), unit.without_bytes()
    if is_empty:
        return StoredObject(unit, EMPTY, owner if folder in _NAMED_BY_SESSION else None, None)
    if not isinstance(value, dict):
        kind = _array_kind(value) if isinstance(value, list) else "value"
        # A path cannot make an object of what is none.
        kind = folder if folder and folder not in _OBJECTS else kind
        return StoredObject(unit, kind, owner if folder in _NAMED_BY_SESSION else None, None)
    kind = _object_kind(value, folder)
    session = text(value, "sessionID")
    message = text(value, "messageID") if kind == "part" else None
    if kind == "session":
        session = text(value, "id") or owner
    elif kind == folder:
        if kind == "part":
            message = message or owner
        elif kind == "message" or kind in _NAMED_BY_SESSION:
            session = session or owner
    return StoredObject(unit, kind, session, message)


def is_share(value: object) -> bool:
    """A share object lets its holder change what is published, by its ``secret``: that is never copied."""
    return isinstance(value, dict) and "secret" in value and "url" in value


def without_secret(value: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The object without the secrets of its shares, and how many there were."""
    kept = {name: member for name, member in value.items() if not (name == "secret" and is_share(value))}
    removed = len(value) - len(kept)
    share = kept.get("share")
    if isinstance(share, dict) and "secret" in share:
        kept["share"] = {name: member for name, member in share.items() if name != "secret"}
        removed += 1
    return kept, removed


def _place(path: object) -> tuple[str, str | None]:
    """Kind and owner by the path: the folder nearest to the file decides; a message's or part's owner is above it."""
    if not isinstance(path, str):
        return "", None
    *folders, name = path.split("/")
    for folder in reversed(folders):
        kind = _FOLDERS.get(folder)
        if kind in ("message", "part"):
            return kind, (folders[-1] if folders[-1] != folder else None)
        if kind is not None:
            return kind, name.removesuffix(".json")
    return (folders[-1] if folders else name.removesuffix(".json")), None


def _object_kind(value: Mapping[str, Any], folder: str) -> str:
    if text(value, "role") is not None:
        return "message"
    if (kind := text(value, "type")) is not None and (
        folder == "part" or "messageID" in value or (kind in OPENCODE_PARTS and not folder)
    ):
        return "part"
    if is_share(value):
        return "share"
    if "worktree" in value and "sessionID" not in value:
        return "project"
    own_id = text(value, "id") is not None and "sessionID" not in value
    if own_id and (folder == "session" or "projectID" in value or "directory" in value):
        return "session"
    # A path may name any folder, but not make a message of what has no role.
    return folder if folder and folder not in ("message", "part", "session") else "object"


def _array_kind(value: list[Any]) -> str:
    if value and all(isinstance(item, dict) and "file" in item for item in value):
        return "diffs"
    if value and all(isinstance(item, dict) and "content" in item and "status" in item for item in value):
        return "todos"
    return "array"
