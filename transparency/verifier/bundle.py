"""An evidence bundle, checked: every file against the manifest, every statement against keys that are trusted.

The timeline and the pages are made again from statements and records, and compared.

What is in the folder was put there by whoever made it, keys included: those are *claimed*. Only the trust that the
caller has makes a verdict. Nothing outside the folder is read.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from transparency.compliance.incident import MAX_BYTES as MAX_JSON
from transparency.compliance.incident import Incident
from transparency.compliance.incident_page import index_page, readme, timeline_page
from transparency.compliance.incident_timeline import Piece, Timeline, record_of, to_bytes
from transparency.errors import MalformedError, TransparencyError
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.policy import WitnessPolicy
from transparency.notes.vkey import VerifierKey
from transparency.statements.statement import Statement
from transparency.verifier import manifest as manifests
from transparency.verifier.heads import HeadCache
from transparency.verifier.manifest import Manifest
from transparency.verifier.report import EXIT_CODES, Report, Verdict
from transparency.verifier.trust import TrustStore
from transparency.verifier.verify import Options, Verifier

MANIFEST: Final = manifests.NAME
INCIDENT, TIMELINE, README = "incident.json", "timeline.json", "README.txt"
PAGES: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bytes]]] = {
    README: readme,
    "index.html": index_page,
    "timeline.html": timeline_page,
}
TRUST, KEYS, VKEYS, POLICY, CHECKPOINT = (
    "log/trust.toml", "log/keys.cbor", "log/vkeys.txt", "log/policy.toml", "log/checkpoint",
)  # fmt: skip
STATEMENTS: Final = "statements"
MAX_STATEMENT: Final = 64 * 1024 * 1024
MAX_RECORD: Final = 1024 * 1024 * 1024
MAX_SMALL: Final = 16 * 1024 * 1024
MAX_TIMELINE: Final = 1024 * 1024 * 1024
_MADE: Final = frozenset({TIMELINE, *PAGES})
_MUST: Final = _MADE | {INCIDENT}
_MAY: Final = frozenset({TRUST, KEYS, VKEYS, POLICY, CHECKPOINT})
_STATEMENT: Final = re.compile(rf"{STATEMENTS}/(0|[1-9][0-9]{{0,15}})-([A-Za-z0-9_-]{{43}})\.(cose|payload|tlog-proof)")
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("failed", "cannot-tell", "warnings", "verified")


def stem(index: int, entry: str) -> str:
    """The name of an entry's files, without their endings."""
    return f"{STATEMENTS}/{index}-{entry}"


class Look(NamedTuple):
    """What was found of one file, or of several at once."""

    file: str
    outcome: Literal["passed", "failed", "not_checked"]
    detail: str

    def to_json(self) -> dict[str, str]:
        return {"file": self.file, "outcome": self.outcome, "detail": self.detail}


@dataclass(slots=True)
class BundleReport:
    """``statements`` are (file, report). ``events`` is how many entries the timeline has."""

    looks: list[Look] = field(default_factory=list)
    statements: list[tuple[str, Report]] = field(default_factory=list)
    events: int = 0
    without_record: int = 0

    @property
    def verdict(self) -> Verdict:
        if any(look.outcome == "failed" for look in self.looks) or not self.statements:
            return "failed"
        found: set[Verdict] = {report.verdict for _, report in self.statements}
        if any(look.outcome == "not_checked" and look.file in _MADE for look in self.looks):
            # What people read could not be held against the evidence: whatever the statements say, it is not verified.
            found.add("cannot-tell")
        return next(each for each in _WORST_FIRST if each in found)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "exit-code": self.exit_code,
            "events": self.events,
            "without-record": self.without_record,
            "bundle": [look.to_json() for look in self.looks],
            "statements": [{"file": file, **report.to_json()} for file, report in self.statements],
        }


