"""How far statements have come: the states of design §4, each with a gauge."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """accepted ≥ sequenced ≥ published, each since this process started.

    Sequenced is committed; published is what also has its mark, and so may be shown. They differ by a sync of the mark.
    """

    accepted: int = 0
    sequenced: int = 0
    published: int = 0
