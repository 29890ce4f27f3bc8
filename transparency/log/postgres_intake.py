"""The intake in PostgreSQL: many nodes write rows, one takes them.

Two transactions that lock the same rows in another order would wait for each other, and one of them be ended: for a
leader that is the end. So rows are always locked in the order of their entries. The order in which they came is kept
beside them, in ``place``: one number a transaction, from a sequence, and the row's position in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from transparency.log.postgres_transaction import Run
from transparency.log.sql_reads import INTAKE_COLUMNS
from transparency.log.store import IntakeRow
from transparency.statements.statement import Entry

_POSITION_BITS: Final = 20
_ADD: Final = f"""
    INSERT INTO intake ({INTAKE_COLUMNS}, place, failed_at)
    SELECT entry, statement, generation, not_before, not_after, accepted, NULL, collateral, is_unique, place, NULL
    FROM unnest(%b::bytea[], %b::bytea[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %b::bytea[],
                %s::boolean[], %s::bigint[])
        AS new (entry, statement, generation, not_before, not_after, accepted, collateral, is_unique, place)
    ORDER BY entry
    ON CONFLICT (entry) DO UPDATE SET statement = excluded.statement, generation = excluded.generation,
        not_before = excluded.not_before, not_after = excluded.not_after, accepted = excluded.accepted,
        failed = NULL, failed_at = NULL, collateral = excluded.collateral, is_unique = excluded.is_unique,
        place = excluded.place
"""
_LOCKED: Final = "SELECT entry FROM intake WHERE entry = ANY(%b) ORDER BY entry FOR UPDATE"
PENDING: Final = f"SELECT {INTAKE_COLUMNS} FROM intake WHERE failed IS NULL ORDER BY place"


def add(run: Run, rows: Sequence[IntakeRow]) -> None:
    """Within a transaction. A statement that failed may be submitted again, and be pending once more."""
    if not rows:
        return
    number = run("SELECT nextval('intake_places')").fetchone()
    first = (number[0] if number else 0) << _POSITION_BITS
    # The last of those that are the same, as if they had come one after the other.
    by_entry = {row.entry: (row, first + position) for position, row in enumerate(rows)}
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
            [place for _, place in by_entry.values()],
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
