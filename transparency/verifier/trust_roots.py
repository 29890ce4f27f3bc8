"""``roots`` of an issuer in ``trust.toml``: CA certificates, and what a certificate below each must be called.

[[issuer]]
iss = "https://issuer.example"
roots = [
  "ca.pem",
  { file = "ca.pem", subject = { O = "Acme" }, san = ["dns:*.acme.example"], eku = ["1.3.6.1.5.5.7.3.3"] },
]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from transparency.cose.x509 import read_certificates
from transparency.cose.x509_names import ATTRIBUTES, compiled
from transparency.cose.x509_path import Root, check_root
from transparency.errors import MalformedError, TransparencyError

_MEMBERS: Final = frozenset({"file", "subject", "san", "eku"})
_OID: Final = re.compile(r"[0-2](\.(0|[1-9][0-9]{0,38})){1,32}")


def read_roots(where: str, value: object, read: Callable[[str], bytes]) -> tuple[Root, ...]:
    """The roots that ``value`` describes; ``read`` gives the bytes of a file it names."""
    if not isinstance(value, list) or not value:
        _refuse(where, "roots is a list of at least one CA certificate")
    return tuple(root for item in value for root in _read_root(where, item, read))


def roots_of(data: bytes, what: str, requirements: Mapping[str, Any] | None = None) -> tuple[Root, ...]:
    """Every certificate of a file as a root; MalformedError naming *what* where one is none."""
    given = requirements or {}
    try:
        certificates = read_certificates(data)
        for der in certificates:
            check_root(der)
    except TransparencyError as error:
        _refuse(what, str(error))
    return tuple(
        Root(der, given.get("subject", {}), given.get("san", ()), given.get("eku", ())) for der in certificates
    )


def _read_root(where: str, item: object, read: Callable[[str], bytes]) -> tuple[Root, ...]:
    table = {"file": item} if isinstance(item, str) else item
    if not isinstance(table, dict) or not isinstance(table.get("file"), str):
        _refuse(where, "a root is the name of a certificate file, or a table with file")
    unknown = next((name for name in table if name not in _MEMBERS), None)
    if unknown is not None:
        _refuse(where, f"{unknown!r} is not one of {', '.join(sorted(_MEMBERS))}")
    subject = table.get("subject", {})
    if not isinstance(subject, dict) or not all(isinstance(value, str) and value for value in subject.values()):
        _refuse(where, 'subject is a table of texts, as { O = "Acme" }')
    if not subject.keys() <= ATTRIBUTES.keys():
        _refuse(where, f"subject has attributes that are not one of {', '.join(ATTRIBUTES)}")
    sans, ekus = _texts(where, table, "san"), _texts(where, table, "eku")
    for san in sans:
        try:
            compiled(san)
        except MalformedError as error:
            _refuse(where, f"san: {error}")
    if not all(_OID.fullmatch(oid) for oid in ekus):
        _refuse(where, "eku is a list of dotted numbers, as 1.3.6.1.5.5.7.3.3")
    file = table["file"]
    return roots_of(read(file), f"{where}: {file!r}", {"subject": subject, "san": sans, "eku": ekus})


def _texts(where: str, table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    # An empty list would read as "any", which is not what somebody who wrote it can have meant.
    if not isinstance(value, list) or (name in table and not value) or not all(isinstance(item, str) for item in value):
        _refuse(where, f"{name} is a list of at least one text")
    return tuple(value)


def _refuse(where: str, what: str) -> NoReturn:
    msg = f"{where}: {what}"
    raise MalformedError(msg)
