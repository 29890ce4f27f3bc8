"""``--redact``, ``--omit``, ``--pseudonymous``: what a command that signs a record offers to take out of it first.

    @redaction_options()
    def command(..., redaction: Redaction): ...

    redacted = redaction.apply(data, detected.format, file)     # None where nothing of it was asked for
    write_side_file(file, redacted)

The side file is the owner's: mode 0600, never uploaded. Who has it can disclose; who loses it cannot.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input, write_output
from transparency.cli.output import note
from transparency.errors import MalformedError, TransparencyError
from transparency.records.disclosure import SALT_BYTES, Disclosure
from transparency.records.format import Format
from transparency.records.omission import KINDS, parse_kinds
from transparency.records.redact import Redacted, read_side_file, redact, side_file_bytes
from transparency.records.redaction_rules import BUILTIN, MAX_RULES_BYTES, Rule, load_rules

SIDE_FILE: Final = ".redactions.json"
REDACTED: Final = ".redacted"
MAX_PSEUDONYM_KEY: Final = 4096
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Redaction:
    """What was asked for. ``key`` is for pseudonyms; None leaves session ids as they are."""

    rules: tuple[Rule, ...] = ()
    omit: frozenset[str] = frozenset()
    key: bytes | None = None

    @property
    def wanted(self) -> bool:
        return bool(self.rules or self.omit) or self.key is not None

    def apply(self, data: bytes, format_: Format, file: str = STDIO) -> Redacted | None:
        """*data* redacted, with fresh random salts; None where nothing was asked for.

        Where the side file of *file* is of these very bytes and redacted the same, its salts are used again: the same
        submission is the same statement. For anything else they must be fresh: a salt that was disclosed for one
        original would open another.
        """
        if not self.wanted:
            return None
        previous = _previous(file, data)
        if previous:
            again = self._redact(data, format_, iter([item.salt for item in previous]))
            if [Disclosure.from_item(item) for item in again.side_file["items"]] == previous:
                return again
        return self._redact(data, format_, iter(()))

    def _redact(self, data: bytes, format_: Format, known: Iterator[bytes]) -> Redacted:
        def salt() -> bytes:
            return next(known, None) or secrets.token_bytes(SALT_BYTES)

        return redact(data, format_, self.rules, salt, omit=self.omit, pseudonym_key=self.key)


def redaction_options() -> Callable[[_F], _F]:
    """The flags; the command gets one argument ``redaction`` for all of them."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def command(
            *args: Any,  # noqa: ANN401 - click's
            redact: bool,
            redact_rules: str | None,
            omit: str | None,
            pseudonymous: str | None,
            **kwargs: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            return function(*args, redaction=chosen(redact, redact_rules, omit, pseudonymous), **kwargs)

        for option in (
            click.option(
                "--pseudonymous", type=click.Path(), metavar="KEYFILE",
                help="Replace the session id by a pseudonym made with this key (made if there is no such file).",
            ),
            click.option("--omit", metavar="KINDS", help=f"Leave out entries of these kinds: {','.join(KINDS)}."),
            click.option(
                "--redact-rules", type=click.Path(), metavar="TOML", help="Redact by the rules in this file."
            ),
            click.option(
                "--redact", is_flag=True,
                help="Take out API keys, tokens, PEM, JWT, passwords in URLs, e-mail addresses, card numbers.",
            ),
        ):  # fmt: skip
            command = option(command)
        return command  # type: ignore[return-value]

    return decorate


def chosen(redact: bool, rules_file: str | None, omit: str | None, key_file: str | None) -> Redaction:
    """What the flags mean; their files are read."""
    rules: tuple[Rule, ...] = BUILTIN if redact else ()
    if rules_file is not None:
        try:
            rules = load_rules(read_input(rules_file, most=MAX_RULES_BYTES))
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, f"{rules_file}: {error}") from error
    try:
        kinds = parse_kinds(omit) if omit is not None else frozenset[str]()
    except MalformedError as error:
        raise CommandError(Exit.USAGE, f"--omit: {error}") from error
    return Redaction(rules, kinds, _pseudonym_key(key_file) if key_file is not None else None)


def side_file_path(file: str | Path) -> Path:
    """``session.redactions.json`` for ``session.jsonl``."""
    return Path(file).with_suffix(SIDE_FILE)


def redacted_path(file: str | Path) -> Path:
    """``session.redacted.jsonl`` for ``session.jsonl``: where the redacted record goes, and `verify` finds it."""
    path = Path(file)
    return path.with_name(f"{path.stem}{REDACTED}{path.suffix}")


def write_side_file(file: str | Path, redacted: Redacted) -> Path | None:
    """Keep what the owner needs to disclose; None where nothing was redacted. One with other items is kept too."""
    if not redacted.header:
        return None
    path = side_file_path(file)
    data = side_file_bytes(redacted.side_file)
    if path.exists():
        before = path.read_bytes()
        if before == data:
            return path
        digest = hashlib.sha256(before).hexdigest()[:16]
        # Still under the ending that nothing is submitted with.
        path.rename(path.with_name(f"{path.name.removesuffix(SIDE_FILE)}.{digest}{SIDE_FILE}"))
    write_output(path, data, mode=0o600)
    return path


def _previous(file: str, data: bytes) -> list[Disclosure]:
    """The items of the side file beside *file*, if it is of these very bytes."""
    path = side_file_path(file)
    if file == STDIO or not path.is_file():
        return []
    try:
        side = read_side_file(read_input(path))
        return side.items if side.original == hashlib.sha256(data).hexdigest() else []
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", "Move it away if it is not needed.") from error


def _pseudonym_key(file: str) -> bytes:
    if not os.path.lexists(file):
        write_output(file, secrets.token_bytes(32), mode=0o600)
        note(f"{file}: a new key for pseudonyms; keep it, the next session needs it too")
    key = read_input(file, most=MAX_PSEUDONYM_KEY)
    if len(key) < 16:
        raise CommandError(Exit.BAD_INPUT, f"{file}: a key for pseudonyms has at least 16 bytes")
    return key
