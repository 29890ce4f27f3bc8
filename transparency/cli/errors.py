"""What a failure looks like to the person at the terminal: one line, what to do, an exit code. Never a traceback."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from transparency import errors
from transparency.cli.exits import Exit
from transparency.cli.redaction import redacted
from transparency.display import escape_hidden

DEBUG_VARIABLE = "TRANSPARENCY_DEBUG"
MAX_MESSAGE = 2000
MAX_WORD = 300

_HTTP_BAD_REQUEST = 400
_HTTP_UNAUTHORIZED = 401
_HTTP_FORBIDDEN = 403
_HTTP_TOO_LARGE = 413
_HTTP_TOO_MANY = 429
_HTTP_UNAVAILABLE = 503
_SERVER_ERRORS = 500


class CommandError(Exception):
    """A failure a command itself found: its exit code, its message and what to do about it."""

    def __init__(self, code: Exit, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed command, ready to print."""

    code: Exit
    kind: str
    message: str
    hint: str = ""

    def line(self) -> str:
        ended = self.message.endswith((".", "?", "!"))
        text = f"{self.message}{'' if ended else '.'} {self.hint}" if self.hint else self.message
        return "error: " + one_line(text)

    def to_json(self) -> str:
        body = {
            "error": self.kind, "message": one_line(self.message), "hint": one_line(self.hint), "exit": int(self.code),
        }  # fmt: skip
        return json.dumps(body, ensure_ascii=True)


# Most specific first. Hints say what the reader can do; the message says what was wrong.
_KNOWN: tuple[tuple[type[Exception], Exit, str], ...] = (
    (errors.SignatureInvalidError, Exit.NEGATIVE, "Do not rely on it; ask its sender for the original."),
    (errors.ProofError, Exit.NEGATIVE, "Do not rely on it; fetch the receipt from the log again."),
    (errors.PayloadMissingError, Exit.BAD_INPUT, "Give the file that was signed with --payload FILE."),
    (errors.UnsupportedAlgorithmError, Exit.BAD_INPUT, ""),
    (errors.PassphraseError, Exit.BAD_INPUT, "Give it with --passphrase-file or TRANSPARENCY_PASSPHRASE."),
    (errors.SignerError, Exit.BAD_INPUT, "docs/keys.md says how signers are named and installed."),
    (errors.MalformedError, Exit.BAD_INPUT, "`transparency inspect FILE` shows what a file is."),
    (errors.RefusedError, Exit.REFUSED, "`transparency policy show` lists what the log accepts."),
    (errors.NotFoundError, Exit.BAD_INPUT, ""),
    (errors.GoneError, Exit.BAD_INPUT, ""),
    (errors.NotLeadingError, Exit.TRY_LATER, "Run it on the machine that leads, with its folder."),
    (
        errors.NobodyLeadsError, Exit.TRY_LATER,
        "Start a node that may lead, with `transparency serve` without --never-lead; then this one again.",
    ),
    (errors.OverloadedError, Exit.TRY_LATER, "Nothing was lost; run the same command again later."),
    (errors.JudgementStaleError, Exit.TRY_LATER, "The policy changed meanwhile; run the same command again."),
    (errors.RunningElsewhereError, Exit.TRY_LATER, "Use that folder, and put this copy out of reach."),
    (errors.FolderOwnedError, Exit.TRY_LATER, "Another process holds the folder; stop it, or talk to it instead."),
    (errors.DatabaseUnreachableError, Exit.UNREACHABLE, "Is it running, and are host and port in the URL its own?"),
    (
        errors.DatabaseRefusedError, Exit.REFUSED,
        "Name a user and a database that it knows; a password comes by PGPASSWORD, a passfile or the URL.",
    ),
    (errors.LogUnusableError, Exit.NEGATIVE, ""),
    (
        errors.StoreError, Exit.INTERNAL,
        "Mend the cause, then start again; `transparency log fsck --data DIR` checks what was kept.",
    ),
    (errors.WorkersError, Exit.INTERNAL, "The lines above say how each ended; `--workers 0` serves without them."),
    (errors.UnreachableError, Exit.UNREACHABLE, "`transparency doctor --log URL` tests the connection."),
    (errors.TransparencyError, Exit.INTERNAL, ""),
)  # fmt: skip

