"""How fast transparent statements are verified offline, as a ratio to a bare signature-verify loop on one core.

Two ways: with the issuer's signature on every statement, and receipts alone; heads are shared as they are in a log
that commits in batches.

    python benchmarks/verification.py [--count 4000] [--per-head 100] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._common import ES256, make_statements, verify_limit
from transparency.cose.keys import PrivateKey
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import inclusion_path
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.statements.receipt import inclusion_receipt, sign_head
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import Options, TrustStore, Verifier


def registered(statements: list[bytes], log_key: PrivateKey, per_head: int) -> list[bytes]:
    """The statements as a log would give them back: each with a receipt under the head of its batch."""
    edge = RightEdge()
    tiles: dict[tuple[int, int], bytes] = {}
    read = TileHashes(lambda level, index: tiles.get((level, index)))
    made = []
    for first in range(0, len(statements), per_head):
        batch = statements[first : first + per_head]
        tiles.update(edge.append([leaf_hash(Statement.from_bytes(data).entry) for data in batch]))
        head = sign_head(
            log_key,
            iss="https://log.example",
            origin="log.example",
            size=edge.size,
            root=edge.root(),
            time=1_790_000_000,
        )
        for index, data in enumerate(batch, first):
            made.append(attach_receipts(data, [inclusion_receipt(head, index, inclusion_path(index, edge.size, read))]))
    return made


def rate(files: list[bytes], trust: TrustStore, options: Options) -> float:
    verifier = Verifier(trust, options)
    began = time.perf_counter()
    for data in files:
        report = verifier.verify(data)
        if report.verdict != "verified":
            raise SystemExit(f"not verified: {report.summary}")
    return len(files) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--per-head", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=3000)
    arguments = parser.parse_args()
    issuer, log_key = PrivateKey.generate(ES256), PrivateKey.generate(ES256)
    statements = make_statements(arguments.count, arguments.size, issuer)
    files = registered(statements, log_key, arguments.per_head)
    trust = TrustStore.from_keys([log_key.public], [issuer.public])
    log_only = TrustStore.from_keys([log_key.public], [])
    limits, whole, alone = [], [], []
    for _ in range(arguments.rounds):
        limits.append(verify_limit(issuer, statements, processes=1))
        whole.append(rate(files, trust, Options()))
        alone.append(rate(files, log_only, Options(receipt_only=True)))
    limit = statistics.median(limits)
    print(f"limit: {limit:,.0f} bare ES256 verifications/s on one core; {arguments.per_head} entries a head")
    for name, values in (("statement and receipt", whole), ("receipt alone, heads shared", alone)):
        value = statistics.median(values)
        print(f"{name:>38}: {value:>8,.0f}/s, {value / limit:.2f} of the limit")


if __name__ == "__main__":
    main()
