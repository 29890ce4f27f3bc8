"""How a statement ended: registered, accepted, or refused for a reason; and telling that to whoever waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from transparency.errors import TransparencyError
from transparency.log.answers import Accepted
from transparency.server.problems import ProblemError
from transparency.server.unexpected import log_unexpected
from transparency.statements.statement import Entry, Statement


class Receipted(NamedTuple):
    """Registered, and whether what was registered has been erased since."""

    entry: Entry
    receipt: bytes
    erased: bool


Outcome = Receipted | Accepted | Exception
Answered = Callable[[Outcome], None]
"""Is told how a statement ended, once. It must not raise."""


def refusal_of(refusal: TransparencyError, statement: Statement, limit: int) -> TransparencyError:
    """What a refused statement is told: beyond the policy's size it is 413, not a matter of its content (LEAF-8)."""
    if len(statement.normalised) <= limit:
        return refusal
    return ProblemError(
        413,
        "Content Too Large",
        f"The policy takes statements of up to {limit} bytes, and this one has more; register a large record as a "
        "hash envelope (RFC 9995)",
    )


def bare(error: TransparencyError) -> TransparencyError:
    """Without where it was raised: those frames hold all that was judged with it, and who holds this one.

    That would be a cycle for each refused statement, and cycles are seldom looked for (server/garbage.py).
    """
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


def tell(answered: Answered, outcome: Outcome) -> None:
    """Whatever goes wrong with one answer is no matter of the others."""
    try:
        answered(bare(outcome) if isinstance(outcome, TransparencyError) else outcome)
    except Exception as error:  # noqa: BLE001 - as above
        log_unexpected("an answer", error)
