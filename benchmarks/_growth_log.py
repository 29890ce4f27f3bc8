"""A log of any size for benchmarks/growth.py: a real folder, filled by the bulk path (transparency/log/bulk.py).

Statements are distinct, with a payload of 151 bytes, 316 in all. Their signatures are random bytes: nothing that is
measured verifies a statement that is in the log already, and ten million signatures would take half an hour. What the
log signs is real: a head for each 256 entries, a second apart, and an admission manifest for each 4,096.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks._common import ES256, ISS
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import sig_structure
from transparency.log import bulk
from transparency.log.candidate import Candidate, document_judgement
from transparency.log.create import create_log
from transparency.log.documents import load_in_force
from transparency.log.folder import Config, Folder
from transparency.log.operations import sign_operation
from transparency.log.store import Kind, NewEntry
from transparency.log.stores import open_for_reading
from transparency.policy.document import Issuer
from transparency.policy.manifest import MAX_ENTRIES, Admission, Manifest
from transparency.policy.operations import MANIFEST
from transparency.statements.statement import Statement, entry_id, entry_of, normalise, sign_statement
from transparency.testing import FakeClock

BATCH = 256


class Made:
    """An issuer that the log takes, and statements of it: real ones to register, others to load."""

    def __init__(self, key: PrivateKey) -> None:
        self.key = key
        self._protected = Statement.from_bytes(self.sign(0)).message.protected

    @property
    def issuer(self) -> Issuer:
        return Issuer(ISS, (self.key.public,))

    def sign(self, number: int) -> bytes:
        return sign_statement(payload(number), self.key, iss=ISS, sub="urn:bench", content_type="application/json")

    def entry(self, number: int) -> NewEntry:
        body = payload(number)
        whole = normalise(self._protected, body, hashlib.sha512(body).digest())
        signed = hashlib.sha256(sig_structure(self._protected, body)).digest()
        return NewEntry(entry_of(whole), Kind.STATEMENT, 1, signed, whole)


def payload(number: int) -> bytes:
    return b'{"n":%d,"what":"%s"}' % (number, hashlib.sha256(b"%d" % number).hexdigest().encode() * 2)


def build(data: Path, count: int) -> float:
    """A log of about *count* entries in the folder *data*; how many seconds it took."""
    began = time.perf_counter()
    made = Made(PrivateKey.generate(ES256))
    clock = FakeClock(int(time.time()) - count // BATCH - 3600)
    create_log(data, clock=clock, issuers=(made.issuer,))
    (data / "issuer.pem").write_bytes(made.key.to_pem())
    bulk.load(data, _batches(data, made, count, clock), clock=clock)
    return time.perf_counter() - began


def issuer_of(data: Path) -> Made:
    return Made(PrivateKey.from_pem((data / "issuer.pem").read_bytes(), alg=ES256))


def _batches(data: Path, made: Made, count: int, clock: FakeClock) -> Iterator[list[NewEntry]]:
    folder = Folder(data)
    config = Config.read(folder.config)
    store = open_for_reading(folder)
    keys = load_in_force(store, config.origin, config.policy_key).keys.keys
    # What the log has since its last manifest, in order.
    open_ones = [Admission(row.kind, row.generation, clock()) for row in store.entries(0, 2)]
    store.close()
    load_key = functools.cache(folder.load_key)
    size, covered, previous = len(open_ones), 0, ""
    while size < count:
        clock.advance(1)
        batch = []
        if len(open_ones) >= MAX_ENTRIES:
            manifest = Manifest.of(config.origin, covered, previous, open_ones[:MAX_ENTRIES])
            said = sign_operation(keys, load_key, MANIFEST, manifest.to_bytes(), "application/cbor", clock())
            batch.append(Candidate.of(said, document_judgement(1), Kind.OPERATION).new)
            covered, previous, open_ones = covered + MAX_ENTRIES, entry_id(said.entry), open_ones[MAX_ENTRIES:]
            open_ones.append(Admission(Kind.OPERATION, 1, clock()))
        batch += [made.entry(size + n) for n in range(len(batch), min(BATCH, count - size))]
        open_ones += [Admission(Kind.STATEMENT, 1, clock())] * (len(batch) - (batch[0].kind is Kind.OPERATION))
        size += len(batch)
        yield batch
