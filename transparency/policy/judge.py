"""The judgement: whether one policy generation accepts one statement, why not, and for how long that holds.

Only signed bytes are looked at (REG-15): never the unprotected header, never how the statement arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PublicKey
from transparency.errors import RefusedError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.policy.document import Policy
from transparency.statements.statement import Statement

FOREVER = 2**53
# RFC 9864 gives new numbers to what the old ones already mean here, where each takes one curve only: ES256 and ESP256,
# ES384 and ESP384, ES512 and ESP512, EdDSA and Ed25519. A policy that names one means the signature, not the number.
_TWINS = (frozenset({-7, -9}), frozenset({-35, -51}), frozenset({-36, -52}), frozenset({-8, -19}))


@dataclass(frozen=True, slots=True)
class Judgement:
    """Accepted under *generation*; holds for decision times in ``not_before <= t <= not_after`` (REG-21)."""

    generation: int
    not_before: int
    not_after: int
    # Deterministic CBOR of the certificates that were taken from the unprotected header (AMB-10); b"" if none.
    collateral: bytes = b""
    # No second signature over the same signed bytes (LEAF-7); the log holds to it at sequencing.
    unique: bool = False

    def holds_at(self, time: int) -> bool:
        return self.not_before <= time <= self.not_after


class Judge:
    """A policy compiled to look-ups. Immutable: a new generation is a new judge."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._keys = {issuer.iss: {key.kid: key for key in issuer.keys} for issuer in policy.issuers}
        named = {number for number, algorithm in ALGORITHMS.items() if algorithm.name in set(policy.algorithms)}
        self._algorithms = named | {twin for pair in _TWINS if named & pair for twin in pair}
        self._any_type = "*" in policy.content_types

    def judge(self, statement: Statement, now: int) -> Judgement:
        """Raise :class:`RefusedError` with the reason, or say under which generation and how long it is accepted."""
        policy = self.policy
        if len(statement.normalised) > policy.max_statement_size:
            raise RefusedError(
                f"the statement has {len(statement.normalised)} bytes, the policy allows {policy.max_statement_size}"
            )
        if statement.alg not in self._algorithms:
            raise RefusedError(f"algorithm {ALGORITHMS[statement.alg].name} is not accepted by the policy")
        self._check_content_type(statement)
        key = self._key(statement)
        judgement = self._interval(statement)
        if not judgement.holds_at(now):
            raise RefusedError(_outside(statement, policy, now))
        try:
            statement.verify(key)
        except (SignatureInvalidError, UnsupportedAlgorithmError) as error:
            raise RefusedError("the signature is not by the key that its kid names for this issuer") from error
        return judgement

    def _key(self, statement: Statement) -> PublicKey:
        keys = self._keys.get(statement.iss)
        if keys is None:
            raise RefusedError("the issuer (iss) is not registered with this log")
        if statement.kid is None:
            # SS-7: an identity by x5t or x5chain counts only with a whole path to a registered root; there is none.
            raise RefusedError(
                "the policy registers no X.509 root for this issuer; sign with a registered key and its kid"
            )
        key = keys.get(statement.kid)
        if key is None:
            raise RefusedError("the kid names no key that is registered for this issuer")
        if key.thumbprint == self.policy.policy_key.thumbprint:
            raise RefusedError("a policy key signs policies only, by the admin route")
        return key

    def _check_content_type(self, statement: Statement) -> None:
        if self._any_type:
            return
        kind = statement.envelope.preimage_content_type if statement.envelope else statement.content_type
        if not isinstance(kind, str) or not any(fnmatchcase(kind, pattern) for pattern in self.policy.content_types):
            raise RefusedError("the content type is not accepted by the policy")

    def _interval(self, statement: Statement) -> Judgement:
        claims = statement.claims
        not_before = 0
        if claims.iat is not None:
            not_before = claims.iat - self.policy.clock_skew
        if claims.nbf is not None:
            not_before = max(not_before, claims.nbf)
        # RFC 8392 §3.1.4: not to be accepted on or after exp.
        not_after = FOREVER if claims.exp is None else claims.exp - 1
        return Judgement(self.policy.generation, not_before, not_after)


def _outside(statement: Statement, policy: Policy, now: int) -> str:
    claims = statement.claims
    if claims.exp is not None and now >= claims.exp:
        return "the statement has expired (exp)"
    if claims.nbf is not None and now < claims.nbf:
        return "the statement is not valid yet (nbf)"
    return f"the statement says it was issued (iat) more than {policy.clock_skew} seconds from now"
