"""Watching for issuers, subjects and sessions: new entries that the log's own search finds.

Hash tiles show that entries are there, not what they say: statements are read with a token, from logs of this project.
What is found is the log's word, and so is what is *not* found. Whoever must not rely on that reads every new statement
(`transparency audit`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from transparency.client.client import LogClient
from transparency.client.search import SearchPage
from transparency.errors import UnreachableError
from transparency.witness.monitor_alarms import Match

KINDS: Final = ("issuer", "subject", "session")
PAGE: Final = 100


async def search_new(
    client: LogClient, origin: str, watch: tuple[str, str], start: int, size: int
) -> AsyncIterator[Match]:
    """Entries from *start* up to *size*, in order, that the log finds for a watch: one of KINDS, and its value."""
    kind, value = watch
    page: SearchPage | None = None
    after = start - 1
    while page is None or page.after is not None:
        place = [("size", str(size))] + ([("after", str(after))] if after >= 0 else [])
        page = await client.search([(kind, value), ("order", "oldest"), ("limit", str(PAGE)), *place])
        for hit in page.hits:
            if start <= hit.index < size:
                yield Match(origin, str(client.url), kind, value, hit.index, hit.entry_id)
        if page.after is not None and page.after <= after:
            # It would keep us here for ever, and whatever it does not tell would count as searched.
            raise UnreachableError(f"{client.url} gives the same page of its search again")
        after = after if page.after is None else page.after
