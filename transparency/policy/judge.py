"""The judgement: whether one policy generation accepts one statement, why not, and for how long that holds.

Only signed bytes are looked at (REG-15): never how the statement arrived, and of the unprotected header only
certificates that the protected one asks for (policy/identity.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from transparency.errors import RefusedError
from transparency.policy import names
from transparency.policy.document import Policy
from transparency.policy.identity import CertifiedKey, Paths, RegisteredKey
from transparency.policy.issuer import Issuer
from transparency.policy.patterns import Index
from transparency.policy.record_rules import RecordRule
from transparency.policy.rules import (
    FOREVER,
    Algorithms,
    Case,
    ContentTypes,
    Envelope,
    MaxAge,
    MaxStatementSize,
    RequiredClaims,
    RequiredLabels,
    Rule,
    Signature,
    Times,
)
from transparency.statements.statement import Statement

__all__ = ["FOREVER", "Judge", "Judgement", "Opened", "Rules", "conclude"]

Checks = tuple[tuple[Callable[[Case], str], Rule], ...]
ISSUER = "issuer"
UNKNOWN_ISSUER = "the issuer (iss) is not registered with this log"


class Judgement(NamedTuple):
    """Accepted under *generation*; holds for decision times in ``not_before <= t <= not_after`` (REG-21).

    A tuple, because one is made for every statement: three times as quick as a frozen data class.
    """

    generation: int
    not_before: int
    not_after: int
    # Deterministic CBOR of the certificates that were taken from the unprotected header (AMB-10); b"" if none.
    collateral: bytes = b""
    # No second signature over the same signed bytes (LEAF-7); the log holds to it at sequencing.
    unique: bool = False

    def holds_at(self, time: int) -> bool:
        return self.not_before <= time <= self.not_after


@dataclass(frozen=True, slots=True)
class Rules:
    """What one issuer's statements are judged by, in order."""

    issuer: Issuer
    generation: int
    rules: tuple[Rule, ...]
    unique: bool
    before: Checks
    """The rules again, each behind the method that is called for every statement: those before the signature."""
    after: Checks
    """The signature, and what is asked only of what is signed."""

    @classmethod
    def of(cls, policy: Policy, issuer: Issuer, paths: Paths) -> Rules:
        rules = tuple(_compiled(policy, issuer, paths))
        unique = "refuse" in (policy.duplicates, issuer.duplicates)
        checks = tuple((rule.refuses, rule) for rule in rules)
        place = next(number for number, rule in enumerate(rules) if isinstance(rule, Signature))
        return cls(issuer, policy.generation, rules, unique, checks[:place], checks[place:])

    @property
    def iss(self) -> str:
        return self.issuer.iss

    @property
    def pattern(self) -> str:
        return self.issuer.pattern


Opened = tuple[Rules, Case]


class Judge:
    """A policy compiled to look-ups. Immutable: a new generation is a new judge."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        paths = Paths()
        self._index = Index(Rules.of(policy, issuer, paths) for issuer in policy.issuers)

    def judge(self, statement: Statement, now: int) -> Judgement:
        """Raise :class:`RefusedError` with rule and reason, or say under which generation and how long it holds."""
        return conclude(self.open(statement, now))

    def open(self, statement: Statement, now: int, tbs_digest: bytes | None = None) -> Opened:
        """The first half of a judgement: all that is asked before the signature. Then :func:`conclude`.

        Who has many opens all of them first: the less is done between two signatures, the more of it is still in the
        processor's caches. Who has the *tbs_digest* already gives it.
        """
        found = self._index.find(statement.claims.iss)
        if found is None:
            raise RefusedError(f"{ISSUER}: {UNKNOWN_ISSUER}")
        case = Case(statement, now, tbs_digest)
        _check(found.before, case)
        return found, case

    def reads_records_of(self, iss: str) -> bool:
        """Whether judging *iss* means reading its records: then it takes as long as they are large."""
        found = self._index.find(iss)
        return found is not None and not found.issuer.records.any

    def rules_for(self, iss: str) -> Rules | None:
        """The rules for statements by *iss*; None where nobody of that name may register."""
        return self._index.find(iss)

    def rules_for_all(self) -> tuple[Rule, ...]:
        """What is asked of everybody, whoever it is."""
        return tuple(_accepting(self.policy, Issuer()))


def conclude(opened: Opened) -> Judgement:
    """The second half of a judgement: the signature, and what is asked only of what is signed."""
    found, case = opened
    _check(found.after, case)
    return Judgement(found.generation, case.not_before, case.not_after, case.collateral, found.unique)


def _check(checks: Checks, case: Case) -> None:
    for refuses, rule in checks:
        reason = refuses(case)
        if reason:
            raise RefusedError(f"{rule.name}: {reason}")


def _compiled(policy: Policy, issuer: Issuer, paths: Paths) -> Iterator[Rule]:
    yield from _accepting(policy, issuer)
    if issuer.envelope != "allowed":
        yield Envelope(issuer.envelope == "required")
    if issuer.required_labels:
        yield RequiredLabels(issuer.required_labels)
    if issuer.required_claims:
        yield RequiredClaims(issuer.required_claims)
    if issuer.roots:
        yield CertifiedKey(issuer, policy.policy_key, paths)
    else:
        yield RegisteredKey(issuer, policy.policy_key)
    yield Times(policy.clock_skew)
    if issuer.max_age is not None:
        yield MaxAge(issuer.max_age)
    yield Signature()
    # After the signature: a stranger's payload is not parsed.
    if not issuer.records.any:
        yield RecordRule(issuer.records)


def _accepting(policy: Policy, issuer: Issuer) -> Iterator[Rule]:
    """What [accept] asks of all, as narrow as the issuer makes it."""
    own = issuer.max_statement_size
    yield MaxStatementSize(policy.max_statement_size if own is None else min(own, policy.max_statement_size))
    numbers = names.algorithm_numbers(policy.algorithms)
    if issuer.algorithms:
        numbers &= names.algorithm_numbers(issuer.algorithms)
    yield Algorithms(numbers)
    for patterns in (policy.content_types, issuer.content_types):
        if patterns and "*" not in patterns:
            yield ContentTypes(patterns)
