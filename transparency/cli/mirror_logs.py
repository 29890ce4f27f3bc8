"""``transparency mirror add-log|list|evidence|check|push``: which logs a mirror keeps, and what it has of them."""

from __future__ import annotations

import asyncio
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from transparency.cli.connection import tls_context
from transparency.cli.cosigners import add_log_options
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.files import write_output
from transparency.cli.output import BAD, GOOD, done, note, out, print_json, safe, timestamp, warn
from transparency.cli.settings import Setting, json_option
from transparency.cli.verify_evidence import read_vkeys
from transparency.cli.witness_folders import dir_option, require_mirror
from transparency.cli.witness_logs import new_folder, put_on_list, write_cases
from transparency.errors import MalformedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from transparency.mirror.folder import MirrorFolder
    from transparency.mirror.push import MirrorRefusedError
    from transparency.mirror.trees import Trees
    from transparency.notes.checkpoint import SignedCheckpoint
    from transparency.notes.cosignature import Cosignature
    from transparency.notes.vkey import VerifierKey

_LATER = (Exit.TRY_LATER, "What it has stays; run the same command again later.")
_ADVICE = {
    400: (Exit.BAD_INPUT, "It does not take what we send; its operator is the one to tell."),
    403: (Exit.REFUSED, "It knows {origin} by other keys; its operator changes them with `add-log --replace-keys`."),
    404: (Exit.BAD_INPUT, "Its operator adds {origin} with `transparency mirror add-log`, or its like."),
    409: (Exit.BAD_INPUT, "Another pushes, too, or LOG is an old copy: push from where it is newest."),
    422: (Exit.BAD_INPUT, "If its history of {origin} is another than LOG's, that is a fork: docs/monitor.md."),
    408: _LATER,
    429: _LATER,
    503: _LATER,
}


@click.command("add-log", epilog="\b\nExample: transparency mirror add-log --dir ./mirror VKEY VKEY2 --url URL")
@dir_option(keeper="mirror")
@add_log_options(click.option("--url", metavar="LOG", help="Follow the log there. Without it the log has to push."))
def add_log(
    folder: Path, vkeys: tuple[str, ...], url: str | None, per_minute: int | None, replace_keys: bool, as_json: bool
) -> None:
    """Mirror a log from now on. VKEY… are all of its verifier keys; their name is its origin.

    In force at once, also while the mirror runs.
    """
    found = require_mirror(folder)
    check_place(url, "--url")
    log, size = put_on_list(found, vkeys, url, per_minute, replace_keys=replace_keys)
    if as_json:
        print_json({"origin": log.origin, "keys": len(log.vkeys), "url": log.url, "cosigned-size": size})
        return
    done(f"mirroring {log.origin}, {len(log.vkeys)} key{'s' if len(log.vkeys) > 1 else ''}")
    if log.url is None:
        note("it is not followed: it has to push, or be given a --url")
    if size is not None:
        note(f"{size} of its entries are here, and it goes on from there")


@contextmanager
def _trees(found: MirrorFolder) -> Iterator[Trees]:
    """What a mirror keeps, to look at; what SQLite cannot read of it is lost, and never the log's own folder."""
    from transparency.mirror.trees import LOST, Trees

    try:
        with storage(found.trees), closing(Trees.for_reading(found.trees)) as trees:
            yield trees
    except StoreError as error:
        raise CommandError(Exit.NEGATIVE, f"{found.trees}: {error}", f"{LOST}.") from error


