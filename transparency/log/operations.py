"""The service as an issuer: signs what it states about itself, for the internal route (policy/operations.py)."""

from __future__ import annotations

from collections.abc import Callable

from transparency.cose.keys import PublicKey, Signer
from transparency.errors import JudgementStaleError, LogUnusableError, RefusedError
from transparency.log.candidate import Candidate, document_judgement
from transparency.log.store import Kind
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys
from transparency.policy.operations import SUBJECTS, read_operation
from transparency.statements.statement import Statement, sign_statement

LoadKey = Callable[[str, PublicKey], Signer]


def sign_operation(
    keys: ServiceKeys, load_key: LoadKey, subject: str, payload: bytes, content_type: str, now: int
) -> Statement:
    """The statement by which the service says *payload* about itself, by the operations key in use."""
    if subject not in SUBJECTS:
        raise RefusedError(f"{subject!r} is not a subject of operations; these are: {', '.join(SUBJECTS)}")
    public = next(iter(keys.at(keyset.OPERATIONS, now)), None)
    if public is None:
        raise LogUnusableError("no operations key is in use; `transparency log rotate-key --role operations` makes one")
    signer = load_key(keyset.OPERATIONS, public)
    return Statement.from_bytes(
        sign_statement(payload, signer, iss=keys.iss, sub=subject, content_type=content_type, iat=now)
    )


def operation_candidate(statement: Statement, generation: int, in_force: Callable[[], ServiceKeys]) -> Candidate:
    """Checked at its place in the order: by the key set that is in force *there*, at the time of its head.

    A key set may come before it in the queue. What its old key signed would be a finding of every later audit.
    """

    def check(time: int) -> None:
        keys = in_force()
        if all(key.kid != statement.kid for key in keys.at(keyset.OPERATIONS, time)):
            raise JudgementStaleError("the operations key was exchanged meanwhile; sign again")
        read_operation(statement, keys, time)

    return Candidate.of(statement, document_judgement(generation), Kind.OPERATION, check=check)
