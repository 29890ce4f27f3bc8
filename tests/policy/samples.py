"""Policies and statements for the tests of the policy language."""

from __future__ import annotations

import json
from typing import Any

from transparency.cose import labels
from transparency.cose.base64url import encode
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import sign1
from transparency.cose.x509 import write_chain, write_x5t
from transparency.policy.document import Policy
from transparency.statements.statement import Statement, sign_envelope, sign_statement
from transparency.testing.pki import Authority, Holder

ISS = "https://acme.example/agents/7"
NOW = 1_780_000_000
POLICY_KEY = PrivateKey.generate(-8)
KEY = PrivateKey.generate(-7)
OTHER = PrivateKey.generate(-35)
ROOT = Authority.create("Acme Root")
LEAF = ROOT.authority("Acme Issuing").leaf("agent-7")

VAC = {
    "version": "3.0.0-draft",
    "id": "r1",
    "session": {
        "session-id": "s1",
        "agent-meta": {"model-id": "m", "model-provider": "p"},
        "entries": [{"type": "user", "content": "hi", "timestamp": "2026-01-01T00:00:00Z"}],
    },
}
CLAUDE = {
    "type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z",
    "message": {"role": "user", "content": "hi"}, "version": "1.0.0", "cwd": "/x",
}  # fmt: skip


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def key_table(key: PrivateKey, *more: str) -> str:
    lines = [
        "[[issuer.key]]",
        f'kid = "{encode(key.public.kid)}"',
        f'pem = """\n{key.public.to_pem().decode()}"""',
        *more,
    ]
    return "\n".join(lines) + "\n"


def root_table(root: Holder = ROOT, *more: str) -> str:
    return "\n".join(["[[issuer.root]]", f'pem = """\n{root.pem.decode()}"""', *more]) + "\n"


def document(
    *,
    accept: str = "",
    issuer: str = "",
    tables: str | None = None,
    name: str = f'iss = "{ISS}"',
    extra: str = "",
    algorithms: str = '["ES256", "ES384"]',
    content_types: str = '["*"]',
) -> bytes:
    """A policy for one issuer, as an operator writes it: *issuer* are members of it, *tables* its keys and roots."""
    if tables is None:
        tables = key_table(KEY) + key_table(OTHER) + root_table()
    return f'''\
version = 1
log = "log.example"
generation = 1
previous = ""

[policy-key]
kid = "{encode(POLICY_KEY.public.kid)}"
pem = """
{POLICY_KEY.public.to_pem().decode()}"""

[accept]
algorithms = {algorithms}
content-types = {content_types}
max-statement-size = 100000
{accept}

[[issuer]]
{name}
{issuer}
{tables}
{extra}
'''.encode()


def policy(**parts: str) -> Policy:
    return Policy.from_toml(document(**parts))


def statement(payload: bytes = b"{}", key: PrivateKey = KEY, **options: Any) -> Statement:
    options = {"iss": ISS, "sub": "s", "content_type": "application/json", **options}
    return Statement.from_bytes(sign_statement(payload, key, **options))


def envelope(**options: Any) -> Statement:
    options = {"iss": ISS, "sub": "s", "preimage_content_type": "application/jsonl", **options}
    return Statement.from_bytes(sign_envelope(bytes(32), KEY, **options))


def certified(leaf: Holder = LEAF, *, protected: bool = True, kid: bytes | None = None, iss: str = ISS) -> Statement:
    """A statement by the holder of a certificate: its chain is protected, or stands beside a protected x5t or kid."""
    chain = write_chain(leaf.chain)
    headers: dict[int | str, Any] = {
        labels.ALG: leaf.signer.alg,
        labels.CWT_CLAIMS: {labels.CLAIM_ISS: iss, labels.CLAIM_SUB: "s"},
        labels.CONTENT_TYPE: "application/json",
    }
    if kid is not None:
        headers[labels.KID] = kid
    elif protected:
        headers[labels.X5CHAIN] = chain
    else:
        headers[labels.X5T] = write_x5t(leaf.der)
    unprotected: dict[int | str, Any] = {} if protected and kid is None else {labels.X5CHAIN: chain}
    return Statement.from_bytes(sign1(headers, b"{}", leaf.signer, unprotected=unprotected).to_bytes())


def forged() -> Statement:
    good = statement()
    return Statement.from_bytes(good.normalised[:-64] + bytes(64))
