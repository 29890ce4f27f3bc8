"""What checking a VAC record costs, by both profiles and with its warnings, on decoded data and from bytes.

    python benchmarks/records_check.py [FILE…]

Without files: made-up records of 100 KB for each way a record can meet a profile, and the real records of
../shared/samples/vac where they are. The goal is 1,000 records of 100 KB a second per core on decoded data; records of
other sizes are counted by the 100 KB. Time is that of this process on its core, by the quickest of many runs. The last
column is the limit to compare with: what the check costs as a part of ``json.loads`` of the same bytes.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from transparency.records import canonical_json, strict_json, vac_cbor
from transparency.records.vac_check import check_vac

SAMPLES = Path(__file__).parents[2] / "shared" / "samples" / "vac"
UNIT = 100_000
SECONDS = 0.5


def made_up(size: int) -> dict[str, Any]:
    """A session of about ``size`` bytes: turns of a prompt, an answer with a tool's call and result, and usage."""
    turn = [
        {"type": "user", "content": "Please look at the next file.", "timestamp": "2026-04-02T10:00:01Z", "id": "u"},
        {
            "type": "assistant",
            "content": "I will read it. " * 40,
            "timestamp": "2026-04-02T10:00:02.250Z",
            "id": "a",
            "model-id": "example/small-1",
            "parent-id": "u",
            "token-usage": {"input": 1200, "output": 70, "cached": 900, "cost": 0.0125},
            "children": [
                {"type": "tool-call", "name": "Read", "input": {"path": "src/main.py"}, "call-id": "c", "id": "t"},
                {"type": "tool-result", "output": "line of a file\n" * 60, "call-id": "c", "status": "success"},
            ],
        },
    ]
    meta = {"model-id": "example/small-1", "model-provider": "example"}
    session: dict[str, Any] = {"session-id": "s", "agent-meta": meta, "entries": []}
    count = size // len(canonical_json.dumps(turn)) + 1
    session["entries"] = [entry for _ in range(count) for entry in strict_json.loads(canonical_json.dumps(turn))]
    return {"version": "3.0.0-draft", "id": "benchmark", "session": session}


def ranges(joint: str, count: int) -> dict[str, Any]:
    """A file attribution whose names are joined by ``joint``: "-" for -00, "_" for 19 Feb."""
    made = [
        {f"start{joint}line": line, f"end{joint}line": line + 1, f"content{joint}hash": "0123456789abcdef" * 4}
        for line in range(1, 2 * count, 2)
    ]
    return {"files": [{"path": "a.py", "conversations": [{"ranges": made}]}]}


def shapes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Records by what the checker has to do for them."""
    session = made_up(UNIT)
    yield "made up", session
    yield "  with attribution", {**session, "file-attribution": ranges("-", 50)}

    last = copy.deepcopy(session)
    last["session"]["entries"][-1]["timestamp"] = 1775124002250.5
    yield "  19 Feb by its last entry alone", last

    every = copy.deepcopy(session)
    for entry in every["session"]["entries"]:
        entry["timestamp"] = 1775124002250.5
    yield "  19 Feb by every time and range", {**every, "file-attribution": ranges("_", 50)}

    wrong = copy.deepcopy(session)
    for entry in wrong["session"]["entries"]:
        entry["id"] = None
    yield "  wrong in every entry", wrong

    session = {**session["session"], "entries": []}
    yield "attribution alone", {"version": "1", "id": "b", "session": session, "file-attribution": ranges("-", 880)}


def quickest(run: Callable[[], object]) -> float:
    """Seconds of this process, by the quickest of many runs: other programs on the machine only ever add."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.process_time_ns()
        run()
        best = min(best, time.process_time_ns() - start)
    return best / 1e9


def report(name: str, data: bytes) -> None:
    """Print the line of one record."""
    is_cbor = name.endswith(".cbor")
    read = vac_cbor.loads if is_cbor else strict_json.loads
    value = read(data)
    verdict = check_vac(value)
    check, whole = quickest(lambda: check_vac(value)), quickest(lambda: check_vac(read(data)))
    ratio = "" if is_cbor else f"{check / quickest(lambda: json.loads(data)):.2f}"
    records = len(data) / UNIT
    print(
        f"{name[:40]:<40} {len(data):>9,} {verdict.profile:>6} {records / check:>11,.0f} {records / whole:>12,.0f}"
        f" {ratio:>16}"
    )


def main() -> None:
    """Print a line for each record."""
    columns = f"{'bytes':>9} {'valid':>6} {'check alone':>11} {'read + check':>12} {'check/json.loads':>16}"
    print(f"{'records of 100 KB a second of one core':<40} {columns}")
    paths = [Path(name) for name in sys.argv[1:]]
    if not paths:
        for name, record in shapes():
            report(name, canonical_json.dumps(record))
        paths = sorted([*SAMPLES.glob("*.vac.*"), *SAMPLES.glob("signed/*.payload.json")])
    for path in paths:
        report(path.name, path.read_bytes())


if __name__ == "__main__":
    main()
