"""What a failure looks like to the person at the terminal: one line, what to do, an exit code. Never a traceback."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass

import click

from transparency import errors
from transparency.cli.exits import Exit

DEBUG_VARIABLE = "TRANSPARENCY_DEBUG"
MAX_MESSAGE = 2000

_HTTP_BAD_REQUEST = 400
_HTTP_UNAUTHORIZED = 401
_HTTP_FORBIDDEN = 403
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
        text = f"{self.message.rstrip('.')}. {self.hint}" if self.hint else self.message
        return "error: " + one_line(text)

    def to_json(self) -> str:
        body = {"error": self.kind, "message": one_line(self.message), "hint": self.hint, "exit": int(self.code)}
        return json.dumps(body, ensure_ascii=True)


# Most specific first. Hints say what the reader can do; the message says what was wrong.
_KNOWN: tuple[tuple[type[Exception], Exit, str], ...] = (
    (errors.SignatureInvalidError, Exit.NEGATIVE, "Do not rely on it; ask its sender for the original."),
    (errors.ProofError, Exit.NEGATIVE, "Do not rely on it; fetch the receipt from the log again."),
    (errors.PayloadMissingError, Exit.BAD_INPUT, "Give the file that was signed with --payload FILE."),
    (errors.UnsupportedAlgorithmError, Exit.BAD_INPUT, ""),
    (errors.MalformedError, Exit.BAD_INPUT, "`transparency inspect FILE` shows what a file is."),
    (errors.RefusedError, Exit.REFUSED, "`transparency policy show` lists what the log accepts."),
    (errors.NotFoundError, Exit.BAD_INPUT, ""),
    (errors.OverloadedError, Exit.TRY_LATER, "Nothing was lost; run the same command again later."),
    (errors.JudgementStaleError, Exit.TRY_LATER, "The policy changed meanwhile; run the same command again."),
    (errors.FolderOwnedError, Exit.TRY_LATER, "Another process holds the folder; stop it, or talk to it instead."),
    (errors.LogUnusableError, Exit.NEGATIVE, ""),
    (errors.StoreError, Exit.INTERNAL, "`transparency log fsck --data DIR` checks what was kept."),
    (errors.UnreachableError, Exit.UNREACHABLE, "`transparency doctor --log URL` tests the connection."),
    (errors.TransparencyError, Exit.INTERNAL, ""),
)  # fmt: skip

_SERVER_MODULES = frozenset({"sqlite_utils", "prometheus_client"})
_READ_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})


def describe(error: BaseException) -> Failure:
    """Turn any exception into the failure to show. What is not known here is internal, and says how to see more."""
    if isinstance(error, CommandError):
        return Failure(error.code, error.code.name.lower(), str(error), error.hint)
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, errors.ServiceRefusedError):
        return _service(error)
    for known, code, hint in _KNOWN:
        if isinstance(error, known):
            return Failure(code, code.name.lower(), str(error) or known.__name__, hint)
    if isinstance(error, OSError) and error.errno is not None:
        return _os_error(error)
    return _unexpected(error)


def _unexpected(error: BaseException) -> Failure:
    if isinstance(error, ModuleNotFoundError) and error.name in _SERVER_MODULES:
        return Failure(
            Exit.INTERNAL, "not_installed", "this command needs the server parts, which are not installed",
            "pip install 'agent-transparency[server]'",
        )  # fmt: skip
    return Failure(
        Exit.INTERNAL,
        "internal",
        f"internal error ({type(error).__name__}); this is a bug",
        f"Set {DEBUG_VARIABLE}=1 to see where, and report it.",
    )


def one_line(text: str) -> str:
    """One printable line: controls (a log's words, a file name) cannot move the cursor or fake a second line."""
    shown = "".join(c if c.isprintable() else " " if c in "\n\r\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "…"


def _usage(error: click.ClickException) -> Failure:
    if isinstance(error, click.FileError):
        return Failure(Exit.NO_INPUT, "no_input", error.format_message())
    hint = ""
    context = getattr(error, "ctx", None)
    if context is not None:
        hint = f"Try `{context.command_path} --help`."
    return Failure(Exit.USAGE, "usage", error.format_message(), hint)


def _service(error: errors.ServiceRefusedError) -> Failure:
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
        return Failure(Exit.REFUSED, "refused", said, "The operator adds issuers with `transparency issuer add`.")
    if status >= _SERVER_ERRORS:
        return Failure(Exit.UNREACHABLE, "unreachable", said, "The log is in trouble; try later or tell its operator.")
    return Failure(Exit.BAD_INPUT, "bad_input", said)


def _os_error(error: OSError) -> Failure:
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    what = f"{name}: {error.strerror}" if name else str(error.strerror)
    if error.errno in _READ_ERRNOS:
        return Failure(Exit.NO_INPUT, "no_input", what)
    return Failure(Exit.CANNOT_WRITE, "cannot_write", what)
