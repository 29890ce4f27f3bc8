"""Published checkpoints in PostgreSQL: one row a size, whose text never changes."""

from __future__ import annotations

from typing import Final

from transparency.log import checkpoint_keeping as keeping
from transparency.log.postgres_transaction import Run

_UNWITNESSED: Final = """
    DELETE FROM checkpoints WHERE size < %(newest)s AND NOT witnessed
        AND size > coalesce((SELECT max(size) FROM checkpoints WHERE size < %(newest)s AND witnessed), -1)
"""


def put(run: Run, size: int, note: bytes, *, witnessed: bool) -> None:
    """Within a transaction."""
    # Who published last must not publish beside who does now. Reads go on.
    run("LOCK TABLE checkpoints IN SHARE ROW EXCLUSIVE MODE")
    row = run("SELECT size, note, witnessed FROM checkpoints ORDER BY size DESC LIMIT 1").fetchone()
    if row is not None:
        keeping.check_may_follow(row[0], size)
        if row[0] == size:
            keeping.check_same_text(row[1], note, size)
            witnessed = witnessed or row[2]
    run(
        "INSERT INTO checkpoints VALUES (%s, %b, %s)"
        " ON CONFLICT (size) DO UPDATE SET note = excluded.note, witnessed = excluded.witnessed",
        (size, note, witnessed),
    )
    run(_UNWITNESSED, {"newest": size})
    # Each publication moves one row out of the recent ones; sizes alone are read, and no note.
    pair = run("SELECT size FROM checkpoints ORDER BY size DESC LIMIT 2 OFFSET %s", (keeping.RECENT - 1,)).fetchall()
    if len(pair) > 1 and keeping.in_one_block(pair[1][0], pair[0][0]):
        run("DELETE FROM checkpoints WHERE size = %s", (pair[1][0],))
