"""Registering one session: what ``submit`` does with each, so that a kill at any point loses and doubles nothing.

    1  read, detect, check; look at the statement kept beside it (reuse, continue, or refuse to touch it)
    2  sign, and write the statement to SESSION.cose before anybody else sees it
    3  upload the record, if the log is to have it beside the statement
    4  register; check the receipt; write SESSION.cose again, with the receipt

After a kill before 2 nothing happened. After it the same statement is found and registered again, which a log answers
with the same entry. A statement that was never registered is not continued: the log is asked. If another command wrote
one of the files meanwhile, all begins again from 1 with what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transparency.cli.canonical_file import keep_canonical
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, write_output
from transparency.cli.json_lines import now
from transparency.cli.kept_files import MeanwhileError, held, set_aside
from transparency.cli.kept_files import replace as replace_held
from transparency.cli.outcome import Begun, Form, NotARecordError, Options, Outcome
from transparency.cli.redaction_files import RedactedSession, previous, side_file_path
from transparency.cli.sessions import CANONICAL, PACKED, Source
from transparency.client.kept import Kept
from transparency.client.pinning import check_receipt
from transparency.client.signing import LARGEST_ATTACHED, About, SignedRecord, sign_record
from transparency.cose import labels
from transparency.cose.keys import PublicKey, Signer
from transparency.cose.sign1 import Sign1
from transparency.errors import (
    MalformedError,
    ProofError,
    ServiceRefusedError,
    SignatureInvalidError,
    UnsupportedAlgorithmError,
)
from transparency.records import convert
from transparency.records.detect import UnknownFormatError, detect
from transparency.statements.chain import FIRST
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts, receipts_of

if TYPE_CHECKING:
    from transparency.client.client import Submission
    from transparency.client.sync import SyncLogClient

_ATTEMPTS = 8
_NOT_FOUND = 404
_MAYBE_LATER = frozenset({408, 429})
_CLIENT_ERRORS = range(400, 500)


class Registrar:
    """One log, one issuer, one set of options."""

    def __init__(
        self, client: SyncLogClient, signer: Signer, options: Options, pinned: tuple[PublicKey, ...] | None = None
    ) -> None:
        self._client = client
        self._signer = signer
        self._options = options
        self._pinned = pinned
        self._served: tuple[PublicKey, ...] | None = None

    def register(self, source: Source, out: str | None = None) -> Outcome:
        """Sign and register the session, and its canonical records if asked for."""
        for _ in range(_ATTEMPTS):
            try:
                return self._register(source, out)
            except MeanwhileError as error:
                changed = error
        raise changed

    def _register(self, source: Source, out: str | None) -> Outcome:
        source, record, redacted = self._opened(source)
        outcome = self._one(source, record, out or source.statement, redacted)
        if self._options.convert:
            self._convert(source, record, outcome)
        return outcome

    @property
    def in_batches(self) -> bool:
        """Whether sessions can be sent together: not where one has to be settled before the next thing is done."""
        return self._options.wait and not self._options.convert

    def begin(self, source: Source) -> Begun:
        """All up to the sending of the statement; what comes of that is told by :meth:`finish` or :meth:`refused`."""
        source, record, redacted = self._opened(source)
        begun = self._begin(source, record, source.statement, redacted)
        if not begun.done:
            with self._taken_back(begun):
                self._upload(record, begun.outcome)
        return begun

    def _opened(self, source: Source) -> tuple[Source, bytes, RedactedSession | None]:
        record = source.read()
        redacted = self._redacted(source, record)
        if redacted is not None:
            source, record = replace(source, name=str(redacted.path)), redacted.redacted.data
        return source, record, redacted

    def _redacted(self, source: Source, record: bytes) -> RedactedSession | None:
        """The session redacted, if that was asked for; nothing of it is written yet."""
        if not self._options.redaction.wanted:
            return None
        if source.name == STDIO:
            hint = "What is taken out is kept beside its file: name that."
            raise CommandError(Exit.USAGE, "standard input cannot be redacted", hint)
        there = held(side_file_path(source.name))
        try:
            redacted = self._options.redaction.apply(record, detect(record).format, source.name)
        except UnknownFormatError as error:
            hint = "Only records of a known format can be redacted."
            raise NotARecordError(Exit.BAD_INPUT, f"{source.name}: {error}", hint) from error
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, f"{source.name} cannot be redacted: {error}") from error
        if redacted is None:
            return None
        return RedactedSession(source.name, source.packed, redacted, previous(source.name, record), there)

    def _one(self, source: Source, record: bytes, out: str, redacted: RedactedSession | None = None) -> Outcome:
        begun = self._begin(source, record, out, redacted)
        if not begun.done:
            with self._taken_back(begun):
                self._upload(record, begun.outcome)
                self.finish(begun, self._client.submit(begun.statement, wait=self._options.wait))
        return begun.outcome

    def _begin(self, source: Source, record: bytes, out: str, redacted: RedactedSession | None) -> Begun:
        about = self._about(source, record)
        form = self._form(record)
        before = held(out)
        kept = self._kept(out, before, record, redacted)
        earlier, links = self._earlier(out, kept, about)
        headers = {} if redacted is None else redacted.headers
        signed = self._sign(source, record, about, form, {**links, **headers})
        same = kept is not None and kept.covers and self._says_the_same(out, kept, signed)
        statement = kept.statement if same and kept is not None else Statement.from_bytes(signed.statement)
        outcome = Outcome(source.name, out, statement, form, about, signed, len(record), earlier=earlier)
        if about.detected is not None and not about.problem:
            outcome.violations = convert.check(record, about.detected)
        if redacted is not None:
            redacted.keep()
        if same and kept is not None and self._is_done(kept, outcome):
            return Begun(outcome, before, done=True)
        data = kept.data if same and kept is not None else signed.statement
        self._write_ahead(source, record, outcome, data, before)
        return Begun(outcome, before)

    # -- what to sign ----------------------------------------------------------------------------------------------

    def _about(self, source: Source, record: bytes) -> About:
        about = About.of(record)
        if about.problem and self._options.content_type is None:
            hint = "Give --content-type T and --sub URI to register the bytes as they are."
            if about.detected is not None:
                hint = f"Its agent may be writing it just now: try again. {hint}"
                raise CommandError(Exit.BAD_INPUT, f"{source.name}: {about.problem}", hint)
            raise NotARecordError(Exit.BAD_INPUT, f"{source.name}: {about.problem}", hint)
        return about

    def _form(self, record: bytes) -> Form:
        if self._options.private:
            return "private"
        return "attached" if self._options.attach or len(record) <= LARGEST_ATTACHED else "envelope"

    def _sign(
        self, source: Source, record: bytes, about: About, form: Form, links: dict[int | str, Any]
    ) -> SignedRecord:
        options = self._options
        try:
            return sign_record(
                record, self._signer, iss=options.iss, sub=options.sub, content_type=options.content_type,
                name=Path(source.name).name, private=form == "private", envelope=form != "attached",
                trace_metadata=options.trace_metadata or None, headers=links, about=about,
            )  # fmt: skip
        except MalformedError as error:
            hint = "Give --sub URI." if options.sub is None else "Check --iss, --sub and --content-type."
            raise CommandError(Exit.BAD_INPUT, f"{source.name} cannot be signed: {error}", hint) from error

    # -- what was signed before ------------------------------------------------------------------------------------

    def _kept(self, out: str, before: bytes | None, record: bytes, redacted: RedactedSession | None) -> Kept | None:
        """The statement at *out*, if it is the issuer's own; None where there is nothing, or it is to be replaced."""
        if before is None:
            return None
        kept = Kept.read(before, record, self._signer.public)
        if kept is None or kept.statement.iss != self._options.iss:
            self._foreign(out, "is no statement by this key and issuer")
            return None
        if redacted is not None and not kept.covers and redacted.was(kept.digest):
            self._foreign(out, "is about this session as it is, redacted with other options")
            return None
        return kept

    def _earlier(self, out: str, kept: Kept | None, about: About) -> tuple[Kept | None, dict[int | str, Any]]:
        """The statement that the new one continues, and the headers that say so."""
        first: dict[int | str, Any] = {} if about.finished else {labels.SESSION_CHECKPOINT: FIRST}
        if kept is None:
            return None, first
        if kept.covers:
            return None, kept.links
        sub = self._options.sub or next(iter(about.sessions), None)
        if kept.statement.sub != sub and not kept.is_prefix:
            self._foreign(out, "is about another session, or about bytes that this file does not begin with")
            return None, first
        if kept.receipts or self._is_registered(kept):
            return kept, kept.next_links()
        return None, kept.links or first

    def _says_the_same(self, out: str, kept: Kept, signed: SignedRecord) -> bool:
        """Whether the kept statement is what would be signed now: headers and payload, to the byte."""
        fresh = Sign1.from_bytes(signed.statement)
        if kept.statement.message.protected == fresh.protected and kept.statement.payload == fresh.payload:
            return True
        self._foreign(out, "is about these bytes, signed with other options")
        return False

    def _foreign(self, out: str, why: str) -> None:
        if not self._options.force:
            raise CommandError(Exit.CANNOT_WRITE, f"{out} {why}; it is left as it is", "Use --force or another --out.")

    def _is_registered(self, kept: Kept) -> bool:
        """Whether the log ever got a statement that was signed and has no receipt."""
        try:
            self._client.receipt(kept.statement.entry_id, wait=True)
        except ServiceRefusedError as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return True

    def _is_done(self, kept: Kept, outcome: Outcome) -> bool:
        """Whether the kept statement has a receipt of this log, so that there is nothing left to do."""
        from transparency.client.client import Submission  # with a log to talk to, it has been imported already

        if self._options.force or self._is_other_shape(kept):
            return False
        keys = self._keys()
        for receipt in kept.receipts:
            try:
                check_receipt(receipt, kept.statement.entry, keys)
            except (SignatureInvalidError, ProofError, MalformedError, UnsupportedAlgorithmError):
                continue
            location = self._client.entry_url(kept.statement.entry_id)
            outcome.submission = Submission(kept.statement.entry_id, location, receipt)
            outcome.known, outcome.trusted = True, self._pinned is not None
            return True
        return False

    def _is_other_shape(self, kept: Kept) -> bool:
        """With or without the record in the file: the same statement, written another way."""
        if kept.statement.envelope is not None:
            return False
        return (kept.statement.message.payload is None) != self._options.detached

    def _keys(self) -> tuple[PublicKey, ...]:
        if self._pinned is not None:
            return self._pinned
        if self._served is None:
            self._served = self._client.keys()
        return self._served

    # -- sending ---------------------------------------------------------------------------------------------------

    def _write_ahead(self, source: Source, record: bytes, outcome: Outcome, data: bytes, before: bytes | None) -> None:
        if outcome.out == STDIO:
            return
        if held(outcome.out) != before:
            raise MeanwhileError(outcome.out)
        stem = outcome.out.removesuffix(".cose")
        if before and data != before and outcome.earlier is None:
            # What --force replaces may be the only receipt there is.
            kept = set_aside(outcome.out, before, ".cose")
            outcome.notes.append(f"what was in {outcome.out} is kept as {kept}")
        if outcome.earlier is not None:
            outcome.earlier_file = f"{stem}.{outcome.earlier.checkpoint}.cose"
            write_output(outcome.earlier_file, outcome.earlier.data, force=True)
        if source.packed and outcome.form != "attached":
            # The bytes that were signed are in no file yet, and the folder goes on changing.
            self._keep_pack(stem + PACKED, record, outcome)
        if data != before:
            replace_held(outcome.out, data, before)

    def _keep_pack(self, path: str, record: bytes, outcome: Outcome) -> None:
        there = held(path)
        if there is not None and there != record:
            if outcome.earlier is None:
                set_aside(path, there, PACKED)
            else:
                write_output(f"{path.removesuffix(PACKED)}.{outcome.earlier.checkpoint}{PACKED}", there, force=True)
        if there != record:
            write_output(path, record, force=True)

    @contextmanager
    def _taken_back(self, begun: Begun) -> Iterator[None]:
        try:
            yield
        except ServiceRefusedError as error:
            self.refused(begun, error)
            raise

    def refused(self, begun: Begun, error: ServiceRefusedError) -> None:
        """If the log will not ever have it, what was written ahead goes, what was there before comes back."""
        outcome, before = begun.outcome, begun.before
        if error.status not in _CLIENT_ERRORS or error.status in _MAYBE_LATER or outcome.out == STDIO:
            return
        if before is None:
            Path(outcome.out).unlink(missing_ok=True)
        else:
            write_output(outcome.out, before, force=True)
        if outcome.earlier_file is not None:
            Path(outcome.earlier_file).unlink(missing_ok=True)

    def _upload(self, record: bytes, outcome: Outcome) -> None:
        if outcome.form == "envelope":
            outcome.new_artifact = self._client.put_artifact(record)

    def finish(self, begun: Begun, submission: Submission) -> None:
        """The log has it: check the receipt and keep it with the statement."""
        outcome = begun.outcome
        statement = outcome.statement
        message = statement.message.with_payload(statement.payload)
        outcome.submission = submission
        if submission.receipt is None:
            return
        check_receipt(submission.receipt, statement.entry, self._keys())
        outcome.trusted = self._pinned is not None
        if self._options.detached and statement.envelope is None:
            message = message.with_payload(None)
        write_output(
            outcome.out, attach_receipts(message.to_bytes(), with_receipt(message, submission.receipt)), force=True
        )

    # -- the canonical record --------------------------------------------------------------------------------------

    def _convert(self, source: Source, record: bytes, outcome: Outcome) -> None:
        """Register the canonical records too; each names the raw one by its hash (formats.md 8.1, rule 3)."""
        if outcome.about.detected is None or outcome.about.problem:
            outcome.notes.append("not converted: its format is not known")
            return
        made = list(convert.convert_to_bytes(record, created=now(), detected=outcome.about.detected))
        for number, canonical in enumerate(made, 1):
            if canonical == record:
                outcome.notes.append("it is a canonical record already, so there is no second one to register")
                return
            name = f"{source.name}{CANONICAL}" if len(made) == 1 else f"{source.name}.vac-{number}.json"
            path = Path(f"{outcome.file}{CANONICAL}" if source.name == STDIO else name)
            kept = keep_canonical(path, canonical, force=self._options.force)
            outcome.canonical.append(self._one(Source(str(path)), kept, f"{path}.cose"))


def with_receipt(message: Sign1, new: bytes) -> Sequence[bytes]:
    """The new receipt first (TSt-2: the order is a priority), then the log's first one, then those of other logs.

    The first one says when the statement was registered: what has ended since (a certificate, a key) was good then.
    """
    receipt = Receipt.from_bytes(new)
    earliest, first = receipt.iat, new
    others = []
    for old in receipts_of(message):
        try:
            known = Receipt.from_bytes(old)
        except (MalformedError, UnsupportedAlgorithmError):
            others.append(old)  # of a kind we cannot read: somebody else's, not ours to drop
            continue
        if (known.iss, known.sub) != (receipt.iss, receipt.sub):
            others.append(old)
        elif known.iat is not None and earliest is not None and known.iat < earliest:
            earliest, first = known.iat, old
    return [new, *([first] if first != new else []), *others]
