"""A SCITT transparency log for AI-agent records: sign, register, verify offline.

    >>> from transparency import PrivateKey, sign
    >>> key = PrivateKey.generate(-7)                                            # ES256
    >>> statement = sign(b"hello", key, iss="https://acme.example", sub="greeting")

then ``submit(statement, "https://log.example")`` registers it and ``verify(…)`` checks it, with no network. Names are
imported when first used: the pure parts need no aiohttp.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transparency.client.client import LogClient as LogClient
    from transparency.client.client import Submission as Submission
    from transparency.client.face import sign as sign
    from transparency.client.face import submit as submit
    from transparency.client.many import verify_many as verify_many
    from transparency.client.sync import SyncLogClient as SyncLogClient
    from transparency.cose.keys import PrivateKey as PrivateKey
    from transparency.cose.keys import PublicKey as PublicKey
    from transparency.cose.keys import read_public_keys as read_public_keys
    from transparency.errors import TransparencyError as TransparencyError
    from transparency.statements.receipt import Receipt as Receipt
    from transparency.statements.statement import Statement as Statement
    from transparency.statements.transparent import attach_receipts as attach_receipts
    from transparency.verifier import Report as Report
    from transparency.verifier import TrustStore as TrustStore
    from transparency.verifier import verify as verify

_HOME = {
    "LogClient": "transparency.client.client",
    "PrivateKey": "transparency.cose.keys",
    "PublicKey": "transparency.cose.keys",
    "Receipt": "transparency.statements.receipt",
    "Report": "transparency.verifier",
    "Statement": "transparency.statements.statement",
    "Submission": "transparency.client.client",
    "SyncLogClient": "transparency.client.sync",
    "TransparencyError": "transparency.errors",
    "TrustStore": "transparency.verifier",
    "attach_receipts": "transparency.statements.transparent",
    "read_public_keys": "transparency.cose.keys",
    "sign": "transparency.client.face",
    "submit": "transparency.client.face",
    "verify": "transparency.verifier",
    "verify_many": "transparency.client.many",
}

__all__ = [
    "LogClient",
    "PrivateKey",
    "PublicKey",
    "Receipt",
    "Report",
    "Statement",
    "Submission",
    "SyncLogClient",
    "TransparencyError",
    "TrustStore",
    "attach_receipts",
    "read_public_keys",
    "sign",
    "submit",
    "verify",
    "verify_many",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
