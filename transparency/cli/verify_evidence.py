"""``transparency verify x.evidence``: whether a file convicts a log by its own signatures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input
from transparency.cli.output import BAD, UNSURE, out, print_json, safe
from transparency.cli.verify_witnesses import load_policy
from transparency.errors import TransparencyError
from transparency.notes.vkey import VerifierKey
from transparency.verifier.evidence import MAX_EVIDENCE, SUFFIX, Evidence, Verdict, looks_like_evidence

_PEEK: Final = 4096


def is_evidence(file: str) -> bool:
    """By its name, or by what is in it; a folder by its files, as `transparency witness evidence` writes them."""
    if file == STDIO:
        return looks_like_evidence(_waiting_at_stdin())
    path = Path(file)
    try:
        if path.is_dir():
            return bool(_in_folder(path)) and not any(path.rglob("*.cose"))
        if file.endswith(SUFFIX) or not path.is_file():
            # What is read from a pipe is gone.
            return file.endswith(SUFFIX)
        with path.open("rb") as opened:
            return looks_like_evidence(opened.read(_PEEK))
    except OSError:
        return False


def verify_evidence(given: Sequence[str], vkeys: Sequence[str], policy: str | None, *, as_json: bool) -> Exit:
    """One line a file; 0 if each of them convicts its log, else 1."""
    files = [each for file in given for each in (_in_folder(Path(file)) if Path(file).is_dir() else [file])]
    if not all(is_evidence(file) for file in files):
        raise CommandError(Exit.USAGE, "evidence and statements are verified apart", "Give one kind of file.")
    keys = read_vkeys(vkeys)
    named = load_policy(policy)
    if named is not None:
        keys += [log.key for log in named.logs if log.key not in keys]
    if not keys:
        hint = "Give the log's keys with --log-vkey (its operator publishes what `transparency log vkey` prints)."
        raise CommandError(Exit.USAGE, "evidence is judged by the log's keys, and none is given", hint)
    verdicts = [(file, _judge(file, keys)) for file in files]
    for file, verdict in verdicts:
        if as_json:
            print_json({"file": file, **verdict.to_json()})
        elif verdict.convicts:
            # The good outcome for whoever shows it is the bad one for the log.
            out().print(f"[{BAD}]✗[/] [bold]Convicted of a {verdict.crime}[/]: {safe(verdict.why)}.")
        else:
            out().print(f"[{UNSURE}]·[/] [bold]Convicts nobody[/]: {safe(verdict.why)}.")
    return Exit.OK if all(verdict.convicts for _, verdict in verdicts) else Exit.NEGATIVE


def _in_folder(path: Path) -> list[str]:
    return sorted(str(item) for item in path.iterdir() if item.name.endswith(SUFFIX) and item.is_file())


def _waiting_at_stdin() -> bytes:
    """What stands at the beginning of standard input, which stays there."""
    peek = getattr(sys.stdin.buffer, "peek", None)
    return peek(_PEEK) if peek is not None else b""


def read_vkeys(texts: Sequence[str]) -> list[VerifierKey]:
    try:
        return [VerifierKey.parse(text.strip()) for text in dict.fromkeys(texts)]
    except TransparencyError as error:
        hint = "`transparency log vkey --data DIR` prints them, one a line."
        raise CommandError(Exit.USAGE, f"--log-vkey: {error}", hint) from error


def _judge(file: str, keys: Sequence[VerifierKey]) -> Verdict:
    try:
        return Evidence.from_bytes(read_input(file, most=MAX_EVIDENCE)).judge(keys)
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
