"""TOML in and out for the service's own documents: strict members on reading, one layout on writing."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from transparency.cose import base64url
from transparency.cose.algorithms import ALGORITHMS, algorithm
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError, UnsupportedAlgorithmError

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_NUMBER = 2**53
_MISSING = object()


def load(data: bytes, what: str) -> dict[str, Any]:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MalformedError(f"the {what} is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedError(f"the {what} is not UTF-8 (byte {error.start})") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # tomllib's message ends in "(at line L, column C)".
        raise MalformedError(f"the {what} is not TOML: {error}") from error


class Table:
    """One table of a document: every member is asked for once, and what nobody asked for is refused."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise MalformedError(f"{where} is not a table")
        self._members = dict(value)
        self._where = where

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise MalformedError(f"{self._at(name)} is not a string")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        value = self._take(name, _MISSING if default is None else default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
            raise MalformedError(f"{self._at(name)} is not a whole number from 0 to {MAX_NUMBER}")
        return value

    def optional_number(self, name: str) -> int | None:
        return self.number(name) if name in self._members else None

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if name in self._members else None

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._take(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise MalformedError(f"{self._at(name)} is not a list of strings")
        return tuple(value)

    def table(self, name: str) -> Table:
        return Table(self._take(name), self._at(name))

    def tables(self, name: str) -> tuple[Table, ...]:
        value = self._take(name, [])
        if not isinstance(value, list):
            raise MalformedError(f"{self._at(name)} is not a list of tables ([[{name}]])")
        return tuple(Table(item, f"{self._at(name)}[{number}]") for number, item in enumerate(value))

    def key(self) -> PublicKey:
        """The public key given by ``pem`` and ``kid`` in this table."""
        pem = self.text("pem")
        try:
            key = PublicKey.from_pem(pem.encode("utf-8"))
        except (MalformedError, UnsupportedAlgorithmError) as error:
            raise MalformedError(f"{self._at('pem')} is not a public key this log can use: {error}") from error
        try:
            key = key.with_kid(base64url.decode(self.text("kid")))
        except MalformedError as error:
            raise MalformedError(f"{self._at('kid')}: {error}") from error
        alg = self.optional_text("alg")
        if alg is None:
            return key
        try:
            return key.with_alg(algorithm(alg).id)
        except UnsupportedAlgorithmError as error:
            raise MalformedError(f"{self._at('alg')}: {error}") from error

    def done(self) -> None:
        if self._members:
            names = ", ".join(sorted(self._members))
            raise MalformedError(f"{self._where} has members this version does not know: {names}")

    def _take(self, name: str, default: object = _MISSING) -> Any:  # noqa: ANN401 - Any stops here
        value = self._members.pop(name, default)
        if value is _MISSING:
            raise MalformedError(f"{self._at(name)} is missing")
        return value

    def _at(self, name: str) -> str:
        return f"{self._where}.{name}"


def quote(text: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's, but TOML also wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quote_list(items: Iterable[str]) -> str:
    return "[" + ", ".join(quote(item) for item in items) + "]"


def key_lines(key: PublicKey) -> list[str]:
    kid = base64url.encode(key.kid)
    pem = key.to_pem().decode("ascii").strip()
    # PEM does not say which of its type's algorithms a key is for; where the key does, so does the document.
    alg = [] if key.alg is None else [f"alg = {quote(ALGORITHMS[key.alg].name)}"]
    return [f"kid = {quote(kid)}", *alg, f'pem = """\n{pem}\n"""']
