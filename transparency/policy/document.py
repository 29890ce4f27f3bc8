"""The registration policy: who may register what. A TOML document, itself registered on the log (RFC 9943 §5.1.1.1).

It names its log, its generation and its predecessor, so that a replayed, reordered or other-log policy never takes
effect (REG-22). Generations count from 1. What each member means to a statement: policy/rules.py; every member for
operators: docs/policy.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PublicKey
from transparency.cose.x509_path import Root
from transparency.errors import MalformedError
from transparency.policy import contradictions, retention
from transparency.policy.issuer import DUPLICATES, Issuer, issuer_lines, read_issuer
from transparency.policy.patterns import Index
from transparency.policy.retention import RetentionClass, class_lines, read_class
from transparency.policy.toml import Source, Table, key_lines, load, quote, quote_list

__all__ = ["CONTENT_TYPE", "NAME", "SUBJECT", "Issuer", "Policy"]

CONTENT_TYPE = "application/toml"
SUBJECT = "policy"
NAME = "policy.toml"
VERSION = 1
DEFAULT_MAX_STATEMENT_SIZE = 4 * 1024 * 1024
DEFAULT_MAX_ARTIFACT_SIZE = 64 * 1024 * 1024
DEFAULT_CLOCK_SKEW = 300
DEFAULT_ALGORITHMS = tuple(algorithm.name for algorithm in ALGORITHMS.values())
# Headings of what comes last in the layout we write, and nothing else after it.
_ISSUER_HEADINGS = frozenset({b"[[issuer]]", b"[issuer.records]", b"[[issuer.key]]", b"[[issuer.root]]"})


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
    max_artifact_size: int = DEFAULT_MAX_ARTIFACT_SIZE
    duplicates: str = "allow"
    retention: tuple[RetentionClass, ...] = ()
    _index: list[Index[Issuer]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def from_toml(cls, data: bytes, name: str = NAME) -> Policy:
        """The policy in *data*, strictly; an error begins with *name* and the line of what is wrong."""
        policy = cls.read(data, name)
        problem = next(contradictions.find(policy), None)
        if problem is not None:
            raise Source(data, name).fault(problem.path, problem.text)
        return policy

    @classmethod
    def read(cls, data: bytes, name: str = NAME) -> Policy:
        """As :meth:`from_toml`, but one that contradicts itself is read too: for who wants to know all of it."""
        source = Source(data, name)
        top = Table(load(data, "policy", name), "policy", source)
        if top.number("version") != VERSION:
            raise source.fault(("version",), f"policy.version is not {VERSION}, the one this software reads")
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
            max_artifact_size=accept.number("max-artifact-size", DEFAULT_MAX_ARTIFACT_SIZE),
            duplicates=accept.one_of("duplicates", DUPLICATES, "allow"),
            retention=tuple(read_class(table) for table in top.tables("retention")),
            issuers=tuple(read_issuer(table) for table in top.tables("issuer")),
        )
        for table in (policy_key_table, accept, top):
            table.done()
        return policy

    @classmethod
    def heading(cls, data: bytes) -> Policy:
        """The policy without its issuers, in the time its own members take. For the chain, which asks for no more.

        Issuers come last in what we write: the text is cut before them if nothing but issuers follows. What is laid
        out otherwise is read whole.
        """
        try:
            return replace(cls.from_toml(_without_issuers(data)), issuers=())
        except MalformedError:
            # Cut in the wrong place (a heading inside a string), or wrong as a whole: the whole tells.
            return replace(cls.from_toml(data), issuers=())

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
        if self.max_artifact_size != DEFAULT_MAX_ARTIFACT_SIZE:
            lines.append(f"max-artifact-size = {self.max_artifact_size}")
        if self.duplicates != "allow":
            lines.append(f"duplicates = {quote(self.duplicates)}")
        for each in self.retention:
            lines += class_lines(each)
        for issuer in self.issuers:
            lines += issuer_lines(issuer)
        return ("\n".join(lines) + "\n").encode("utf-8")

    def check(self) -> None:
        """Refuse what reads well but cannot be meant. Called on everything that is read or about to be signed."""
        for problem in contradictions.find(self):
            raise MalformedError(problem.text)

    # -- asking ----------------------------------------------------------------------------------------------------

    def issuer(self, iss: str) -> Issuer | None:
        """The issuer that stands in the document under this very name: an iss, or a pattern."""
        return next((issuer for issuer in self.issuers if issuer.name == iss), None)

    def rule_for(self, iss: str) -> Issuer | None:
        """The issuer whose rules a statement by *iss* is judged by: exact, then the longest pattern."""
        if not self._index:
            self._index.append(Index(self.issuers))
        return self._index[0].find(iss)

    def retention_class(self, name: str) -> RetentionClass:
        """The class *name*. One that nobody defined is not in a policy that was checked, and is kept as the default."""
        known = {**retention.BUILT_IN, **{each.name: each for each in self.retention}}
        return known.get(name) or known[retention.DEFAULT]

    def artifact_limit(self, iss: Collection[str] | None = None) -> int:
        """Bytes of the largest artifact that may be kept for one of *iss*; None is whoever may register."""
        if iss is None:
            return self.max_artifact_size
        rules = (self.rule_for(each) for each in iss)
        return max((_narrower(self.max_artifact_size, rule.max_artifact_size) for rule in rules if rule), default=0)

    # -- the next generation ---------------------------------------------------------------------------------------

    def with_issuer(
        self,
        iss: str,
        keys: tuple[PublicKey, ...],
        *,
        previous: str,
        roots: tuple[Root, ...] = (),
        is_pattern: bool = False,
    ) -> Policy:
        """The next generation, in which *iss* may sign with *keys* and *roots* besides those it had."""

        def more(old: Issuer) -> Issuer:
            have = {key.kid: key.thumbprint for key in old.keys}
            if any(have.get(key.kid, key.thumbprint) != key.thumbprint for key in keys):
                raise MalformedError(f"policy.issuer {iss!r} has another key under that kid; remove it first")
            return replace(
                old,
                keys=old.keys + tuple(key for key in keys if key.kid not in have),
                roots=old.roots + tuple(root for root in roots if root not in old.roots),
            )

        if self.issuer(iss) is None:
            new = Issuer(pattern=iss) if is_pattern else Issuer(iss)
            return self.following(previous, (*self.issuers, more(new)))
        return self._changed(iss, more, previous)

    def without_issuer(self, iss: str, *, previous: str, kid: bytes | None = None) -> Policy:
        """The next generation, without *iss*, or without its key *kid*."""

        def less(old: Issuer) -> Issuer | None:
            keys = tuple(key for key in old.keys if key.kid != kid)
            validity = tuple(each for each in old.validity if each.kid != kid)
            return replace(old, keys=keys, validity=validity) if kid is not None and (keys or old.roots) else None

        return self._changed(iss, less, previous)

    def with_compromise(
        self, iss: str, key: PublicKey, since: int, *, previous: str, is_pattern: bool = False
    ) -> Policy:
        """The next generation, in which *key* of *iss* signs nothing any more, under whatever kid it is there.

        One that is not there (removed, or known by its certificate only) is put there so.
        """
        known = self.issuer(iss)
        there = known is not None and any(each.thumbprint == key.thumbprint for each in known.keys)
        policy = self.with_issuer(iss, () if there else (key,), previous=previous, is_pattern=is_pattern)

        def marked(old: Issuer) -> Issuer:
            bounds = {each.kid: each for each in old.validity}
            for each in old.keys:
                if each.thumbprint == key.thumbprint:
                    bounds[each.kid] = replace(old.validity_of(each.kid), compromised_since=since)
            return replace(old, validity=tuple(bounds[each.kid] for each in old.keys if each.kid in bounds))

        return replace(policy, issuers=tuple(marked(each) if each.name == iss else each for each in policy.issuers))

    def _changed(self, iss: str, change: Callable[[Issuer], Issuer | None], previous: str) -> Policy:
        changed = (change(issuer) if issuer.name == iss else issuer for issuer in self.issuers)
        return self.following(previous, tuple(issuer for issuer in changed if issuer is not None))

    def following(self, previous: str, issuers: tuple[Issuer, ...] | None = None) -> Policy:
        """This policy as the generation after itself, with other *issuers*."""
        policy = replace(
            self,
            generation=self.generation + 1,
            previous=previous,
            issuers=self.issuers if issuers is None else issuers,
        )
        policy.check()
        return policy


def _narrower(limit: int, own: int | None) -> int:
    return limit if own is None else min(limit, own)


def _without_issuers(data: bytes) -> bytes:
    start = data.find(b"\n[[issuer]]")
    if start < 0:
        return data
    headings = set(re.findall(rb"^\s*\[.*$", data[start:], re.MULTILINE))
    return data[:start] if headings <= _ISSUER_HEADINGS else data
