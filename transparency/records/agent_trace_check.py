"""Whether a value is an Agent Trace 0.1.0 record: the JSON Schema of seed 000 §6.1, read leniently (formats.md 4).

A wrong shape is a violation. What the schema forbids and real tools write nevertheless is a warning: versions "1.0",
ids that are no UUIDs, Windows paths and URLs, ``metadata: null``, the reference implementation's pseudo-paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from transparency.records.timestamps import instant
from transparency.records.violation import Findings, Violation, token

CONTRIBUTORS: Final = ("human", "ai", "mixed", "unknown")
_VCS: Final = ("git", "jj", "hg", "svn")
_MAX_MODEL: Final = 250

_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_HASH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*:[0-9a-fA-F]+")
_GIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIGITS: Final = {"sha256": (64,), "sha-256": (64,), "murmur3": (8, 32)}
_DRIVE: Final = re.compile(r"[A-Za-z]:")

_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "record": ("version", "id", "timestamp", "files", "vcs", "tool", "metadata", "$schema"),
    "file": ("path", "conversations"),
    "conversation": ("ranges", "url", "contributor", "related"),
    "range": ("start_line", "end_line", "content_hash", "contributor"),
    "contributor": ("type", "model_id"),
}


class _Found(Findings):
    """Findings about the members of a trace record."""

    __slots__ = ()

    def text(self, value: Mapping[str, Any], name: str, at: str, *, required: bool = False) -> str | None:
        """A string member: its absence or other type is reported here, its form by the caller."""
        if name not in value:
            if required:
                self.wrong(f"{at}/{name}", f"missing: {name} is required")
            return None
        held = value[name]
        if not isinstance(held, str):
            self.wrong(f"{at}/{name}", "not a string")
            return None
        return held

    def unknown(self, value: Mapping[str, Any], what: str, at: str) -> None:
        for name in value:
            if name not in _MEMBERS[what]:
                self.odd(f"{at}/{token(name)}", f"not a member of a {what}; it is kept, but no reader knows it")

    def each(self, value: Mapping[str, Any], name: str, at: str, check: Callable[[_Found, Any, str], None]) -> None:
        """Every item of a required array of objects."""
        held = value.get(name)
        if not isinstance(held, list):
            self.wrong(f"{at}/{name}", "not an array" if name in value else f"missing: {name} is required")
            return
        for number, item in enumerate(held):
            if isinstance(item, dict):
                check(self, item, f"{at}/{name}/{number}")
            else:
                self.wrong(f"{at}/{name}/{number}", "not an object")
            if self.full:
                return


def check_record(value: object) -> list[Violation]:
    """Every departure from the schema, in document order of the schema."""
    found = _Found()
    if not isinstance(value, dict):
        found.wrong("", "a trace record is an object")
        return found.violations
    version = found.text(value, "version", "", required=True)
    if version is not None and not _VERSION.fullmatch(version):
        found.odd("/version", "not three numbers, as 0.1.0 (the reference implementation writes 1.0)")
    identity = found.text(value, "id", "", required=True)
    if identity is not None and not _UUID.fullmatch(identity):
        found.odd("/id", "not a UUID")
    _time(found, value, "")
    _vcs(found, value)
    tool = value.get("tool")
    if isinstance(tool, dict):
        for name in ("name", "version"):
            found.text(tool, name, "/tool")
    elif "tool" in value:
        found.wrong("/tool", "not an object")
    if value.get("metadata", {}) is None:
        found.odd("/metadata", "null instead of an object")
    elif not isinstance(value.get("metadata", {}), dict):
        found.wrong("/metadata", "not an object")
    found.each(value, "files", "", _file)
    found.unknown(value, "record", "")
    return found.violations


def check_flat(value: Mapping[str, Any]) -> list[Violation]:
    """A line of the flat dialect: no Agent Trace record, but one range of one file."""
    found = _Found()
    found.odd("", "the flat dialect: one range a line, without version, id, files and conversations")
    path = found.text(value, "file_path", "", required=True)
    if path is not None:
        _path(found, path, "/file_path")
    found.text(value, "session_id", "", required=True)
    _time(found, value, "")
    _lines(found, value, "")
    return found.violations


def _time(found: _Found, value: Mapping[str, Any], at: str) -> None:
    stamp = found.text(value, "timestamp", at, required=True)
    if stamp is None:
        return
    if instant(stamp.upper()) is None:
        found.odd(f"{at}/timestamp", "not an RFC 3339 date-time")


def _vcs(found: _Found, value: Mapping[str, Any]) -> None:
    vcs = value.get("vcs")
    if vcs is None and "vcs" not in value:
        return
    if not isinstance(vcs, dict):
        found.wrong("/vcs", "not an object")
        return
    kind = found.text(vcs, "type", "/vcs", required=True)
    if kind is not None and kind not in _VCS:
        found.wrong("/vcs/type", "must be one of " + ", ".join(_VCS))
    revision = found.text(vcs, "revision", "/vcs", required=True)
    if kind == "git" and revision is not None and not _GIT.fullmatch(revision):
        found.odd("/vcs/revision", "not the 40 hex digits of a git commit")


def _file(found: _Found, file: Mapping[str, Any], at: str) -> None:
    path = found.text(file, "path", at, required=True)
    if path is not None:
        _path(found, path, f"{at}/path")
    found.each(file, "conversations", at, _conversation)
    found.unknown(file, "file", at)


def _path(found: _Found, path: str, at: str) -> None:
    """§6.1: relative to the repository's root. Nothing here opens a path; whoever does is warned."""
    if path in (".sessions", ".shell-history"):
        found.odd(at, "no file: the reference implementation's name for events that touch none")
    elif "://" in path or path.startswith("/") or _DRIVE.match(path):
        found.odd(at, "not relative to the repository's root")
    elif ".." in re.split(r"[/\\]", path):
        found.odd(at, "leads out of the repository")
    elif "\\" in path:
        found.odd(at, "separated by backslashes")


