"""What ``report`` was asked for: the same for records and for logs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, read_input
from transparency.compliance.framework import Framework, load_frameworks, select
from transparency.errors import MalformedError
from transparency.notes.policy import WitnessPolicy
from transparency.records.timestamps import instant
from transparency.verifier import TrustStore

_PACKAGE = "agent-transparency"
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """``since`` and ``until`` bound the time of registration, in milliseconds since 1970, as ``now`` is.

    ``settings`` and ``inventory`` are TOML as read; ``repository`` is a git repository that revisions are looked up in.
    """

    now: int
    frameworks: tuple[Framework, ...]
    trust: TrustStore
    trust_lines: tuple[tuple[str, str], ...] = ()
    witness_policy: WitnessPolicy | None = None
    files: tuple[str, ...] = ()
    log: str | None = None
    data: Path | None = None
    token: str | None = None
    cacert: str | None = None
    policy_key: str | None = None
    since: int | None = None
    until: int | None = None
    issuer: str | None = None
    settings: bytes | None = None
    inventory: bytes | None = None
    repository: Path | None = None
    jobs: int | None = None
    quiet: bool = False

    @property
    def software(self) -> str:
        return software()


def software() -> str:
    """This package and its version, as reports and attestations name it."""
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        return _PACKAGE


def chosen_frameworks(wanted: tuple[str, ...]) -> tuple[Framework, ...]:
    try:
        return select(load_frameworks(), wanted)
    except MalformedError as error:
        raise CommandError(Exit.USAGE, f"--framework: {error}", "docs/frameworks.md says how to add one.") from error


def read_time(flag: str, text: str | None) -> int | None:
    """A time on the command line, in milliseconds since 1970; a day is its beginning in UTC."""
    if text is None:
        return None
    milliseconds = instant(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    if milliseconds is None or milliseconds < 0:
        raise CommandError(Exit.USAGE, f"{flag} {text} is not a time", "As 2026-11-01T00:00:00Z, or 2026-11-01.")
    return milliseconds


def read_times(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """``--from`` and ``--to``, between which there is time."""
    begins, ends = read_time("--from", since), read_time("--to", until)
    if begins is not None and ends is not None and begins >= ends:
        raise CommandError(Exit.USAGE, "--to is not after --from", "Nothing can have happened in between.")
    return begins, ends


def read_optional(path: str | None) -> bytes | None:
    return None if path is None else read_input(path, most=MAX_KEY_FILE)
