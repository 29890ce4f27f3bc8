"""What the benchmarks share: statements to work on, and the limit that every figure is a ratio to.

The limit is a bare loop over ``cryptography``'s ES256 verify, on as many processes as there are cores, over distinct
statements, in the same run: machines are noisy, and a figure without its limit says little.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_der_public_key

from transparency.cose.keys import PrivateKey
from transparency.statements.statement import Statement, sign_statement

ES256 = -7
ISS = "https://bench.example"
# The folder that figures go to as NAME.json; `make bench` sets it.
JSON_VARIABLE = "BENCH_JSON"


def make_statements(count: int, size: int, key: PrivateKey) -> list[bytes]:
    """*count* distinct statements with payloads of *size* bytes."""
    return [
        sign_statement(_payload(number, size), key, iss=ISS, sub=f"urn:bench:{number}", content_type="application/json")
        for number in range(count)
    ]


def _payload(number: int, size: int) -> bytes:
    seed = hashlib.sha256(str(number).encode()).hexdigest()
    return (f'{{"n":{number},"pad":"' + seed * (size // len(seed) + 1))[: size - 2].encode() + b'"}'


def _verify_loop(key: bytes, work: Sequence[tuple[bytes, bytes]], start: object, seconds: object) -> None:
    public = load_der_public_key(key)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    ecdsa = ec.ECDSA(hashes.SHA256())
    signed = [
        (utils.encode_dss_signature(int.from_bytes(sig[:32], "big"), int.from_bytes(sig[32:], "big")), tbs)
        for tbs, sig in work
    ]
    start.wait()  # type: ignore[attr-defined]
    began = time.perf_counter()
    for signature, tbs in signed:
        public.verify(signature, tbs, ecdsa)
    seconds.put(time.perf_counter() - began)  # type: ignore[attr-defined]


def verify_limit(key: PrivateKey, statements: Sequence[bytes], processes: int | None = None) -> float:
    """Bare ES256 verifications a second, all cores together."""
    count = processes or os.cpu_count() or 1
    parsed = [Statement.from_bytes(data) for data in statements]
    work = [(statement.to_be_signed, statement.message.signature) for statement in parsed]
    context = multiprocessing.get_context("fork")
    start, seconds = context.Event(), context.Queue()
    shares = [work[number::count] for number in range(count)]
    workers = [
        context.Process(target=_verify_loop, args=(key.public.to_der(), share, start, seconds)) for share in shares
    ]
    for worker in workers:
        worker.start()
    time.sleep(0.3)
    start.set()
    slowest: float = max(seconds.get() for _ in workers)
    for worker in workers:
        worker.join()
    return len(work) / slowest


def verify_cpu(key: PrivateKey, statements: Sequence[bytes]) -> float:
    """Seconds of CPU that one bare verification takes: what remains comparable when others use the machine too."""
    parsed = [Statement.from_bytes(data) for data in statements]
    public = load_der_public_key(key.public.to_der())
    assert isinstance(public, ec.EllipticCurvePublicKey)
    ecdsa = ec.ECDSA(hashes.SHA256())
    signed = []
    for statement in parsed:
        raw = statement.message.signature
        r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
        signed.append((utils.encode_dss_signature(r, s), statement.to_be_signed))
    began = time.process_time()
    for signature, tbs in signed:
        public.verify(signature, tbs, ecdsa)
    return (time.process_time() - began) / len(signed)


def interpreter() -> str:
    """Which Python this is, and how quick: nanoseconds for a turn of a bare loop.

    Builds of one version differ by a fifth (with or without profile-guided optimisation), verification by nothing: so a
    ratio to verification says as much about the interpreter as about the log.
    """
    best = min(_bare_loop() for _ in range(5))
    return f"Python {platform.python_version()} ({sys.base_prefix}), {best * 1e9:.0f} ns for a turn of a bare loop"


def _bare_loop(turns: int = 50_000) -> float:
    began = time.process_time()
    kept: dict[int, tuple[int, str]] = {}
    for number in range(turns):
        kept[number & 1023] = (number, str(number))
    return (time.process_time() - began) / turns


def write_figures(name: str, figures: Mapping[str, Any], path: Path | None = None) -> None:
    """As JSON to *path*, and to NAME.json in the folder of BENCH_JSON: what was printed, for programs."""
    text = json.dumps({"interpreter": interpreter(), "cores": os.cpu_count(), **figures}, indent=2) + "\n"
    if path is not None:
        path.write_text(text)
    if folder := os.environ.get(JSON_VARIABLE):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.json").write_text(text)


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def print_rates(
    heads: tuple[str, str],
    rates: Mapping[int, Sequence[float]],
    times: Mapping[int, Sequence[float]],
    limits: Mapping[int, Sequence[float]],
    flush: float,
) -> None:
    """One line for each level of load: the median rate, its share of the limit, and how long one took.

    The share is the median of each round's own: what else the machine does meanwhile slows both.
    """
    print(f"{heads[0]:>8} {heads[1]:>8} {'of limit':>9} {'p50 ms':>8} {'p99 ms':>8} {'p50 in flushes':>15}")
    for level, measured in rates.items():
        rate = statistics.median(measured)
        share = statistics.median(each / limit for each, limit in zip(measured, limits[level], strict=True))
        p50, p99 = percentile(times[level], 0.5), percentile(times[level], 0.99)
        print(f"{level:>8} {rate:>8,.0f} {share:>9.2f} {p50 * 1000:>8.1f} {p99 * 1000:>8.1f} {p50 / flush:>15.1f}")
