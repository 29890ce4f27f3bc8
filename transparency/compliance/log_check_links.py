"""L7 and L11: does one session have one content, and do the links between records hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from transparency.compliance.examined import Examined
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.log_check import MAX_NAMES, LogCheck, Places, Spill, compared, joined, parted
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings

MAX_REVISIONS: Final = 10_000


class Equivocation(LogCheck):
    id = "L7"
    requirement = 7
    title = "One session, one content: amendments name what they amend"
    looks_at = "session ids against the digests of their records, and the links that statements sign"
    bound = "one row for each session of each record, on disk"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._sessions = self._again = self._linked = 0
        self._different, self._others = Places(), Places()

    def see(self, examined: Examined) -> None:
        for session in examined.sessions:
            if not session.session or not examined.digest:
                continue
            self._sessions += 1
            earlier = [parted(row) for row in self.spill.get("L7", session.session)]
            # A record may name a session twice: that is not registered again.
            self._compare(examined, session.raw_hash, [row for row in earlier if row[1] != examined.entry])
            row = (examined.digest, examined.entry, examined.iss, session.raw_hash or "")
            self.spill.put("L7", session.session, joined(*row))

    def _compare(self, examined: Examined, raw: str | None, earlier: list[list[str]]) -> None:
        if not earlier:
            return
        digests = {digest for digest, _, _, _ in earlier}
        if examined.digest in digests:
            self._again += 1
        elif examined.supersedes in {entry for _, entry, _, _ in earlier}:
            self._linked += 1
        elif raw in digests or examined.digest in {made_from for _, _, _, made_from in earlier}:
            self._linked += 1  # a conversion and what it was made from
        elif examined.iss in {iss for _, _, iss, _ in earlier}:
            self._different.add(examined.entry)
        else:
            self._others.add(examined.entry)

    def finish(self, facts: LogFacts) -> Finding:  # noqa: ARG002 - the protocol's
        counts: dict[str, int | str] = {
            "sessions": self._sessions, "same-content-again": self._again, "linked": self._linked,
            "different-content": self._different.count, "different-by-others": self._others.count,
        }  # fmt: skip
        if not self._sessions:
            return self.nothing("no record names a session", counts)
        if self._different.count:
            summary = f"{self._different.count} records give a session another content and name no earlier one"
            return self.found(Verdict.FAIL, summary, counts, self._different)
        if self._others.count:
            summary = f"{self._others.count} records give another content to a session that another issuer registered"
            return self.found(Verdict.WARN, summary, counts, self._others)
        summary = f"{self._sessions} sessions: {self._linked} amended with a link, {self._again} registered again alike"
        return self.found(Verdict.PASS, summary, counts)


class Links(LogCheck):
    id = "L11"
    requirement = 11
    title = "Links: converted records and their sources, commits, models over time"
    looks_at = "source.raw-hash, parent sessions and vcs.revision of every record; models for each issuer"
    bound = f"one row for each record and link, on disk; {MAX_NAMES} models; {MAX_REVISIONS} revisions"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._links = self._records = 0
        self._models: dict[tuple[str, str], int] = {}
        self.revisions: dict[str, str] = {}
        """Revisions that records claim, each with the first entry that does; whoever has a repository resolves them."""
        self._left_out = 0

    def see(self, examined: Examined) -> None:
        if not examined.is_record:
            return
        self._records += 1
        if examined.digest:
            self.spill.add("L11-have", examined.digest)
        for session in examined.sessions:
            if session.session:
                self.spill.add("L11-have", session.session)
            for link in (session.raw_hash, *session.parents):
                if link:
                    self._links += 1
                    self.spill.put("L11-want", link, examined.entry)
            if session.revision is not None and session.revision not in self.revisions:
                if len(self.revisions) < MAX_REVISIONS:
                    self.revisions[session.revision] = examined.entry
                else:
                    self._left_out += 1
            for model in session.models:
                if (examined.iss, model) in self._models or len(self._models) < MAX_NAMES:
                    self._models.setdefault((examined.iss, model), examined.time)

    def finish(self, facts: LogFacts) -> Finding:
        open_links = Places(self._unresolved())
        known = facts.revisions
        wrong = Places(
            entry for revision, entry in self.revisions.items() if known is not None and not known.get(revision)
        )
        counts: dict[str, int | str] = {
            "records": self._records, "links": self._links, "unresolved": open_links.count,
            "revisions": len(self.revisions) + self._left_out, "models": len(self._models),
            "revisions-checked": 0 if known is None else len(known), "revisions-missing": wrong.count,
        }  # fmt: skip
        if not self._links and not self.revisions:
            return self.nothing("no record links to another, or to a commit", counts)
        if wrong.count:
            return self.found(
                Verdict.FAIL, f"{wrong.count} commits that records name are not in the repository", counts, wrong
            )
        if open_links.count and facts.whole:
            summary = f"{open_links.count} of {self._links} links lead to what is not on this log"
            return self.found(Verdict.WARN, summary, counts, open_links)
        if self.revisions and known is None:
            summary = f"{len(self.revisions)} commits are named, and no repository was given to look for them"
            return self.found(Verdict.ATTEST, summary, counts)
        return self.found(Verdict.PASS, f"{self._links} links and {len(self.revisions)} commits resolve", counts)

    def _unresolved(self) -> Iterator[str]:
        for _, entry, there in compared(self.spill.items("L11-want"), self.spill.counts("L11-have")):
            if not there:
                yield entry
