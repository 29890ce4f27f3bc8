"""``transparency witness add-log|list|evidence``: for which logs a witness cosigns, and what it has seen of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from transparency.cli.cosigners import add_log_options
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.files import write_output
from transparency.cli.output import BAD, done, note, out, print_json, safe, timestamp, warn
from transparency.cli.settings import json_option
from transparency.cli.witness_folders import dir_option, require_witness
from transparency.errors import LogUnusableError, NoteError, SignatureInvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.log.mark import MarkValue
    from transparency.witness.folder import WitnessFolder
    from transparency.witness.logs import KnownLog
    from transparency.witness.record import Evidence, Record
    from transparency.witness.state import WitnessState


@click.command("add-log", epilog="\b\nExample: transparency witness add-log --dir ./witness VKEY VKEY2 --url URL")
@dir_option()
@add_log_options(click.option("--url", metavar="URL", help="Where the log is served, for people and monitors."))
def add_log(
    folder: Path, vkeys: tuple[str, ...], url: str | None, per_minute: int | None, replace_keys: bool, as_json: bool
) -> None:
    """Cosign for a log from now on. VKEY… are all of its verifier keys; their name is its origin.

    In force at once, also while the witness runs. What was cosigned for this origin before stays recorded.
    """
    found = require_witness(folder)
    _check_url(url)
    log, size = put_on_list(found, vkeys, url, per_minute, replace_keys=replace_keys)
    if as_json:
        print_json({"origin": log.origin, "keys": len(log.vkeys), "url": log.url, "recorded-size": size})
        return
    done(f"cosigning for {log.origin}, {len(log.vkeys)} key{'s' if len(log.vkeys) > 1 else ''}")
    if size is not None:
        note(f"it was cosigned before, up to size {size}, and goes on from there")


def put_on_list(
    found: WitnessFolder, vkeys: tuple[str, ...], url: str | None, per_minute: int | None, *, replace_keys: bool
) -> tuple[KnownLog, int | None]:
    """The log as it is on the list now, and the size that was last cosigned for it."""
    from transparency.witness.logs import PER_MINUTE, KnownLog, changing

    log = read_log(vkeys, url, PER_MINUTE if per_minute is None else per_minute or None)
    with storage(found.state):
        recorded = _recorded(found).get(log.origin)
    with changing(found.logs) as logs:
        before = logs.get(log.origin)
        if not replace_keys:
            _refuse_other_keys(before, recorded, log)
        if before is not None:
            rate = before.per_minute if per_minute is None else log.per_minute
            log = KnownLog(log.vkeys, before.url if url is None else url, rate)
        logs[log.origin] = log
    return log, None if recorded is None else recorded.size


@click.command("list", epilog="\b\nExample: transparency witness list --dir ./witness")
@dir_option()
@json_option()
def list_(folder: Path, as_json: bool) -> None:
    """Show the logs: what was cosigned last, what is held against them, what was forgotten."""
    from transparency.witness.logs import LogList
    from transparency.witness.state import WitnessState

    found = require_witness(folder)
    logs = LogList.read(found.logs)
    # The mark before the state: beside a running witness the state may only be ahead of it.
    mark = _mark(found)
    with storage(found.state), closing(WitnessState.for_reading(found)) as state:
        records, evidence, forgotten = state.records(), state.evidence(), state.forgotten()
        _warn_of_edits(state, mark)
    rows = []
    for origin in sorted({*logs, *records}):
        log, record = logs.get(origin), records.get(origin)
        held = [each for each in evidence if each.origin == origin]
        rows.append({
            "origin": origin, "listed": log is not None, "url": None if log is None else log.url,
            "vkeys": [] if log is None else [key.text for key in log.vkeys],
            "per-minute": None if log is None else log.per_minute,
            "size": None if record is None else record.size, "root": None if record is None else record.root.hex(),
            "time": None if record is None else record.time,
            "forks": sum(each.ground == "fork" for each in held),
            "unproven": sum(each.ground == "unproven" for each in held),
            "forgotten": sum(each.origin == origin for each in forgotten),
        })  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        _print_row(row)
    if not rows:
        note(f"there are no logs: transparency witness add-log --dir {folder} VKEY")


@click.command(epilog="\b\nExample: transparency witness evidence --dir ./witness --out ./evidence")
@dir_option()
@click.option("--out", "target", required=True, type=click.Path(path_type=Path), metavar="DIR2", help="A new folder.")
@json_option()
def evidence(folder: Path, target: Path, as_json: bool) -> None:
    """Write out what logs have signed and this witness did not cosign.

    Of each case: N.GROUND.request, as it was sent; N.GROUND.claimed, the checkpoint in it; N.GROUND.recorded, the one
    that had been cosigned. A fork has N.fork.evidence, which convicts the log and is checked by `transparency verify`;
    unproven means that nobody has shown the one tree to extend the other.
    """
    write_cases(require_witness(folder), target, as_json=as_json)


def write_cases(found: WitnessFolder, target: Path, *, as_json: bool) -> None:
    """All evidence that is kept in a folder, as files in another."""
    from transparency.witness.state import WitnessState

    with storage(found.state), closing(WitnessState.for_reading(found)) as state:
        kept = state.evidence()
    with new_folder(target) as making:
        rows = [_write_case(making, f"{number:04}.{each.ground}", each) for number, each in enumerate(kept, 1)]
    if as_json:
        print_json(rows)
        return
    done(f"{len(rows)} cases in {target}, {sum(each.ground == 'fork' for each in kept)} of them forks")


@contextmanager
def new_folder(target: Path, mode: int = 0o777) -> Iterator[Path]:
    """A folder to fill, which is *target* when the block is left: all of it, or nothing."""
    if target.exists():
        raise CommandError(Exit.CANNOT_WRITE, f"{target} is there", "Name a new folder.")
    making = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        making.mkdir(mode)
        yield making
        making.replace(target)
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{target}: {error.strerror}", "Name a new folder.") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _write_case(folder: Path, stem: str, case: Evidence) -> dict[str, object]:
    from transparency.notes.requests import AddCheckpoint
    from transparency.verifier.evidence import SUFFIX
    from transparency.witness.convict import evidence_file

    claimed = AddCheckpoint.from_bytes(case.request).checkpoint
    for ending, content in (("request", case.request), ("claimed", claimed), ("recorded", case.recorded)):
        if content:
            write_output(folder / f"{stem}.{ending}", content)
    convicting = evidence_file(case)
    if convicting is not None:
        write_output(folder / f"{stem}{SUFFIX}", convicting.to_bytes())
    return {
        "file": stem, "origin": case.origin, "ground": str(case.ground), "size": case.size, "root": case.root.hex(),
        "time": case.time,
    }  # fmt: skip


def _mark(found: WitnessFolder) -> MarkValue | None:
    """What the mark says; None, and a warning, where it cannot be read."""
    from transparency.log.mark import Mark
    from transparency.witness.folder import WitnessConfig

    config = WitnessConfig.read(found.config)
    try:
        with closing(Mark.open(config.watermark, config.name)) as mark:
            return mark.value
    except LogUnusableError as error:
        warn(str(error))
        return None


def _warn_of_edits(state: WitnessState, mark: MarkValue | None) -> None:
    """Say what a start would refuse. A witness that runs may be some changes ahead of what the mark was."""
    try:
        state.check_rows()
        if mark is not None and state.sequence <= mark.size:
            state.check_mark(mark)
    except LogUnusableError as error:
        warn(str(error))


def _check_url(url: str | None) -> None:
    if url is not None and (not url.startswith(("https://", "http://")) or not url.isprintable() or " " in url):
        raise CommandError(Exit.USAGE, f"--url {url!r} is not a URL", "It is like https://log.example/agents.")


def read_log(vkeys: tuple[str, ...], url: str | None, per_minute: int | None = None) -> KnownLog:
    """The log that the keys of a command's words are of."""
    from transparency.notes.vkey import VerifierKey
    from transparency.witness.logs import KnownLog

    try:
        return KnownLog(tuple(VerifierKey.parse(text) for text in vkeys), url, per_minute)
    except NoteError as error:
        hint = "`transparency log vkey` prints a log's keys, one a line."
        raise CommandError(Exit.BAD_INPUT, f"VKEY: {error}", hint) from error


