"""The thirteen log checks (formats.md 10.4), in order, and one object that feeds them all."""

from __future__ import annotations

from typing import Final

from transparency.compliance.examined import Examined
from transparency.compliance.finding import Finding
from transparency.compliance.log_check import LogCheck, Spill
from transparency.compliance.log_check_conduct import Anomalies, Oversight, Secrets
from transparency.compliance.log_check_coverage import Coverage, Issuers, Lag
from transparency.compliance.log_check_keeping import Access, Retention
from transparency.compliance.log_check_links import Equivocation, Links
from transparency.compliance.log_check_tree import Consistency, Drill, Reverified
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import DEFAULT, LogSettings

LOG_CHECKS: Final[tuple[type[LogCheck], ...]] = (
    Coverage, Lag, Issuers, Retention, Consistency, Reverified, Equivocation, Drill, Anomalies, Oversight, Links,
    Access, Secrets,
)  # fmt: skip


class LogChecks:
    """All of them over one log. ``anomalies`` has the baselines, ``links`` the revisions that records claim.

    ``oversight`` takes reviews, whenever they were registered.
    """

    def __init__(self, spill: Spill, settings: LogSettings = DEFAULT) -> None:
        self.settings = settings
        self.anomalies = Anomalies(settings, spill)
        self.links = Links(settings, spill)
        self.oversight = Oversight(settings, spill)
        made: dict[type[LogCheck], LogCheck] = {
            Anomalies: self.anomalies,
            Links: self.links,
            Oversight: self.oversight,
        }
        self.all = tuple(made.get(check) or check(settings, spill) for check in LOG_CHECKS)

    def see(self, examined: Examined) -> None:
        for check in self.all:
            check.see(examined)

    def finish(self, facts: LogFacts) -> tuple[Finding, ...]:
        """One finding of each, in order; the spill may be closed afterwards."""
        return tuple(check.finish(facts) for check in self.all)
