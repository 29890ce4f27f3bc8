"""A client for any SCRAPI-11 transparency service: sign a record, register it, wait for its receipt, check that.

``LogClient`` is asynchronous, ``SyncLogClient`` the same for everyone else. Names are imported when first used, so
that signing (pure) needs no aiohttp.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transparency.client.client import LogClient as LogClient
    from transparency.client.client import Submission as Submission
    from transparency.client.retry import Backoff as Backoff
    from transparency.client.signing import SignedRecord as SignedRecord
    from transparency.client.signing import sign_record as sign_record
    from transparency.client.sync import SyncLogClient as SyncLogClient

_HOME = {
    "Backoff": "retry",
    "LogClient": "client",
    "SignedRecord": "signing",
    "Submission": "client",
    "SyncLogClient": "sync",
    "sign_record": "signing",
}
__all__ = ["Backoff", "LogClient", "SignedRecord", "Submission", "SyncLogClient", "sign_record"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
