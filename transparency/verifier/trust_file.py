"""``trust.toml``: a trust store as a file that people write and review.

    [[log]]
    iss = "https://log.example"          # who runs it; must be the receipt's iss
    origin = "log.example/tlog"          # must be the receipt's sub
    leaf = "digest"                      # or "raw", "nil-payload" for other services' conventions
    keys = [
      "log-keys.cbor",                   # a file: PEM, DER, JWK, JWK set, COSE_Key or COSE_KeySet
      "cose-key:pQECAl...",              # or a COSE_Key in base64url
      { file = "old.pem", not-after = 2026-12-31T00:00:00Z, compromised-since = 2026-06-01T00:00:00Z },
    ]

    [[issuer]]
    iss = "https://issuer.example"
    keys = ["issuer.pub.pem"]            # with the same dates; or roots of its certificates, or both (trust_roots.py)
    roots = [{ file = "ca.pem", subject = { O = "Acme" } }]

Unknown members are refused: a misspelt ``compromised-since`` must not go unnoticed.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from transparency.cose import base64url
from transparency.cose.keys import PublicKey, read_public_keys
from transparency.errors import MalformedError
from transparency.policy import toml
from transparency.verifier.trust import LEAVES, IssuerTrust, Leaf, LogTrust, TrustedKey, TrustStore
from transparency.verifier.trust_roots import read_roots

MAX_TRUST_BYTES: Final = 4 * 1024 * 1024
MAX_KEY_FILE_BYTES: Final = 1024 * 1024
_INLINE: Final = "cose-key:"


def read_trust(data: bytes, folder: Path | None = None) -> TrustStore:
    """The trust store that ``data`` describes; MalformedError naming the table and member that is wrong."""
    if len(data) > MAX_TRUST_BYTES:
        _refuse("trust file", f"has more than {MAX_TRUST_BYTES} bytes")
    document = toml.load(data, "trust file")
    _closed("trust file", document, {"log", "issuer"})
    logs = tuple(_log(where, table, folder) for where, table in _tables(document, "log"))
    issuers = tuple(_issuer(where, table, folder) for where, table in _tables(document, "issuer"))
    return TrustStore(logs, issuers)


def write_log(log: LogTrust) -> str:
    """The ``[[log]]`` table of a log, with its keys in the file itself."""
    lines = ["[[log]]"]
    lines += [f"{name} = {toml.quote(value)}" for name, value in (("iss", log.iss), ("origin", log.origin)) if value]
    if log.leaf != "digest":
        lines.append(f"leaf = {toml.quote(log.leaf)}")
    lines.append("keys = [")
    for trusted in log.keys:
        members = [f"cose-key = {toml.quote(base64url.encode(trusted.key.to_cose_key_bytes()))}"]
        times = (("not-after", trusted.not_after), ("compromised-since", trusted.compromised_since))
        members += [f"{name} = {toml.write_time(time)}" for name, time in times if time is not None]
        lines += [f"  # {trusted.key.thumbprint.hex()}", f"  {{ {', '.join(members)} }},"]
    return "\n".join([*lines, "]", ""])


def _tables(document: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    tables = document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        _refuse("trust file", f"{name} is written [[{name}]]")
    return [(f"[[{name}]] number {number}", table) for number, table in enumerate(tables, 1)]


def _log(where: str, table: dict[str, Any], folder: Path | None) -> LogTrust:
    _closed(where, table, {"iss", "origin", "leaf", "keys"})
    keys = tuple(key for item in _keys(where, table) for key in _trusted_keys(where, item, folder))
    return LogTrust(
        keys, _text(where, table, "iss"), _text(where, table, "origin"), _leaf(where, table.get("leaf", "digest"))
    )


def _issuer(where: str, table: dict[str, Any], folder: Path | None) -> IssuerTrust:
    _closed(where, table, {"iss", "keys", "roots"})
    roots = read_roots(where, table["roots"], lambda name: _file(where, name, folder)) if "roots" in table else ()
    items = _keys(where, table) if "keys" in table or not roots else []
    trusted = [key for item in items for key in _trusted_keys(where, item, folder)]
    ended = tuple(each for each in trusted if each.not_after is not None or each.compromised_since is not None)
    return IssuerTrust(tuple(each.key for each in trusted), _text(where, table, "iss"), roots, ended)


def _leaf(where: str, value: object) -> Leaf:
    named = next((leaf for leaf in LEAVES if leaf == value), None)
    if named is None:
        _refuse(where, "leaf is one of " + ", ".join(LEAVES))
    return named


def _keys(where: str, table: dict[str, Any]) -> list[Any]:
    keys = table.get("keys")
    if not isinstance(keys, list) or not keys:
        _refuse(where, "keys is a list of at least one key")
    return keys


def _trusted_keys(where: str, item: object, folder: Path | None) -> list[TrustedKey]:
    not_after = compromised_since = None
    if isinstance(item, dict):
        _closed(where, item, {"file", "cose-key", "not-after", "compromised-since"})
        not_after, compromised_since = _time(where, item, "not-after"), _time(where, item, "compromised-since")
    return [TrustedKey(key, not_after, compromised_since) for key in _read(where, item, folder)]


def _read(where: str, item: object, folder: Path | None) -> list[PublicKey]:
    """A string names a file, or holds a key after ``cose-key:``; a table says which by its member."""
    if isinstance(item, dict):
        if ("file" in item) == ("cose-key" in item):
            _refuse(where, "a key has either file or cose-key")
        item = item["file"] if "file" in item else f"{_INLINE}{item['cose-key']}"
    if not isinstance(item, str):
        _refuse(where, "a key is a file name, a cose-key: text or a table")
    if item.startswith(_INLINE):
        return [PublicKey.from_cose_key_bytes(_base64url(where, item.removeprefix(_INLINE)))]
    return list(read_public_keys(_file(where, item, folder)))


def _file(where: str, name: str, folder: Path | None) -> bytes:
    try:
        with ((folder or Path()) / name).open("rb") as file:
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        msg = f"{where}: key file {name!r} cannot be read ({error.strerror})"
        raise MalformedError(msg) from None
    if len(data) > MAX_KEY_FILE_BYTES:
        _refuse(where, f"key file {name!r} has more than {MAX_KEY_FILE_BYTES} bytes")
    return data


def _base64url(where: str, text: str) -> bytes:
    try:
        return base64url.decode(text)
    except MalformedError as error:
        _refuse(where, f"cose-key: {error}")


def _text(where: str, table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        _refuse(where, f"{name} is a text that is not empty")
    return value


def _time(where: str, table: dict[str, Any], name: str) -> int | None:
    value = table.get(name)
    if value is None:
        return None
    # A local time would mean another moment on every machine.
    if not isinstance(value, datetime) or value.tzinfo is None:
        _refuse(where, f"{name} is a time with its offset, as 2026-12-31T00:00:00Z")
    return int(value.timestamp())


def _closed(where: str, table: dict[str, Any], members: set[str]) -> None:
    for name in table:
        if name not in members:
            _refuse(where, f"{name!r} is not one of {', '.join(sorted(members))}")


def _refuse(where: str, what: str) -> NoReturn:
    msg = f"{where}: {what}"
    raise MalformedError(msg)
