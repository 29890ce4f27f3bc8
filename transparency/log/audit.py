"""The audit: replay every registration decision of a log from what it exports, trusting one thumbprint.

Pinned is the policy key that ``init`` printed; everything else is read from the log and proven on the way: entry 0
names that key, every later policy and key set follows from the one before, every tree head is signed by the key in use
at its place and covers exactly the entries that came before it. Each entry is then judged again, by the policy that
was in force at its place, at its head's time, with the certificates kept beside it; and what statements do not carry
is held against the admission manifests that the log itself registered (AMB-10).

Neither the server's configuration nor any key of it is needed. Memory is bounded whatever the log's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from transparency.log.audit_replay import Replay
from transparency.log.audit_report import AuditFinding, AuditReport, Outcome
from transparency.log.store import StoredEntry
from transparency.statements.receipt import SignedHead

__all__ = ["AuditFinding", "AuditReport", "AuditSource", "Outcome", "Replaying", "audit", "walk"]

Progress = Callable[[int, int | None], None]


class AuditSource(Protocol):
    """A log as it is exported: its entries and its heads, each in order and from the beginning."""

    def size(self) -> int | None:
        """How many entries there are; None where the log goes on while it is read."""
        ...

    def entries(self) -> Iterator[StoredEntry]: ...
    def heads(self) -> Iterator[SignedHead]: ...


class Replaying(Protocol):
    """What is shown a log: every entry with the head that first covers it, and each head after its entries."""

    def entry(self, row: StoredEntry, head: SignedHead) -> object: ...
    def head(self, head: SignedHead) -> None: ...


def audit(source: AuditSource, policy_key: bytes, progress: Progress | None = None) -> AuditReport:
    """Replay the log in *source* from entry 0 on. *policy_key* is the pinned thumbprint."""
    report = AuditReport()
    with Replay(policy_key, report) as replay:
        walk(source, replay, report, progress)
        replay.end()
    return report


def walk(source: AuditSource, replay: Replaying, report: AuditReport, progress: Progress | None = None) -> None:
    """Show *replay* the log in *source*, in order; what is missing in it is a finding of *report*."""
    progress = progress or _silent
    size = source.size()
    entries = source.entries()
    for head in source.heads():
        if head.size <= report.size:
            report.add(-1, "", f"the tree head of size {head.size} covers no batch of entries")
            continue
        while report.size < head.size:
            row = next(entries, None)
            if row is None or row.index != report.size:
                report.add(report.size, "", "is missing: nothing after it can be replayed")
                return
            replay.entry(row, head)
            report.size += 1
        replay.head(head)
        progress(report.size, size)
    if size is not None and report.size < size:
        report.add(report.size, "", f"this and the entries up to {size - 1} are under no signed tree head")


def _silent(_done: int, _total: int | None) -> None:
    """No progress asked for."""
