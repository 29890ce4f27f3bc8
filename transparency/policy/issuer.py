"""One issuer in a policy: who it is, how it proves that, and what it may register. Each member has its TOML name.

An issuer narrows what ``[accept]`` allows to all; it never widens it. What a member leaves at its default is not
written, so a document that does not use it has the bytes it always had.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final

from transparency.cose.keys import PublicKey
from transparency.cose.x509 import read_certificates
from transparency.cose.x509_path import Root
from transparency.errors import CertificateError
from transparency.policy import retention
from transparency.policy.toml import Table, key_lines, quote, quote_list, quote_map, write_time

ENVELOPE: Final = ("allowed", "required", "refused")
DUPLICATES: Final = ("allow", "refuse")
CHECK: Final = ("any", "warn", "clean")


@dataclass(frozen=True, slots=True)
class Validity:
    """When the key *kid* may sign, by the time of the decision. Since a compromise, whenever that was, never."""

    kid: bytes
    not_before: int | None = None
    not_after: int | None = None
    compromised_since: int | None = None

    @property
    def bounds_nothing(self) -> bool:
        return self.not_before is None and self.not_after is None and self.compromised_since is None


@dataclass(frozen=True, slots=True)
class Records:
    """Which records: their formats, the profiles of VAC ones, and how clean they must check. Empty: all."""

    formats: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    check: str = "any"

    @property
    def any(self) -> bool:
        return self == Records()


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer by its exact ``iss`` (or all whose iss matches ``pattern``), with keys and certificate roots."""

    iss: str = ""
    keys: tuple[PublicKey, ...] = ()
    pattern: str = ""
    validity: tuple[Validity, ...] = ()
    roots: tuple[Root, ...] = ()
    algorithms: tuple[str, ...] = ()
    content_types: tuple[str, ...] = ()
    max_statement_size: int | None = None
    max_artifact_size: int | None = None
    duplicates: str | None = None
    envelope: str = "allowed"
    required_labels: tuple[int | str, ...] = ()
    required_claims: tuple[int | str, ...] = ()
    max_age: int | None = None
    retention: str = retention.DEFAULT
    records: Records = field(default_factory=Records)

    @property
    def name(self) -> str:
        return self.iss or self.pattern

    def validity_of(self, kid: bytes) -> Validity:
        return next((each for each in self.validity if each.kid == kid), Validity(kid))


def read_issuer(table: Table) -> Issuer:
    keys: list[PublicKey] = []
    validity: list[Validity] = []
    if ("iss" in table) == ("pattern" in table):
        raise table.fault(None, "has an iss or a pattern: exactly one of them")
    name = "iss" if "iss" in table else "pattern"
    named = table.text(name)
    if not named:
        raise table.fault(name, "is empty")
    for each in table.tables("key"):
        key, bounds = _read_key(each)
        keys.append(key)
        if not bounds.bounds_nothing:
            validity.append(bounds)
    records = table.optional_table("records")
    issuer = Issuer(
        **{name: named},
        keys=tuple(keys),
        validity=tuple(validity),
        roots=tuple(_read_root(each) for each in table.tables("root")),
        algorithms=_some(table, "algorithms"),
        content_types=_some(table, "content-types"),
        max_statement_size=table.optional_number("max-statement-size"),
        max_artifact_size=table.optional_number("max-artifact-size"),
        duplicates=table.one_of("duplicates", DUPLICATES, "") if "duplicates" in table else None,
        envelope=table.one_of("envelope", ENVELOPE, "allowed"),
        required_labels=table.labels("required-labels"),
        required_claims=table.labels("required-claims"),
        max_age=table.optional_number("max-age"),
        retention=table.optional_text("retention") or retention.DEFAULT,
        records=Records() if records is None else _read_records(records),
    )
    table.done()
    return issuer


def _some(table: Table, name: str) -> tuple[str, ...]:
    """A list that says what is accepted: absent where it says nothing, and never empty, which would accept nothing."""
    if name not in table:
        return ()
    found = table.texts(name)
    if not found:
        raise table.fault(name, "is empty, so nothing at all would be accepted; leave it out to narrow nothing")
    return found


def _read_key(table: Table) -> tuple[PublicKey, Validity]:
    key = table.key()
    times = (table.optional_time(name) for name in ("not-before", "not-after", "compromised-since"))
    validity = Validity(key.kid, *times)
    table.done()
    return key, validity


def _read_root(table: Table) -> Root:
    try:
        certificates = read_certificates(table.text("pem").encode("utf-8"))
    except CertificateError as error:
        raise table.fault("pem", f"is not a certificate this log can use: {error}") from error
    if len(certificates) != 1:
        raise table.fault("pem", f"holds {len(certificates)} certificates; one root, one [[issuer.root]]")
    root = Root(certificates[0], table.text_map("subject"), _some(table, "san"), _some(table, "eku"))
    table.done()
    return root


def _read_records(table: Table) -> Records:
    records = Records(_some(table, "formats"), _some(table, "profiles"), table.one_of("check", CHECK, "any"))
    table.done()
    return records


def issuer_lines(issuer: Issuer) -> list[str]:
    lines = ["", "[[issuer]]", f"iss = {quote(issuer.iss)}" if issuer.iss else f"pattern = {quote(issuer.pattern)}"]
    lists: tuple[tuple[str, tuple[str | int, ...]], ...] = (
        ("algorithms", issuer.algorithms),
        ("content-types", issuer.content_types),
        ("required-labels", issuer.required_labels),
        ("required-claims", issuer.required_claims),
    )
    numbers = (
        ("max-statement-size", issuer.max_statement_size),
        ("max-artifact-size", issuer.max_artifact_size),
        ("max-age", issuer.max_age),
    )
    texts = (
        ("duplicates", issuer.duplicates, None),
        ("envelope", issuer.envelope, "allowed"),
        ("retention", issuer.retention, retention.DEFAULT),
    )
    lines += [f"{name} = {quote_list(items)}" for name, items in lists if items]
    lines += [f"{name} = {number}" for name, number in numbers if number is not None]
    lines += [f"{name} = {quote(text)}" for name, text, default in texts if text is not None and text != default]
    lines += _records_lines(issuer.records)
    for key in issuer.keys:
        lines += ["", "[[issuer.key]]", *key_lines(key), *_validity_lines(issuer.validity_of(key.kid))]
    for root in issuer.roots:
        lines += ["", "[[issuer.root]]", *_root_lines(root)]
    return lines


def _records_lines(records: Records) -> list[str]:
    if records.any:
        return []
    lines = ["", "[issuer.records]"]
    lines += [f"formats = {quote_list(records.formats)}"] if records.formats else []
    lines += [f"profiles = {quote_list(records.profiles)}"] if records.profiles else []
    return lines + ([f"check = {quote(records.check)}"] if records.check != "any" else [])


def _validity_lines(validity: Validity) -> list[str]:
    times = (
        ("not-before", validity.not_before),
        ("not-after", validity.not_after),
        ("compromised-since", validity.compromised_since),
    )
    return [f"{name} = {write_time(at)}" for name, at in times if at is not None]


def _root_lines(root: Root) -> list[str]:
    lines = [f'pem = """\n{_pem(root.der)}\n"""']
    lines += [f"subject = {quote_map(root.subject)}"] if root.subject else []
    lines += [f"san = {quote_list(root.sans)}"] if root.sans else []
    return lines + ([f"eku = {quote_list(root.ekus)}"] if root.ekus else [])


def _pem(der: bytes) -> str:
    body = base64.b64encode(der).decode("ascii")
    rows = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN CERTIFICATE-----\n{rows}\n-----END CERTIFICATE-----"
