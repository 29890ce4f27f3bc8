"""The registration policy: who may register what. A TOML document, itself registered on the log (RFC 9943 §5.1.1.1).

It names its log, its generation and its predecessor, so that a replayed, reordered or other-log policy never takes
effect (REG-22). Generations count from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError
from transparency.policy.toml import Table, key_lines, load, quote, quote_list

CONTENT_TYPE = "application/toml"
SUBJECT = "policy"
VERSION = 1
DEFAULT_MAX_STATEMENT_SIZE = 4 * 1024 * 1024
DEFAULT_CLOCK_SKEW = 300
DEFAULT_ALGORITHMS = tuple(algorithm.name for algorithm in ALGORITHMS.values())
# What one batch of the sequencer holds: a larger statement could be accepted and never sequenced.
GREATEST_STATEMENT = 16 * 1024 * 1024
GREATEST_SKEW = 24 * 3600


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer by its exact ``iss`` and the keys it may sign with."""

    iss: str
    keys: tuple[PublicKey, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    log: str
    generation: int
    previous: str
    policy_key: PublicKey
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    content_types: tuple[str, ...] = ("*",)
    max_statement_size: int = DEFAULT_MAX_STATEMENT_SIZE
    clock_skew: int = DEFAULT_CLOCK_SKEW
    issuers: tuple[Issuer, ...] = ()

    @classmethod
    def from_toml(cls, data: bytes) -> Policy:
        top = Table(load(data, "policy"), "policy")
        if top.number("version") != VERSION:
            raise MalformedError(f"policy.version is not {VERSION}, the one this software reads")
        accept = top.table("accept")
        policy_key_table = top.table("policy-key")
        policy = cls(
            log=top.text("log"),
            generation=top.number("generation"),
            previous=top.text("previous"),
            policy_key=policy_key_table.key(),
            algorithms=accept.texts("algorithms"),
            content_types=accept.texts("content-types"),
            max_statement_size=accept.number("max-statement-size"),
            clock_skew=accept.number("clock-skew", DEFAULT_CLOCK_SKEW),
            issuers=tuple(_issuer(table) for table in top.tables("issuer")),
        )
        for table in (policy_key_table, accept, top):
            table.done()
        policy.check()
        return policy

    @classmethod
    def heading(cls, data: bytes) -> Policy:
        """The policy without its issuers, in the time its own members take. For the chain, which asks for no more.

        Issuers come last in what we write: the text is cut before them if nothing but issuers follows. What is laid
        out otherwise is read whole.
        """
        return replace(cls.from_toml(_without_issuers(data)), issuers=())

    def to_toml(self) -> bytes:
        lines = [
            f"version = {VERSION}",
            f"log = {quote(self.log)}",
            f"generation = {self.generation}",
            f"previous = {quote(self.previous)}",
            "",
            "# Who may replace this policy.",
            "[policy-key]",
            *key_lines(self.policy_key),
            "",
            "[accept]",
            f"algorithms = {quote_list(self.algorithms)}",
            f"content-types = {quote_list(self.content_types)}",
            f"max-statement-size = {self.max_statement_size}",
            f"clock-skew = {self.clock_skew}",
        ]
        for issuer in self.issuers:
            lines += ["", "[[issuer]]", f"iss = {quote(issuer.iss)}"]
            for key in issuer.keys:
                lines += ["", "[[issuer.key]]", *key_lines(key)]
        return ("\n".join(lines) + "\n").encode("utf-8")

    def check(self) -> None:
        """Refuse what reads well but cannot be meant. Called on everything that is read or about to be signed."""
        known = {algorithm.name for algorithm in ALGORITHMS.values()}
        unknown = [name for name in self.algorithms if name not in known]
        if unknown:
            raise MalformedError(f"policy.accept.algorithms names unknown algorithms: {', '.join(unknown)}")
        if not self.log or self.generation < 1:
            raise MalformedError("policy.log is empty or policy.generation is not 1 or more")
        if (self.generation == 1) != (self.previous == ""):
            raise MalformedError("policy.previous is empty in generation 1, and only there")
        if not 1 <= self.max_statement_size <= GREATEST_STATEMENT:
            raise MalformedError(f"policy.accept.max-statement-size is 1 to {GREATEST_STATEMENT}")
        if self.clock_skew > GREATEST_SKEW:
            raise MalformedError(f"policy.accept.clock-skew is at most {GREATEST_SKEW} seconds")
        seen: set[str] = set()
        for issuer in self.issuers:
            if issuer.iss in seen:
                raise MalformedError(f"policy.issuer {issuer.iss!r} stands there twice")
            seen.add(issuer.iss)
            _check_issuer(issuer, self.policy_key)

    def issuer(self, iss: str) -> Issuer | None:
        return next((issuer for issuer in self.issuers if issuer.iss == iss), None)

    def with_issuer(self, iss: str, keys: tuple[PublicKey, ...], *, previous: str) -> Policy:
        """The next generation, in which *iss* may sign with *keys* besides those it had."""
        old = self.issuer(iss)
        merged = old.keys if old else ()
        merged += tuple(key for key in keys if key.kid not in {have.kid for have in merged})
        others = tuple(issuer for issuer in self.issuers if issuer.iss != iss)
        return self._next(previous, (*others, Issuer(iss, merged)))

    def without_issuer(self, iss: str, *, previous: str, kid: bytes | None = None) -> Policy:
        """The next generation, without *iss*, or without its key *kid*."""
        issuers = []
        for issuer in self.issuers:
            if issuer.iss != iss:
                issuers.append(issuer)
            elif kid is not None:
                left = tuple(key for key in issuer.keys if key.kid != kid)
                if left:
                    issuers.append(Issuer(iss, left))
        return self._next(previous, tuple(issuers))

    def _next(self, previous: str, issuers: tuple[Issuer, ...]) -> Policy:
        policy = replace(self, generation=self.generation + 1, previous=previous, issuers=issuers)
        policy.check()
        return policy


def _without_issuers(data: bytes) -> bytes:
    start = data.find(b"\n[[issuer]]")
    if start < 0:
        return data
    headings = set(re.findall(rb"^\s*\[.*$", data[start:], re.MULTILINE))
    return data[:start] if headings <= {b"[[issuer]]", b"[[issuer.key]]"} else data


def _issuer(table: Table) -> Issuer:
    iss = table.text("iss")
    keys = []
    for key_table in table.tables("key"):
        keys.append(key_table.key())
        key_table.done()
    table.done()
    return Issuer(iss, tuple(keys))


def _check_issuer(issuer: Issuer, policy_key: PublicKey) -> None:
    if not issuer.iss:
        raise MalformedError("policy.issuer.iss is empty")
    if not issuer.keys:
        raise MalformedError(f"policy.issuer {issuer.iss!r} has no key")
    if len({key.kid for key in issuer.keys}) != len(issuer.keys):
        raise MalformedError(f"policy.issuer {issuer.iss!r} has two keys with one kid")
    if any(key.thumbprint == policy_key.thumbprint for key in issuer.keys):
        # One key, one set of statements: a policy key that also issues records could be made to sign a policy.
        raise MalformedError(f"policy.issuer {issuer.iss!r} uses the policy key; keys are single-purpose")
