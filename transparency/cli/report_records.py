"""``transparency report FILE...``: every record is verified as ``verify`` does it, checked, and put into one report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import SIGN1_HEAD, STDIO, read_input
from transparency.cli.output import progress
from transparency.cli.report_attested import StatedFiles
from transparency.cli.report_options import ReportOptions
from transparency.cli.sessions import expand as expand_sessions
from transparency.cli.verify_inputs import earlier_beside, find_payload
from transparency.cli.verify_inputs import expand as expand_statements
from transparency.cli.verify_witnesses import find_proofs
from transparency.compliance.record_checks import RECORD_CHECKS, check_record
from transparency.compliance.report import CheckNote, Examination, Report, ReportBuilder
from transparency.compliance.rollup import UNSIGNED
from transparency.compliance.settings import DEFAULT, Settings
from transparency.compliance.subject import RecordSubject, Signing, subjects
from transparency.cose.algorithms import ALGORITHMS
from transparency.display import iso_utc, safe_text
from transparency.errors import TransparencyError
from transparency.records.detect import detect
from transparency.records.timestamps import instant
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of
from transparency.verifier import Options, Verifier
from transparency.verifier import Report as Verification
from transparency.verifier.message_reader import read_message
from transparency.verifier.statement_checks import Subject, read_subject

_COMPARED: Final = frozenset({"passed", "failed", "warned"})
_METADATA: Final = ("signed-trace-metadata/", "trace-metadata/")
METHOD: Final = (
    "Each file was verified as `transparency verify` does it: issuer's signature, receipt, inclusion, trace-metadata.",
    "All checks ran on the bytes that were signed, converted to the canonical form; pointers lead into that form.",
    "A record without a statement was checked too; its signing checks say that nobody signed it.",
    "To repeat it, run `transparency report` on the same files with the same keys.",
    "`transparency verify FILE` shows every step of one file, `transparency convert FILE` the form pointers lead into.",
)
LIMITS: Final = (
    "Whether the records are all there are: a session that was never recorded leaves no trace in the others.",
    "Whether a record says what happened: it shows what its recorder wrote, and that nobody changed it since.",
    "Whether clocks were right, and which natural person sat at the keyboard, unless somebody attests it.",
    "Whether the log forked, keeps records long enough or limits access: a report about the log (--log) looks at it.",
    "Whether a clause binds you. Wording marked unverified was not compared with the document's own text.",
)


def run(options: ReportOptions) -> Report:
    """Examine every file; one that cannot be read is named in the report, and none at all is "cannot tell"."""
    settings = _settings(options)
    verifier = Verifier(options.trust, Options(now=options.now // 1000), witness_policy=options.witness_policy)
    builder = ReportBuilder(
        "records", options.now, options.software, check_notes(), options.frameworks,
        trust=[*options.trust_lines], method=METHOD, limits=LIMITS,
    )  # fmt: skip
    stated = StatedFiles(verifier, options.now // 1000)
    names = stated.take(list(_expand(options.files)))
    codes: set[Exit] = set()
    with progress("examining", quiet=options.quiet) as bar:
        for name in bar.track(names):
            try:
                for subject, examined in examine(name, verifier, options, settings):
                    registered = None if examined.registered is None else examined.registered // 1000
                    # Whose record it is, only a signature that was verified says.
                    iss = examined.iss if subject.signing is not None and subject.signing.trusted else None
                    builder.add(examined, day=_day(subject, examined), attested=stated.fills(iss, registered))
            except CommandError as error:
                builder.unreadable.append((name, str(error)))
                codes.add(error.code)
    builder.attested += [shown for _, shown in stated.in_force]
    builder.lapsed += stated.lapsed
    if len(builder.unreadable) == len(names):
        _, why = (*builder.unreadable, *stated.refused, ("", "no record was given"))[0]
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        code = Exit.NO_INPUT if codes == {Exit.NO_INPUT} else Exit.CANNOT_TELL
        raise CommandError(code, f"nothing could be examined: {why}{more}")
    builder.unreadable += stated.refused
    if stated.others:
        builder.scope.append(("statements that are no records", str(sum(stated.others.values()))))
    builder.scope += [
        ("files", f"{len(names)}" if len(names) != 1 else names[0]),
        ("frameworks", ", ".join(framework.title for framework in options.frameworks) or "none"),
    ]
    return builder.build()


def check_notes() -> tuple[CheckNote, ...]:
    return tuple(CheckNote(check.id, check.requirement, check.title, check.looks_at) for check in RECORD_CHECKS)


def examine(
    name: str, verifier: Verifier, options: ReportOptions, settings: Settings = DEFAULT
) -> Iterator[tuple[RecordSubject, Examination]]:
    """The sessions of one file, each with its findings."""
    source = _read(name)
    if not source.startswith(SIGN1_HEAD):
        try:
            detect(source)
        except TransparencyError as error:
            raise CommandError(Exit.BAD_INPUT, f"{name}: not a record ({error})") from error
        made = subjects(source, None, now=options.now)
        yield from _examined(name, made, settings, UNSIGNED, "No statement: nobody signed this file.")
        return
    record, _ = find_payload(name, source)
    verification = verifier.verify(source, record, earlier=earlier_beside(name, source), proofs=find_proofs(name, None))
    try:
        subject = read_subject(read_message(source), record)
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{name}: {error}") from error
    signing = signing_of(subject, verification, options)
    wrong = _is_wrong(verification)
    if subject.record is None or wrong:
        # Bytes that are not the ones that were signed are not what the statement is about.
        made = [RecordSubject(None, signing=signing, now=options.now)]
    else:
        made = subjects(subject.record, signing, now=options.now)
    missing = "mismatch" if wrong else "hash-only"
    yield from _examined(name, made, settings, verification.verdict, verification.summary, missing)


def _examined(
    name: str, made: list[RecordSubject], settings: Settings, outcome: str, statement: str, missing: str = "hash-only"
) -> Iterator[tuple[RecordSubject, Examination]]:
    for number, subject in enumerate(made, 1):
        session = subject.record.get("session") if subject.record is not None else None
        identity = session.get("session-id") if isinstance(session, dict) else None
        signing = subject.signing
        shown = "standard input" if name == STDIO else safe_text(name)
        yield (
            subject,
            Examination(
                name=shown if len(made) == 1 else f"{shown} ({number} of {len(made)})",
                session="" if identity is None else safe_text(_text(identity)),
                format=subject.format,
                findings=check_record(subject, settings),
                file=None if name == STDIO else name,
                entry=None if signing is None else signing.entry,
                index=None if signing is None else signing.index,
                registered=None if signing is None else signing.registered,
                iss=None if signing is None else signing.iss,
                outcome=outcome,
                statement=statement,
                availability="read" if subject.record is not None or subject.violations else missing,
            ),
        )


def signing_of(subject: Subject, verification: Verification, options: ReportOptions) -> Signing:
    """What the verifier found out, as the checks ask for it."""
    outcomes = {check.id: check for check in reversed(verification.checks) if check.receipt is None}
    claims = {claim.name: claim.value for claim in verification.claims}
    signature = _known(verification, "issuer-signature")
    compared = [
        (check.id.partition("/")[2], str(check.outcome), check.detail)
        for check in verification.checks
        if check.id.startswith(_METADATA) and check.outcome in _COMPARED
    ]
    hashes = [outcome for member, outcome, _ in compared if member == "content-hash"]
    profile = outcomes.get("profile")
    quorum = outcomes.get("witness-quorum")
    cosigned = None if quorum is None else quorum.evidence.get("cosigned")
    asked = 0 if options.witness_policy is None else len(options.witness_policy.witnesses)
    head_time = claims.get("head-time")
    index = claims.get("index")
    alg = ALGORITHMS.get(subject.message.alg)
    receipts = len(receipts_of(subject.message))
    return Signing(
        iss=subject.iss,
        sub=subject.sub,
        alg=str(subject.message.alg) if alg is None else alg.name,
        kid=None if subject.kid is None else subject.kid.hex(),
        signature=signature,
        trusted=_trusted(verification, options),
        headers=() if profile is None or profile.outcome == "passed" else (profile.detail,),
        content_hash="absent" if not hashes else "differs" if "failed" in hashes else "equal",
        metadata=tuple(compared),
        receipts=receipts,
        inclusion=_known(verification, "inclusion"),
        log_trusted=_known(verification, "registered") is True if options.trust.logs and receipts else None,
        witnesses=(cosigned, asked) if isinstance(cosigned, int) else None,
        entry=_entry_id(subject),
        index=index if isinstance(index, int) else None,
        registered=head_time * 1000 if isinstance(head_time, int) else None,
    )


def _known(verification: Verification, name: str) -> bool | None:
    """Of several receipts one that holds is enough; None where nobody could tell."""
    outcomes = [check.outcome for check in verification.checks if check.id == name]
    if "passed" in outcomes:
        return True
    return False if "failed" in outcomes else None


def _trusted(verification: Verification, options: ReportOptions) -> bool | None:
    """Whether the trust store has the key for that issuer; None where it names no issuer at all."""
    if not options.trust.issuers:
        return None
    timely = _known(verification, "issuer-key-time")
    return _known(verification, "issuer-signature") is True and timely is not False


def _is_wrong(verification: Verification) -> bool:
    """The record given is not the one that was signed."""
    return any(check.id in ("envelope", "payload") and check.outcome == "failed" for check in verification.checks)


def _entry_id(subject: Subject) -> str | None:
    with contextlib.suppress(TransparencyError):
        return Statement.from_bytes(subject.message.to_bytes(), subject.body).entry_id
    return None


def _day(subject: RecordSubject, examined: Examination) -> str | None:
    """The day of registration, else the one on which the session began."""
    moment = examined.registered
    if moment is None and subject.record is not None:
        session = subject.record.get("session")
        moment = instant(session.get("session-start")) if isinstance(session, dict) else None
    return None if moment is None else iso_utc(moment // 1000)[:10]


def _text(identity: Any) -> str:  # noqa: ANN401 - whatever a record has there
    return f"h'{identity.hex()}'" if isinstance(identity, bytes) else str(identity)


def _read(name: str) -> bytes:
    path = Path(name)
    if name != STDIO and path.is_dir():
        return expand_sessions([name])[0].read()
    return read_input(name, may_be_empty=True)


def _expand(paths: tuple[str, ...]) -> Iterator[str]:
    """Folders become the statements in them; one without any, the records in it."""
    for path in paths:
        if path == STDIO or not Path(path).is_dir():
            yield path
        elif not any(item.is_file() for item in Path(path).rglob("*")):
            raise CommandError(Exit.NO_INPUT, f"{path}: there is no file in this folder")
        elif any(Path(path).rglob("*.cose")):
            yield from expand_statements([path])
        else:
            yield from (source.name for source in expand_sessions([path]))


def _settings(options: ReportOptions) -> Settings:
    try:
        return DEFAULT if options.settings is None else Settings.from_toml(options.settings)
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"--settings: {error}") from error
