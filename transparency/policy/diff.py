"""What one policy allows that another does not: member by member, issuer by issuer, key by key.

*Widened* lets more statements in, *narrowed* fewer; *changed* is neither, or both. Generation and predecessor are the
document's place on the log, not what it allows, and are not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from transparency.cose.keys import PublicKey
from transparency.cose.x509_path import Root
from transparency.policy.document import Policy
from transparency.policy.issuer import CHECK, Issuer, Validity
from transparency.policy.retention import RetentionClass
from transparency.policy.toml import write_time

ADDED: Final = "added"
REMOVED: Final = "removed"
NARROWED: Final = "narrowed"
WIDENED: Final = "widened"
CHANGED: Final = "changed"
_T = TypeVar("_T")
# How much each lets in: of two numbers the larger is the wider.
_ENVELOPE: Final = {"allowed": 1, "required": 0, "refused": 0}
_DUPLICATES: Final = {"allow": 1, None: 1, "refuse": 0}
_CHECK: Final = {name: -number for number, name in enumerate(CHECK)}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: *where* it stands, and *what* it says in both."""

    kind: str
    where: str
    what: str


def compare(old: Policy, new: Policy) -> list[Change]:
    """Every difference, in the order of the document."""
    found = list(_accept(old, new))
    found += _named(
        "retention", {each.name: each for each in old.retention}, {each.name: each for each in new.retention}, _class
    )
    return found + _named(
        "issuer", {each.name: each for each in old.issuers}, {each.name: each for each in new.issuers}, _issuer
    )


def _accept(old: Policy, new: Policy) -> Iterator[Change]:
    if old.log != new.log:
        yield Change(CHANGED, "log", f"{old.log} → {new.log}")
    if old.policy_key != new.policy_key:
        before, after = old.policy_key.thumbprint.hex(), new.policy_key.thumbprint.hex()
        yield Change(CHANGED, "policy-key", f"{before} → {after}")
    yield from _set("accept.algorithms", old.algorithms, new.algorithms)
    yield from _types("accept.content-types", old.content_types, new.content_types)
    yield from _more("accept.max-statement-size", old.max_statement_size, new.max_statement_size)
    yield from _more("accept.clock-skew", old.clock_skew, new.clock_skew)
    yield from _more("accept.max-artifact-size", old.max_artifact_size, new.max_artifact_size)
    yield from _ranked("accept.duplicates", old.duplicates, new.duplicates, _DUPLICATES)


def _named(
    what: str, old: Mapping[str, _T], new: Mapping[str, _T], inside: Callable[[str, _T, _T], Iterator[Change]]
) -> list[Change]:
    found: list[Change] = []
    for name in (*old, *(name for name in new if name not in old)):
        where = f"{what} {name}"
        if name not in new:
            found.append(Change(REMOVED, where, ""))
        elif name not in old:
            found.append(Change(ADDED, where, ""))
        else:
            found += inside(where, old[name], new[name])
    return found


def _class(where: str, old: RetentionClass, new: RetentionClass) -> Iterator[Change]:
    if old != new:
        yield Change(CHANGED, where, f"{old.keep // 86_400} → {new.keep // 86_400} days")


def _issuer(where: str, old: Issuer, new: Issuer) -> Iterator[Change]:
    # Not said is all that [accept] allows.
    for name, before, after in (
        ("algorithms", old.algorithms, new.algorithms),
        ("records.formats", old.records.formats, new.records.formats),
        ("records.profiles", old.records.profiles, new.records.profiles),
    ):
        yield from _set(f"{where} {name}", before, after, empty_is_all=True)
    yield from _types(f"{where} content-types", old.content_types or ("*",), new.content_types or ("*",))
    for name, least, most in (
        ("max-statement-size", old.max_statement_size, new.max_statement_size),
        ("max-artifact-size", old.max_artifact_size, new.max_artifact_size),
        ("max-age", old.max_age, new.max_age),
    ):
        yield from _more(f"{where} {name}", least, most)
    # The more is required, the less comes in.
    yield from _set(f"{where} required-labels", new.required_labels, old.required_labels, swapped=True)
    yield from _set(f"{where} required-claims", new.required_claims, old.required_claims, swapped=True)
    yield from _ranked(f"{where} envelope", old.envelope, new.envelope, _ENVELOPE)
    yield from _ranked(f"{where} duplicates", old.duplicates, new.duplicates, _DUPLICATES)
    yield from _ranked(f"{where} records.check", old.records.check, new.records.check, _CHECK)
    if old.retention != new.retention:
        yield Change(CHANGED, f"{where} retention", f"{old.retention} → {new.retention}")
    yield from _keys(where, old, new)
    yield from _named(f"{where} root", _roots(old), _roots(new), _root)


