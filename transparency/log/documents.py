"""The service's own documents on the log: the policy and the key set in force, and the chain that led there.

Both are statements by the policy key (REG-7, REG-22). A document takes effect only at its place: it must name this
log, the next generation and its predecessor's entry id, and be signed by the policy key *of the policy in force*.
"""

from __future__ import annotations

from dataclasses import dataclass

from transparency.cose.keys import PublicKey, Signer
from transparency.errors import LogUnusableError, MalformedError, RefusedError, TransparencyError
from transparency.log.store import Kind, Store, StoredEntry
from transparency.policy import document, keyset
from transparency.policy.document import Policy
from transparency.policy.keyset import ServiceKeys
from transparency.statements.statement import Statement, entry_id, sign_statement

Document = Policy | ServiceKeys


@dataclass(frozen=True, slots=True)
class Placed:
    """A document with its place on the log."""

    statement: Statement
    entry_id: str
    index: int


@dataclass(frozen=True, slots=True)
class PlacedPolicy(Placed):
    policy: Policy


@dataclass(frozen=True, slots=True)
class PlacedKeys(Placed):
    keys: ServiceKeys


@dataclass(frozen=True, slots=True)
class InForce:
    """What the log is run by at one moment. Immutable: the next document makes another."""

    policy: PlacedPolicy
    keys: PlacedKeys

    def admit_policy(self, statement: Statement, *, whole: bool = True) -> Policy:
        """The policy in *statement*, if it is the next one; the reason why not, otherwise. Not *whole*: no issuers."""
        policy = read_policy(statement, whole=whole)
        self._check_signer(statement)
        _check_place("policy", policy, self.policy.policy, self.policy.entry_id)
        _check_single_purpose(policy, self.keys.keys)
        if policy.policy_key.thumbprint not in {key.thumbprint for key in self.keys.keys.ever(keyset.POLICY)}:
            raise RefusedError("the policy names a policy key that the key set does not list; register that one first")
        return policy

    def admit_keys(self, statement: Statement) -> ServiceKeys:
        keys = read_keys(statement)
        self._check_signer(statement)
        _check_place("key set", keys, self.keys.keys, self.keys.entry_id)
        keys.check_follows(self.keys.keys)
        _check_single_purpose(self.policy.policy, keys)
        if keys.iss != self.keys.keys.iss:
            raise RefusedError("the key set changes the service's iss, which its receipts carry")
        return keys

    def _check_signer(self, statement: Statement) -> None:
        _check_signature(statement, self.policy.policy.policy_key)


def sign_document(doc: Document, signer: Signer, iss: str) -> bytes:
    """The statement that registers *doc*. Deterministic: the same document gives the same entry."""
    doc.check()
    subject = document.SUBJECT if isinstance(doc, Policy) else keyset.SUBJECT
    return sign_statement(doc.to_toml(), signer, iss=iss, sub=subject, content_type=document.CONTENT_TYPE)


def read_policy(statement: Statement, *, whole: bool = True) -> Policy:
    _check_subject(statement, document.SUBJECT)
    return Policy.from_toml(statement.payload) if whole else Policy.heading(statement.payload)


def read_keys(statement: Statement) -> ServiceKeys:
    _check_subject(statement, keyset.SUBJECT)
    return ServiceKeys.from_toml(statement.payload)


def load_in_force(store: Store, origin: str, policy_key: bytes) -> InForce:
    """Replay the chain of documents from entry 0. Refuses a log whose chain does not hold from the pinned key on."""
    try:
        return _replay(store, origin, policy_key)
    except LogUnusableError:
        raise
    except TransparencyError as error:
        raise LogUnusableError(f"the log's own documents do not hold: {error}; run `transparency log fsck`") from error


