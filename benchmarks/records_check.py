"""What checking a VAC record costs, by both profiles and with its warnings, on decoded data and from bytes.

    python benchmarks/records_check.py [FILE…]

Without files: a made-up session of 100 KB, and the real records of ../shared/samples/vac where they are. The goal is
1,000 records of 100 KB a second per core on decoded data; records of other sizes are counted by the 100 KB.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
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


def rate(run: Callable[[], object], size: int) -> float:
    """Records of 100 KB a second, by the quickest of many runs: other programs on the machine only ever add."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        run()
        best = min(best, time.perf_counter() - start)
    return size / UNIT / best


def report(name: str, data: bytes) -> None:
    value = vac_cbor.loads(data) if name.endswith(".cbor") else strict_json.loads(data)
    read = vac_cbor.loads if name.endswith(".cbor") else strict_json.loads
    size = len(data)
    verdict = check_vac(value)
    checked, whole = rate(lambda: check_vac(value), size), rate(lambda: check_vac(read(data)), size)
    print(f"{name[:44]:<44} {size:>9,} {verdict.profile:>7} {checked:>11,.0f} {whole:>13,.0f}")


def main() -> None:
    """Print a line for each record."""
    print(f"{'records of 100 KB a second':<44} {'bytes':>9} {'valid':>7} {'check alone':>11} {'read + check':>13}")
    if sys.argv[1:]:
        paths = [Path(name) for name in sys.argv[1:]]
    else:
        record = made_up(UNIT)
        report("made up", canonical_json.dumps(record))
        ranges = [{"start-line": line, "end-line": line + 1} for line in range(1, 100, 2)]
        record["file-attribution"] = {"files": [{"path": "a.py", "conversations": [{"ranges": ranges}]}]}
        report("made up, with attribution", canonical_json.dumps(record))
        del record["file-attribution"]
        record["session"]["entries"][-1]["timestamp"] = 1775124002250.5
        report("made up, valid by 19 Feb alone", canonical_json.dumps(record))
        paths = sorted([*SAMPLES.glob("*.vac.*"), *SAMPLES.glob("signed/*.payload.json")])
    for path in paths:
        report(path.name, path.read_bytes())


if __name__ == "__main__":
    main()
