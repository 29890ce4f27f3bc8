"""What workers and the owner of the log say to each other (server/frames.py).

A worker reads and judges statements and hands them over with their judgement; the owner, who alone sequences, answers
with receipts. The owner tells every worker what is in force. Answers name the number that the worker gave.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from transparency.policy.judge import Judgement
from transparency.statements.statement import Entry


class Kind(IntEnum):
    # From the owner.
    IN_FORCE = 1  # [policy document, key set document, time of the newest head]
    ANSWERS = 2  # [answer, …]
    STOP = 3  # nil: answer what is under way, then end
    # From a worker.
    READY = 16  # nil: it accepts connections
    HANDED = 17  # [statement, …]
    ASKED = 18  # [[number, entry], …]: is this entry registered, though it would be refused now?
    COUNTED = 19  # what it has answered since it last said so (server/metrics.py), and for whom it refused


class Handed(NamedTuple):
    """A statement on its way to the sequencer. It is what ``log.candidate.Submitted`` asks for."""

    number: int
    entry: Entry
    tbs_digest: bytes
    normalised: bytes
    generation: int
    not_before: int
    not_after: int
    collateral: bytes
    unique: bool
    # It waits for its receipt, however slow the log is: it is never answered 202.
    patient: bool
    # Who sent it, and that client's own rate, where requests are limited.
    client: str | None
    rate: int | None

    @property
    def judgement(self) -> Judgement:
        return Judgement(self.generation, self.not_before, self.not_after, self.collateral, self.unique)


class Said(IntEnum):
    """How an answer begins, after its number; and what follows."""

    REGISTERED = 0  # index, whether it is new, receipt
    ACCEPTED = 1  # nothing
    STALE = 2  # the time to judge at: policy or time have moved on
    UNKNOWN = 3  # nothing: what was asked for is not registered
    PROBLEM = 4  # status, title, detail, headers, whether the connection should close
