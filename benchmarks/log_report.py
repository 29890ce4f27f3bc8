"""What a full report about a log costs: N mixed records, every format of the fixtures, signed, sizes varied.

    python benchmarks/log_report.py [records] [folder] [--jobs N]

The log is a real one, filled through ``Log.register``; then ``transparency report --data`` runs as one command in a
process of its own: every decision replayed, every record examined, every log check. The limit is ``json.loads`` alone
over the same records in this run. Memory is the largest sum of resident pages of the command and its processes that
was seen, shared pages counted in each; and the largest of any one of them.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.log.searching import put
from transparency.client.signing import sign_record
from transparency.compliance.subject import subjects
from transparency.cose.keys import PrivateKey
from transparency.records.facts import facts
from transparency.statements.statement import sign_envelope, sign_statement
from transparency.testing import FakeClock, MadeLog, SampleIssuer, make_log, running

RECORDS = 100_000
BATCH = 500
START = 1_790_000_000
REPEATS = (1, 1, 1, 1, 2, 2, 4, 12)
PAGE = os.sysconf("SC_PAGE_SIZE")


def fixtures() -> list[tuple[bytes, bool]]:
    """Every fixture that is a record, and whether it is one of lines."""
    files = sorted(path for path in (ROOT / "tests/fixtures/records").rglob("*.json*") if path.is_file())
    found = [(path.read_bytes(), path.suffix == ".jsonl") for path in files]
    return [(data, lines) for data, lines in found if facts(data).format]


def records(count: int) -> Iterator[bytes]:
    """Distinct records: each fixture in turn, every session of it renamed, sessions of lines grown at random.

    An id that stands in the record becomes another; one that is derived from its bytes changes with the white space at
    the end of each line (or of the document), which writes the record's number.
    """
    chance = random.Random(count)
    kinds = [(data, lines, _ids(data)) for data, lines in fixtures()]
    for number, (fixture, lines, ids) in zip(range(count), itertools.cycle(kinds), strict=False):
        data = fixture
        for known in ids:
            fresh = hashlib.sha256(b"%d %b" % (number, known)).hexdigest()[:32].encode()
            # In its quotes, also those of JSON within a text: a short id is part of other words.
            for quote in (b'"', b'\\"'):
                data = data.replace(quote + known + quote, quote + fresh + quote)
        mark = f"{number:b}".encode().translate(bytes.maketrans(b"01", b" \t")) + b"\n"
        if lines:
            data = data.rstrip(b"\n").replace(b"\n", mark) + mark
            data *= chance.choice(REPEATS)
        else:
            data = data.rstrip() + mark
        yield data


def _ids(data: bytes) -> list[bytes]:
    """The session ids of a record; where one is made of a sub-agent's name, that name."""
    records = (subject.record or {} for subject in subjects(data))
    named = {*facts(data).sessions, *(record.get("session", {}).get("session-id", "") for record in records)}
    return sorted(name.removeprefix("agent-").encode() for name in named if name)


def sign(number: int, record: bytes, issuer: SampleIssuer, made: MadeLog) -> bytes:
    """Every tenth a hash envelope, half of them with their record; every tenth with trace-metadata; else attached."""
    sub, key, iss = f"urn:bench:{number}", issuer.key, issuer.iss
    if number % 10 == 3:
        if number % 20 == 3:
            put(made.data, record)
        return sign_envelope(hashlib.sha256(record).digest(), key, iss=iss, sub=sub)
    if number % 10 == 7:
        return sign_record(record, key, iss=iss, sub=sub, iat=START).statement
    return sign_statement(record, key, iss=iss, sub=sub, content_type="application/json")


async def fill(made: MadeLog, count: int) -> int:
    """Register them; how many bytes of records there are."""
    size = 0
    async with running(made) as log:
        numbered = enumerate(records(count))
        while batch := list(itertools.islice(numbered, BATCH)):
            size += sum(len(record) for _, record in batch)
            made.clock.advance(60)  # type: ignore[attr-defined]
            signed = [sign(number, record, made.issuer, made) for number, record in batch]
            await asyncio.gather(*(log.register(each) for each in signed))
    return size


def parse(record: bytes) -> None:
    try:
        json.loads(record)
    except ValueError:
        for line in record.splitlines():
            try:
                json.loads(line)
            except ValueError:  # one document over several lines, among others
                continue


def json_alone(count: int) -> float:
    """Seconds of ``json.loads`` over all records that the report reads, on one core."""
    spent = 0.0
    for number, record in enumerate(records(count)):
        if number % 20 != 13:
            began = time.process_time()
            parse(record)
            spent += time.process_time() - began
    return spent


def tree_of(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in tree_of(int(child)))]


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def report(data: Path, out: Path, jobs: int) -> tuple[float, float, int, int]:
    """Wall seconds, CPU seconds of all its processes, and both figures of memory."""
    words = [sys.executable, "-m", "transparency", "report", "--data", str(data), "--jobs", str(jobs), "--json"]
    began = time.perf_counter()
    together = largest = 0
    with out.open("wb") as file:
        running_ = subprocess.Popen(words, stdout=file, stderr=subprocess.DEVNULL, cwd=ROOT)
        while True:
            pid, status, usage = os.wait4(running_.pid, os.WNOHANG)
            if pid:
                break
            sizes = [resident(each) for each in tree_of(running_.pid)]
            together, largest = max(together, sum(sizes)), max(largest, *sizes, 0)
            time.sleep(0.1)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"the report ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, together, largest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("records", type=int, nargs="?", default=RECORDS)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="log-report-"))
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "log"
    if not data.exists():
        began = time.perf_counter()
        made = make_log(data, clock=FakeClock(START), issuer=SampleIssuer(key=PrivateKey.generate(-7)))
        size = asyncio.run(fill(made, given.records))
        took = time.perf_counter() - began
        print(f"{given.records} records of {size / given.records:,.0f} bytes registered in {took:.0f} s")
    alone = json_alone(given.records)
    wall, worked, together, largest = report(data, folder / "report.json", given.jobs)
    made_report = json.loads((folder / "report.json").read_bytes())
    print(f"json.loads alone: {given.records / alone:,.0f} records/s on one core")
    print(
        f"full report: {wall:.1f} s on {given.jobs} processes, {given.records / wall:,.0f} records/s, "
        f"{given.records / worked:,.0f} records/s of one core's time, {worked / alone:.1f} times json.loads alone"
    )
    print(
        f"memory: {together / 2**20:,.0f} MiB at most, all processes together; {largest / 2**20:,.0f} MiB the largest"
    )
    print(f"sessions {made_report['total']}, availability {made_report['availability']}")
    for finding in made_report["log"]:
        print(f"  {finding['check']:<4} {finding['verdict']:<7} {finding['summary']}")


if __name__ == "__main__":
    main()