def _recorded(found: WitnessFolder) -> Mapping[str, Record]:
    from transparency.witness.state import WitnessState

    with closing(WitnessState.for_reading(found)) as state:
        return state.records()


def _refuse_other_keys(before: KnownLog | None, recorded: Record | None, log: KnownLog) -> None:
    """The list may have lost the log; what was cosigned last still says by which keys it was known."""
    from transparency.notes.checkpoint import open_checkpoint

    other = before is not None and set(before.vkeys) != set(log.vkeys)
    if before is None and recorded is not None:
        try:
            open_checkpoint(recorded.signed, log.vkeys)
        except SignatureInvalidError:
            other = True
    if other:
        raise CommandError(
            Exit.REFUSED, f"{log.origin} is known by other keys",
            "If its operator says that these are its keys now, add --replace-keys. What was cosigned stays recorded.",
        )  # fmt: skip


def _print_row(row: Mapping[str, object]) -> None:
    console = out()
    where = "nothing cosigned yet"
    if row["size"] is not None:
        time = row["time"]
        assert isinstance(time, int)  # noqa: S101 - one record has both
        where = f"size {row['size']} at {timestamp(time)}"
    console.print(f"{safe(row['origin'])}  {where}{'' if row['listed'] else '  (not on the list)'}")
    if row["url"]:
        console.print(f"    {safe(row['url'])}")
    if row["forks"]:
        console.print(f"    [{BAD}]forked[/]: {row['forks']} kept as evidence; see `transparency witness evidence`")
    if row["unproven"]:
        console.print(f"    {row['unproven']} checkpoints that nobody has shown to extend what is recorded")
    if row["forgotten"]:
        warn(f"{row['origin']}: its record was forgotten {row['forgotten']} times by `witness forget`")
