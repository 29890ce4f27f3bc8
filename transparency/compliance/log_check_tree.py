"""L5, L6, L8: the tree under every checkpoint, records verified again from outside, and a query drill."""

from __future__ import annotations

from transparency.compliance.examined import Examined
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.log_check import LogCheck, Places, shown
from transparency.compliance.log_check_keeping import GONE
from transparency.compliance.log_facts import LogFacts
from transparency.display import safe_text


class Consistency(LogCheck):
    id = "L5"
    requirement = 7
    title = "One tree under every checkpoint, signed by the log, cosigned by witnesses"
    looks_at = "every published checkpoint and signed head against the tree of the entries; cosignatures"
    bound = "nothing is kept"

    def finish(self, facts: LogFacts) -> Finding:
        seen = facts.checkpoints
        tree = [(entry, what) for entry, what in facts.problems if not what.startswith(GONE)]
        counts: dict[str, int | str] = {
            "entries": facts.size,
            "heads": facts.heads,
            "replay-problems": facts.problems_made,
        }
        if seen is not None:
            counts |= {
                "checkpoints": seen.published, "problems": len(seen.problems), "cosigned": seen.cosigned,
                "newest-size": seen.newest, "witnesses": shown(sorted(seen.witnesses)),
            }  # fmt: skip
        if seen is not None and seen.problems:
            size, what = seen.problems[0]
            return self.found(Verdict.FAIL, f"the checkpoint of size {size}: {safe_text(what)}", counts)
        if tree:
            places = Places(entry for entry, _ in tree if entry)
            return self.found(Verdict.FAIL, f"replaying the log found: {safe_text(tree[0][1])}", counts, places)
        if seen is None or not seen.published:
            return self.nothing("the log has published no checkpoint", counts)
        if not seen.asked:
            said = (
                "cosignatures stand on it, which nobody was asked to check" if seen.witnesses else "no witness cosigned"
            )
            return self.found(Verdict.WARN, f"{seen.published} checkpoints are of one tree; {said}", counts)
        if seen.cosigned < seen.published:
            summary = (
                f"{seen.published - seen.cosigned} of {seen.published} checkpoints are of one tree, but lack the quorum"
            )
            return self.found(Verdict.WARN, summary, counts)
        extent = "all" if seen.all_of_them else "the newest of its"
        summary = f"{extent} checkpoints ({seen.published}) are of one tree and cosigned by the quorum"
        return self.found(Verdict.PASS, summary, counts)


class Reverified(LogCheck):
    id = "L6"
    requirement = 7
    title = "Records drawn at random, verified again end to end"
    looks_at = "statement, signature, record and receipt of entries that a printed seed chose"
    bound = "the sample"

    def finish(self, facts: LogFacts) -> Finding:
        sample = facts.sample
        if sample is None or not sample.drawn:
            return self.nothing("there is no record to draw")
        counts: dict[str, int | str] = {
            "seed": str(sample.seed), "drawn": sample.drawn, "verified": sample.verified,
            "without-record": sample.without_record, "failed": len(sample.failed),
        }  # fmt: skip
        if sample.failed:
            places = Places(entry for entry, _ in sample.failed)
            summary = f"{len(sample.failed)} of {sample.drawn} do not verify: {safe_text(sample.failed[0][1])}"
            return self.found(Verdict.FAIL, summary, counts, places)
        if not sample.verified:
            return self.nothing(f"of {sample.drawn} entries drawn no record is available", counts)
        if sample.without_record:
            summary = (
                f"{sample.verified} verify; of {sample.without_record} the record is not available, only its digest"
            )
            return self.found(Verdict.WARN, summary, counts)
        return self.found(
            Verdict.PASS, f"{sample.verified} of {sample.drawn} verify end to end (seed {sample.seed})", counts
        )


class Drill(LogCheck):
    id = "L8"
    requirement = 8
    title = "Query drill: what is known to be there is found, in time, with proofs"
    looks_at = "the search of the running log: time range, tool and path of entries drawn at random"
    bound = "nothing is kept"

    def see(self, examined: Examined) -> None:
        """Nothing: what to ask for is drawn by whoever asks."""

    def finish(self, facts: LogFacts) -> Finding:
        drill = facts.drill
        if drill is None or not drill.queries:
            return self.nothing("no running log was asked" if drill is None else "no entry has anything to ask for")
        counts: dict[str, int | str] = {
            "queries": drill.queries, "found": drill.found, "slowest-ms": drill.slowest_ms, "proofs": drill.proofs,
            "proofs-ms": drill.proofs_ms, "index-lag": drill.lag,
        }  # fmt: skip
        if drill.found < drill.queries:
            summary = (
                f"{drill.queries - drill.found} of {drill.queries} entries were not found by their time, tool and path"
            )
            return self.found(Verdict.FAIL, summary, counts, Places(drill.missed))
        if drill.slowest_ms > self.settings.drill_ms:
            summary = f"all found, the slowest in {drill.slowest_ms} ms, more than {self.settings.drill_ms} ms"
            return self.found(Verdict.WARN, summary, counts)
        summary = f"{drill.queries} queries answered, the slowest in {drill.slowest_ms} ms, with {drill.proofs} proofs"
        return self.found(Verdict.PASS, summary, counts)
