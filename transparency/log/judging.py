"""Judging a statement without keeping everybody else waiting.

A judgement takes the time of one signature. Only where the policy has a large record read to its end does it take
longer (half a second for four megabytes): that is done in a thread, and the event loop goes on. What changes meanwhile
is found at sequencing, which takes no judgement of another generation or time (REG-21).
"""

from __future__ import annotations

import asyncio
from typing import Final

from transparency.errors import RefusedError
from transparency.policy.judge import Judge, Judgement
from transparency.policy.keyset import ServiceKeys
from transparency.policy.operations import reads_as_operation
from transparency.statements.statement import Statement

# Below it a record is read in a few milliseconds, less than a busy server waits for a thread.
LARGE_RECORD: Final = 32 * 1024


async def judge_statement(judge: Judge, statement: Statement, keys: ServiceKeys, time: int) -> Judgement:
    """The judgement of a submitted statement at *time*, or RefusedError with rule and reason."""
    if reads_as_operation(statement, keys):
        raise RefusedError("what the service states about itself is registered by the service alone")
    if len(statement.payload) > LARGE_RECORD and judge.reads_records_of(statement.iss):
        return await asyncio.to_thread(judge.judge, statement, time)
    return judge.judge(statement, time)
