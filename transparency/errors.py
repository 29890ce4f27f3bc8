"""Every error this package raises on purpose: one base, one subclass per thing a caller can do about it.

A message says what was wrong, where, and what to do. It never carries a payload, a token or a key.
"""

from __future__ import annotations


class TransparencyError(Exception):
    """Base of all errors a caller may want to handle."""


class MalformedError(TransparencyError):
    """Bytes are not of the one form their type has. The sender must send something else."""


class PassphraseError(MalformedError):
    """A private key is encrypted, and its passphrase is missing or wrong. Give the right one."""


class NoteError(MalformedError):
    """A signed note, checkpoint, verifier key, proof or policy file is not of the one form C2SP gives it."""


class SignerError(TransparencyError):
    """A signer that lives elsewhere is not installed, or does not open its key."""


class UnsupportedAlgorithmError(TransparencyError):
    """A signature or hash algorithm that is unknown, or does not fit the key."""


class PayloadMissingError(TransparencyError):
    """A detached message whose payload was not supplied. Supply it."""


class SignatureInvalidError(TransparencyError):
    """The signature is not by this key over these bytes."""


class ProofError(TransparencyError):
    """A Merkle proof does not lead from its leaf to its root."""


class RefusedError(TransparencyError):
    """The registration policy does not accept a statement; the message is the reason, for the submitter."""


class CertificateError(RefusedError):
    """An X.509 certificate or chain does not say whose key signed; the message is the one reason."""


class CertificateMissingError(CertificateError):
    """A statement names a certificate that did not come with it. Supply it."""


class NotFoundError(TransparencyError):
    """There is no such entry, head or key here."""


class GoneError(TransparencyError):
    """It was here and has been erased; the tree and its proofs stay."""


class OverloadedError(TransparencyError):
    """Nothing was accepted; try again after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotLeadingError(OverloadedError):
    """This node of a cluster does not lead its log; the message says who does. Nothing was accepted."""


class NobodyLeadsError(OverloadedError):
    """No node of a cluster leads its log. Start one that may lead, or mend what keeps it from that."""


class JudgementStaleError(TransparencyError):
    """The policy generation or the time moved past a judgement before it was sequenced: judge again."""


class StoreError(TransparencyError):
    """Storage failed, and it is not known what it kept. The writer must stop, not guess."""


class TipMovedError(StoreError):
    """The compare-and-swap on the tip failed: another writer owns the log."""


class WorkersError(TransparencyError):
    """The processes that accept connections cannot be kept running. The store is as it was."""


class LogUnusableError(TransparencyError):
    """The stored state is behind, different from or inconsistent with what is known; it is refused, never forked."""


class DatabaseUnreachableError(LogUnusableError):
    """The PostgreSQL of a log, or of its mark, does not answer. It may tomorrow."""


class MarkUnreachableError(DatabaseUnreachableError):
    """The PostgreSQL of the high-water mark does not answer."""


class DatabaseRefusedError(LogUnusableError):
    """The PostgreSQL of a log, or of its mark, does not let this user in, or has no such database."""


class FolderOwnedError(TransparencyError):
    """Another process holds the data folder."""


class RunningElsewhereError(FolderOwnedError):
    """Another process holds the high-water mark: this log runs from another folder, and this one is a copy of it."""


class UnreachableError(TransparencyError):
    """The log did not answer, or not as a log does."""


class RedirectedError(UnreachableError):
    """The log sent us elsewhere, where we do not go; or a web server says so that it has a folder of that name."""


class AnswerTooLargeError(UnreachableError):
    """The log answered with more bytes than were asked for; the rest was not read."""


class ServiceRefusedError(TransparencyError):
    """The log answered with a problem: ``status``, ``title`` and ``detail`` are its words (RFC 9290)."""

    def __init__(self, status: int, title: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{title}: {detail}" if detail else title)
        self.status = status
        self.title = title
        self.detail = detail
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[type[ServiceRefusedError], tuple[int, str, str, float | None]]:
        """As it was made: it comes out of other processes too."""
        return type(self), (self.status, self.title, self.detail, self.retry_after)
