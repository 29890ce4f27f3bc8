"""How fast transparent statements are verified offline, as ratios to a bare signature-verify loop in the same run.

Two ways: with the issuer's signature on every statement, and receipts alone; heads are shared as they are in a log that
commits in batches. Figures for one core are of processor time, and the limit is measured between the others, batch by
batch: what else the machine does then slows all of them. Figures for all cores are by the clock. The stages are those
of the short way (verifier/express.py). scitt-cose, where .venv-scitt-cose is (`make test` makes it), judges some of the
same statements in the same run.

    python benchmarks/verification.py [--count 4000] [--per-head 100] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_der_public_key

from benchmarks._common import ES256, make_statements, verify_limit, write_figures
from transparency.client.many import BATCH_ITEMS, verify_many
from transparency.cose import cbor
from transparency.cose.keys import PrivateKey
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import inclusion_path
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.statements.receipt import inclusion_receipt, sign_head
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts, receipts_of
from transparency.verifier import Options, Report, TrustStore, Verifier

SCITT_COSE = ROOT / ".venv-scitt-cose"
PEER = ROOT / "tests" / "interop" / "peers" / "scitt_cose_peer.py"
FOR_PEER = 1000
LIMIT, BATCHES, ONE, ALONE = "bare ES256 verify", "statement and receipt", "the same, one at a time", "receipt alone"


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


def bare_loop(key: PrivateKey, statements: Sequence[bytes]) -> list[Callable[[], object]]:
    """The limit: for each statement one call of ``cryptography``, with everything ready for it."""
    public, ecdsa = load_der_public_key(key.public.to_der()), ec.ECDSA(hashes.SHA256())
    assert isinstance(public, ec.EllipticCurvePublicKey)
    calls: list[tuple[bytes, bytes]] = []
    for data in statements:
        parsed = Statement.from_bytes(data)
        r, s = (int.from_bytes(half, "big") for half in (parsed.message.signature[:32], parsed.message.signature[32:]))
        calls.append((utils.encode_dss_signature(r, s), parsed.to_be_signed))

    def some(at: int) -> Callable[[], object]:
        return lambda: [public.verify(*each, ecdsa) for each in calls[at : at + BATCH_ITEMS]]

    return [some(at) for at in range(0, len(calls), BATCH_ITEMS)]


def one_round(limit: list[Callable[[], object]], files: list[bytes], trust: TrustStore) -> dict[str, float]:
    """Seconds of processor time for all files in each way, batch by batch beside each other."""
    log_only, alone = TrustStore(trust.logs), Options(receipt_only=True)
    batches, one, receipts = Verifier(trust), Verifier(trust), Verifier(log_only, alone)
    spent: dict[str, float] = defaultdict(float)
    for number, bare in enumerate(limit):
        some = files[number * BATCH_ITEMS : (number + 1) * BATCH_ITEMS]
        pairs = [(data, None) for data in some]
        clock = time.process_time
        times = [clock()]
        bare()
        times.append(clock())
        _all_verified(batches.verify_batch(pairs))
        times.append(clock())
        _all_verified(map(one.verify, some))
        times.append(clock())
        _all_verified(receipts.verify_batch(pairs))
        times.append(clock())
        for name, began, ended in zip((LIMIT, BATCHES, ONE, ALONE), times, times[1:], strict=False):
            spent[name] += ended - began
    return spent


def _all_verified(reports: Iterable[Report]) -> None:
    for report in reports:
        if report.verdict != "verified":
            raise SystemExit(f"not verified: {report.summary}")


def stages(files: list[bytes], trust: TrustStore) -> dict[str, float]:
    """Microseconds a statement of each stage of the short way, one stage of a batch after another."""
    verifier = Verifier(trust)
    express = verifier._express  # noqa: SLF001 - its parts are what is measured
    assert express is not None
    settled, asked, root = express._settled, express._asked, express._root  # noqa: SLF001 - as above
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        began = time.process_time()
        results = [work(item) for item in items]
        spent[name] += time.process_time() - began
        return results

    for at in range(0, len(files), BATCH_ITEMS):
        some = files[at : at + BATCH_ITEMS]
        for data in some:
            verifier.verify(data)
        normal = [Statement.from_bytes(data) for data in some]
        receipts = [receipts_of(each.message)[0] for each in normal]
        starts = [4 + receipt[3] for receipt in receipts]
        proofs = [
            (settled[receipt[:start]], receipt, start, each.entry)
            for receipt, start, each in zip(receipts, starts, normal, strict=True)
        ]
        timed("finding the byte strings", _byte_strings, some)
        timed("header and payload: whose signature?", lambda each: asked(each.message.protected, each.payload), normal)
        timed("hashing the entry", lambda each: sha256(each.normalised).digest(), normal)
        timed("the path to the root (all remembered)", lambda each: root(*each), proofs)
        ready = [each for each in timed("= all before the signature", express.begin, some) if each is not None]
        timed("the issuer's signature", express.is_signed, ready)
        timed("report and verdict", lambda each: express.report(each).verdict, ready)
        timed("(decoding a header, where it is new)", lambda each: cbor.decode(each.message.protected), normal)
    long_way = Verifier(trust)
    timed("(the long way, each head verified once)", long_way._verify_long, files)  # noqa: SLF001 - as above
    return {name: seconds / len(files) * 1e6 for name, seconds in spent.items()}


def _byte_strings(data: bytes) -> None:
    _, at = cbor.read_bstr(data, 2)
    _, at = cbor.read_bstr(data, at + 5)
    _, at = cbor.read_bstr(data, at)
    cbor.read_bstr(data, at)


def scitt_cose(files: list[bytes], log_key: PrivateKey, issuer: PrivateKey) -> dict[str, float] | None:
    """What scitt-cose needs for the same; None where it is not installed."""
    if not (SCITT_COSE / ".stamp").is_file():
        return None
    keys = {"log_key": log_key.public.to_pem().decode(), "issuer_key": issuer.public.to_pem().decode()}
    question = json.dumps({"do": "seconds", "transparent": [data.hex() for data in files], **keys})
    command = [str(SCITT_COSE / "bin" / "python"), "-I", str(PEER), ""]
    done = subprocess.run(command, input=question, capture_output=True, text=True, timeout=300, check=True)
    value: dict[str, float] = json.loads(done.stdout)["value"]
    if value["accepted"] != len(files):
        raise SystemExit(f"scitt-cose accepted {value['accepted']:.0f} of {len(files)}")
    return value


def all_cores(files: list[bytes], trust: TrustStore) -> float:
    began = time.perf_counter()
    _all_verified(verify_many(files, trust))
    return len(files) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--per-head", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    issuer, log_key = PrivateKey.generate(ES256), PrivateKey.generate(ES256)
    statements = make_statements(arguments.count, arguments.size, issuer)
    files = registered(statements, log_key, arguments.per_head)
    trust = TrustStore.from_keys([log_key.public], [issuer.public])
    limit = bare_loop(issuer, statements)
    rounds = [one_round(limit, files, trust) for _ in range(arguments.rounds)]
    print(f"{len(files)} statements of {arguments.size} bytes, {arguments.per_head} a head; load {_load()}")
    print("one core, by processor time (median of rounds, and the best round)")
    one_core: dict[str, dict[str, float]] = {}
    for name in (LIMIT, BATCHES, ONE, ALONE):
        rates = [len(files) / each[name] for each in rounds]
        share = statistics.median(each[LIMIT] / each[name] for each in rounds)
        print(f"{name:>32}: {statistics.median(rates):>8,.0f}/s, best {max(rates):>8,.0f}/s, {share:.2f} of the limit")
        one_core[name] = {"rate": statistics.median(rates), "best": max(rates), "of_limit": share}
    print("stages of the short way, µs a statement (median of rounds)")
    measured = [stages(files, trust) for _ in range(arguments.rounds)]
    stage_times = {name: statistics.median(each[name] for each in measured) for name in measured[0]}
    for name, microseconds in stage_times.items():
        print(f"{name:>50}: {microseconds:>7.1f}")
    print(f"all {os.cpu_count()} cores, by the clock; load {_load()}")
    pairs = [(verify_limit(issuer, statements), all_cores(files, trust)) for _ in range(arguments.rounds)]
    bare, rate = (statistics.median(each) for each in zip(*pairs, strict=True))
    share = statistics.median(rate / limit for limit, rate in pairs)
    print(f"{LIMIT:>32}: {bare:>8,.0f}/s\n{'verify_many':>32}: {rate:>8,.0f}/s, {share:.2f} of the limit")
    some = files[:FOR_PEER]
    peer = scitt_cose(some, log_key, issuer)
    if peer is None:
        print("scitt-cose: .venv-scitt-cose is not there (make test)")
    else:
        print(f"{'scitt-cose, one core':>32}: {len(some) / peer['processor']:>8,.0f}/s by processor time")
    figures = {"statements": len(files), "size": arguments.size, "one_core": one_core, "stages_us": stage_times,
               "all_cores": {"limit": bare, "rate": rate, "of_limit": share},
               "scitt_cose_rate": None if peer is None else len(some) / peer["processor"]}  # fmt: skip
    write_figures("verification", figures, arguments.json)


def _load() -> str:
    return " ".join(f"{each:.1f}" for each in os.getloadavg())


if __name__ == "__main__":
    main()