@click.command("list", epilog="\b\nExample: transparency mirror list --dir ./mirror")
@dir_option(keeper="mirror")
@json_option()
def list_(folder: Path, as_json: bool) -> None:
    """Show the logs: how far each was seen, kept and cosigned, and what is held against it."""
    from transparency.notes.checkpoint import origin_hash
    from transparency.witness.logs import LogList
    from transparency.witness.state import WitnessState

    found = require_mirror(folder)
    logs = LogList.read(found.logs)
    with storage(found.state), closing(WitnessState.for_reading(found)) as state:
        records, evidence = state.records(), state.evidence()
    with _trees(found) as trees:
        sizes, pending = trees.sizes(), trees.pending()
    rows: list[dict[str, object]] = []
    for origin in sorted({*logs, *records, *sizes}):
        log, record, seen = logs.get(origin), records.get(origin), pending.get(origin)
        rows.append({
            "origin": origin, "path": origin_hash(origin), "listed": log is not None,
            "url": None if log is None else log.url, "vkeys": [] if log is None else [key.text for key in log.vkeys],
            "pending-size": seen[-1].size if seen else None, "entries": sizes.get(origin, 0),
            "cosigned-size": None if record is None else record.size,
            "cosigned-time": None if record is None else record.time,
            "forks": sum(each.origin == origin and each.ground == "fork" for each in evidence),
        })  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        _print_row(row)


@click.command(epilog="\b\nExample: transparency mirror evidence --dir ./mirror --out ./evidence")
@dir_option(keeper="mirror")
@click.option("--out", "target", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="A new folder for it.")  # fmt: skip
@json_option()
def evidence(folder: Path, target: Path, as_json: bool) -> None:
    """Write what logs signed and what does not fit what is here: of a fork a file that convicts it."""
    write_cases(require_mirror(folder), target, as_json=as_json)


@click.command(epilog="\b\nExample: transparency mirror check --dir ./mirror")
@dir_option(keeper="mirror")
@json_option()
def check(folder: Path, as_json: bool) -> None:
    """Read every entry and derive every tile and root anew: exit 0 if all is here, 1 if not. Also beside a mirror."""
    from transparency.mirror.check import check as look
    from transparency.witness.state import WitnessState

    found = require_mirror(folder)
    # What was cosigned before what is here: beside a running mirror there may only be more of that.
    with storage(found.state), closing(WitnessState.for_reading(found)) as state:
        records = state.records()
    with _trees(found) as trees:
        results = list(look(trees, records))
    if as_json:
        print_json([
            {"origin": each.origin, "entries": each.size, "cosigned-size": each.cosigned, "fault": each.fault or None}
            for each in results
        ])  # fmt: skip
    else:
        for each in results:
            mark = f"[{BAD}]✗[/]" if each.fault else f"[{GOOD}]✓[/]"
            out().print(f"{mark} {safe(each.origin)}  {each.size} entries  {safe(each.fault)}".rstrip())
    raise click.exceptions.Exit(Exit.NEGATIVE if any(each.fault for each in results) else Exit.OK)


@click.command(epilog="\b\nExample: transparency mirror statements --dir ./mirror log.example/agents --out ./copies")
@dir_option(keeper="mirror")
@click.argument("origin", metavar="ORIGIN")
@click.option("--out", "target", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="A new folder for them.")  # fmt: skip
@json_option()
def statements(folder: Path, origin: str, target: Path, as_json: bool) -> None:
    """Write the statements that are kept of a log, INDEX.cose each; those that were erased are counted."""
    from transparency.mirror.statements import StatementStore

    found = require_mirror(folder)
    if not found.statements.exists():
        raise CommandError(Exit.NO_INPUT, f"{folder} has no statements", "It keeps those of logs that let it read.")
    written = erased = 0
    with storage(found.statements), StatementStore(found.statements) as store:
        known = store.origins()
        if origin not in known:
            hint = f"It has those of {', '.join(known)}." if known else "It keeps those of logs that let it read."
            raise CommandError(Exit.NO_INPUT, f"{folder} has no statements of {origin}", hint)
        with new_folder(target, 0o700) as making:
            for row in store.rows(origin):
                erased += row.erased
                if not row.erased:
                    write_output(making / f"{row.index}.cose", row.statement)
                    written += 1
    if as_json:
        print_json({"origin": origin, "written": written, "erased": erased})
        return
    done(f"{written} statements of {origin} in {target}; {erased} were erased")


