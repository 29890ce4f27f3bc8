"""The query of ``GET /search``: every parameter known, every value of the one form it has, or 400 that names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from transparency.errors import MalformedError
from transparency.log.search_entry import Kind, Term
from transparency.log.search_query import MAX_LIMIT, MAX_TERMS, Query
from transparency.records.timestamps import instant
from transparency.server.endpoints import Parameter
from transparency.server.problems import ProblemError
from transparency.server.service import number
from transparency.statements.statement import Entry, parse_entry_id

DEFAULT_LIMIT: Final = 100
MAX_PROOFS: Final = 100
_PAIR: Final = re.compile(r"([a-z]+)=([^=&]*)")
_ESCAPES: Final = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}")
_SIGNED: Final = re.compile(r"[0-9a-f]{64}")
_SECONDS: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_TEXT: Final = {"type": "string", "minLength": 1}
_NUMBER: Final = {"type": "integer", "minimum": 0}

PARAMETERS: Final = (
    Parameter("issuer", "query", "The iss of the statement, exactly", _TEXT),
    Parameter("subject", "query", "The sub of the statement, exactly", _TEXT),
    Parameter("session", "query", "An id of a session in the record (repeatable: all must hold)", _TEXT),
    Parameter("agent", "query", "Vendor, name, or name/version of the agent (repeatable)", _TEXT),
    Parameter("model", "query", "A model that the record names (repeatable)", _TEXT),
    Parameter("tool", "query", "A tool that the record calls (repeatable)", _TEXT),
    Parameter("path", "query", "A file that the record names; src/* for every file in that folder (repeatable)", _TEXT),
    Parameter("from", "query", "Registered at this time or later: RFC 3339, or seconds since 1970", _TEXT),
    Parameter("to", "query", "Registered before this time", _TEXT),
    Parameter("content", "query", "Digest of the record, in lower-case hexadecimal", _TEXT),
    Parameter("sibling", "query", "Entry id, or digest of the signed bytes: every signature over them", _TEXT),
    Parameter("order", "query", "newest (default) or oldest first", {"type": "string", "enum": ["newest", "oldest"]}),
    Parameter("limit", "query", f"Entries a page, at most {MAX_LIMIT}", {**_NUMBER, "maximum": MAX_LIMIT}),
    Parameter("size", "query", "Size of the log that the answer speaks of, as the first page gave it", _NUMBER),
    Parameter("after", "query", "Where the previous page ended, as it said", _NUMBER),
    Parameter(
        "proofs", "query", f"receipts: each entry with its receipt, at most {MAX_PROOFS} entries a page",
        {"type": "string", "enum": ["receipts"]},
    ),
)  # fmt: skip
_NAMES: Final = frozenset(parameter.name for parameter in PARAMETERS)
_TERMS: Final[Mapping[str, Kind]] = {
    "issuer": Kind.ISSUER,
    "subject": Kind.SUBJECT,
    "session": Kind.SESSION,
    "agent": Kind.AGENT,
    "model": Kind.MODEL,
    "tool": Kind.TOOL,
    "path": Kind.PATH,
    "content": Kind.CONTENT,
}
_REPEATABLE: Final = frozenset({"session", "agent", "model", "tool", "path"})


@dataclass(slots=True)
class Asked:
    """A query as it was asked: a sibling may be named by an entry, which only the log can look up."""

    terms: list[Term] = field(default_factory=list)
    since: int | None = None
    until: int | None = None
    newest_first: bool = True
    limit: int = DEFAULT_LIMIT
    size: int | None = None
    after: int | None = None
    proofs: bool = False
    sibling: Entry | None = None

    def query(self, signed_by: Callable[[Entry], bytes]) -> Query:
        """The query; *signed_by* gives the digest of the bytes that an entry signs."""
        terms = tuple(self.terms)
        if self.sibling is not None:
            terms += (Term(Kind.SIGNED, signed_by(self.sibling).hex()),)
        limit = min(self.limit, MAX_PROOFS) if self.proofs else self.limit
        return Query(terms, self.since, self.until, self.newest_first, limit, self.size, self.after)


def parse(query: str) -> Asked:
    """The query string of a request, as it came."""
    asked = Asked()
    seen: set[str] = set()
    for name, value in _pairs(query):
        if name in seen and name not in _REPEATABLE:
            raise ProblemError.malformed(f"'{name}' is there more than once")
        seen.add(name)
        _take(asked, name, value)
    if len(asked.terms) > MAX_TERMS:
        raise ProblemError.malformed(f"more than {MAX_TERMS} conditions are not searched for at once")
    return asked


def _pairs(query: str) -> list[tuple[str, str]]:
    pairs = []
    for part in query.split("&") if query else ():
        match = _PAIR.fullmatch(part)
        name = part.partition("=")[0]
        if name not in _NAMES:
            known = ", ".join(parameter.name for parameter in PARAMETERS)
            shown = name if re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name) else "a parameter"
            raise ProblemError.malformed(f"'{shown}' is not known here; known are {known}")
        if match is None or not _ESCAPES.fullmatch(match[2]):
            raise ProblemError.malformed(f"'{name}' is not of the form name=value with %XX escapes")
        try:
            value = unquote_to_bytes(match[2].replace("+", " ")).decode("utf-8")
        except UnicodeDecodeError:
            raise ProblemError.malformed(f"'{name}' is not UTF-8") from None
        if not value:
            raise ProblemError.malformed(f"'{name}' is empty; leave it out")
        pairs.append((name, value))
    return pairs


def _take(asked: Asked, name: str, value: str) -> None:
    match name:
        case "from":
            asked.since = _time(name, value)
        case "to":
            asked.until = _time(name, value)
        case "order":
            asked.newest_first = _one_of(name, value, ("newest", "oldest")) == "newest"
        case "proofs":
            asked.proofs = _one_of(name, value, ("receipts",)) == "receipts"
        case "limit":
            asked.limit = number(value, name)
            if not 1 <= asked.limit <= MAX_LIMIT:
                raise ProblemError.malformed(f"'limit' is 1 to {MAX_LIMIT}")
        case "size":
            asked.size = number(value, name)
        case "after":
            asked.after = number(value, name)
        case "sibling":
            _sibling(asked, value)
        case _:
            asked.terms.append(_term(name, value))


def _term(name: str, value: str) -> Term:
    if name == "content" and not _DIGEST.fullmatch(value):
        raise ProblemError.malformed("'content' is a SHA-256, SHA-384 or SHA-512 in lower-case hexadecimal")
    if name == "path" and value.endswith("*"):
        folder = value[:-1]
        if not folder.endswith("/"):
            raise ProblemError.malformed("'path' takes a whole path, or a folder as src/*")
        return Term(Kind.FOLDER, folder)
    return Term(_TERMS[name], value)


def _sibling(asked: Asked, value: str) -> None:
    if _SIGNED.fullmatch(value):
        asked.terms.append(Term(Kind.SIGNED, value))
        return
    try:
        asked.sibling = parse_entry_id(value)
    except MalformedError as error:
        raise ProblemError.malformed(
            f"'sibling' is an entry id, or the SHA-256 of the signed bytes in lower-case hexadecimal: {error}"
        ) from None


def _time(name: str, value: str) -> int:
    """Seconds since 1970; a part of a second counts as the next one, since registrations have whole seconds."""
    if _SECONDS.fullmatch(value):
        return number(value, name)
    moment = instant(value)
    if moment is None:
        raise ProblemError.malformed(
            f"'{name}' is neither a time as 2026-11-16T07:00:00Z (a plus sign is written %2B) nor seconds since 1970"
        )
    return -(-moment // 1000)


def _one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise ProblemError.malformed(f"'{name}' is {' or '.join(values)}")
    return value
