"""``SESSION.vac.json``, the canonical record that ``submit --convert`` keeps beside a session."""

from __future__ import annotations

from pathlib import Path

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.kept_files import held, replace
from transparency.errors import TransparencyError
from transparency.records import canonical_json, strict_json


def keep_canonical(path: Path, canonical: bytes, *, force: bool) -> bytes:
    """The record on disk: the one that is there, if it is the same but for its time of conversion."""
    there = held(path)
    if there is not None:
        if _same_but_created(there, canonical):
            return there
        if not force and not _is_conversion(there):
            raise CommandError(
                Exit.CANNOT_WRITE, f"{path} exists and was not made by --convert; it is left as it is",
                "Move it away, or use --force.",
            )  # fmt: skip
    replace(path, canonical, there)
    return canonical


def _same_but_created(there: bytes, canonical: bytes) -> bool:
    try:
        old, new = strict_json.loads(there), strict_json.loads(canonical)
        if not isinstance(old, dict) or not isinstance(new, dict) or "created" not in old:
            return False
        return canonical_json.dumps({**new, "created": old["created"]}) == there
    except TransparencyError:
        return False


def _is_conversion(there: bytes) -> bool:
    try:
        value = strict_json.loads(there)
    except TransparencyError:
        return False
    source = value.get("source") if isinstance(value, dict) else None
    return isinstance(source, dict) and source.get("converter") is not None