def _replay(store: Store, origin: str, policy_key: bytes) -> InForce:
    stored = sorted((*store.documents(Kind.POLICY), *store.documents(Kind.KEYS)), key=lambda row: row.index)
    if [row.kind for row in stored[:2]] != [Kind.POLICY, Kind.KEYS] or [row.index for row in stored[:2]] != [0, 1]:
        raise LogUnusableError("entries 0 and 1 are not the policy and the key set that init registers")
    newest = max(row.index for row in stored if row.kind is Kind.POLICY)
    in_force = bootstrap(_statement(stored[0]), _statement(stored[1]), origin, policy_key, whole=newest == 0)
    for row in stored[2:]:
        # Of all policies but the newest only the chain matters here; fsck reads each of them whole.
        in_force = advance(in_force, _statement(row), row.kind, row.index, whole=row.index == newest)
    return in_force


def check_pin(policy: Policy, policy_key: bytes) -> None:
    """Entry 0 is the pinned key's own word about itself."""
    if policy.policy_key.thumbprint != policy_key:
        raise LogUnusableError("entry 0 names another policy key than the pinned one")


def bootstrap(first: Statement, second: Statement, origin: str, policy_key: bytes, *, whole: bool = True) -> InForce:
    """Entries 0 and 1: accepted because the policy key they name is the pinned one (REG-9)."""
    policy, keys = read_policy(first, whole=whole), read_keys(second)
    check_pin(policy, policy_key)
    for statement in (first, second):
        _check_signature(statement, policy.policy_key)
    if policy.log != origin or keys.log != origin or policy.generation != 1 or keys.generation != 1:
        raise LogUnusableError("entries 0 and 1 are not the first documents of this log")
    return InForce(
        PlacedPolicy(first, first.entry_id, 0, policy),
        PlacedKeys(second, second.entry_id, 1, keys),
    )


def advance(in_force: InForce, statement: Statement, kind: Kind, index: int, *, whole: bool = True) -> InForce:
    if kind is Kind.POLICY:
        policy = in_force.admit_policy(statement, whole=whole)
        return InForce(PlacedPolicy(statement, statement.entry_id, index, policy), in_force.keys)
    keys = in_force.admit_keys(statement)
    return InForce(in_force.policy, PlacedKeys(statement, statement.entry_id, index, keys))


def placed(policy: tuple[int, Statement], keys: tuple[int, Statement]) -> InForce:
    """What is in force by two documents, each with its index, that were found to hold before."""
    (at, first), (then, second) = policy, keys
    return InForce(
        PlacedPolicy(first, first.entry_id, at, read_policy(first)),
        PlacedKeys(second, second.entry_id, then, read_keys(second)),
    )


def _statement(row: StoredEntry) -> Statement:
    statement = Statement.from_bytes(row.statement)
    if statement.entry != row.entry:
        raise MalformedError(f"entry {row.index} ({entry_id(row.entry)}) is not the statement stored beside it")
    return statement


def _check_subject(statement: Statement, subject: str) -> None:
    if statement.sub != subject or statement.content_type != document.CONTENT_TYPE:
        raise RefusedError(f"this is not a {subject} document: sub is not {subject!r} or the content type is not TOML")


def _check_signature(statement: Statement, key: PublicKey) -> None:
    if statement.kid != key.kid:
        raise RefusedError("not signed by the policy key that the policy in force names")
    try:
        statement.verify(key)
    except TransparencyError as error:
        raise RefusedError("the signature of the document is not the policy key's") from error


def _check_place(what: str, new: Document, old: Document, old_id: str) -> None:
    if new.log != old.log:
        raise RefusedError(f"the {what} is for another log ({new.log!r})")
    if new.generation != old.generation + 1 or new.previous != old_id:
        raise RefusedError(
            f"the {what} is generation {new.generation} after {new.previous or 'nothing'}; "
            f"this log is at generation {old.generation}, entry {old_id}"
        )


def _check_single_purpose(policy: Policy, keys: ServiceKeys) -> None:
    """No issuer signs with a key of the service (RC-15): it could forge receipts, or its records pass for policies.

    The operations key is the exception it is made for: the service registers what it states about itself.
    """
    service = {item.key.thumbprint for item in keys.keys if item.role != keyset.OPERATIONS}
    service.add(policy.policy_key.thumbprint)
    for issuer in policy.issuers:
        if any(key.thumbprint in service for key in issuer.keys):
            raise RefusedError(f"the issuer {issuer.iss!r} uses a key of the service; keys are single-purpose")
