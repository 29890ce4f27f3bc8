"""L9, L10, L13: what is not as before, who looked, and what should not be readable."""

from __future__ import annotations

from collections import Counter

from transparency.compliance import stated
from transparency.compliance.baseline import MAX_AGENTS, Baselines, Departure
from transparency.compliance.examined import READ, Examined
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.log_check import LogCheck, Names, Places, Spill, compared, percent, shown
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings
from transparency.display import safe_text


class Anomalies(LogCheck):
    id = "L9"
    requirement = 9
    title = "What departs from each agent's own history"
    looks_at = "tools, tokens and failed calls of every session against the earlier ones of that issuer and agent"
    bound = f"the histories of {MAX_AGENTS} agents (compliance/baseline.py)"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self.baselines = Baselines(self.settings)
        self._kinds: Counter[str] = Counter()
        self._places = Places()
        self._tools = Names()
        self._first: Departure | None = None
        self._sessions = 0

    def see(self, examined: Examined) -> None:
        if examined.availability != READ:
            return
        for session in examined.sessions:
            if not session.entries:
                continue
            self._sessions += 1
            for departure in self.baselines.see(examined.iss, session):
                self._note(departure)
                self._places.add(examined.entry)

    def _note(self, departure: Departure) -> None:
        self._kinds[departure.what] += 1
        self._first = self._first or departure
        if departure.what == "new-tool":
            self._tools.see(departure.detail)

    def finish(self, facts: LogFacts) -> Finding:  # noqa: ARG002 - all have it
        histories = self.baselines.histories()
        long_enough = [each for each in histories.values() if each.sessions > self.settings.baseline_sessions]
        for (iss, agent), history in histories.items():
            for departure in history.drift():
                self._note(
                    Departure(departure.what, f"{shown([f'{agent} of {iss}'])}: {departure.detail}", departure.score)
                )
        counts: dict[str, int | str] = {
            "sessions": self._sessions, "agents": len(histories), "with-history": len(long_enough),
            "new-tools": self._kinds["new-tool"], "unusual-tokens": self._kinds["tokens"],
            "token-drift": self._kinds["token-drift"], "error-drift": self._kinds["error-drift"],
            "agents-not-followed": self.baselines.left_out, "tools": self._tools.shown(),
        }  # fmt: skip
        if not long_enough:
            least = self.settings.baseline_sessions
            return self.nothing(f"no agent has more than {least} sessions, so nothing can be called unusual", counts)
        total = sum(self._kinds.values())
        if total and self._first is not None:
            counts["first"] = f"{self._first.what}: {safe_text(self._first.detail)} ({self._first.score:+.1f})"
            return self.found(
                Verdict.WARN, f"{total} departures from the history of {len(long_enough)} agents", counts, self._places
            )
        return self.found(
            Verdict.PASS, f"{self._sessions} sessions of {len(long_enough)} agents are as those before", counts
        )


