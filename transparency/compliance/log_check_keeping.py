"""L4 and L12: is what was registered still there for as long as it was promised, and is reading it written down."""

from __future__ import annotations

from collections import Counter
from typing import Final

from transparency.compliance.examined import ERASED, HASH_ONLY, NOT_PERMITTED, READ, Examined
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.log_check import LogCheck, Places, Spill, joined, parted, percent
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings
from transparency.display import safe_text
from transparency.policy.access_digest import AccessDigest
from transparency.policy.erasure import Erasure, Item
from transparency.policy.hold import ENTRY, ISSUER, Hold, Release

_DAY: Final = 86_400
_HOUR: Final = 3_600
_BY_TERM: Final = "retention class "
GONE: Final = "it is gone"
MAX_HOLDS: Final = 10_000


class Retention(LogCheck):
    id = "L4"
    requirement = 6
    title = "Retention: nothing gone before its time, holds kept, records at hand"
    looks_at = "retention classes, erasures and holds on the log; which records could be read; a random fetch test"
    bound = f"one row for each record, on disk, and at most {MAX_HOLDS} holds"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._have: Counter[str] = Counter()
        self._oldest: int | None = None
        self._short = Places()
        self._holds: dict[str, Hold] = {}
        self._early, self._held = Places(), Places()
        self._by_term = self._by_order = 0

    def see(self, examined: Examined) -> None:
        stated = examined.stated
        if isinstance(stated, Hold):
            if len(self._holds) < MAX_HOLDS:
                self._holds[examined.entry] = stated
        elif isinstance(stated, Release):
            self._holds.pop(stated.hold, None)
        elif isinstance(stated, Erasure):
            for item in stated.items:
                self._erased(item)
        if not examined.is_record and examined.availability != ERASED:
            return
        self._have[examined.availability] += 1
        if examined.availability == READ and self._oldest is None:
            self._oldest = examined.time
        name, keep = examined.retention or ("", 0)
        if name and keep < self.settings.retention_days * _DAY:
            self._short.add(examined.entry)
        sessions = [session.session for session in examined.sessions]
        self.spill.put("L4", str(examined.index), joined(str(examined.time), str(keep), examined.iss, *sessions))

    def _erased(self, item: Item) -> None:
        by_term = item.rule.startswith(_BY_TERM)
        self._by_term, self._by_order = self._by_term + by_term, self._by_order + (not by_term)
        rows = self.spill.get("L4", str(item.index), most=1)
        if not rows:
            return
        time, keep, iss, *sessions = parted(rows[0])
        if by_term and int(keep) and item.time < int(time) + int(keep):
            self._early.add(item.entry)
        for hold in self._holds.values():
            about = {ENTRY: [item.entry], ISSUER: [iss]}.get(hold.scope, sessions)
            if hold.value in about and hold.time <= item.time:
                self._held.add(item.entry)
                break

    def finish(self, facts: LogFacts) -> Finding:
        have = self._have
        if not have:
            return self.nothing("no record was registered in the period")
        gone = Places(entry for entry, what in facts.problems if what.startswith(GONE))
        counts: dict[str, int | str] = {
            "records": sum(have.values()), "read": have[READ], "hash-only": have[HASH_ONLY], "erased": have[ERASED],
            "not-permitted": have[NOT_PERMITTED], "erased-by-term": self._by_term, "erased-by-order": self._by_order,
            "erased-too-early": self._early.count, "erased-though-held": self._held.count,
            "gone-without-order": gone.count, "standing-holds": len(self._holds),
            "short-term": self._short.count,
        }  # fmt: skip
        if self._oldest is not None and facts.now:
            counts["oldest-days"] = (facts.now - self._oldest) // _DAY
        sample = facts.sample
        if sample is not None and sample.recent:
            counts |= {"fetched": sample.recent_fetched, "of-sample": sample.recent, "slowest-ms": sample.slowest_ms}
        wrong = (
            (gone, "are gone without an order"),
            (self._early, "were erased before their term was over"),
            (self._held, "were erased though on hold"),
        )
        for places, what in wrong:
            if places.count:
                return self.found(Verdict.FAIL, f"{places.count} records {what}", counts, places)
        if sample is not None and sample.recent_fetched < sample.recent:
            late = Places(entry for entry, _ in sample.failed)
            missing = sample.recent - sample.recent_fetched
            summary = f"{missing} of {sample.recent} records of the last months could not be fetched"
            return self.found(Verdict.FAIL, summary, counts, late)
        if self._short.count:
            days = self.settings.retention_days
            summary = f"{self._short.count} records are kept for less than {days} days by the class"
            return self.found(Verdict.WARN, summary, counts, self._short)
        if not have[READ]:
            return self.nothing("no record can be read here, so nothing shows that any is kept", counts)
        share = percent(have[READ], sum(have.values()))
        return self.found(
            Verdict.PASS, f"{have[READ]} records are at hand ({share} %), none went before its time", counts
        )


class Access(LogCheck):
    id = "L12"
    requirement = 7
    title = "Reading the log is itself written down"
    looks_at = "digests of the access log on the log, and its files where they can be had"
    bound = "five numbers"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._digests = self._lines = 0
        self._last = 0
        self._back = Places()
        self._widest = 0

    def see(self, examined: Examined) -> None:
        digest = examined.stated
        if not isinstance(digest, AccessDigest):
            return
        if digest.count < self._lines:
            self._back.add(examined.entry)
        if self._digests:
            self._widest = max(self._widest, examined.time - self._last)
        self._digests, self._lines, self._last = self._digests + 1, max(self._lines, digest.count), examined.time

    def finish(self, facts: LogFacts) -> Finding:
        access = facts.access
        counts: dict[str, int | str] = {
            "digests": self._digests, "registered-lines": self._lines, "widest-hours": self._widest // _HOUR,
        }  # fmt: skip
        if access is not None:
            counts |= {"lines": access.lines, "covered": access.covered, "problems": len(access.problems)}
        if access is not None and access.problems:
            return self.found(
                Verdict.FAIL, f"the access log is not as registered: {safe_text(access.problems[0])}", counts
            )
        if self._back.count:
            return self.found(Verdict.FAIL, "a later digest of the access log covers fewer lines", counts, self._back)
        if not self._digests:
            if access is not None and not access.lines:
                return self.nothing("nobody has read this log through a server", counts)
            return self.found(Verdict.ATTEST, "no digest of an access log stands on the log", counts)
        if self._widest > self.settings.access_digest_hours * _HOUR:
            summary = f"{self._widest // _HOUR} hours passed between two digests of the access log"
            return self.found(Verdict.WARN, summary, counts)
        return self.found(
            Verdict.PASS, f"{self._lines} accesses are covered by {self._digests} digests on the log", counts
        )
