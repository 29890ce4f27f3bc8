"""The 36 checks of a record (formats.md 10.3), in their order, and how they are run."""

from __future__ import annotations

from typing import Final

from transparency.compliance import (
    checks_actors,
    checks_anomaly,
    checks_content,
    checks_events,
    checks_incident,
    checks_integrity,
    checks_logging,
    checks_oversight,
    checks_times,
    checks_traceability,
)
from transparency.compliance.finding import Finding
from transparency.compliance.record_check import RecordCheck
from transparency.compliance.settings import DEFAULT, Settings
from transparency.compliance.subject import RecordSubject
from transparency.compliance.survey import Survey

RECORD_CHECKS: Final[tuple[RecordCheck, ...]] = (
    *checks_logging.CHECKS,
    *checks_times.CHECKS,
    *checks_actors.CHECKS,
    *checks_events.CHECKS,
    *checks_content.CHECKS,
    *checks_integrity.CHECKS,
    *checks_incident.CHECKS,
    *checks_anomaly.CHECKS,
    *checks_oversight.CHECKS,
    *checks_traceability.CHECKS,
)


def check_record(subject: RecordSubject, settings: Settings = DEFAULT) -> tuple[Finding, ...]:
    """One finding for each of the 36 checks, in their order, whatever the record holds."""
    survey = Survey(subject, settings)
    return tuple(check.run(survey) for check in RECORD_CHECKS)
