"""Exit codes of every command, so that a script can tell "no" from "cannot tell" from "try later".

The low ones are verdicts; 64 and above follow ``sysexits.h``.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NEGATIVE = 1
    """A verdict was reached and it is no: a signature, proof or check failed."""
    CANNOT_TELL = 2
    WARNINGS = 3
    USAGE = 64
    BAD_INPUT = 65
    NO_INPUT = 66
    UNREACHABLE = 69
    INTERNAL = 70
    CANNOT_WRITE = 73
    TRY_LATER = 75
    REFUSED = 77
    """A token, or the log's registration policy, does not allow it."""
    INTERRUPTED = 130
    """128 + SIGINT, as shells report it."""
    BROKEN_PIPE = 141
    """128 + SIGPIPE: the reader of our output went away."""