class Oversight(LogCheck):
    id = "L10"
    requirement = 10
    title = "Oversight: sessions with evidence of it, and reviews by people"
    looks_at = "R10.1 of every session, and signed reviews that the log's policy admitted"
    bound = "counters, and one row for each review and each session without evidence, on disk"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._sessions = self._shown = 0
        self._without = Places()
        self._reviews: Counter[str] = Counter()
        self._reviewers = Names()
        self._concerns = Places()

    def see(self, examined: Examined) -> None:
        review = examined.stated
        if isinstance(review, stated.Review) and examined.outcome in ("", stated.REPRODUCED):
            self._reviews[review.verdict] += 1
            self._reviewers.see(f"{review.reviewer} ({examined.iss})")
            self.spill.add("L10-reviewed", review.entry)
            self.spill.put("L10-by", review.entry, _signer(examined))
            if review.verdict != stated.ACCEPTED:
                self._concerns.add(review.entry)
        if examined.availability != READ:
            return
        for _, finding in examined.of_check("R10.1"):
            self._sessions += 1
            if finding.verdict is Verdict.PASS:
                self._shown += 1
            else:
                self._without.add(examined.entry)
                self.spill.add("L10-without", examined.entry)
                self.spill.put("L10-own", examined.entry, _signer(examined))

    def finish(self, facts: LogFacts) -> Finding:  # noqa: ARG002 - all have it
        if not self._sessions:
            return self.nothing("no session could be read", {"reviews": sum(self._reviews.values())})
        covered = own = 0
        both = compared(self.spill.counts("L10-without"), self.spill.counts("L10-reviewed"))
        for entry, number, reviewed in both:
            if reviewed and self._by_another(entry):
                covered += number
            elif reviewed:
                own += number
        overseen = self._shown + covered
        share = percent(overseen, self._sessions)
        counts: dict[str, int | str] = {
            "sessions": self._sessions, "with-evidence": self._shown, "reviewed-instead": covered,
            "reviewed-by-own-key": own, "percent": share,
            "reviews": sum(self._reviews.values()), "concerns": self._concerns.count,
            "reviewers": self._reviewers.shown(),
        }  # fmt: skip
        if not overseen:
            by = " by another key than its own" if own else ""
            summary = f"none of {self._sessions} sessions shows oversight, and none was reviewed{by}"
            return self.found(Verdict.FAIL, summary, counts, self._without)
        if share < self.settings.oversight_percent:
            summary = f"{overseen} of {self._sessions} sessions show oversight or were reviewed ({share} %)"
            return self.found(Verdict.WARN, summary, counts, self._without)
        if self._concerns.count:
            return self.found(
                Verdict.WARN, f"reviewers had concerns about {self._concerns.count} records", counts, self._concerns
            )
        return self.found(
            Verdict.PASS, f"{overseen} of {self._sessions} sessions show oversight or were reviewed", counts
        )

    def _by_another(self, entry: str) -> bool:
        """Whether a review is signed by another key than the record: nobody oversees himself."""
        return not set(self.spill.get("L10-by", entry)) <= set(self.spill.get("L10-own", entry))


def _signer(examined: Examined) -> str:
    return f"{examined.kid} {examined.iss}"


class Secrets(LogCheck):
    id = "L13"
    requirement = 9
    title = "Secrets and personal data: open, redacted, and how"
    looks_at = "R9.3 of every session; redactions that statements declare, with salted commitments"
    bound = "counters"

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        super().__init__(settings, spill)
        self._sessions = self._redacted = self._commitments = 0
        self._open, self._cards = Places(), Places()
        self._bare, self._hashes = Places(), Places()

    def see(self, examined: Examined) -> None:
        if examined.availability != READ:
            return
        self._redacted += examined.redactions > 0
        self._commitments += examined.redactions
        if examined.bare_hashes:
            self._hashes.add(examined.entry)
        if examined.bare_marks:
            self._bare.add(examined.entry)
        for _, finding in examined.of_check("R9.3"):
            self._sessions += finding.verdict is not Verdict.NOT_APPLICABLE
            if finding.verdict is Verdict.FAIL:
                self._cards.add(examined.entry)
            elif finding.verdict is Verdict.WARN:
                self._open.add(examined.entry)

    def finish(self, facts: LogFacts) -> Finding:  # noqa: ARG002 - all have it
        counts: dict[str, int | str] = {
            "sessions": self._sessions, "open": self._open.count, "card-numbers": self._cards.count,
            "redacted-records": self._redacted, "commitments": self._commitments,
            "marks-without-commitment": self._bare.count, "bare-hashes": self._hashes.count,
        }  # fmt: skip
        if not self._sessions:
            return self.nothing("no session could be read", counts)
        if self._cards.count:
            return self.found(
                Verdict.FAIL, f"{self._cards.count} sessions hold a card number in the clear", counts, self._cards
            )
        if self._hashes.count:
            summary = (
                f"{self._hashes.count} records show a bare hash in the place of what was redacted: it can be guessed"
            )
            return self.found(Verdict.FAIL, summary, counts, self._hashes)
        if self._open.count:
            summary = f"{self._open.count} of {self._sessions} sessions hold what looks like a secret or personal data"
            return self.found(Verdict.WARN, summary, counts, self._open)
        if self._bare.count:
            summary = f"{self._bare.count} records were redacted without a commitment to what is gone"
            return self.found(Verdict.WARN, summary, counts, self._bare)
        summary = f"{self._sessions} sessions without such a finding, {self._redacted} redacted with salted commitments"
        return self.found(Verdict.PASS, summary, counts)
