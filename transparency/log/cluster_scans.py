"""Where a node reads much at a time: from a standby, if it is given one that has what is asked for; else the primary.

A standby lags. So it is asked first how far it is, and whether it has carried out every erasure that the primary has:
what was erased must not come out of a copy. The tip, duplicates and heads for receipts are always the primary's.
"""

from __future__ import annotations

from transparency.errors import TransparencyError
from transparency.log.cluster_store import OpenStore, SteadyStore
from transparency.log.store import Store


class Scans:
    def __init__(self, primary: Store, open_standby: OpenStore | None) -> None:
        self._primary = primary
        self._standby = None if open_standby is None else SteadyStore.perhaps(open_standby)

    def store(self, size: int) -> Store:
        """One that has the first *size* entries. For any thread."""
        standby = self._standby
        if standby is not None:
            try:
                if standby.tip().size >= size and standby.erased_upto() >= self._primary.erased_upto():
                    return standby
            except TransparencyError:
                pass  # it is away, or still starting
        return self._primary

    def close(self) -> None:
        if self._standby is not None:
            self._standby.close()
