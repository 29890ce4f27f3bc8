"""The short way for what bulk is made of: statements of a usual form, one receipt each, under heads that are settled.

A head is *settled* once a statement under it was verified the long way and its receipt counts. Receipts of a batch say
the same in the same bytes but for their index and path (AMB-5), and statements of one issuer differ in what no check
speaks of: subject, time, payload. So for another such statement under that head it is shown here that

1. its form is the one form, its headers and claims are usual ones, and its record is none that is read (``_asked``);
2. header, size and signature of its receipt are, byte for byte, those that were verified;
3. its own path leads from its own entry to the root that was verified;
4. the same issuer's key signed it, by the same algorithm: verified for each;

and then all that the long way said then is what it would say now (``Answer``). Whatever is not shown goes the long way,
which decides and explains: a failure is never said here. A property test holds the two to each other.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from transparency.cose import cbor, labels
from transparency.cose.sign1 import MAX_PROTECTED
from transparency.errors import SignatureInvalidError, TransparencyError, UnsupportedAlgorithmError
from transparency.merkle.hashing import leaf_hash
from transparency.statements.receipt import MAX_PATH
from transparency.verifier.climb import STEP
from transparency.verifier.message_reader import LABEL_TYPES, ONE_RECEIPT, PREFIX
from transparency.verifier.receipt_reader import HASH_HEADS, HASH_SIZES, VDP, Plain, read_head
from transparency.verifier.record_checks import may_be_record
from transparency.verifier.report import Answer, Facts, Report
from transparency.verifier.statement_checks import ENVELOPE_LABELS, are_usual
from transparency.verifier.templates import Templates

if TYPE_CHECKING:
    from collections.abc import Callable

    from transparency.cose.sign1 import Sign1
    from transparency.verifier.climb import Climber
    from transparency.verifier.receipt_checks import Registration
    from transparency.verifier.report import Check
    from transparency.verifier.trust import IssuerKey, KeyIndex

MAX_SETTLED: Final = 1024
MAX_ANSWERS: Final = 64
# Of a receipt's signature: a larger one is not remembered.
_MAX_BYTES: Final = 1024
_EMPTY_MAP: Final = b"\xa0"
_ONE_LABEL: Final = {labels.RECEIPTS}
_CONTEXT: Final = b"\x84\x6aSignature1"
_NO_AAD: Final = b"\x40"
_NEVER: Final = ENVELOPE_LABELS | {labels.CRIT, labels.RECEIPTS, labels.VDS}
_NEVER_WITH_RECORD: Final = _NEVER | {
    labels.TRACE_METADATA_SIGNED,
    labels.SUPERSEDES,
    labels.SESSION_CHECKPOINT,
    labels.REDACTIONS,
}

Asked = tuple["IssuerKey | None", int]
"""Who signed the statement, None where that is not asked, and its alg."""
_Meaning = tuple["IssuerKey | None", int, object]
"""The same with the content type: all that is taken from a usual header."""


class _Settled(NamedTuple):
    size: int
    opening: bytes
    """Of the proof: the head of its array, and the size."""
    ending: bytes
    """Of the receipt: no payload, and the signature."""
    root: bytes
    answers: dict[tuple[int, int], Answer]
    """By the id() of the key (they live as long as the index of trusted keys does, and so as this) and the alg."""


class Ready(NamedTuple):
    """All is shown but the issuer's signature."""

    data: bytes
    answer: Answer
    signer: IssuerKey | None
    alg: int
    signed: bytes
    signature: bytes


