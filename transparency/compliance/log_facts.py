"""What is known of a log besides its entries: heads, checkpoints, samples, drills. Whoever reads the log fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from transparency.compliance.inventory import Inventory


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """Every published checkpoint that could be had, held against the tree that the entries give.

    ``problems`` are (size, what): signature, root or form. ``cosigned`` counts checkpoints with the quorum of the
    witness policy (``asked``: there is one), else with any line that is not the log's, which nobody checked.
    """

    published: int = 0
    problems: tuple[tuple[int, str], ...] = ()
    cosigned: int = 0
    asked: bool = False
    witnesses: Mapping[str, int] = field(default_factory=dict)
    newest: int = 0
    # The time of the newest cosignature less its checkpoint's head's, in seconds.
    witness_lag: int | None = None
    # Only the newest is served over HTTP; a folder has them all.
    all_of_them: bool = True


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """Entries drawn at random and verified end to end, from outside: statement, receipt, record (L4, L6)."""

    seed: int
    drawn: int
    verified: int
    without_record: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    slowest_ms: int = 0
    recent: int = 0
    recent_fetched: int = 0


@dataclass(frozen=True, slots=True)
class DrillFacts:
    """A query for something that is known to be there: how long the answer took, and whether it was in it (L8)."""

    queries: int
    found: int
    slowest_ms: int
    proofs: int = 0
    proofs_ms: int = 0
    lag: int = 0
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """The access log's files, held against the digests on the log; only whoever has the folder can."""

    lines: int
    covered: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFacts:
    """``since``/``until`` bound what was examined (seconds since 1970); ``whole``: nothing was left out by them.

    ``problems`` are what the replay found, as (entry id or "", what); ``problems_made`` counts those not kept, too.
    ``revisions`` says of revisions that records claim whether the repository has them; None: no repository given.
    """

    origin: str = ""
    now: int = 0
    size: int = 0
    heads: int = 0
    first_time: int = 0
    last_time: int = 0
    since: int | None = None
    until: int | None = None
    whole: bool = True
    problems: tuple[tuple[str, str], ...] = ()
    problems_made: int = 0
    checkpoints: CheckpointFacts | None = None
    sample: SampleFacts | None = None
    drill: DrillFacts | None = None
    access: AccessFacts | None = None
    inventory: Inventory | None = None
    revisions: Mapping[str, bool] | None = None
