"""What a log costs as it grows: the same figures at 10⁴, 10⁵, 10⁶ and 10⁷ entries, as ratios to those at 10⁴.

    python benchmarks/growth.py [--entries N | --sizes 1e4,1e5] [--folder DIR] [--json FILE] [--svg FILE] [--doc FILE]

Every log is a real folder (benchmarks/_growth_log.py says of what), measured by processes of their own
(benchmarks/_growth_measure.py) and by ``transparency serve``, then deleted. Ten million entries take 6 GB and most of
an hour. With ``--doc`` the table takes the place of the one in that file. Exit code 1 if a promise of design §11 is
broken at the largest size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._growth_log import build
from benchmarks._growth_measure import APPENDED, Figures
from benchmarks._load import children_of, cpu_of
from benchmarks._svg import plot

ENTRIES = 100_000
LEAST = 10_000
STARTS = 5
PAGE = os.sysconf("SC_PAGE_SIZE")
BEGIN, END = "<!-- benchmarks/growth.py writes from here -->", "<!-- to here -->"

# Name, unit, and what is promised of it: times the figure at the least size, or at most so many.
MICROS, SECONDS = "µs", "s"
ROWS: tuple[tuple[str, str, str, float | None], ...] = (
    ("registration, CPU", MICROS, "ratio", 2),
    ("registration, wall", MICROS, "ratio", None),
    ("append in batches, CPU", MICROS, "ratio", 2),
    ("append in batches, wall", MICROS, "ratio", None),
    ("index, CPU", MICROS, "ratio", 2),
    ("index, wall", MICROS, "ratio", None),
    ("receipt, first", MICROS, "ratio", None),
    ("receipt, cold", MICROS, "ratio", 2),
    ("receipt, warm", MICROS, "ratio", 2),
    ("inclusion proof, first", MICROS, "ratio", None),
    ("inclusion proof, cold", MICROS, "ratio", 2),
    ("inclusion proof, warm", MICROS, "ratio", 2),
    ("inclusion proof, disk", "ms", "ratio", None),
    ("consistency proof, first", MICROS, "ratio", None),
    ("consistency proof, cold", MICROS, "ratio", 2),
    ("consistency proof, warm", MICROS, "ratio", 2),
    ("consistency proof, disk", "ms", "ratio", None),
    ("look-up, there", MICROS, "ratio", None),
    ("look-up, not there", MICROS, "ratio", None),
    ("start", SECONDS, "most", 2),
    ("start, CPU", SECONDS, "most", 2),
    ("start after a kill", SECONDS, "most", None),
    ("start after a kill, CPU", SECONDS, "most", 2),
    ("memory of the server, ready", "MiB", "ratio", 1.25),
    ("memory, after start", "MiB", "ratio", 1.25),
    ("memory, after 10,000 registrations", "MiB", "ratio", 1.25),
    ("bytes of tree", "a leaf", "most", 40),
    ("bytes of index", "a leaf", "most", None),
    ("bytes in all", "a leaf", "most", None),
    ("fsck, CPU", "µs a leaf", "ratio", None),
    ("fsck, wall", "µs a leaf", "ratio", None),
    ("built in", SECONDS, "most", None),
    ("a hash", MICROS, "ratio", None),
)
PLOTTED = tuple(name for name, unit, kind, most in ROWS if kind == "ratio" and most == 2)


def measured(what: str, data: Path) -> Figures:
    words = [sys.executable, str(ROOT / "benchmarks/_growth_measure.py"), what, str(data)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False, cwd=ROOT)
    killed = what == "append" and done.returncode == -signal.SIGKILL
    if done.returncode and not killed:
        raise SystemExit(f"{what} ended with {done.returncode}")
    figures: Figures = json.loads(done.stdout)
    return figures


def start(data: Path) -> tuple[float, float, float]:
    """Seconds from nothing to the line with the URL, those of CPU, and MiB of the process that owns the log."""
    words = [sys.executable, "-m", "transparency", "serve", "--data", str(data), "--port", "0", "--open"]
    began = time.perf_counter()
    server = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, start_new_session=True
    )
    try:
        assert server.stdout is not None
        if not server.stdout.readline().startswith(b"http"):
            raise SystemExit(f"serve did not start on {data}")
        seconds, cpu = time.perf_counter() - began, cpu_of(server.pid)
        resident = int(Path(f"/proc/{server.pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE / 2**20
    finally:
        family = [*children_of(server.pid), server.pid]
        for pid in family:  # its own children: nothing is to be tidied up here
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait()
    # A log that grew by itself has a search index; this one's would be made now, by another process.
    for file in data.glob("search.sqlite*"):
        file.unlink()
    return seconds, cpu, resident


def steps(data: Path, size: int) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """What is done with one log, in order: what changes it comes last."""

    def starts() -> Figures:
        found = [start(data) for _ in range(STARTS)]
        # The quickest: others on the machine only ever add.
        return {
            "start": min(seconds for seconds, _, _ in found),
            "start, CPU": min(cpu for _, cpu, _ in found),
            "memory of the server, ready": statistics.median(resident for _, _, resident in found),
        }

    def killed() -> Figures:
        seconds, cpu, _ = start(data)
        return {"start after a kill": seconds, "start after a kill, CPU": cpu}

    def made() -> Figures:
        remove(data)  # of a run that was cut short
        return {"size": float(size), "built in": build(data, size)}

    yield "build", made
    yield "sizes", lambda: measured("sizes", data)
    yield "proofs", lambda: measured("proofs", data)
    yield "starts", starts
    yield "register", lambda: measured("register", data)
    yield "append", lambda: measured("append", data)
    yield "killed", killed
    yield "fsck", lambda: measured("fsck", data)
    yield "index", lambda: measured("index", data)


def at_size(size: int, folder: Path) -> Figures:
    """Each step's figures are kept beside the log: a run that is cut short goes on where it was."""
    data, kept = folder / f"log-{size}", folder / f"figures-{size}.json"
    done: dict[str, Figures] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for name, run in steps(data, size):
        if name not in done:
            began = time.perf_counter()
            done[name] = run()
            kept.write_text(json.dumps(done), encoding="utf-8")
            print(f"{size:>12,} {name}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    remove(data)
    return {name: value for figures in done.values() for name, value in figures.items()}


def remove(data: Path) -> None:
    """A log and its mark."""
    for path in (data, *data.parent.glob(f"{data.name}.*.mark")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def table(found: Sequence[Figures]) -> Iterator[str]:
    heads = [f"{int(figures['size']):,}" for figures in found]
    yield f"| | | {' | '.join(heads)} | ratio | promised |"
    yield f"|---|---|{'---:|' * len(found)}---:|---|"
    for name, unit, kind, most in ROWS:
        figures = [each[name] for each in found]
        ratio = f"{figures[-1] / figures[0]:.2f}"
        promised = "" if most is None else f"≤ {most:g} {'times' if kind == 'ratio' else unit}"
        yield f"| {name} | {unit} | {' | '.join(map(short, figures))} | {ratio} | {promised} |"


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def broken(first: Figures, last: Figures) -> list[str]:
    said = []
    for name, unit, kind, most in ROWS:
        value = last[name] / first[name] if kind == "ratio" else last[name]
        if most is not None and value > most:
            said.append(f"{name}: {value:.2f} {'times' if kind == 'ratio' else unit}, promised {most:g}")
    return said


def into(doc: Path, lines: Sequence[str]) -> None:
    before, begin, rest = doc.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{doc} has no place for the table")
    doc.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


def draw(found: Sequence[Figures]) -> str:
    first: Mapping[str, float] = found[0]
    lines = {name: [each[name] / first[name] for each in found] for name in PLOTTED}
    sizes = [each["size"] for each in found]
    return plot("Cost of one, as the log grows", sizes, lines, 2, f"ratio to the cost at {sizes[0]:,.0f} entries")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=ENTRIES, help=f"powers of ten from {LEAST:,} up to this")
    parser.add_argument("--sizes", help="these sizes instead, with commas between them")
    parser.add_argument(
        "--folder", type=Path, help="where the logs are made: 600 bytes an entry; a run that was cut short goes on"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--doc", type=Path)
    given = parser.parse_args()
    powers = [10**n for n in range(4, 12) if LEAST <= 10**n <= given.entries]
    sizes = [int(float(size)) for size in given.sizes.split(",")] if given.sizes else powers
    found: list[Figures] = []
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext(given.folder) if given.folder else tempfile.TemporaryDirectory() as name:
        for size in sizes:
            found.append(at_size(size, Path(name)))
            if given.json:
                given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    lines = list(table(found))
    print("\n".join(lines))
    print(f"after a kill {APPENDED:,} entries are not in the index")
    if given.svg:
        given.svg.write_text(draw(found), encoding="utf-8")
    if given.doc:
        into(given.doc, lines)
    if said := broken(found[0], found[-1]):
        raise SystemExit("broken: " + "; ".join(said))


if __name__ == "__main__":
    main()