@click.command(
    epilog="\b\nExample: transparency mirror push https://log.example https://mirror.example --log-vkey VKEY"
)
@click.argument("log", metavar="LOG")
@click.argument("mirror", metavar="MIRROR")
@click.option(
    "--log-vkey", multiple=True, required=True, metavar="VKEY", help="A verifier key of the log (repeatable)."
)
@click.option("--mirror-vkey", multiple=True, metavar="VKEY", help="A verifier key of the mirror (repeatable).")
@click.option("--cacert", cls=Setting, type=click.Path(), metavar="FILE", help="Trust this CA file for TLS too.")
def push(log: str, mirror: str, log_vkey: tuple[str, ...], mirror_vkey: tuple[str, ...], cacert: str | None) -> None:
    """Push what LOG shows to MIRROR, any that speaks C2SP tlog-mirror; print the cosigned checkpoint.

    Exit 1 if --mirror-vkey is given and no such key has cosigned.
    """
    check_place(log, "LOG")
    keys = read_vkeys(log_vkey)
    trusted = read_vkeys(mirror_vkey)
    signed, cosigned = asyncio.run(_push(log, mirror, keys, trusted, cacert))
    click.echo(signed.to_bytes().decode(), nl=False)
    if trusted and not cosigned:
        warn("the mirror has not cosigned with a key of --mirror-vkey")
        raise click.exceptions.Exit(Exit.NEGATIVE)


async def _push(
    log: str, mirror: str, keys: list[VerifierKey], trusted: list[VerifierKey], cacert: str | None
) -> tuple[SignedCheckpoint, list[Cosignature]]:
    from transparency.client.tiles import TileClient
    from transparency.mirror.push import MirrorRefusedError, Pusher
    from transparency.mirror.source import SourceTree
    from transparency.notes.checkpoint import open_checkpoint

    tls = tls_context(cacert)
    async with TileClient(log, tls=tls) as client:
        signed = open_checkpoint(await client.checkpoint(), keys)
        try:
            return await Pusher(mirror, tls=tls).push(signed, SourceTree(client, signed.checkpoint), trusted)
        except MirrorRefusedError as error:
            raise _refused(mirror, signed.checkpoint.origin, error) from error


def _refused(mirror: str, origin: str, error: MirrorRefusedError) -> CommandError:
    code, hint = _ADVICE.get(error.status, (Exit.UNREACHABLE, "Its operator is the one to tell."))
    if error.title == "Damaged":
        code, hint = Exit.UNREACHABLE, "Its operator is the one to tell; nothing is cosigned until it is mended."
    return CommandError(code, f"the mirror {mirror} answered {error.status}, {error}", hint.format(origin=origin))


def check_place(text: str | None, what: str) -> None:
    """That a log can be read there."""
    from transparency.client.places import log_url

    if text is None:
        return
    try:
        log_url(text)
    except MalformedError as error:
        hint = "It is like https://log.example/agents. `transparency mirror --help` lists the commands."
        raise CommandError(Exit.USAGE, f"{what} {text!r} is not where a log is: {error}", hint) from error


def _print_row(row: Mapping[str, object]) -> None:
    console = out()
    where = "nothing cosigned yet"
    if row["cosigned-size"] is not None:
        time = row["cosigned-time"]
        assert isinstance(time, int)  # noqa: S101 - one record has both
        where = f"{row['cosigned-size']} entries cosigned at {timestamp(time)}"
    console.print(f"{safe(row['origin'])}  {where}{'' if row['listed'] else '  (not on the list)'}")
    if row["pending-size"] is not None and row["pending-size"] != row["cosigned-size"]:
        console.print(f"    {row['entries']} of {row['pending-size']} entries are here")
    console.print(f"    {row['path']}/checkpoint")
    if row["url"]:
        console.print(f"    follows {safe(row['url'])}")
    if row["forks"]:
        console.print(f"    [{BAD}]forked[/]: {row['forks']} kept as evidence; see `transparency mirror evidence`")
