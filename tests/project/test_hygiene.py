"""What must never be committed, and how large a module may grow."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.project.tree import ROOT, tracked

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_MODULE = 400

# The armour counts without a body too: whoever scans a repository for keys cannot tell, and code that looks for keys
# does with the armour's end.
PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
JWK = re.compile(rb"[\"']d[\"']\s*:\s*b?[\"'][A-Za-z0-9_-]{40,}[\"']")


def private_keys(data: bytes) -> bool:
    return bool(PEM.search(data) or JWK.search(data))


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_no_private_key_is_tracked() -> None:
    """Tests make their own keys as they run."""
    assert names([path for path in tracked() if private_keys(path.read_bytes())]) == []


def test_a_private_key_would_be_found_in_any_form_it_is_written_in() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    d = base64.urlsafe_b64encode(key.private_bytes_raw()).rstrip(b"=")

    assert private_keys(pem)
    assert private_keys(b'KEY = "' + pem.replace(b"\n", b"\\n") + b'"')
    assert private_keys(b"KEY = (\n" + b"\n".join(b'    b"' + line + b'\\n"' for line in pem.splitlines()) + b"\n)")
    assert private_keys(b'{"kty":"OKP", "d": "' + d + b'"}')
    assert not private_keys(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert private_keys(b'if b"-----BEGIN PRIVATE ' + b'KEY-----" in data: raise MalformedError("a private key")')


def test_no_database_mark_or_token_file_is_tracked() -> None:
    suffixes = {".sqlite", ".sqlite-wal", ".sqlite-shm", ".mark", ".sock"}

    assert names([path for path in tracked() if path.suffix in suffixes]) == []
    assert names(tracked("keys/*")) == ["keys/README.md"]


def test_no_module_is_longer_than_one_sitting() -> None:
    lengths = {path: path.read_bytes().count(b"\n") for path in tracked("*.py")}

    assert names([path for path, length in lengths.items() if length > LONGEST_MODULE]) == []


def test_text_files_end_in_one_newline_and_carry_no_trailing_blanks() -> None:
    kinds = {".py", ".md", ".toml", ".txt", ".yaml", ".service"}
    text = [path for path in tracked() if path.suffix in kinds and "fixtures" not in path.parts]

    def untidy(data: bytes) -> bool:
        return (
            bool(re.search(rb"[ \t]$", data, re.MULTILINE))
            or b"\r" in data
            or data[-2:] == b"\n\n"
            or (data != b"" and not data.endswith(b"\n"))
        )

    assert names([path for path in text if untidy(path.read_bytes())]) == []
