"""What a benchmark of registrations ends with: every acknowledged receipt holds in the log that was killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from transparency.log.log import Found, Log
from transparency.policy import keyset
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement


def check_reopened(data: Path, acknowledged: Mapping[bytes, bytes | None]) -> int:
    """How many receipts verify, each for its statement, under the log's key, at the index where the entry stands."""
    return asyncio.run(_check(data, acknowledged))


async def _check(data: Path, acknowledged: Mapping[bytes, bytes | None]) -> int:
    log = Log.open(data)
    await log.start()
    good = 0
    heads: dict[bytes, bytes] = {}
    try:
        for sent, answer in acknowledged.items():
            entry = Statement.from_bytes(sent).entry
            found = log.lookup(entry)
            if answer is None or not isinstance(found, Found):
                raise SystemExit(f"an acknowledged statement is not in the log: {entry.hex()}")
            receipt = Receipt.from_bytes(answer)
            root = receipt.root_for(entry)
            if heads.get(receipt.message.protected) != root:
                key = next(key for key in log.service_keys.ever(keyset.RECEIPTS) if key.kid == receipt.kid)
                receipt.verify_signature(key, root)
                heads[receipt.message.protected] = root
            if receipt.inclusion[0].index != found.index:
                raise SystemExit(f"a receipt names another index than the log: {entry.hex()}")
            good += 1
    finally:
        await log.stop()
    return good
