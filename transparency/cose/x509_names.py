"""What a leaf certificate must be called: subject attributes and alternative names that a root's owner requires.

A required alternative name is ``dns:``, ``uri:`` or ``email:`` and a pattern. In a host name ``*`` is one label; in the
rest of a URI it is anything within one path segment, and ``**`` anything at all. ``email:*@acme.example`` is any
mailbox there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from transparency.errors import MalformedError

ATTRIBUTES: Final[Mapping[str, x509.ObjectIdentifier]] = {
    "CN": NameOID.COMMON_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "serialNumber": NameOID.SERIAL_NUMBER,
}
"""The subject attributes that may be required. Not emailAddress: CAs' name constraints are not applied to it."""

_KINDS: Final[Mapping[str, type[x509.DNSName | x509.UniformResourceIdentifier | x509.RFC822Name]]] = {
    "dns": x509.DNSName,
    "uri": x509.UniformResourceIdentifier,
    "email": x509.RFC822Name,
}
_LABEL: Final = "[^./:@?#]+"
_SEGMENT: Final = "[^/?#]*"


def subject_has(subject: x509.Name, required: Mapping[str, str]) -> str:
    """The first required attribute that *subject* does not have, once and with that value; empty where all are."""
    for attribute, value in required.items():
        found = subject.get_attributes_for_oid(ATTRIBUTES[attribute])
        if [item.value for item in found] != [value]:
            return attribute
    return ""


def any_name_matches(names: x509.SubjectAlternativeName | None, required: Sequence[str]) -> bool:
    """Whether one of the alternative names is one of the *required*; nothing required is nothing to match."""
    if not required:
        return True
    if names is None:
        return False
    for requirement in required:
        kind, pattern = compiled(requirement)
        if any(pattern.fullmatch(item) for item in names.get_values_for_type(kind)):
            return True
    return False


@lru_cache(maxsize=1024)
def compiled(
    requirement: str,
) -> tuple[type[x509.DNSName | x509.UniformResourceIdentifier | x509.RFC822Name], re.Pattern[str]]:
    """A required alternative name, ready to match; MalformedError where it is none."""
    kind, _, pattern = requirement.partition(":")
    if kind not in _KINDS or not pattern or not pattern.isascii() or not pattern.isprintable():
        msg = "a required name is dns:, uri: or email: and an ASCII pattern, as dns:*.acme.example"
        raise MalformedError(msg)
    if kind == "dns":
        return _KINDS[kind], re.compile(_host(pattern), re.IGNORECASE | re.ASCII)
    if kind == "email":
        mailbox, _, host = pattern.rpartition("@")
        if not mailbox or not host:
            raise MalformedError("a required email name is a mailbox, @ and a host, as email:*@acme.example")
        local = "[^@]+" if mailbox == "*" else re.escape(mailbox)
        return _KINDS[kind], re.compile(f"{local}@(?i:{_host(host)})", re.ASCII)
    scheme, slashes, rest = pattern.partition("://")
    if not slashes:
        return _KINDS[kind], re.compile(_path(pattern), re.ASCII)
    host, slash, path = rest.partition("/")
    return _KINDS[kind], re.compile(f"{re.escape(scheme)}://(?i:{_host(host)}){slash}{_path(path)}", re.ASCII)


def _host(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", _LABEL)


def _path(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", _SEGMENT)