# Where the error's kind alone would give advice that does not help.
_HANGS_UP = "Something is there, but does not speak this protocol: should the URL begin with https:// or with http://?"
_MAKE_ROOM = "Make room on its disk and start again: it goes on from what was kept."
_FITTING = (
    ("disk is full", _MAKE_ROOM),
    ("No space left on device", _MAKE_ROOM),
    ("not pinned", "Compare the log's keys (`transparency keys`) with what its operator publishes, and pin those."),
    ("by any pinned key", "Compare the log's keys (`transparency keys`) with what its operator publishes."),
    ("ServerDisconnectedError", _HANGS_UP),
    ("ClientConnectorSSLError", _HANGS_UP),
    ("ClientResponseError", _HANGS_UP),
)

# By the beginning of SQLite's names for its errors (SQLITE_IOERR_WRITE, SQLITE_READONLY_DIRECTORY …).
DISK = "Look at the space, the permissions and the mount of its disk; nothing of this command was kept."
_SQLITE: tuple[tuple[str, Exit, str, str], ...] = (
    ("SQLITE_FULL", Exit.CANNOT_WRITE, "there is no space left to write it", DISK),
    ("SQLITE_READONLY", Exit.CANNOT_WRITE, "it cannot be written, the folder or the file is read-only", DISK),
    ("SQLITE_CANTOPEN", Exit.CANNOT_WRITE, "it, or a file beside it, cannot be opened", DISK),
    ("SQLITE_IOERR", Exit.CANNOT_WRITE, "the disk failed to read or write it", DISK),
    ("SQLITE_BUSY", Exit.TRY_LATER, "another process is writing it", "Run the same command again later."),
    ("SQLITE_LOCKED", Exit.TRY_LATER, "another process is writing it", "Run the same command again later."),
    ("SQLITE_NOTADB", Exit.NEGATIVE, "it is damaged, or no SQLite database at all", ""),
    ("SQLITE_CORRUPT", Exit.NEGATIVE, "it is damaged", ""),
)
OTHER_USER = "Run this as the user it belongs to, or let this user read it."
_EXTRAS = {"sqlite_utils": "server", "prometheus_client": "server", "obstore": "export"}
_READ_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})


def describe(error: BaseException) -> Failure:  # noqa: PLR0911 - one per kind of error, a table in effect
    """Turn any exception into the failure to show. What is not known here is internal, and says how to see more."""
    if isinstance(error, CommandError):
        return Failure(error.code, error.code.name.lower(), str(error), error.hint)
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, errors.ServiceRefusedError):
        return _service(error)
    for known, code, hint in _KNOWN:
        if isinstance(error, known):
            message = str(error) or known.__name__
            return Failure(code, code.name.lower(), message, _fitting(message) or hint)
    if isinstance(error, OSError) and error.errno is not None:
        return _os_error(error)
    if _is_sqlite(error):
        return _storage(error, "the database")
    return _unexpected(error)


def _fitting(message: str) -> str:
    return next((hint for words, hint in _FITTING if words in message), "")


def _unexpected(error: BaseException) -> Failure:
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        extra = _EXTRAS[error.name]
        return Failure(
            Exit.INTERNAL, "not_installed", f"this command needs the {extra} parts, which are not installed",
            f"pip install 'agent-transparency[{extra}]'",
        )  # fmt: skip
    return Failure(
        Exit.INTERNAL,
        "internal",
        f"internal error ({type(error).__name__}); this is a bug",
        f"Set {DEBUG_VARIABLE}=1 to see where, and report it.",
    )


