"""The intake in PostgreSQL: many nodes write rows, one takes them.

Two transactions that lock the same rows in another order would wait for each other, and one of them be ended: for a
leader that is the end. So rows are always locked in the order of their entries. The order in which they came is kept
beside them, in ``place``: one number a transaction, from a sequence, and the row's position in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from transparency.log.postgres_transaction import Run
from transparency.log.sql_reads import INTAKE_COLUMNS, Row, intake_of
from transparency.log.store import IntakeRow
from transparency.statements.statement import Entry

Read = Callable[[str, Sequence[Any]], list[Row]]

_POSITION_BITS: Final = 20
_ADD: Final = f"""
    INSERT INTO intake ({INTAKE_COLUMNS}, place, failed_at)
    SELECT entry, statement, generation, not_before, not_after, accepted, NULL, collateral, is_unique,
           (SELECT nextval('intake_places') << {_POSITION_BITS}) + nth, NULL
    FROM unnest(%b::bytea[], %b::bytea[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %b::bytea[],
                %s::boolean[], %s::bigint[])
        AS new (entry, statement, generation, not_before, not_after, accepted, collateral, is_unique, nth)
    ORDER BY entry
    ON CONFLICT (entry) DO UPDATE SET statement = excluded.statement, generation = excluded.generation,
        not_before = excluded.not_before, not_after = excluded.not_after, accepted = excluded.accepted,
        failed = NULL, failed_at = NULL, collateral = excluded.collateral, is_unique = excluded.is_unique,
        place = excluded.place
"""
_LOCKED: Final = "SELECT entry FROM intake WHERE entry = ANY(%b) ORDER BY entry FOR UPDATE"
PAGE: Final = 256
# One statement, not a cursor: BEGIN, DECLARE, FETCH, CLOSE and COMMIT cost more than what they read. How long a value
# is stands beside it, so that only those that are sent are read whole. The rows to leave out are a query of their own,
# of which the server makes a table to look each row up in: an array that is a parameter it would go through for each.
PENDING: Final = f"""
    SELECT {INTAKE_COLUMNS}, place FROM (
        SELECT *, sum(length(statement) + length(collateral)) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING
                                                                    AND 1 PRECEDING) AS before
        FROM (SELECT * FROM intake WHERE failed IS NULL AND place > %s AND entry NOT IN (SELECT unnest(%b::bytea[]))
              ORDER BY place LIMIT {PAGE}) AS page
    ) AS pending WHERE coalesce(before, 0) < %s ORDER BY place
"""


def pending(read: Read, most_bytes: int, besides: Collection[Entry]) -> list[IntakeRow]:
    """The oldest rows, a page at a time. One that is written again meanwhile has a new place: the later row counts."""
    rows: dict[Entry, IntakeRow] = {}
    others, place, size = list(besides), -1, 0
    while size < most_bytes:
        page = read(PENDING, (place, others, most_bytes - size))
        for *columns, place in page:  # noqa: B007 - the last place is where the next page begins
            row = intake_of(tuple(columns))
            rows.pop(row.entry, None)
            rows[row.entry] = row
            size += row.size
        if len(page) < PAGE:
            break
    return list(rows.values())


def add(run: Run, rows: Sequence[IntakeRow]) -> None:
    """Within a transaction. A statement that failed may be submitted again, and be pending once more."""
    if not rows:
        return
    # The last of those that are the same, as if they had come one after the other.
    by_entry = {row.entry: (row, position) for position, row in enumerate(rows)}
    judged = [row.judgement for row, _ in by_entry.values()]
    run(
        _ADD,
        (
            list(by_entry),
            [row.statement for row, _ in by_entry.values()],
            [judgement.generation for judgement in judged],
            [judgement.not_before for judgement in judged],
            [judgement.not_after for judgement in judged],
            [row.accepted for row, _ in by_entry.values()],
            [judgement.collateral for judgement in judged],
            [judgement.unique for judgement in judged],
            [position for _, position in by_entry.values()],
        ),
    )


def fail(run: Run, failures: Sequence[tuple[Entry, str]], time: int) -> None:
    """The statement itself is not kept: only that, and why, it failed."""
    reasons = dict(failures)
    if not reasons:
        return
    run(_LOCKED, (list(reasons),))
    run(
        "UPDATE intake SET failed = new.reason, failed_at = %s, statement = '', collateral = ''"
        " FROM unnest(%b::bytea[], %b::bytea[]) AS new (entry, reason) WHERE intake.entry = new.entry",
        (time, list(reasons), [reason.encode("utf-8", "replace") for reason in reasons.values()]),
    )


def remove(run: Run, entries: Sequence[Entry]) -> None:
    if entries:
        run(f"DELETE FROM intake WHERE entry IN ({_LOCKED})", (list(entries),))


def forget(run: Run, failed_before: int) -> None:
    run(
        "DELETE FROM intake WHERE entry IN (SELECT entry FROM intake WHERE failed IS NOT NULL AND failed_at < %s"
        " ORDER BY entry FOR UPDATE)",
        (failed_before,),
    )