class BundleVerifier:
    """Verifies one folder by the *trust* of the caller."""

    def __init__(
        self,
        folder: Path,
        trust: TrustStore,
        options: Options,
        witness_policy: WitnessPolicy | None = None,
        software: str = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """*software* names this version: another one may make another timeline, and pages that look otherwise."""
        self._folder = folder
        self._trust = trust
        self._options = options
        self._policy = witness_policy
        self._software = software
        self._progress = progress or (lambda _done, _total: None)
        self._report = BundleReport()

    def verify(self) -> BundleReport:
        report = self._report
        try:
            listed = Manifest.from_bytes(self._read(MANIFEST, manifests.MAX_BYTES))
        except MalformedError as error:
            self._find(MANIFEST, str(error))
            return report
        report.looks += [Look(name, "failed", why) for name, why in listed.problems(self._folder)]
        report.looks += [Look(name, "failed", why) for name, why in _misplaced(listed)]
        if report.looks:
            return report  # what follows rests on these files
        self._pass(MANIFEST, f"{len(listed.files)} files are as it says, none is missing, none is there beside them")
        try:
            incident = Incident.from_bytes(self._read(INCIDENT, MAX_JSON))
        except MalformedError as error:
            self._find(INCIDENT, str(error))
            return report
        timeline = Timeline(incident.query)
        self._statements(sorted(_entries(listed)), listed, timeline)
        made = timeline.to_json()
        report.events = len(made["events"])
        self._compare(made, incident)
        if CHECKPOINT in listed.files:
            self._checkpoint(listed)
        return report

    def _statements(self, entries: list[tuple[int, str]], listed: Manifest, timeline: Timeline) -> None:
        heads = HeadCache()
        whole = Verifier(self._trust, self._options, heads, witness_policy=self._policy)
        bare = Verifier(
            self._trust, Options(receipt_only=not self._options.statement_only, now=self._options.now), heads,
            witness_policy=self._policy,
        )  # fmt: skip
        claimed = self._claimed(listed)
        agree = 0
        for number, (index, entry) in enumerate(entries):
            self._progress(number, len(entries))
            name = stem(index, entry)
            try:
                piece, proofs = self._piece(name, listed)
                statement = Statement.from_bytes(piece.data)
                looked = timeline.look(piece)
            except TransparencyError as error:
                self._find(f"{name}.cose", str(error))
                continue
            timeline.keep(looked)
            if (looked.entry["index"], looked.entry["entry"]) != (index, entry):
                self._find(f"{name}.cose", f"it is another entry: {looked.entry['index']} {looked.entry['entry']}")
            if (
                statement.envelope is not None
                and piece.record is not None
                and record_of(statement, piece.record) is None
            ):
                self._find(f"{name}.payload", "it is not the record whose digest was signed")
            missing = record_of(statement, piece.record) is None
            self._report.without_record += missing
            verifier = bare if missing else whole
            self._report.statements.append((f"{name}.cose", verifier.verify(piece.data, piece.record, proofs=proofs)))
            if claimed is not None:
                agree += claimed.verify(piece.data, piece.record).verdict in ("verified", "warnings")
        if claimed is not None:
            detail = f"{agree} of {len(entries)} statements verify with the keys in the bundle, which are only claimed"
            self._report.looks.append(Look(TRUST, "not_checked", detail))

    def _claimed(self, listed: Manifest) -> Verifier | None:
        """By the bundle's own keys, where the caller has none: they show that it hangs together, and no more."""
        if self._trust.logs or TRUST not in listed.files:
            return None
        try:
            return Verifier(TrustStore.from_toml(self._read(TRUST, MAX_SMALL)), Options(receipt_only=True))
        except MalformedError as error:
            self._find(TRUST, str(error))
            return None

    def _piece(self, name: str, listed: Manifest) -> tuple[Piece, list[bytes]]:
        record = None
        if f"{name}.payload" in listed.files:
            record = self._read(f"{name}.payload", MAX_RECORD)
        proof = f"{name}.tlog-proof"
        proofs = [self._read(proof, MAX_SMALL)] if proof in listed.files else []
        return Piece(self._read(f"{name}.cose", MAX_STATEMENT), record), proofs

    def _compare(self, made: dict[str, Any], incident: Incident) -> None:
        """The timeline and the pages, made again."""
        wanted: dict[str, bytes] = {TIMELINE: to_bytes(made)}
        account = incident.to_json()
        wanted |= {name: page(account, made) for name, page in PAGES.items()}
        for name, data in wanted.items():
            if self._read(name, MAX_TIMELINE) == data:
                self._pass(name, "it is what statements and records give")
            elif incident.software != self._software:
                detail = (
                    f"it is not what this version makes of the records; the bundle says {incident.software} made it"
                )
                self._report.looks.append(Look(name, "not_checked", detail))
            else:
                self._find(name, "it is not what the statements and records give")

    def _checkpoint(self, listed: Manifest) -> None:
        try:
            signed = SignedCheckpoint.from_bytes(self._read(CHECKPOINT, MAX_SMALL))
            if self._policy is not None:
                verify_log_signatures(signed, [log.key for log in self._policy.logs])
                result = self._policy.check(signed)
                if not result.ok:
                    self._find(CHECKPOINT, f"no quorum of witnesses cosigned it; missing: {', '.join(result.missing)}")
                else:
                    self._pass(CHECKPOINT, f"size {signed.checkpoint.size}, cosigned by {', '.join(result.counted)}")
                return
            if VKEYS in listed.files:
                lines = self._read(VKEYS, MAX_SMALL).decode("utf-8", "strict").splitlines()
                verify_log_signatures(signed, [VerifierKey.parse(line) for line in lines])
        except (TransparencyError, UnicodeDecodeError) as error:
            self._find(CHECKPOINT, str(error))
            return
        detail = f"size {signed.checkpoint.size}, by keys that are only claimed; --witness-policy checks its witnesses"
        self._report.looks.append(Look(CHECKPOINT, "not_checked", detail))

    def _read(self, name: str, most: int) -> bytes:
        path = self._folder / name
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise MalformedError("it is not a file: a link, or something that is never read to its end")
            with path.open("rb") as file:
                data = file.read(most + 1)
        except OSError as error:
            raise MalformedError(f"it cannot be read ({error.strerror})") from error
        if len(data) > most:
            raise MalformedError(f"it has more than {most} bytes")
        return data

    def _find(self, name: str, why: str) -> None:
        self._report.looks.append(Look(name, "failed", why))

    def _pass(self, name: str, detail: str) -> None:
        self._report.looks.append(Look(name, "passed", detail))


def _misplaced(listed: Manifest) -> Iterator[tuple[str, str]]:
    entries = set(_entries(listed))
    for name in sorted(_MUST - listed.files.keys()):
        yield name, "it is missing: every bundle has it"
    for name in sorted(listed.files.keys() - _MUST - _MAY):
        match = _STATEMENT.fullmatch(name)
        if match is None:
            yield name, "it should not be here: no bundle has such a file"
        elif (int(match[1]), match[2]) not in entries:
            yield name, "it should not be here: its statement is missing"
    if not entries:
        yield STATEMENTS, "there is no statement in the bundle"


def _entries(listed: Manifest) -> Iterator[tuple[int, str]]:
    for name in listed.files:
        match = _STATEMENT.fullmatch(name)
        if match is not None and match[3] == "cose":
            yield int(match[1]), match[2]