@contextlib.contextmanager
def storage(what: Path | str, hint: str = "") -> Iterator[None]:
    """Around work on a database: what SQLite says of it becomes a failure that names the file, or *what* was done."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise CommandError(Exit.CANNOT_WRITE, f"{what}: {error.strerror}", DISK) from error
    except Exception as error:
        if not _is_sqlite(error):
            raise
        failure = _storage(error, str(what))
        raise CommandError(failure.code, failure.message, failure.hint or hint) from error


def _is_sqlite(error: BaseException) -> bool:
    # Not imported here: most commands need no database, and `--help` is to be quick.
    sqlite3 = sys.modules.get("sqlite3")
    return sqlite3 is not None and isinstance(error, sqlite3.Error)


def _storage(error: BaseException, name: str) -> Failure:
    """A disk that is full, a folder that is read-only, a file that is damaged: trouble, but no bug."""
    code = str(getattr(error, "sqlite_errorname", ""))
    for prefix, exit_code, words, hint in _SQLITE:
        if code.startswith(prefix):
            return Failure(exit_code, exit_code.name.lower(), f"{name}: {words}", hint)
    return Failure(Exit.NEGATIVE, "storage", f"{name}: {error}" + (f" ({code})" if code else ""))


def one_line(text: str) -> str:
    """One printable line: controls (a log's words, a file name) cannot move the cursor or fake a second line.

    Keys and tokens are not shown, and a word of a thousand letters does not push out what is said about it.
    """
    words = (word if len(word) <= MAX_WORD else word[:MAX_WORD] + "…" for word in redacted(text).split())
    shown = escape_hidden(" ".join(words))
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "…"


def _usage(error: click.ClickException) -> Failure:
    if isinstance(error, click.FileError):
        return Failure(Exit.NO_INPUT, "no_input", error.format_message())
    if type(error) is click.BadParameter and error.param is not None and isinstance(error.param.type, click.Path):
        # All that click asks of a path here is that an existing file can be read: not how the command was typed.
        return Failure(Exit.BAD_INPUT, "bad_input", error.message, OTHER_USER)
    hint = ""
    context = getattr(error, "ctx", None)
    if context is not None:
        hint = f"Try `{context.command_path} --help`."
    return Failure(Exit.USAGE, "usage", _plain(error.format_message()), hint)


def _plain(message: str) -> str:
    """What click says of a word in place of a number names its own types."""
    for theirs in ("is not a valid integer range", "is not a valid integer"):
        message = message.replace(theirs, "is not a whole number")
    return message


def _service(error: errors.ServiceRefusedError) -> Failure:  # noqa: PLR0911 - as above
    status = error.status
    said = f"the log answered {status}, {error}"
    if status in (_HTTP_TOO_MANY, _HTTP_UNAVAILABLE):
        wait = f" in {error.retry_after:.0f} s" if error.retry_after else " later"
        return Failure(Exit.TRY_LATER, "try_later", said, f"Run the same command again{wait}.")
    if status == _HTTP_UNAUTHORIZED:
        return Failure(Exit.REFUSED, "refused", said, "Give a token with --token or TRANSPARENCY_TOKEN.")
    if status == _HTTP_FORBIDDEN:
        return Failure(Exit.REFUSED, "refused", said, "The token does not have the scope for this; ask for another.")
    if status == _HTTP_BAD_REQUEST and error.title == "Rejected":
        return Failure(Exit.REFUSED, "refused", said, _rejected(error.detail))
    if status == _HTTP_TOO_LARGE:
        return Failure(Exit.BAD_INPUT, "bad_input", said, "`sign --private` registers only the record's digest.")
    if status >= _SERVER_ERRORS:
        return Failure(Exit.UNREACHABLE, "unreachable", said, "The log is in trouble; try later or tell its operator.")
    return Failure(Exit.BAD_INPUT, "bad_input", said)


def _rejected(detail: str) -> str:
    """What helps depends on what the policy minded; the words are those of policy/judge.py."""
    if "signature is not by the key" in detail:
        return "Sign the record again, with the key that is registered for this issuer."
    if "issuer" in detail:
        return "The operator adds issuers and their keys with `transparency issuer add`."
    return "`transparency policy show --log URL` lists what the log accepts."


def _os_error(error: OSError) -> Failure:
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    what = f"{name}: {error.strerror}" if name else str(error.strerror)
    if error.errno in _READ_ERRNOS:
        return Failure(Exit.NO_INPUT, "no_input", what)
    return Failure(Exit.CANNOT_WRITE, "cannot_write", what)
