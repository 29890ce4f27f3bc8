"""What reads well but cannot be meant: members that no statement can satisfy, or that say two things.

A document that stands on a log is read for ever. So nothing is refused here that was once accepted: what is new are
only rules about new members.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PublicKey
from transparency.cose.x509_names import ATTRIBUTES, compiled
from transparency.cose.x509_path import Root, check_root
from transparency.errors import CertificateError, MalformedError
from transparency.policy import names, retention
from transparency.policy.issuer import Issuer
from transparency.policy.patterns import Pattern
from transparency.policy.toml_lines import Path

if TYPE_CHECKING:
    from transparency.policy.document import Policy

# What one batch of the sequencer holds: a larger statement could be accepted and never sequenced.
GREATEST_STATEMENT: Final = 16 * 1024 * 1024
GREATEST_ARTIFACT: Final = 2**40
GREATEST_SKEW: Final = 24 * 3600
LAST_TIME: Final = 253_402_300_799  # the end of the year 9999, after which TOML has no times
_OID: Final = re.compile(r"[0-2](?:\.(?:0|[1-9][0-9]{0,9})){1,32}")


@dataclass(frozen=True, slots=True)
class Problem:
    """One contradiction, and the path of the member that has it."""

    path: Path
    text: str


def find(policy: Policy) -> Iterator[Problem]:
    """Every contradiction in *policy*, in the order of the document."""
    if not policy.log or policy.generation < 1:
        yield Problem(
            ("log",) if not policy.log else ("generation",), "policy.log is empty or policy.generation is not 1 or more"
        )
    if (policy.generation == 1) != (policy.previous == ""):
        yield Problem(("previous",), "policy.previous is empty in generation 1, and only there")
    yield from _accept(policy)
    yield from _retention(policy)
    seen: set[str] = set()
    for number, issuer in enumerate(policy.issuers):
        path: Path = ("issuer", number)
        if issuer.name in seen:
            yield Problem(path, f"policy.issuer {issuer.name!r} stands there twice")
        seen.add(issuer.name)
        for problem in (*_identity(issuer, policy), *_narrowing(issuer, policy), *_demands(issuer)):
            yield Problem(path + problem.path, f"policy.issuer {issuer.name!r} {problem.text}")
        if issuer.retention not in retention.BUILT_IN and all(
            issuer.retention != each.name for each in policy.retention
        ):
            yield Problem((*path, "retention"), f"policy.issuer {issuer.name!r} names an unknown retention class")


def _accept(policy: Policy) -> Iterator[Problem]:
    unknown = [name for name in policy.algorithms if name not in names.ALGORITHM_NAMES]
    if unknown:
        yield Problem(
            ("accept", "algorithms"), f"policy.accept.algorithms names unknown algorithms: {', '.join(unknown)}"
        )
    if not 1 <= policy.max_statement_size <= GREATEST_STATEMENT:
        yield Problem(
            ("accept", "max-statement-size"), f"policy.accept.max-statement-size is 1 to {GREATEST_STATEMENT}"
        )
    if not 0 <= policy.max_artifact_size <= GREATEST_ARTIFACT:
        yield Problem(("accept", "max-artifact-size"), f"policy.accept.max-artifact-size is 0 to {GREATEST_ARTIFACT}")
    if policy.clock_skew > GREATEST_SKEW:
        yield Problem(("accept", "clock-skew"), f"policy.accept.clock-skew is at most {GREATEST_SKEW} seconds")


def _retention(policy: Policy) -> Iterator[Problem]:
    seen = set(retention.BUILT_IN) - {retention.DEFAULT}
    for number, each in enumerate(policy.retention):
        if not each.name or each.name in seen:
            yield Problem(
                ("retention", number, "name"),
                f"policy.retention {each.name!r} has no name, one that is built in, or one that stands there twice",
            )
        seen.add(each.name)


def _identity(issuer: Issuer, policy: Policy) -> Iterator[Problem]:
    if bool(issuer.iss) == bool(issuer.pattern):
        yield Problem((), "has an iss or a pattern that is not empty: exactly one of them")
    if issuer.pattern:
        try:
            Pattern(issuer.pattern)
        except MalformedError as error:
            yield Problem(("pattern",), f"cannot be matched: {error}")
    if not issuer.keys and not issuer.roots:
        yield Problem((), "has no key and no root, so it cannot sign")
    kids: set[bytes] = set()
    for number, key in enumerate(issuer.keys):
        if key.kid in kids:
            yield Problem(("key", number), "has two keys with one kid")
        kids.add(key.kid)
        yield from _key(issuer, number, key, policy.policy_key)
    if {each.kid for each in issuer.validity} - {key.kid for key in issuer.keys}:
        yield Problem(("key",), "bounds a key that it does not have")
    for number, root in enumerate(issuer.roots):
        yield from (Problem(("root", number, *problem.path), problem.text) for problem in _root(root))


def _key(issuer: Issuer, number: int, key: PublicKey, policy_key: PublicKey) -> Iterator[Problem]:
    if key.thumbprint == policy_key.thumbprint:
        # One key, one set of statements: a policy key that also issues records could be made to sign a policy.
        yield Problem(("key", number), "uses the policy key; keys are single-purpose")
    bounds = issuer.validity_of(key.kid)
    times = (bounds.not_before, bounds.not_after, bounds.compromised_since)
    if any(at is not None and not 0 <= at <= LAST_TIME for at in times):
        yield Problem(("key", number), "has a key with a time that no calendar has")
    if bounds.not_before is not None and bounds.not_after is not None and bounds.not_before > bounds.not_after:
        yield Problem(("key", number, "not-after"), "has a key whose not-after is before its not-before")


def _root(root: Root) -> Iterator[Problem]:
    try:
        check_root(root.der)
    except CertificateError as error:
        yield Problem(("pem",), f"has a root that cannot be one: {error}")
    unknown = [name for name in root.subject if name not in ATTRIBUTES]
    if unknown:
        yield Problem(("subject",), f"requires subject attributes that are none of {', '.join(ATTRIBUTES)}")
    for name in root.sans:
        try:
            compiled(name)
        except MalformedError as error:
            yield Problem(("san",), f"requires an alternative name that is none: {error}")
    if any(_OID.fullmatch(oid) is None for oid in root.ekus):
        yield Problem(("eku",), "requires an extended key usage that is not a dotted number, as 1.3.6.1.5.5.7.3.3")


def _narrowing(issuer: Issuer, policy: Policy) -> Iterator[Problem]:
    """An issuer narrows [accept]: more than that it cannot be given here."""
    numbers = names.algorithm_numbers(policy.algorithms)
    beyond = [
        name
        for name in issuer.algorithms
        if name not in names.ALGORITHM_NAMES or names.algorithm_numbers((name,)).isdisjoint(numbers)
    ]
    if beyond:
        yield Problem(("algorithms",), f"names algorithms that [accept] does not allow: {', '.join(beyond)}")
    wider = [kind for kind in issuer.content_types if not any(covers(each, kind) for each in policy.content_types)]
    if wider:
        yield Problem(("content-types",), f"names content types that [accept] does not allow: {', '.join(wider)}")
    sizes = (
        ("max-statement-size", issuer.max_statement_size, policy.max_statement_size),
        ("max-artifact-size", issuer.max_artifact_size, policy.max_artifact_size),
    )
    for name, own, most in sizes:
        if own is not None and not 0 < own <= most:
            yield Problem((name,), f"has a {name} of {own}; [accept] allows 1 to {most}")
    if issuer.duplicates == "allow" and policy.duplicates == "refuse":
        yield Problem(("duplicates",), "allows duplicates, which [accept] refuses to all")
    usable = names.algorithm_numbers(issuer.algorithms) & numbers
    if usable and issuer.keys and not issuer.roots and not any(_fits(key, usable) for key in issuer.keys):
        yield Problem(("algorithms",), "names only algorithms that none of its keys can sign with")


def covers(wide: str, narrow: str) -> bool:
    """Whether the pattern *wide* of content types takes all that *narrow* takes."""
    return wide == narrow or (not set(wide) & set("?[") and fnmatchcase(narrow, wide))


def _fits(key: PublicKey, numbers: frozenset[int]) -> bool:
    if key.alg is not None:
        return bool(names.algorithm_numbers((ALGORITHMS[key.alg].name,)) & numbers)
    return any(ALGORITHMS[number].kty_name == key.kty_name for number in numbers)


def _demands(issuer: Issuer) -> Iterator[Problem]:
    """What a statement must carry, against what it may not."""
    if issuer.max_age is not None and issuer.max_age < 1:
        yield Problem(("max-age",), "has a max-age of 0, which no statement can meet")
    unknown = [name for name in issuer.required_claims if names.claim_number(name) is None]
    if unknown:
        yield Problem(
            ("required-claims",), f"requires claims that are neither numbers nor one of {', '.join(names.CLAIMS)}"
        )
    if labels.VDS in issuer.required_labels:
        yield Problem(("required-labels",), "requires label 395, which makes a receipt of a statement")
    demanded = set(issuer.required_labels)
    if issuer.envelope == "refused" and demanded & names.ENVELOPE_LABELS:
        yield Problem(("required-labels",), "requires a label of hash envelopes and refuses hash envelopes")
    if issuer.envelope == "required" and labels.CONTENT_TYPE in demanded:
        yield Problem(("required-labels",), "requires label 3, which no hash envelope carries (RFC 9995 §4)")
    if labels.CONTENT_TYPE in demanded and demanded & names.ENVELOPE_LABELS:
        yield Problem(("required-labels",), "requires label 3 and one of hash envelopes, which never stand together")
    yield from _records(issuer)


def _records(issuer: Issuer) -> Iterator[Problem]:
    records = issuer.records
    unknown = [name for name in records.formats if name not in names.FORMATS]
    if unknown:
        yield Problem(("records", "formats"), f"accepts unknown record formats: {', '.join(unknown)}")
    if any(profile not in names.PROFILES for profile in records.profiles):
        yield Problem(("records", "profiles"), f"accepts profiles that are none of {', '.join(names.PROFILES)}")
    accepted = [each for name in records.formats for each in names.FORMATS.get(name, ())]
    vac = not accepted or any(each in names.VAC for each in accepted)
    if records.profiles and not vac:
        yield Problem(("records", "profiles"), "accepts profiles of VAC, and no format that is VAC")
    if issuer.envelope == "required" and records.check != "any":
        yield Problem(
            ("records", "check"), "requires a hash envelope and a check of the record, which it does not carry"
        )
    if issuer.envelope == "required" and records.profiles:
        yield Problem(("records", "profiles"), "requires a hash envelope and a profile, which it does not say")
