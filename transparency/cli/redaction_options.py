"""``--redact``, ``--omit``, ``--pseudonymous``: what a command that signs a record offers to take out of it first.

@redaction_options()
def command(..., redaction: Redaction): ...

redacted = redaction.apply(data, detected.format, file)     # None where nothing of it was asked for
write_side_file(file, redacted)                             # redaction_files
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input
from transparency.cli.kept_files import replace
from transparency.cli.output import note
from transparency.cli.redaction_files import previous
from transparency.errors import MalformedError
from transparency.records.disclosure import SALT_BYTES, Disclosure
from transparency.records.format import Format
from transparency.records.omission import KINDS, parse_kinds
from transparency.records.redact import Redacted, redact
from transparency.records.redaction_rules import BUILTIN, MAX_RULES_BYTES, Rule, load_rules

MAX_PSEUDONYM_KEY: Final = 4096
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Redaction:
    """What was asked for. ``key_file`` is for pseudonyms; None leaves session ids as they are."""

    rules: tuple[Rule, ...] = ()
    omit: frozenset[str] = frozenset()
    key_file: str | None = None

    @property
    def wanted(self) -> bool:
        return bool(self.rules or self.omit) or self.key_file is not None

    @property
    def key(self) -> bytes | None:
        """The key for pseudonyms. It is made when first needed: what is refused before that leaves none behind."""
        if self.key_file is None:
            return None
        if not os.path.lexists(self.key_file):
            replace(self.key_file, secrets.token_bytes(32), None, mode=0o600)
            note(f"{self.key_file}: a new key for pseudonyms; keep it, the next session needs it too")
        return _read_key(self.key_file)

    def apply(self, data: bytes, format_: Format, file: str = STDIO) -> Redacted | None:
        """*data* redacted, with fresh random salts; None where nothing was asked for.

        Where the side file of *file* is of these very bytes and redacted the same, its salts are used again: the same
        submission is the same statement. For anything else they must be fresh: a salt that was disclosed for one
        original would open another.
        """
        if not self.wanted:
            return None
        before = previous(file, data)
        if before is not None and before.items:
            again = self._redact(data, format_, iter([item.salt for item in before.items]))
            if [Disclosure.from_item(item) for item in again.side_file["items"]] == before.items:
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
    if key_file is not None and os.path.lexists(key_file):
        _read_key(key_file)
    return Redaction(rules, kinds, key_file)


def _read_key(file: str) -> bytes:
    key = read_input(file, most=MAX_PSEUDONYM_KEY)
    if len(key) < 16:
        raise CommandError(Exit.BAD_INPUT, f"{file}: a key for pseudonyms has at least 16 bytes")
    return key
