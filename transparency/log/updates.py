"""The next policy and the next key set, as candidates: checked at their place in the order, in force from there on."""

from __future__ import annotations

from collections.abc import Callable

from transparency.errors import JudgementStaleError
from transparency.log.appender import SignerAt
from transparency.log.candidate import Candidate, document_judgement
from transparency.log.documents import InForce, PlacedKeys, PlacedPolicy
from transparency.log.store import Kind
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement

Current = Callable[[], InForce]
Put = Callable[[InForce], None]
Newest = Callable[[], SignedHead]


def policy_candidate(statement: Statement, policy: Policy, current: Current, put: Put) -> Candidate:
    """*current* says what is in force when it is asked, *put* puts the next in its place."""

    def took_effect(index: int, _: SignedHead) -> None:
        put(InForce(PlacedPolicy(statement, statement.entry_id, index, policy), current().keys))

    def check(_: int) -> None:
        current().admit_policy(statement)

    judgement = document_judgement(policy.generation - 1)
    return Candidate.of(statement, judgement, Kind.POLICY, check=check, took_effect=took_effect)


def keys_candidate(
    statement: Statement, keys: ServiceKeys, signer_at: SignerAt, current: Current, put: Put, newest: Newest
) -> Candidate:
    """*signer_at* holds the receipts keys of *keys*: it decides from this very head on. *newest* is the last before."""
    generation = current().policy.policy.generation

    def took_effect(index: int, _: SignedHead) -> None:
        put(InForce(current().policy, PlacedKeys(statement, statement.entry_id, index, keys)))

    def check(_: int) -> None:
        if current().policy.policy.generation != generation:
            raise JudgementStaleError("the policy changed meanwhile; send the key set again")
        current().admit_keys(statement)
        _check_not_before(keys, newest())

    judgement = document_judgement(generation)
    return Candidate.of(statement, judgement, Kind.KEYS, check=check, took_effect=took_effect, signer_at=signer_at)


def _check_not_before(keys: ServiceKeys, newest: SignedHead) -> None:
    """Receipts of the newest head were given out: its key must not have ended before it, unless it is compromised.

    The key set was made a moment ago, and heads were signed since: whoever makes it again, later, is right.
    """
    signed = next(item for item in keys.keys if item.role == keyset.RECEIPTS and item.key.kid == newest.kid)
    if signed.until is not None and signed.until < newest.time and signed.compromised_since is None:
        raise JudgementStaleError("the key set ends a receipts key before its newest head; make it again")
