"""The rules: each a small object that looks at one thing of a statement and says why not, or nothing.

A rule bears the name of the member that asks for it in the document. A policy is compiled to the rules it needs and no
others, in an order where the cheap ones come first and nothing of the payload is parsed before the signature is known
to be good. Only signed bytes are looked at (REG-15), with the one exception of policy/identity.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Final, Protocol

from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PublicKey
from transparency.errors import SignatureInvalidError, UnsupportedAlgorithmError
from transparency.policy import names
from transparency.policy.toml import write_time
from transparency.statements.statement import Statement

FOREVER: Final = 2**53


class Case:
    """One statement before the judge, and what the rules have found so far.

    Made for every statement: what most rules leave as it is stands in the class.
    """

    key: PublicKey | None = None
    not_before = 0
    not_after = FOREVER
    collateral = b""

    def __init__(self, statement: Statement, now: int, tbs_digest: bytes | None = None) -> None:
        self.statement = statement
        self.now = now
        self.tbs_digest = tbs_digest

    def bound(self, not_before: int, not_after: int) -> None:
        """What is found holds for decision times from *not_before* to *not_after* only (REG-21)."""
        if not_before > self.not_before:  # noqa: PLR1730 - max() is a call, here for every statement
            self.not_before = not_before
        if not_after < self.not_after:  # noqa: PLR1730 - as above
            self.not_after = not_after


class Rule(Protocol):
    """One rule, compiled."""

    @property
    def name(self) -> str:
        """As the document calls it."""

    def refuses(self, case: Case) -> str:
        """Why the statement is not accepted; empty where this rule accepts it."""

    def accepts(self, case: Case) -> str:
        """What was found good, for people."""


@dataclass(frozen=True, slots=True)
class MaxStatementSize:
    name: ClassVar[str] = "max-statement-size"
    most: int

    def refuses(self, case: Case) -> str:
        size = len(case.statement.normalised)
        return f"the statement has {size} bytes, the policy allows {self.most}" if size > self.most else ""

    def accepts(self, case: Case) -> str:
        return f"{len(case.statement.normalised)} bytes of at most {self.most}"


@dataclass(frozen=True, slots=True)
class Algorithms:
    name: ClassVar[str] = "algorithms"
    numbers: frozenset[int]

    def refuses(self, case: Case) -> str:
        if case.statement.alg in self.numbers:
            return ""
        return f"algorithm {ALGORITHMS[case.statement.alg].name} is not accepted by the policy"

    def accepts(self, case: Case) -> str:
        return f"{ALGORITHMS[case.statement.alg].name} is one of them"


@dataclass(frozen=True, slots=True)
class ContentTypes:
    """Of a hash envelope the type of what it is the digest of (259)."""

    name: ClassVar[str] = "content-types"
    patterns: tuple[str, ...]

    def refuses(self, case: Case) -> str:
        kind = _content_type(case.statement)
        if isinstance(kind, str) and any(fnmatchcase(kind, pattern) for pattern in self.patterns):
            return ""
        return "the content type is not accepted by the policy"

    def accepts(self, case: Case) -> str:
        return f"{_content_type(case.statement)} is one of them"


def _content_type(statement: Statement) -> str | int | None:
    return statement.envelope.preimage_content_type if statement.envelope else statement.content_type


@dataclass(frozen=True, slots=True)
class Envelope:
    name: ClassVar[str] = "envelope"
    required: bool

    def refuses(self, case: Case) -> str:
        if self.required == (case.statement.envelope is not None):
            return ""
        if self.required:
            return "the policy takes hash envelopes only from this issuer; sign the record's digest (`sign --private`)"
        return "the policy takes no hash envelopes from this issuer; sign the record itself"

    def accepts(self, _: Case) -> str:
        return "it is a hash envelope, as required" if self.required else "it is no hash envelope"


@dataclass(frozen=True, slots=True)
class RequiredLabels:
    name: ClassVar[str] = "required-labels"
    wanted: tuple[int | str, ...]

    def refuses(self, case: Case) -> str:
        return _missing("protected header has no", self.wanted, case.statement.message.headers)

    def accepts(self, _: Case) -> str:
        return f"{_listed(self.wanted)} in the protected header"


@dataclass(frozen=True, slots=True)
class RequiredClaims:
    name: ClassVar[str] = "required-claims"
    wanted: tuple[int | str, ...]

    def refuses(self, case: Case) -> str:
        claims = case.statement.message.headers[labels.CWT_CLAIMS]
        numbers = {names.claim_number(name): name for name in self.wanted}
        missing = [name for number, name in numbers.items() if number not in claims]
        return _missing("CWT claims have no", missing, ())

    def accepts(self, _: Case) -> str:
        return f"{_listed(self.wanted)} among the CWT claims"


def _missing(what: str, wanted: Iterable[int | str], have: Collection[object]) -> str:
    absent = [name for name in wanted if name not in have]
    return f"the {what} {_listed(absent)}, which the policy requires of this issuer" if absent else ""


def _listed(items: Iterable[int | str]) -> str:
    return ", ".join(str(item) for item in items)


@dataclass(frozen=True, slots=True)
class Times:
    """iat, nbf and exp, against the time of the decision."""

    name: ClassVar[str] = "clock-skew"
    skew: int

    def refuses(self, case: Case) -> str:
        claims, now = case.statement.claims, case.now
        not_before = 0 if claims.iat is None else claims.iat - self.skew
        if claims.nbf is not None and claims.nbf > not_before:
            not_before = claims.nbf
        # RFC 8392 §3.1.4: not to be accepted on or after exp.
        not_after = FOREVER if claims.exp is None else claims.exp - 1
        case.bound(not_before, not_after)
        if not_before <= now <= not_after:
            return ""
        if now > not_after:
            return "the statement has expired (exp)"
        if claims.nbf is not None and now < claims.nbf:
            return "the statement is not valid yet (nbf)"
        return f"the statement says it was issued (iat) more than {self.skew} seconds from now"

    def accepts(self, case: Case) -> str:
        claims = case.statement.claims
        said = (("iat", claims.iat), ("nbf", claims.nbf), ("exp", claims.exp))
        times = [f"{name} {_time(at)}" for name, at in said if at is not None]
        return f"{', '.join(times) or 'it says no times'}; the time is {_time(case.now)}"


@dataclass(frozen=True, slots=True)
class MaxAge:
    name: ClassVar[str] = "max-age"
    most: int

    def refuses(self, case: Case) -> str:
        iat = case.statement.claims.iat
        if iat is None:
            return "the statement does not say when it was issued (iat), and the policy limits its age"
        if case.now > iat + self.most:
            return f"the statement was issued (iat) {case.now - iat} seconds ago, the policy allows {self.most}"
        case.bound(0, iat + self.most)
        return ""

    def accepts(self, case: Case) -> str:
        return f"issued {case.now - (case.statement.claims.iat or 0)} seconds ago, of at most {self.most}"


def _time(seconds: int) -> str:
    try:
        return write_time(seconds)
    except OverflowError:
        return str(seconds)


@dataclass(frozen=True, slots=True)
class Signature:
    """REG-2: the signature, by the key that the issuer is known by."""

    name: ClassVar[str] = "signature"

    def refuses(self, case: Case) -> str:
        if case.key is None:
            return "there is no key to check it with"
        try:
            case.statement.verify(case.key, case.tbs_digest)
        except (SignatureInvalidError, UnsupportedAlgorithmError):
            return "the signature is not by the key that its kid or certificate names for this issuer"
        return ""

    def accepts(self, _: Case) -> str:
        return "it is by that key, over the bytes as received"
