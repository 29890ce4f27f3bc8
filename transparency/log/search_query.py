"""Queries over the index: terms that must all hold, a span of time, and pages that stay the same.

A page is a function of the query, the size of the log it speaks of, and the index it goes on from. Entries added later
have higher indexes than that size and are not in it. Work is bounded: where several terms are asked for, a page looks
at a bounded number of candidates and may come back short, with the place to go on from.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from transparency.errors import OverloadedError
from transparency.log.search import ROW, Keys, SearchIndex
from transparency.log.search_entry import IndexedEntry, Kind, Term, agent_names

MAX_LIMIT: Final = 1000
MAX_TERMS: Final = 16
# How many entries that have the rarest term one page looks at, where other terms must hold as well.
CANDIDATES: Final = 5_000
# Which term is the rarest is told by how far the nearest of its entries reach.
_NEAREST: Final = 500

ONE: Final = "SELECT idx FROM postings WHERE key = ? AND idx >= ? AND idx < ? ORDER BY idx {order} LIMIT ?"
ALL: Final = "SELECT idx FROM entries WHERE idx >= ? AND idx < ? ORDER BY idx {order} LIMIT ?"
ALSO: Final = " AND EXISTS (SELECT 1 FROM postings AS other WHERE other.key = ? AND other.idx = postings.idx)"
EDGE: Final = "SELECT idx FROM postings WHERE key = ? AND idx >= ? AND idx < ? ORDER BY idx {order} LIMIT 1 OFFSET ?"
FROM_TIME: Final = "SELECT first FROM times WHERE time >= ? ORDER BY time LIMIT 1"


@dataclass(frozen=True, slots=True)
class Query:
    """All *terms*; registered at *since* or later and before *until* (seconds); the newest first unless said.

    *size* fixes the log of which the answer speaks, *after* is the index that the previous page ended with.
    """

    terms: tuple[Term, ...] = ()
    since: int | None = None
    until: int | None = None
    newest_first: bool = True
    limit: int = 100
    size: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """*size* is what the answer speaks of, *indexed* how far the index is; *after*, if any, goes on from here."""

    hits: tuple[IndexedEntry, ...]
    size: int
    indexed: int
    after: int | None


def search(index: SearchIndex, query: Query) -> Page:
    """One page. OverloadedError while the index is behind the size that was asked for."""
    with index.reading() as connection:
        indexed, salt = connection.execute("SELECT size, salt FROM state").fetchone()
        size = indexed if query.size is None else query.size
        if size > indexed:
            raise OverloadedError(f"The search index covers {indexed} entries and not yet {size}; ask again", 2.0)
        span = _span(connection, query, size)
        found, more = _find(connection, query, span, Keys(salt))
        rows = (connection.execute(ROW, (number,)).fetchone() for number in found[: query.limit])
        hits = [IndexedEntry.from_row(row) for row in rows if row is not None]
    # Terms stand in the index as hashes; what is answered was compared.
    held = tuple(hit for hit in hits if all(holds(hit, term) for term in query.terms))
    if len(found) > query.limit:
        more = found[query.limit - 1]
    return Page(held, size, indexed, more)


def holds(entry: IndexedEntry, term: Term) -> bool:  # noqa: PLR0911 - one a kind, a table in effect
    """Whether a term is true of an entry, by its facts: what ``terms`` gives, without making all of them."""
    facts = entry.facts
    match term.kind:
        case Kind.ISSUER:
            return term.value == entry.issuer
        case Kind.SUBJECT:
            return term.value == entry.subject
        case Kind.AGENT:
            return term.value in agent_names(facts)
        case Kind.SESSION:
            return term.value in facts.sessions
        case Kind.MODEL:
            return term.value in facts.models
        case Kind.TOOL:
            return term.value in facts.tools
    return term in entry.terms()


def _span(connection: sqlite3.Connection, query: Query, size: int) -> tuple[int, int]:
    """The indexes a page may have: from the first, below the second."""
    first, end = 0, size
    if query.since is not None:
        row = connection.execute(FROM_TIME, (query.since,)).fetchone()
        first = row[0] if row else size
    if query.until is not None:
        row = connection.execute(FROM_TIME, (query.until,)).fetchone()
        end = min(end, row[0]) if row else end
    if query.after is not None:
        first, end = (first, min(end, query.after)) if query.newest_first else (max(first, query.after + 1), end)
    return first, end


def _find(
    connection: sqlite3.Connection, query: Query, span: tuple[int, int], keys: Keys
) -> tuple[list[int], int | None]:
    """The indexes of one page and one more if there is one; and where to go on if the work was cut off."""
    order, most = "DESC" if query.newest_first else "ASC", query.limit + 1

    def run(sql: str, *values: int) -> list[int]:
        return [row[0] for row in connection.execute(sql.format(order=order), values)]

    if not query.terms:
        return run(ALL, *span, most), None
    terms = list(dict.fromkeys(keys.of(term) for term in query.terms))
    if len(terms) == 1:
        return run(ONE, terms[0], *span, most), None
    reach = {key: _reach(run(EDGE, key, *span, _NEAREST - 1), span, newest_first=query.newest_first) for key in terms}
    rarest, *others = sorted(terms, key=lambda key: -reach[key])
    (edge,) = run(EDGE, rarest, *span, CANDIDATES - 1) or (None,)
    if edge is not None:
        span = (edge, span[1]) if query.newest_first else (span[0], edge + 1)
    return run(joined(len(others)), rarest, *span, *others, most), edge


def _reach(edge: list[int], span: tuple[int, int], *, newest_first: bool) -> int:
    """How many entries of the span have to be passed to meet a term often enough; all of them where it is rare."""
    if not edge:
        return span[1] - span[0]
    return span[1] - edge[0] if newest_first else edge[0] - span[0]


def joined(others: int) -> str:
    """The query for entries with one term and *others* beside it."""
    head, tail = ONE.split(" ORDER BY ")
    return f"{head}{ALSO * others} ORDER BY {tail}"
