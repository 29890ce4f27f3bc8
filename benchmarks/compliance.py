"""What the 36 record checks cost: on decoded canonical records, and from bytes to findings.

    python -m benchmarks.compliance [FILE…]

Without files: made-up sessions of 10 KB, 100 KB and 1 MB, and the real ones of ../shared/samples where they are. Time
is that of this process on its core, by the quickest of many runs. Both columns are ratios as well: to ``json.loads`` of
the same bytes alone, in the same run. *checks* is survey and 36 checks of a canonical record that is decoded already,
against parsing that record; *from bytes* is recognising, checking, converting and the 36 checks of the file as it was
signed, against parsing the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.records_check import made_up, quickest
from transparency.compliance.record_checks import check_record
from transparency.compliance.subject import subjects
from transparency.records import canonical_json

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"
REAL = (
    "claude-code/xor-arvo-claude-opus-4-5.jsonl",
    "claude-code/git-ai-example-claude-code.jsonl",
    "codex-cli/xor-arvo-gpt-5-2-codex.jsonl",
    "gemini-cli/xor-arvo-gemini-3-pro-preview.json",
    "opencode/xor-arvo-claude-opus-4-5.concat.json",
    "cursor/xor-arvo-gpt-5-2.jsonl",
    "agentlog/converted-claude-opus-4-5.agentlog.json",
    "vac/claude-opus-4-6.vac.json",
)


def parse(data: bytes) -> None:
    """``json.loads`` of the same bytes: whole, or line by line where a file has several values."""
    try:
        json.loads(data)
    except ValueError:
        decoder, text, at = json.JSONDecoder(), data.decode(), 0
        while at < len(text):
            _, at = decoder.raw_decode(text, at)
            while at < len(text) and text[at] in " \t\r\n":
                at += 1


def records() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each record to be measured."""
    if sys.argv[1:]:
        yield from ((Path(name).name, Path(name).read_bytes()) for name in sys.argv[1:])
        return
    for size in (10_000, 100_000, 1_000_000):
        yield f"made up, {size // 1000} KB", canonical_json.dumps(made_up(size))
    for name in REAL:
        if (SAMPLES / name).is_file():
            yield Path(name).name, (SAMPLES / name).read_bytes()


def report(name: str, data: bytes) -> None:
    """Print the line of one file; a file of several sessions counts as so many records."""
    found = subjects(data)
    canonical = [canonical_json.dumps(subject.record) for subject in found]
    entries = sum(len(subject.record["session"]["entries"]) for subject in found if subject.record)
    parsing = quickest(lambda: [json.loads(each) for each in canonical])
    alone = quickest(lambda: [check_record(subject) for subject in found])
    whole = quickest(lambda: [check_record(subject) for subject in subjects(data)])
    plain = quickest(lambda: parse(data))
    print(
        f"{name[:42]:<42} {len(data):>9,} {entries:>7,} {len(found) / alone:>9,.0f} {alone / parsing:>8.2f}"
        f" {len(found) / whole:>11,.0f} {whole / plain:>8.2f}"
    )


def main() -> None:
    """Print a line for each file."""
    columns = f"{'bytes':>9} {'entries':>7} {'checks/s':>9} {'÷ parse':>8} {'from bytes/s':>11} {'÷ parse':>8}"
    print(f"{'records a second of one core':<42} {columns}")
    for name, data in records():
        report(name, data)


if __name__ == "__main__":
    main()
