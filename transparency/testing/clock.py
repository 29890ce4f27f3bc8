"""A clock for tests: it stands still until told, and jumps forwards and back as real ones do after an NTP step."""

from __future__ import annotations


class FakeClock:
    """Call it for the time, in whole seconds since 1970, as the log's clock is called."""

    def __init__(self, now: int = 1_700_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: int) -> None:
        """Let *seconds* pass; a negative number is a clock that was set back."""
        self.now += seconds

    def set(self, time: int) -> None:
        """Jump to *time*, forwards or back."""
        self.now = time
