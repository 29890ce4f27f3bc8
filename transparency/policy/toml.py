"""TOML in and out for the service's own documents: strict members on reading, one layout on writing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from transparency.cose import base64url
from transparency.cose.algorithms import ALGORITHMS, algorithm
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError, UnsupportedAlgorithmError
from transparency.policy.toml_lines import Path, line_of

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_NUMBER = 2**53
_MISSING = object()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOML_PLACE = re.compile(r"(.*) \(at line ([0-9]+), (column [0-9]+)\)", re.DOTALL)


def load(data: bytes, what: str, name: str | None = None) -> dict[str, Any]:
    """The document's tables. An error says the line: after *name*, as in ``policy.toml:12:``, where one is given."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MalformedError(f"the {what} is larger than {MAX_DOCUMENT_BYTES} bytes")
    which = f"the {what}" if name is None else f"{name}: the {what}"
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedError(f"{which} is not UTF-8 (byte {error.start})") from error
    except RecursionError:
        raise MalformedError(f"{which} is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.fullmatch(str(error))
        if name is not None and place is not None:
            raise MalformedError(f"{name}:{place[2]}: not TOML: {place[1]} ({place[3]})") from error
        raise MalformedError(f"{which} is not TOML: {error}") from error


@dataclass(frozen=True, slots=True)
class Source:
    """The text a table was read from. It is looked into only when there is something to complain about."""

    data: bytes
    name: str

    def fault(self, path: Path, message: str) -> MalformedError:
        return MalformedError(f"{self.name}:{line_of(self.data, path)}: {message}")


class Table:
    """One table of a document: every member is asked for once, and what nobody asked for is refused.

    With a *source*, every error begins with the line of what is wrong.
    """

    def __init__(self, value: object, where: str, source: Source | None = None, path: Path = ()) -> None:
        self._where = where
        self._source = source
        self._path = path
        if not isinstance(value, Mapping):
            raise self.fault(None, "is not a table")
        self._members = dict(value)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def fault(self, name: str | None, message: str) -> MalformedError:
        """An error about the member *name*, or about the table itself."""
        told = f"{self._where if name is None else self._at(name)} {message}"
        if self._source is None:
            return MalformedError(told)
        return self._source.fault(self._path if name is None else (*self._path, name), told)

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise self.fault(name, "is not a string")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        value = self._take(name, _MISSING if default is None else default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
            raise self.fault(name, f"is not a whole number from 0 to {MAX_NUMBER}")
        return value

    def optional_number(self, name: str) -> int | None:
        return self.number(name) if name in self._members else None

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if name in self._members else None

    def one_of(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.text(name) if name in self._members else default
        if value not in choices:
            raise self.fault(name, f"is none of {', '.join(choices)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._take(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fault(name, "is not a list of strings")
        return tuple(value)

    def labels(self, name: str) -> tuple[int | str, ...]:
        """Names of header or claim members: whole numbers that CBOR has, or text. None at all where it is absent."""
        value = self._take(name, [])
        if not isinstance(value, list) or not all(_is_label(item) for item in value):
            raise self.fault(name, "is not a list of whole numbers and strings")
        return tuple(value)

    def optional_time(self, name: str) -> int | None:
        """An offset date-time of TOML, as seconds since 1970."""
        if name not in self._members:
            return None
        value = self._take(name)
        if not isinstance(value, datetime) or value.tzinfo is None or value.microsecond:
            raise self.fault(name, "is not a time in whole seconds with its offset, as 2026-01-31T12:00:00Z")
        seconds = (value - _EPOCH) // timedelta(seconds=1)
        if seconds < 0:
            raise self.fault(name, "is before 1970")
        return seconds

    def text_map(self, name: str) -> dict[str, str]:
        """A table of strings. Empty where it is absent."""
        value = self._take(name, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.fault(name, "is not a table of strings")
        return dict(value)

    def table(self, name: str) -> Table:
        return Table(self._take(name), self._at(name), self._source, (*self._path, name))

    def optional_table(self, name: str) -> Table | None:
        return self.table(name) if name in self._members else None

    def tables(self, name: str) -> tuple[Table, ...]:
        value = self._take(name, [])
        if not isinstance(value, list):
            raise self.fault(name, f"is not a list of tables ([[{name}]])")
        return tuple(
            Table(item, f"{self._at(name)}[{number}]", self._source, (*self._path, name, number))
            for number, item in enumerate(value)
        )

    def key(self) -> PublicKey:
        """The public key given by ``pem`` and ``kid`` in this table."""
        pem = self.text("pem")
        try:
            key = PublicKey.from_pem(pem.encode("utf-8"))
        except (MalformedError, UnsupportedAlgorithmError) as error:
            raise self.fault("pem", f"is not a public key this log can use: {error}") from error
        try:
            key = key.with_kid(base64url.decode(self.text("kid")))
        except MalformedError as error:
            raise self.fault("kid", f"is no key id: {error}") from error
        alg = self.optional_text("alg")
        if alg is None:
            return key
        try:
            return key.with_alg(algorithm(alg).id)
        except UnsupportedAlgorithmError as error:
            raise self.fault("alg", f"does not fit: {error}") from error

    def done(self) -> None:
        if self._members:
            # The first of them as the document has them: the line is that one's.
            first, *others = self._members
            names = ", ".join(sorted((first, *others)))
            told = f"{self._where} has members this version does not know: {names}"
            raise MalformedError(told) if self._source is None else self._source.fault((*self._path, first), told)

    def _take(self, name: str, default: object = _MISSING) -> Any:  # noqa: ANN401 - Any stops here
        value = self._members.pop(name, default)
        if value is _MISSING:
            raise self.fault(name, "is missing")
        return value

    def _at(self, name: str) -> str:
        return f"{self._where}.{name}"


def _is_label(value: object) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def quote(text: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's, but TOML also wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quote_list(items: Iterable[str | int]) -> str:
    return "[" + ", ".join(quote(item) if isinstance(item, str) else str(item) for item in items) + "]"


def quote_map(members: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{quote(name)} = {quote(value)}" for name, value in members.items()) + " }"


def write_time(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_lines(key: PublicKey) -> list[str]:
    kid = base64url.encode(key.kid)
    pem = key.to_pem().decode("ascii").strip()
    # PEM does not say which of its type's algorithms a key is for; where the key does, so does the document.
    alg = [] if key.alg is None else [f"alg = {quote(ALGORITHMS[key.alg].name)}"]
    return [f"kid = {quote(kid)}", *alg, f'pem = """\n{pem}\n"""']
