"""L1 to L3: is all there that should be, are the times plausible, and who signed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from transparency.compliance.examined import Examined, SessionFigures
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.inventory import Expected, Inventory
from transparency.compliance.log_check import MAX_NAMES, LogCheck, Names, Places, Spill, joined, parted, shown
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings
from transparency.display import iso_utc
from transparency.policy.document import Policy
from transparency.policy.issuer import Issuer, Validity

_DAY: Final = 86_400
_HOUR: Final = 3_600
_MS: Final = 1_000


class Coverage(LogCheck):
    id = "L1"
    requirement = 1
    title = "Coverage: sessions seen, days without any, numbers that are missing"
    looks_at = "sessions for each issuer, agent and day; the chain of a session's checkpoints; a declared inventory"
    bound = "one counter for each issuer, agent and day, and one row for each entry, on disk"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._sessions = 0
        self._numbered = 0
        self._missing = Places()
        self._waiting: list[str] = []

    def see(self, examined: Examined) -> None:
        if not examined.is_record:
            return
        for session in examined.sessions:
            self._sessions += 1
            day = _day_of(session, examined.time)
            self.spill.add("L1", joined(examined.iss, session.agent, f"{day:08d}"))
        self.spill.put("L1-entry", examined.entry, str(examined.checkpoint or 1))
        if examined.supersedes:
            self._numbered += 1
            before = self.spill.get("L1-entry", examined.supersedes)
            number = examined.checkpoint or 2
            if not before or int(before[-1]) != number - 1:
                self._missing.add(examined.entry)

    def finish(self, facts: LogFacts) -> Finding:
        if not self._sessions:
            return self.nothing("no record of a session was registered in the period")
        agents, gaps, longest = self._gaps()
        counts: dict[str, int | str] = {
            "sessions": self._sessions, "agents": agents, "gaps": gaps, "longest-gap-days": longest,
            "continued": self._numbered, "missing-before": self._missing.count if facts.whole else 0,
        }  # fmt: skip
        missing = self._missing if facts.whole else Places()  # what is continued may stand before the period
        if facts.inventory is not None:
            return self._against(facts.inventory, facts, counts, missing)
        if missing.count:
            summary = f"{missing.count} of {self._numbered} continued sessions do not follow what they name"
            return self.found(Verdict.FAIL, summary, counts, missing)
        summary = (
            f"{self._sessions} sessions of {agents} agents, {gaps} silences of more than "
            f"{self.settings.max_gap_days} days; whether that is all, only an inventory or a statement can say"
        )
        return self.found(Verdict.ATTEST, summary, counts)

    def _gaps(self) -> tuple[int, int, int]:
        agents = gaps = longest = 0
        before: list[str] = []
        last = 0
        for key, _ in self.spill.counts("L1"):
            *who, day = parted(key)
            if who != before:
                agents, before = agents + 1, who
            else:
                silent = int(day) - last - 1
                longest = max(longest, silent)
                gaps += silent > self.settings.max_gap_days
            last = int(day)
        return agents, gaps, longest

    def _against(self, inventory: Inventory, facts: LogFacts, counts: dict[str, int | str], missing: Places) -> Finding:
        first = (facts.since if facts.since is not None else facts.first_time) // _DAY
        last = max(first, ((facts.until if facts.until is not None else facts.last_time + 1) - 1) // _DAY)
        seen: dict[tuple[int, int], int] = {}
        undeclared = Names()
        for key, number in self.spill.counts("L1"):
            iss, agent, on = parted(key)
            places = [place for place, each in enumerate(inventory.expected) if _is_about(each, iss, agent)]
            if not places:
                undeclared.see(f"{iss} {agent}")
            for place in places:
                # Days outside the period are not asked for: bounded by the period, not by what records claim.
                if first <= int(on) <= last:
                    seen[place, int(on)] = seen.get((place, int(on)), 0) + number
        absent, first_absent = 0, ""
        for place, each in enumerate(inventory.expected):
            for day in range(first, last + 1):
                if each.is_due(day) and seen.get((place, day), 0) < each.sessions_per_day:
                    absent += 1
                    name = f"{each.iss} {each.agent}".rstrip()
                    first_absent = first_absent or f"{shown([name])} {iso_utc(day * _DAY)[:10]}"
        counts |= {
            "expected": len(inventory.expected), "days": last - first + 1, "missing-days": absent,
            "undeclared": len(undeclared),
        }  # fmt: skip
        if first_absent:
            counts["first-missing"] = first_absent
        if absent or missing.count:
            summary = f"{absent} of the days that the inventory expects have too few sessions"
            return self.found(Verdict.FAIL, summary, counts, missing)
        if undeclared:
            summary = f"nothing that the inventory expects is missing; not in it: {undeclared.shown()}"
            return self.found(Verdict.WARN, summary, counts)
        return self.found(
            Verdict.PASS, f"{self._sessions} sessions, nothing that the inventory expects is missing", counts
        )


def _day_of(session: SessionFigures, registered: int) -> int:
    """The day it began by its own word, unless that is not to be believed (before 2000, after its registration)."""
    began = registered if session.start is None else session.start // _MS
    return (began if 946_684_800 <= began <= registered + _DAY else registered) // _DAY


def _is_about(expected: Expected, iss: str, agent: str) -> bool:
    return expected.iss == iss and expected.agent in ("", agent)


@dataclass(slots=True)
class _Lags:
    early: int = 0
    hour: int = 0
    day: int = 0
    late: int = 0
    skew: int = 0


class Lag(LogCheck):
    id = "L2"
    requirement = 2
    title = "Registration against the sessions' own times, for each issuer"
    looks_at = "session-end of every record against the time of its tree head; the witnesses' times"
    bound = f"five counters for each of {MAX_NAMES} issuers"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._issuers: dict[str, _Lags] = {}
        self._timed = self._untimed = 0
        self._early = Places()
        self._late = Places()
        self._longest = 0

    def see(self, examined: Examined) -> None:
        for session in examined.sessions:
            if session.end is None:
                self._untimed += 1
                continue
            self._timed += 1
            lag = examined.time - session.end // _MS
            name = examined.iss if examined.iss in self._issuers or len(self._issuers) < MAX_NAMES else ""
            lags = self._issuers.setdefault(name, _Lags())
            self._longest = max(self._longest, lag)
            if lag < -self.settings.clock_skew_seconds:
                lags.early, lags.skew = lags.early + 1, max(lags.skew, -lag)
                self._early.add(examined.entry)
            elif lag <= _HOUR:
                lags.hour += 1
            elif lag <= self.settings.late_seconds:
                lags.day += 1
            else:
                lags.late += 1
                self._late.add(examined.entry)

    def finish(self, facts: LogFacts) -> Finding:
        if not self._timed:
            return self.nothing("no record says when its session ended", {"without-time": self._untimed})
        counts: dict[str, int | str] = {
            "sessions": self._timed, "without-time": self._untimed,
            "before-their-end": self._early.count,
            "within-an-hour": sum(each.hour for each in self._issuers.values()),
            "in-time": sum(each.day for each in self._issuers.values()),
            "late": self._late.count, "longest-lag-seconds": self._longest,
            "worst-skew-seconds": max(each.skew for each in self._issuers.values()),
        }  # fmt: skip
        if facts.checkpoints is not None and facts.checkpoints.witness_lag is not None:
            counts["witness-lag-seconds"] = facts.checkpoints.witness_lag
        ahead = [iss for iss, each in self._issuers.items() if each.early]
        if ahead:
            counts["clocks-ahead"] = shown(ahead)
            summary = f"{self._early.count} sessions ended after being registered, by clocks of {shown(ahead)}"
            return self.found(Verdict.FAIL, summary, counts, self._early)
        if self._late.count * 100 > self.settings.late_percent * self._timed:
            hours = self.settings.late_seconds // _HOUR
            summary = f"{self._late.count} of {self._timed} sessions were registered more than {hours} h after the end"
            return self.found(Verdict.WARN, summary, counts, self._late)
        return self.found(
            Verdict.PASS, f"{self._timed} sessions registered after the end, {self._late.count} late", counts
        )


@dataclass(slots=True)
class _Key:
    records: int = 0
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class _Known:
    """The newest policy, and which documents there were.

    ``compromised``: since when, by the newest policy that speaks of the key. That a key or its issuer was taken out of
    the policy later makes nothing good that was signed by it.
    """

    policy: Policy | None = None
    generations: int = 0
    rotations: int = 0
    keys: dict[tuple[str, str], _Key] = field(default_factory=dict)
    others: int = 0
    compromised: dict[tuple[str, str], int] = field(default_factory=dict)

    def rule(self, policy: Policy) -> None:
        self.policy, self.generations = policy, self.generations + 1
        for issuer in policy.issuers:
            for each in issuer.validity:
                name = (issuer.iss, each.kid.hex())
                if each.compromised_since is not None:
                    self.compromised[name] = each.compromised_since
                else:
                    self.compromised.pop(name, None)


class Issuers(LogCheck):
    id = "L3"
    requirement = 3
    title = "Issuers: keys, their windows, what was signed after a compromise"
    looks_at = "the policies on the log, and which key signed each record when"
    bound = f"one line for each of {MAX_NAMES} keys and each compromise in a policy; one row for each record, on disk"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._known = _Known()

    def see(self, examined: Examined) -> None:
        known = self._known
        if isinstance(examined.stated, Policy):
            known.rule(examined.stated)
        elif examined.kind == "keys":
            known.rotations += 1
        if not examined.is_record or not examined.kid:
            return
        name = (examined.iss, examined.kid)
        if name not in known.keys and len(known.keys) >= MAX_NAMES:
            known.others += 1
            return
        key = known.keys.setdefault(name, _Key(first=examined.time))
        key.records, key.last = key.records + 1, examined.time
        self.spill.put("L3", joined(*name), f"{examined.time} {examined.entry}")

    def finish(self, facts: LogFacts) -> Finding:
        known = self._known
        if not known.keys or known.policy is None:
            return self.nothing("no record was registered in the period", {"policies": known.generations})
        tainted, ending, certified = Places(), [], 0
        for iss, kid in known.keys:
            issuer = known.policy.rule_for(iss)
            validity = Validity(b"") if issuer is None else issuer.validity_of(bytes.fromhex(kid))
            since = known.compromised.get((iss, kid), validity.compromised_since)
            if since is not None:
                for line in self._signed(iss, kid, since):
                    tainted.add(line)
            if issuer is None:
                continue
            certified += bool(issuer.roots)
            if (
                since is None
                and validity.not_after is not None
                and _is_last(issuer, facts.now + self.settings.key_end_days * _DAY)
            ):
                ending.append(iss)
        issuers = {iss for iss, _ in known.keys}
        counts: dict[str, int | str] = {
            "issuers": len(issuers), "keys": len(known.keys), "policies": known.generations,
            "key-sets": known.rotations, "compromised-records": tainted.count, "ending": len(set(ending)),
            "by-certificate": certified, "keys-not-followed": known.others,
        }  # fmt: skip
        if tainted.count:
            summary = f"{tainted.count} records were registered under a key after the time of its compromise"
            return self.found(Verdict.FAIL, summary, counts, tainted)
        if known.others:
            summary = f"{known.others} records are by keys beyond the first {MAX_NAMES}, which were not looked at"
            return self.found(Verdict.WARN, summary, counts)
        if ending:
            summary = (
                f"the last key of {shown(sorted(set(ending)))} ends within {self.settings.key_end_days} days, or has"
            )
            return self.found(Verdict.WARN, summary, counts)
        summary = f"{len(known.keys)} keys of {len(issuers)} issuers, none compromised; whose they are must be stated"
        return self.found(Verdict.ATTEST, summary, counts)

    def _signed(self, iss: str, kid: str, since: int) -> list[str]:
        rows = self.spill.get("L3", joined(iss, kid), most=10_000)
        return [entry for time, _, entry in (row.partition(" ") for row in rows) if int(time) >= since]


def _is_last(issuer: Issuer, time: int) -> bool:
    """Whether no key of *issuer* is good at *time*, though all of them have an end."""
    windows = (issuer.validity_of(key.kid) for key in issuer.keys)
    return not any(
        each.compromised_since is None and (each.not_after is None or each.not_after >= time) for each in windows
    )
