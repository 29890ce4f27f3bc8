"""The findings of a compliance witness: one row for each entry it replayed, one for each check that warns or fails.

``DIR/findings.sqlite`` holds the replay's own tables as well (log/audit_scratch.py): what was found of a batch of
entries and the place the replay has come to are one transaction, so a process that is killed anywhere has every entry
in here once or not at all. Everything in it follows from the log and can be made again; what was *cosigned* is kept
elsewhere (state.py).
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transparency.compliance.baseline import AgentKey, Running
from transparency.compliance.examined import Examined
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.period import NOT_AVAILABLE, Failed, Misbehaviour, Period
from transparency.errors import LogUnusableError, StoreError
from transparency.log.store import StoredEntry
from transparency.merkle.hashing import leaf_hash
from transparency.policy.erasure import ARTIFACT, Erasure
from transparency.statements.statement import Entry, Statement, entry_id, parse_entry_id
from transparency.witness import findings_schema

_LETTERS: Final = {
    "p": Verdict.PASS,
    "w": Verdict.WARN,
    "f": Verdict.FAIL,
    "n": Verdict.NOT_APPLICABLE,
    "a": Verdict.ATTEST,
}
_LETTER: Final = {verdict: letter for letter, verdict in _LETTERS.items()}
_KEPT: Final = (Verdict.WARN, Verdict.FAIL)


@dataclass(frozen=True, slots=True)
class LogFinding:
    """What the log did wrong: a row of ``misbehaviour``."""

    number: int
    code: str
    index: int
    entry: str
    what: str
    size: int
    found: int
    ended: int | None
    told: bool

    def to_json(self) -> dict[str, Any]:
        about: dict[str, Any] = {} if self.index < 0 else {"index": self.index}
        about |= {"entry": self.entry} if self.entry else {}
        return {"number": self.number, "code": self.code, **about, "what": self.what, "checkpoint": self.size,
                "found": self.found, "ended": self.ended}  # fmt: skip


class Figures:
    """Counts over a stretch of entries."""

    def __init__(self) -> None:
        self.entries: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.not_available: Counter[str] = Counter()
        self.checks: dict[str, Counter[str]] = {}
        self.failing = 0

    def add(
        self, kind: str, outcome: str, availability: str, verdicts: str, checks: tuple[str, ...], number: int
    ) -> None:
        """So many entries of one kind, about which the checks say the same."""
        self.entries[kind] += number
        self.outcomes[outcome] += number
        if availability in NOT_AVAILABLE:
            self.not_available[availability] += number
        self.failing += number * (_LETTER[Verdict.FAIL] in verdicts)
        for place, letter in enumerate(verdicts):
            self.checks.setdefault(checks[place % len(checks)], Counter())[str(_LETTERS[letter])] += number


class Findings:
    """Owner of the database. One thread at a time writes; readers have connections of their own (findings_pages.py)."""

    def __init__(self, path: Path) -> None:
        new = not path.exists()
        try:
            self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            findings_schema.prepare(self.connection, new=new)
        except sqlite3.Error as error:
            raise LogUnusableError(
                f"{path} cannot be used ({error}). Move it away and start again: it is made anew from the log's entries"
            ) from error
        if new:
            path.chmod(0o600)
        self._lists = self._read_lists()

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction: all of it, or nothing. StoreError where the disk does not take it."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
                self._lists = self._read_lists()
            if isinstance(error, sqlite3.Error):
                raise StoreError(f"the findings could not be written: {error}") from error
            raise

    # -- entries -------------------------------------------------------------------------------------------------

    def add(self, row: StoredEntry, examined: Examined, *, counts: bool) -> None:
        """One entry, in a batch. *counts*: it is reason enough for an attestation. Fails if it is here already."""
        checks = _checks_of(examined)
        verdicts = "".join(_LETTER[finding.verdict] for finding in examined.findings)
        self.connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (row.index, row.entry, examined.kind, row.generation, _text(examined.iss), _text(examined.sub),
             examined.time, examined.outcome, examined.availability, _text(examined.reason), examined.digest,
             not row.erased, counts, self._list(checks) if checks else None, verdicts),
        )  # fmt: skip
        self.connection.executemany(
            "INSERT INTO findings (idx, session, check_id, verdict, summary, evidence) VALUES (?, ?, ?, ?, ?, ?)",
            (
                (row.index, place // len(checks), each.check, str(each.verdict), _text(each.summary), _evidence(each))
                for place, each in enumerate(examined.findings)
                if each.verdict in _KEPT
            ),
        )
        if isinstance(examined.stated, Erasure):
            items = (item for item in examined.stated.items if item.what == ARTIFACT)
            orders = [(item.index, parse_entry_id(item.entry)) for item in items]
            self.connection.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?)", orders)

    def _read_lists(self) -> dict[int, tuple[str, ...]]:
        rows = self.connection.execute("SELECT number, ids FROM lists")
        return {number: tuple(ids.split()) for number, ids in rows}

    def _list(self, checks: tuple[str, ...]) -> int:
        for number, known in self._lists.items():
            if known == checks:
                return number
        number = len(self._lists) + 1
        self.connection.execute("INSERT OR REPLACE INTO lists VALUES (?, ?)", (number, " ".join(checks)))
        self._lists[number] = checks
        return number

    def leaves(self, start: int, stop: int) -> list[bytes]:
        """The hashes of the leaves from *start* up to *stop*."""
        rows = self.connection.execute(
            "SELECT entry FROM entries WHERE idx >= ? AND idx < ? ORDER BY idx", (start, stop)
        )
        return [leaf_hash(entry) for (entry,) in rows]

    def artifacts_gone(self, most: int) -> list[tuple[int, bytes]]:
        """Entries whose record the log says it has erased, with no order for any entry with that record."""
        sql = (
            "SELECT idx, entry FROM entries WHERE availability = 'erased' AND whole = 1 AND digest NOT IN"
            " (SELECT f.digest FROM orders o JOIN entries f ON f.idx = o.idx AND f.entry = o.entry)"
            " ORDER BY idx LIMIT ?"
        )
        return [(index, bytes(entry)) for index, entry in self.connection.execute(sql, (most,))]

    # -- what is usual for an agent ------------------------------------------------------------------------------

    def agents(self) -> dict[AgentKey, Running]:
        rows = self.connection.execute("SELECT iss, agent, count, mean, squares FROM agents")
        return {(iss, agent): Running(count, mean, squares) for iss, agent, count, mean, squares in rows}

    def keep_agents(self, changed: Mapping[AgentKey, Running]) -> None:
        self.connection.executemany(
            "INSERT OR REPLACE INTO agents VALUES (?, ?, ?, ?, ?)",
            ((_text(iss), _text(agent), one.count, one.mean, one.squares) for (iss, agent), one in changed.items()),
        )

    # -- what the log did wrong ----------------------------------------------------------------------------------

    def find(self, code: str, index: int, entry: str, what: str, size: int, now: int) -> None:
        """Kept once, whoever finds it again; one that had ended stands again, and is told again."""
        self.connection.execute(
            "INSERT INTO misbehaviour (code, idx, entry, what, size, found) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (code, idx, what) DO UPDATE SET ended = NULL,"
            " told = CASE WHEN ended IS NULL THEN told ELSE 0 END",
            (code, index, entry, _text(what), size, now),
        )

    def end(self, number: int, now: int) -> None:
        self.connection.execute("UPDATE misbehaviour SET ended = ? WHERE number = ?", (now, number))

    def standing(self, most: int = 1_000) -> list[LogFinding]:
        return self._log_findings("WHERE ended IS NULL ORDER BY number LIMIT ?", (most,))

    def standing_count(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM misbehaviour WHERE ended IS NULL").fetchone()[0])

    def untold(self, most: int) -> list[LogFinding]:
        return self._log_findings("WHERE told = 0 ORDER BY number LIMIT ?", (most,))

    def told(self, numbers: Iterable[int]) -> None:
        with self.batch():
            self.connection.executemany(
                "UPDATE misbehaviour SET told = 1 WHERE number = ?", [(number,) for number in numbers]
            )

    def _log_findings(self, rest: str, values: tuple[object, ...]) -> list[LogFinding]:
        sql = f"SELECT number, code, idx, entry, what, size, found, ended, told FROM misbehaviour {rest}"  # noqa: S608 - our own words
        rows = self.connection.execute(sql, values)
        return [
            LogFinding(number, code, index, entry, what, size, found, ended, bool(told))
            for number, code, index, entry, what, size, found, ended, told in rows
        ]

    def noted(self, name: str) -> int:
        row = self.connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def note(self, name: str, value: int) -> None:
        with self.batch():
            self.connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

    # -- periods -------------------------------------------------------------------------------------------------

    def figures(self, first: int, end: int) -> Figures:
        """Everything counted over entries *first* to *end* - 1."""
        counted = Figures()
        # Together, because most records of one agent look alike: that is a hundred times quicker than one by one.
        sql = (
            "SELECT kind, outcome, availability, verdicts, list, count(*) FROM entries WHERE idx >= ? AND idx < ?"
            " GROUP BY kind, outcome, availability, verdicts, list"
        )
        for kind, outcome, availability, verdicts, checks, number in self.connection.execute(sql, (first, end)):
            counted.add(kind, outcome, availability, verdicts, self._lists.get(checks, ()), number)
        return counted

    def policies(self, first: int, end: int) -> tuple[int, int]:
        """The first and the last policy generation that entries of the stretch were judged under."""
        sql = "SELECT min(generation), max(generation) FROM entries WHERE idx >= ? AND idx < ?"
        # The two entries of init were judged under nothing.
        low, high = self.connection.execute(sql, (max(first, 2), end)).fetchone()
        return int(low or 0), int(high or 0)

    def failed(self, first: int, end: int, most: int) -> tuple[Failed, ...]:
        sql = (
            "SELECT idx, entry, verdicts, list FROM entries WHERE idx >= ? AND idx < ? AND verdicts LIKE '%f%' LIMIT ?"
        )
        found = []
        for index, entry, verdicts, number in self.connection.execute(sql, (first, end, most)):
            checks = self._lists[number]
            failing = {checks[place % len(checks)]: None for place, letter in enumerate(verdicts) if letter == "f"}
            found.append(Failed(index, entry_id(Entry(entry)), tuple(failing)))
        return tuple(found)

    def misbehaviour(self, most: int) -> tuple[Misbehaviour, ...]:
        return tuple(Misbehaviour(each.code, each.index, each.entry, each.what) for each in self.standing(most))

    def has_cause(self, first: int, end: int) -> bool:
        """Whether anybody but the service and witnesses has registered anything in this stretch."""
        sql = "SELECT 1 FROM entries WHERE idx >= ? AND idx < ? AND counts = 1 LIMIT 1"
        return self.connection.execute(sql, (first, end)).fetchone() is not None

    def last_period(self) -> tuple[Period, str] | None:
        """The newest period, and the entry id that it has, or will have, on any log."""
        row = self.connection.execute("SELECT payload, statement FROM periods ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else (Period.from_bytes(row[0]), Statement.from_bytes(row[1]).entry_id)

    def keep_period(self, period: Period, statement: bytes, entry: str = "") -> None:
        """In a batch: a period that was closed here, or was found on the log, where this witness put it before."""
        self.connection.execute(
            "INSERT INTO periods (number, first, end, time, cosigned, payload, statement, entry)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET entry = excluded.entry"
            " WHERE payload = excluded.payload",
            (
                period.number,
                period.first,
                period.end,
                period.time,
                period.cosigned,
                period.to_bytes(),
                statement,
                entry,
            ),
        )

    def unregistered(self) -> list[tuple[int, bytes, bool, bool]]:
        """Periods that still have to be told somewhere: number, statement, told to the log, told to the others."""
        rows = self.connection.execute(
            "SELECT number, statement, entry, also FROM periods WHERE entry = '' OR also = 0 ORDER BY number"
        )
        return [(number, bytes(statement), bool(entry), bool(also)) for number, statement, entry, also in rows]

    def registered(self, number: int, *, entry: str = "", also: bool = False) -> None:
        with self.batch():
            if entry:
                self.connection.execute("UPDATE periods SET entry = ? WHERE number = ?", (entry, number))
            if also:
                self.connection.execute("UPDATE periods SET also = 1 WHERE number = ?", (number,))


def _checks_of(examined: Examined) -> tuple[str, ...]:
    each = len(examined.findings) // len(examined.sessions) if examined.sessions else 0
    return tuple(finding.check for finding in examined.findings[:each])


def _evidence(finding: Finding) -> str:
    value = {"counts": dict(finding.counts), "pointers": list(finding.pointers), "more": finding.more}
    return json.dumps(value, ensure_ascii=True)


def _text(value: str) -> str:
    """SQLite takes no half of a surrogate pair, and texts come from records."""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
