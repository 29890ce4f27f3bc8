"""Records on standard output, one a line: their exact bytes to a program, harmless ones to a terminal."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime

# JSON escapes controls below U+0020 itself. The rest (DEL, C1 controls, bidi overrides) can only stand inside strings,
# where an escape means the same to whoever parses it.
_SPACES = bytes.maketrans(b"\r\n\t", b"   ")
_NOT_PLAIN = re.compile(r"[^\x20-\x7e]")


def write_line(record: bytes) -> None:
    """*record* is JSON; line breaks and tabs can only stand between its values, where a space is as good."""
    record = record.strip().translate(_SPACES)
    if sys.stdout.isatty():
        sys.stdout.write(plain(record) + "\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(record + b"\n")
    sys.stdout.buffer.flush()


def plain(record: bytes) -> str:
    """The same JSON value in printable ASCII."""
    return _NOT_PLAIN.sub(_escape, record.decode("utf-8"))


def now() -> str:
    """The time of a conversion: RFC 3339, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
