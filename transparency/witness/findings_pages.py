"""The findings as they are read over HTTP: page by page, beside the process' own writing. Plain data, bounded."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from transparency.compliance.finding import Verdict
from transparency.statements.statement import Entry, entry_id

MAX_PAGE: Final = 500
_BUSY_MS: Final = 5_000
_ENTRY: Final = "idx, entry, kind, iss, sub, time, outcome, availability, reason"
Json = dict[str, Any]


class FindingsPages:
    """Every answer opens the database for itself: safe from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def findings(self, after: int, limit: int, check: str | None, verdict: Verdict | None) -> Json:
        """What records warn or fail of, in the log's order."""
        sql = (
            "SELECT f.number, f.idx, e.entry, e.iss, f.session, f.check_id, f.verdict, f.summary, f.evidence"
            " FROM findings f JOIN entries e ON e.idx = f.idx WHERE f.number > ?"
            " AND (? IS NULL OR f.check_id = ?) AND (? IS NULL OR f.verdict = ?) ORDER BY f.number LIMIT ?"
        )
        said = None if verdict is None else str(verdict)
        rows = self._all(sql, (after, check, check, said, said, limit))
        items = [
            {"number": number, "index": index, "entry": entry_id(Entry(entry)), "iss": iss, "session": session,
             "check": check_id, "verdict": found, "summary": summary, **json.loads(evidence)}
            for number, index, entry, iss, session, check_id, found, summary, evidence in rows
        ]  # fmt: skip
        return _page("findings", items, limit)

    def misbehaviour(self, after: int, limit: int) -> Json:
        sql = (
            "SELECT number, code, idx, entry, what, size, found, ended FROM misbehaviour WHERE number > ?"
            " ORDER BY number LIMIT ?"
        )
        names = ("number", "code", "index", "entry", "what", "checkpoint", "found", "ended")
        items = [dict(zip(names, row, strict=True)) for row in self._all(sql, (after, limit))]
        return _page("misbehaviour", items, limit)

    def entries(self, after: int, limit: int, availability: str | None) -> Json:
        """Every entry that was looked at; *after* is an index, -1 from the beginning."""
        sql = f"SELECT {_ENTRY} FROM entries WHERE idx > ? AND (? IS NULL OR availability = ?) ORDER BY idx LIMIT ?"  # noqa: S608 - our own words
        items = [_entry(row) for row in self._all(sql, (after, availability, availability, limit))]
        return _page("entries", items, limit, "index")

    def entry(self, index: int) -> Json | None:
        rows = self._all(f"SELECT {_ENTRY} FROM entries WHERE idx = ?", (index,))  # noqa: S608 - as above
        return _entry(rows[0]) if rows else None

    def periods(self, after: int, limit: int) -> Json:
        sql = "SELECT number, first, end, time, cosigned, entry FROM periods WHERE number > ? ORDER BY number LIMIT ?"
        items = [
            {"number": number, "first": first, "end": end, "time": time, "cosigned": bool(cosigned),
             "entry": entry or None}
            for number, first, end, time, cosigned, entry in self._all(sql, (after, limit))
        ]  # fmt: skip
        return _page("periods", items, limit)

    def statement(self, number: int) -> bytes | None:
        """The signed attestation of a period."""
        rows = self._all("SELECT statement FROM periods WHERE number = ?", (number,))
        return bytes(rows[0][0]) if rows else None

    def counts(self) -> Json:
        """For metrics: quick whatever there is."""
        (findings,) = self._all("SELECT coalesce(max(number), 0) FROM findings", ())
        (standing,) = self._all("SELECT count(*) FROM misbehaviour WHERE ended IS NULL", ())
        (made,) = self._all("SELECT count(*), count(nullif(entry, '')) FROM periods", ())
        return {"findings": findings[0], "misbehaviours": standing[0], "periods": made[0], "registered": made[1]}

    def _all(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            return connection.execute(sql, values).fetchall()


def _entry(row: tuple[Any, ...]) -> Json:
    index, entry, kind, iss, sub, time, outcome, availability, reason = row
    return {"index": index, "entry": entry_id(Entry(entry)), "kind": kind, "iss": iss, "sub": sub, "time": time,
            "outcome": outcome, "availability": availability, "reason": reason}  # fmt: skip


def _page(name: str, items: list[Json], limit: int, key: str = "number") -> Json:
    """``next`` is what to ask for next with ``after``; None at the end."""
    return {name: items, "next": items[-1][key] if len(items) == limit else None}