def _conversation(found: _Found, conversation: Mapping[str, Any], at: str) -> None:
    url = found.text(conversation, "url", at)
    if url is not None and not _URI.fullmatch(url):
        found.odd(f"{at}/url", "not a URI")
    _contributor(found, conversation, at)
    found.each(conversation, "ranges", at, _range)
    if "related" in conversation:
        found.each(conversation, "related", at, _related)
    found.unknown(conversation, "conversation", at)


def _related(found: _Found, related: Mapping[str, Any], at: str) -> None:
    found.text(related, "type", at, required=True)
    url = found.text(related, "url", at, required=True)
    if url is not None and not _URI.fullmatch(url):
        found.odd(f"{at}/url", "not a URI")


def _range(found: _Found, value: Mapping[str, Any], at: str) -> None:
    _lines(found, value, at)
    _contributor(found, value, at)
    found.unknown(value, "range", at)


def _lines(found: _Found, value: Mapping[str, Any], at: str) -> None:
    whole = True
    for name in ("start_line", "end_line"):
        line = value.get(name)
        if type(line) is not int or line < 1:
            whole = False
            found.wrong(f"{at}/{name}", "not a line number, counted from 1" if name in value else "missing")
    if whole and value["end_line"] < value["start_line"]:
        found.odd(f"{at}/end_line", "before start_line")
    digest = found.text(value, "content_hash", at)
    if digest is None:
        return
    if not _HASH.fullmatch(digest):
        found.odd(f"{at}/content_hash", 'not "algorithm:hex"')
        return
    algorithm, _, digits = digest.partition(":")
    if len(digits) not in _DIGITS.get(algorithm.lower(), (len(digits),)):
        found.odd(f"{at}/content_hash", f"{len(digits)} hex digits are no {algorithm}")


def _contributor(found: _Found, value: Mapping[str, Any], at: str) -> None:
    if "contributor" not in value:
        return
    contributor, at = value["contributor"], f"{at}/contributor"
    if not isinstance(contributor, dict):
        found.wrong(at, "not an object")
        return
    kind = found.text(contributor, "type", at, required=True)
    if kind is not None and kind not in CONTRIBUTORS:
        found.wrong(f"{at}/type", "must be one of " + ", ".join(CONTRIBUTORS))
    model = found.text(contributor, "model_id", at)
    if model is not None:
        if len(model) > _MAX_MODEL:
            found.wrong(f"{at}/model_id", f"longer than {_MAX_MODEL} characters")
        elif "/" not in model:
            found.odd(f"{at}/model_id", "not provider/model")
    found.unknown(contributor, "contributor", at)