def _keys(where: str, old: Issuer, new: Issuer) -> Iterator[Change]:
    before, after = ({key.kid.hex(): key for key in issuer.keys} for issuer in (old, new))

    def inside(place: str, one: PublicKey, other: PublicKey) -> Iterator[Change]:
        if one.thumbprint != other.thumbprint:
            yield Change(CHANGED, place, "another key under the same kid")
        if one.alg != other.alg:
            yield Change(CHANGED, f"{place} alg", f"{one.alg} → {other.alg}")
        yield from _validity(place, old.validity_of(one.kid), new.validity_of(other.kid))

    yield from _named(f"{where} key", before, after, inside)


def _validity(place: str, old: Validity, new: Validity) -> Iterator[Change]:
    starts = (-(old.not_before or 0), -(new.not_before or 0))
    told = f"{_time(old.not_before)} → {_time(new.not_before)}"
    yield from (Change(change.kind, change.where, told) for change in _more(f"{place} not-before", *starts))
    told = f"{_time(old.not_after)} → {_time(new.not_after)}"
    yield from (
        Change(each.kind, each.where, told) for each in _more(f"{place} not-after", old.not_after, new.not_after)
    )
    if old.compromised_since != new.compromised_since:
        kind = NARROWED if old.compromised_since is None else WIDENED if new.compromised_since is None else CHANGED
        told = f"{_time(old.compromised_since)} → {_time(new.compromised_since)}"
        yield Change(kind, f"{place} compromised-since", told)


def _roots(issuer: Issuer) -> dict[str, Root]:
    """By the certificate; one that is there twice, with other requirements, by its place too."""
    named: dict[str, Root] = {}
    for root in issuer.roots:
        digest = hashlib.sha256(root.der).hexdigest()
        named[digest if digest not in named else f"{digest} ({len(named) + 1})"] = root
    return named


def _root(where: str, old: Root, new: Root) -> Iterator[Change]:
    yield from _set(f"{where} subject", sorted(new.subject.items()), sorted(old.subject.items()), swapped=True)
    # One of them must match: the longer the list, the more come in; none asks for nothing.
    yield from _set(f"{where} san", old.sans, new.sans, empty_is_all=True)
    yield from _set(f"{where} eku", old.ekus, new.ekus, empty_is_all=True)


def _set(
    where: str, narrow: Sequence[Any], wide: Sequence[Any], *, empty_is_all: bool = False, swapped: bool = False
) -> Iterator[Change]:
    """From what *narrow* lets in to what *wide* does. *swapped*: the lists are given new first, for requirements."""
    old, new = (wide, narrow) if swapped else (narrow, wide)
    if set(old) == set(new):
        return
    less, more = set(narrow), set(wide)
    if (empty_is_all and not wide) or (less < more and not (empty_is_all and not narrow)):
        kind = WIDENED
    elif (empty_is_all and not narrow) or more < less:
        kind = NARROWED
    else:
        kind = CHANGED
    gone = [f"-{_shown(item)}" for item in old if item not in new]
    come = [f"+{_shown(item)}" for item in new if item not in old]
    yield Change(kind, where, " ".join((*gone, *come)))


def _types(where: str, old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    if set(old) == set(new):
        return
    if "*" in old or "*" in new:
        kind = CHANGED if "*" in old and "*" in new else NARROWED if "*" in old else WIDENED
        yield Change(kind, where, f"{', '.join(old)} → {', '.join(new)}")
        return
    yield from _set(where, old, new)


def _more(where: str, old: int | None, new: int | None) -> Iterator[Change]:
    """The larger the wider; none is no limit."""
    if old != new:
        wider = new is None or (old is not None and new > old)
        yield Change(WIDENED if wider else NARROWED, where, f"{_limit(old)} → {_limit(new)}")


def _ranked(where: str, old: str | None, new: str | None, ranks: Mapping[Any, int]) -> Iterator[Change]:
    if old != new:
        step = ranks[new] - ranks[old]
        yield Change(WIDENED if step > 0 else NARROWED if step < 0 else CHANGED, where, f"{old or '-'} → {new or '-'}")


def _shown(item: object) -> str:
    return "=".join(map(str, item)) if isinstance(item, tuple) else str(item)


def _limit(value: int | None) -> str:
    return "no limit" if value is None else str(value)


def _time(at: int | None) -> str:
    return "-" if at is None else write_time(at)
