"""What ``verify`` is pointed at: files, folders, standard input, and the record that lies beside a statement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.notes.proof import SUFFIX as PROOF
from transparency.verifier.evidence import SUFFIX as EVIDENCE

SUFFIX = ".cose"
TRANSPARENT = ".t.cose"
_ENDINGS = ("", ".payload", ".json", ".jsonl", ".ndjson", ".cbor", ".txt", ".log", ".md")
_REDACTED = ".redacted"
_NOT_A_RECORD = ".redactions.json"
MAX_BESIDE = 4096
MAX_EARLIER = 64 * 1024 * 1024
_NEVER = frozenset({".cose", ".pem", ".keys", ".key", ".cert", ".crt", ".toml", PROOF, EVIDENCE})


def is_bundle(path: Path) -> bool:
    """Whether a folder is an evidence bundle, also one that a file is missing of: two of the three that name it so."""
    return sum((path / name).is_file() for name in ("manifest.json", "incident.json", "timeline.json")) > 1


def expand(paths: Sequence[str]) -> list[str]:
    """Folders become the statements in them, sorted; a statement that lies there with its receipt too is left out."""
    files: list[str] = []
    for path in paths:
        if path == STDIO or not Path(path).is_dir():
            files.append(path)
            continue
        found = sorted(item for item in Path(path).rglob(f"*{SUFFIX}") if item.is_file())
        names = {str(item) for item in found}
        files += [str(item) for item in found if str(item).removesuffix(SUFFIX) + TRANSPARENT not in names]
        if not found:
            raise CommandError(Exit.NO_INPUT, f"{path}: there is no file *{SUFFIX} in this folder")
    return files


def needs_payload(data: bytes) -> bool:
    """Whether the record is outside the statement: detached, or only its digest is in it (RFC 9995)."""
    try:
        message = Sign1.from_bytes(data)
    except TransparencyError:
        return False
    return message.payload is None or labels.PAYLOAD_HASH_ALG in message.headers


def payload_beside(file: str) -> str | None:
    """The record beside ``x.cose`` or ``x.t.cose``: ``x``, ``x.payload``, ``x.json`` …, or the only other ``x.*``."""
    if file == STDIO or not file.endswith(SUFFIX):
        return None
    for stem in dict.fromkeys((file.removesuffix(SUFFIX), file.removesuffix(TRANSPARENT))):
        if stem.endswith(SUFFIX) or not Path(stem).name:
            continue
        # What was redacted before it was signed lies beside the original, and is what the statement is about.
        for middle in (_REDACTED, ""):
            for ending in _ENDINGS:
                if Path(stem + middle + ending).is_file():
                    return stem + middle + ending
        name = Path(stem).name
        others = [
            item
            for item in Path(stem).parent.iterdir()
            if item.name.startswith(f"{name}.")
            and item.suffix not in _NEVER
            and _NOT_A_RECORD not in item.name
            and item.is_file()
        ]
        if len(others) == 1:
            return str(others[0])
    return None


def find_payload(file: str, data: bytes) -> tuple[bytes | None, str | None]:
    """The record for a statement that needs one, and where it was found."""
    if not needs_payload(data):
        return None, None
    path = payload_beside(file)
    return (None, None) if path is None else (read_input(path, may_be_empty=True), path)


def proof_beside(file: str) -> str | None:
    """The tlog-proof beside ``x.cose`` or ``x.t.cose``: ``x.tlog-proof``."""
    if file == STDIO or not file.endswith(SUFFIX):
        return None
    stems = dict.fromkeys((file.removesuffix(TRANSPARENT), file.removesuffix(SUFFIX)))
    return next((stem + PROOF for stem in stems if stem != file and Path(stem + PROOF).is_file()), None)


def earlier_beside(file: str, data: bytes) -> Iterator[bytes]:
    """The other statements about the same session in the folder, for one that says it continues another.

    ``submit`` keeps them as ``x.1.cose``, ``x.2.cose`` …; a statement under any other name is looked at after these.
    """
    if file == STDIO or not _continues(data):
        return
    path = Path(file)
    stem = path.name.removesuffix(SUFFIX).removesuffix(TRANSPARENT.removesuffix(SUFFIX))
    others = [item for item in path.parent.glob(f"*{SUFFIX}") if item.name != path.name]
    others.sort(key=lambda item: (not item.name.startswith(f"{stem}."), item.name))
    for item in others[:MAX_BESIDE]:
        with contextlib.suppress(CommandError, OSError):
            if item.is_file() and item.stat().st_size <= MAX_EARLIER:
                yield read_input(item)


def _continues(data: bytes) -> bool:
    try:
        return labels.SUPERSEDES in Sign1.from_bytes(data).headers
    except TransparencyError:
        return False