class Express:
    """Answers what was answered before; bounded memories of heads, of answers and of headers."""

    def __init__(
        self,
        keys: KeyIndex,
        climber: Climber,
        required: frozenset[str],
        again: Callable[[bytes], Report],
        *,
        receipt_only: bool,
    ) -> None:
        """``again``: the long way, for the facts of a report, when they are asked for."""
        self._keys = keys
        self._climber = climber
        self._required = required
        self._again = again
        self._receipt_only = receipt_only
        self._never = _NEVER if receipt_only else _NEVER_WITH_RECORD
        self._issuers_asked = keys.has_issuers or not receipt_only
        self._settled: dict[bytes, _Settled] = {}
        self._templates: Templates[_Meaning] = Templates()

    def begin(self, data: bytes) -> Ready | None:  # noqa: PLR0911 - every None is the long way
        """Show all but the signature; None for the long way."""
        try:
            protected, after = cbor.read_bstr(data, 2)
            if data[after : after + 5] != ONE_RECEIPT or data[:2] != PREFIX or len(protected) > MAX_PROTECTED:
                return None
            receipt, body = cbor.read_bstr(data, after + 5)
            at = 4 + receipt[3] if len(receipt) > 4 and receipt[2] == 0x58 else 0
            settled = self._settled.get(receipt[:at])
            if settled is None:
                return None
            payload, tail = cbor.read_bstr(data, body)
            signature, end = cbor.read_bstr(data, tail)
            if end != len(data):
                return None
            asked = self._asked(protected, payload)
            if asked is None:
                return None
            signer, alg = asked
            answer = settled.answers.get((id(signer), alg))
            if answer is None:
                return None
            entry = sha256(b"".join((data[:after], _EMPTY_MAP, data[body:]))).digest()
            if self._root(settled, receipt, at, entry) != settled.root:
                return None
        except TransparencyError:
            return None
        # Heads have one spelling, so those received are those that were signed (RFC 9052 §4.4).
        signed = b"" if signer is None else b"".join((_CONTEXT, data[2:after], _NO_AAD, data[body:tail]))
        return Ready(data, answer, signer, alg, signed, signature)

    def end(self, ready: Ready) -> Report | None:
        """The report; None for the long way, where the signature does not verify."""
        return self.report(ready) if self.is_signed(ready) else None

    def is_signed(self, ready: Ready) -> bool:
        """Whether the issuer's key signed it, where that is asked."""
        _, _, signer, alg, signed, signature = ready
        if signer is None:
            return True
        try:
            signer.key.verify(alg, signed, signature)
        except (SignatureInvalidError, UnsupportedAlgorithmError):
            return False
        return True

    def report(self, ready: Ready) -> Report:
        """What was said of another; the facts are this one's, found when they are asked for."""
        return Report(ready[1], self._required, partial(_facts, self._again, ready[0]))

    def learn(
        self, message: Sign1, checks: tuple[Check, ...], registration: Registration, signer: IssuerKey | None
    ) -> None:
        """Keep what the long way said of a statement that has one receipt, if all of it is said of others too."""
        receipt, log = registration.receipt, registration.signer.log
        if not isinstance(receipt, Plain) or receipt.size != receipt.head.tree_size or log.leaf != "digest":
            return
        if len(receipt.signature) > _MAX_BYTES or message.payload is None or set(message.unprotected) != _ONE_LABEL:
            return
        asked, answer = self._asked(message.protected, message.payload), Answer(checks)
        if asked is None or asked[0] is not signer or answer.verdict(self._required) == "failed":
            return
        opening, ending = b"\x83" + cbor.encode(receipt.size), b"\xf6" + cbor.bstr(receipt.signature)
        root = self._climber.root(leaf_hash(registration.entry), receipt.leaf_index, receipt.size, receipt.path)
        start = PREFIX + cbor.bstr(receipt.head.message.protected)
        settled = self._settled.get(start)
        if settled is None or (settled.ending, settled.root) != (ending, root):
            settled = _Settled(receipt.size, opening, ending, root, {})
            if start not in self._settled and len(self._settled) >= MAX_SETTLED:
                del self._settled[next(iter(self._settled))]
            self._settled[start] = settled
        if len(settled.answers) < MAX_ANSWERS:
            settled.answers[id(signer), asked[1]] = answer

    def _root(self, settled: _Settled, receipt: bytes, at: int, entry: bytes) -> bytes | None:
        """The root that the receipt's path leads to, if it is one of this head; its proof is after ``at``."""
        size, opening, ending, _, _ = settled
        start = at + 7
        if receipt[at:start] != VDP:
            return None
        length, start = read_head(receipt, start, 0x40)
        end, at = start + length, start + len(opening)
        if length < 0 or receipt[start:at] != opening or receipt[end:] != ending:
            return None
        index, at = read_head(receipt, at, 0x00)
        count, at = (receipt[at] - 0x80, at + 1) if receipt[at] < 0x98 else read_head(receipt, at, 0x80)
        if not 0 <= index < size or not 0 <= count <= MAX_PATH or at + STEP * count != end:
            return None
        path = receipt[at:end]
        if path[::STEP] != HASH_HEADS[count] or path[1::STEP] != HASH_SIZES[count]:
            return None
        return self._climber.root(leaf_hash(entry), index, size, path)

    def _asked(self, protected: bytes, payload: bytes) -> Asked | None:
        """Whose signature to verify; None where a check could have more to say of header or payload."""
        means = self._templates.find(protected)
        if means is None:
            means = self._read_header(protected)
            if means is None:
                return None
        signer, alg, content_type = means
        if not self._receipt_only and may_be_record(content_type, payload):
            return None
        return signer, alg

    def _read_header(self, protected: bytes) -> _Meaning | None:
        headers = cbor.decode(protected)
        if type(headers) is not dict or not self._never.isdisjoint(headers):
            return None
        kid, claims, alg = headers.get(labels.KID), headers.get(labels.CWT_CLAIMS), headers.get(labels.ALG)
        if type(kid) is not bytes or type(claims) is not dict or type(alg) is not int:
            return None
        iss, sub = claims.get(labels.CLAIM_ISS), claims.get(labels.CLAIM_SUB)
        if type(iss) is not str or type(sub) is not str or not are_usual(claims, iss, sub):
            return None
        if not LABEL_TYPES.issuperset(map(type, headers)):
            return None
        signer = None
        if self._issuers_asked:
            signer = self._find_signer(kid, iss)
            if signer is None:
                return None
        means = (signer, alg, headers.get(labels.CONTENT_TYPE))
        self._templates.remember(protected, headers, sub, claims.get(labels.CLAIM_IAT), means)
        return means

    def _find_signer(self, kid: bytes, iss: str) -> IssuerKey | None:
        """The one key that may have signed, if it is known of no end."""
        keys = self._keys.issuers(kid, iss)
        return keys[0] if len(keys) == 1 and self._keys.end_of(keys[0]) is None else None


def _facts(again: Callable[[bytes], Report], data: bytes) -> Facts:
    return again(data).facts()
