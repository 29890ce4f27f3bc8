"""Holds as an audit follows them: what stood under one when its erasure was registered (REG-20).

A hold counts from its own place on the log to that of its release; the erasure's place decides. Of an entry its id is
always known. Its issuer is known while its statement is here, which that of an artifact always is. Its session is known
as far as it was signed: the record itself is gone, or is not read. What cannot be told any more is counted.
"""

from __future__ import annotations

from transparency.cose import labels
from transparency.errors import RefusedError
from transparency.log.audit_scratch import Scratch
from transparency.log.search_entry import stated
from transparency.policy.erasure import Item
from transparency.policy.hold import ENTRY, ISSUER, SESSION, Release, read_hold
from transparency.statements.statement import Statement


class Holds:
    """Those that stand at the place the audit has come to."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch

    def see(self, index: int, statement: Statement) -> None:
        """Remember of a statement what a hold may be about."""
        signed = labels.TRACE_METADATA_SIGNED in statement.message.headers
        sessions = stated(statement).sessions if signed else ()
        self._scratch.say(index, statement.iss, next(iter(sessions), None))

    def take(self, entry: str, payload: bytes, origin: str) -> None:
        """A hold or a release, registered as *entry*."""
        said = read_hold(payload)
        if said.log != origin:
            raise RefusedError("the hold or release is another log's")
        if not isinstance(said, Release):
            self._scratch.hold(entry, said.scope, said.value)
        elif not self._scratch.release(said.hold):
            raise RefusedError(f"it releases {said.hold}, which is no hold that stood")

    def on(self, item: Item) -> str | None:
        """The entry id of a hold that *item* stands under; "" where there may be one and nobody can tell any more."""
        iss, session = self._scratch.said(item.index)
        untold = False
        for scope, value in ((ENTRY, item.entry), (ISSUER, iss), (SESSION, session)):
            found = None if value is None else self._scratch.held(scope, value)
            if found is not None:
                return found
            # A record may name more sessions than the one that was signed for it.
            untold |= (value is None or scope == SESSION) and self._scratch.holds(scope)
        return "" if untold else None
