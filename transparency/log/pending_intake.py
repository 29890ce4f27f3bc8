"""The pending intake: which entries are durable in the intake table and not settled; kept beside the sequencer."""

from __future__ import annotations

from transparency.statements.statement import Entry


class PendingIntake:
    """Entries, and how many bytes their rows have. Filled by the intake, emptied by the sequencer's commits."""

    def __init__(self) -> None:
        self._sizes: dict[Entry, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._sizes

    def add(self, entry: Entry, size: int) -> None:
        self.discard(entry)
        self._sizes[entry] = size
        self.bytes += size

    def discard(self, entry: Entry) -> None:
        self.bytes -= self._sizes.pop(entry, 0)
