"""Rows of the intake, as the leader reads them: each is a statement, or what a node states about itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from transparency.errors import JudgementStaleError, RefusedError
from transparency.log.candidate import Candidate, Place
from transparency.log.log import Log
from transparency.log.operations import operation_candidate
from transparency.policy.judge import Judgement
from transparency.policy.operations import reads_as_operation
from transparency.statements.statement import Statement

Sequence = Callable[[Statement, Judgement], Awaitable[Place]]


def row_candidate(log: Log, statement: Statement, judgement: Judgement) -> Candidate:
    if reads_as_operation(statement, log.service_keys):
        return operation_candidate(statement, log.policy.generation, lambda: log.service_keys)
    return Candidate.of(statement, judgement)


async def sequence_row(log: Log, sequence: Sequence, statement: Statement, judgement: Judgement) -> Place:
    """A row that policy or time have overtaken: *sequence* judges a statement again."""
    if not reads_as_operation(statement, log.service_keys):
        return await sequence(statement, judgement)
    try:
        return await log.sequencer.submit(row_candidate(log, statement, judgement))
    except JudgementStaleError:
        raise RefusedError("the operations key was exchanged meanwhile") from None
