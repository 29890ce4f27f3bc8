"""Rules about the record inside a statement: its format, its profile, whether it checks clean.

Of an attached record its own bytes tell. Of a hash envelope only what is signed does, the signed trace-metadata copy
(-70100): a decision must stay replayable after the artifact was erased, so the artifact never takes part in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from transparency.cose import labels
from transparency.errors import MalformedError
from transparency.policy import names
from transparency.policy.issuer import Records
from transparency.policy.rules import Case
from transparency.records import convert
from transparency.records.detect import Detected, detect
from transparency.statements.statement import Statement

_NOT_CARRIED = "the policy checks the record, which a hash envelope does not carry"


@dataclass(frozen=True, slots=True)
class RecordRule:
    name: ClassVar[str] = "records"
    records: Records

    def refuses(self, case: Case) -> str:
        if case.statement.envelope is not None:
            return self._envelope(case.statement)
        try:
            detected = detect(case.statement.payload)
        except MalformedError:
            return "the payload is in no record format that is known here"
        return self._format(detected) or self._profile(detected) or self._check(case.statement.payload, detected)

    def accepts(self, case: Case) -> str:
        if case.statement.envelope is not None:
            return f"its signed trace-metadata says {_trace_format(case.statement) or 'nothing'}"
        detected = detect(case.statement.payload)
        profile = f", profile {detected.profile}" if detected.profile else ""
        checked = "" if self.records.check == "any" else f"; it checks {self.records.check}"
        return f"the record is a {detected.format.name}{profile}{checked}"

    def _envelope(self, statement: Statement) -> str:
        if self.records.check != "any" or self.records.profiles:
            return _NOT_CARRIED
        said = _trace_format(statement)
        if said is None:
            return "the hash envelope has no signed trace-metadata (-70100) that says its record's format"
        if all(said != each.trace_format for name in self.records.formats for each in names.FORMATS[name]):
            return "the record format that the hash envelope says is not accepted by the policy"
        return ""

    def _format(self, detected: Detected) -> str:
        accepted = [each for name in self.records.formats for each in names.FORMATS[name]]
        if self.records.formats and detected.format not in accepted:
            return f"a {detected.format.name} is not a record format that the policy accepts"
        return ""

    def _profile(self, detected: Detected) -> str:
        if self.records.profiles and detected.profile is not None and detected.profile not in self.records.profiles:
            return f"profile {detected.profile} is not accepted by the policy"
        return ""

    def _check(self, payload: bytes, detected: Detected) -> str:
        if self.records.check == "any":
            return ""
        try:
            found = convert.check(payload, detected)
        except MalformedError:
            return f"the record is not a {detected.format.name} that can be read to its end"
        violations = sum(each.level == "violation" for each in found)
        warnings = len(found) - violations
        if violations:
            return f"the record breaks the rules of its format in {violations} places; `transparency check` shows them"
        if warnings and self.records.check == "clean":
            return f"the record has {warnings} warnings, the policy wants none; `transparency check` shows them"
        return ""


def _trace_format(statement: Statement) -> str | None:
    metadata = statement.message.headers.get(labels.TRACE_METADATA_SIGNED)
    said = metadata.get("trace-format") if isinstance(metadata, Mapping) else None
    return said if isinstance(said, str) else None
