"""``transparency witness prove``: the proof from an entry to the checkpoint that one witness has cosigned last.

A log serves what the witnesses of its own policy have cosigned. A witness that nobody pushes to, such as a compliance
witness, publishes its cosigned checkpoint itself: the path to that is built here from the log's tiles.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from transparency.cli.connection import connect, tls_context
from transparency.cli.entry_command import EntryCommand
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import refuse_existing, write_output
from transparency.cli.output import done
from transparency.cli.prove import entry_and_file
from transparency.cli.settings import log_options
from transparency.errors import NoteError
from transparency.merkle.hashing import leaf_hash
from transparency.notes.checkpoint import SignedCheckpoint, origin_hash
from transparency.notes.numbers import MAX_BYTES
from transparency.notes.proof import TlogProof
from transparency.notes.vkey import VerifierKey
from transparency.statements.statement import entry_id

if TYPE_CHECKING:
    import ssl


@click.command(
    "prove",
    cls=EntryCommand,
    epilog="\b\nExample: transparency witness prove session.cose --log https://log.example"
    " --witness https://control.example --log-vkey VKEY",
)
@click.argument("entry", metavar="ENTRY|STATEMENT")
@log_options()
@click.option("--witness", "witness", required=True, metavar="URL", help="Where the witness is served.")
@click.option("--log-vkey", multiple=True, required=True, metavar="VKEY",
              help="A verifier key of the log, as `transparency log vkey` prints it (repeatable).")  # fmt: skip
@click.option("--out", "target", type=click.Path(), metavar="F.tlog-proof",
              help="Default: beside STATEMENT, where `verify` finds it; else ENTRY.tlog-proof.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
def prove(
    entry: str, log: str, token: str | None, cacert: str | None, witness: str, log_vkey: tuple[str, ...],
    target: str | None, force: bool,
) -> None:  # fmt: skip
    """Keep the proof that an entry is in the tree that a witness has cosigned last, as a C2SP tlog-proof file.

    For any witness with a monitoring endpoint. `transparency verify --witness-policy` checks the file offline: name
    the witness' verifier key there.
    """
    digest, beside = entry_and_file(entry)
    out = target or beside
    refuse_existing(out, force=force)
    keys = _keys(log_vkey)
    with connect(log, token=token, cacert=cacert) as client:
        index = TlogProof.from_bytes(client.proof(entry_id(digest))).index
    tls = tls_context(cacert)
    try:
        proof = asyncio.run(_proof(log, witness, keys[0].name, index, tls))
    except NoteError as error:
        raise CommandError(
            Exit.UNREACHABLE, f"{witness} answered with another thing than a checkpoint: {error}"
        ) from error
    signed = proof.verify(leaf_hash(digest), keys)
    write_output(out, proof.to_bytes(), force=force)
    done(f"{out}: entry {index} is in the tree of {signed.checkpoint.size} that {witness} shows as cosigned")


async def _proof(log: str, witness: str, origin: str, index: int, tls: ssl.SSLContext | None) -> TlogProof:
    from yarl import URL

    from transparency.client.places import base_url
    from transparency.client.tiles import TileClient, TiledTree
    from transparency.client.transport import Request, Transport

    transport = Transport(tls=tls)
    try:
        url = URL(str(base_url(witness) / origin_hash(origin) / "checkpoint"))
        note = (await transport.send(Request("GET", url, {"Accept": "text/plain"}, None, MAX_BYTES))).body
    finally:
        await transport.close()
    checkpoint = SignedCheckpoint.from_bytes(note).checkpoint
    if index >= checkpoint.size:
        raise CommandError(
            Exit.TRY_LATER, f"{witness} has cosigned {checkpoint.size} entries, and this is entry {index}",
            "Try again when it has caught up; its /status says how far it is.",
        )  # fmt: skip
    async with TileClient(log, tls=tls) as tiles:
        tree = TiledTree(tiles, checkpoint)
        await tree.check_root()
        return TlogProof(index, tuple(await tree.inclusion_path(index)), note)


def _keys(given: tuple[str, ...]) -> list[VerifierKey]:
    try:
        return [VerifierKey.parse(text) for text in given]
    except NoteError as error:
        raise CommandError(Exit.USAGE, f"--log-vkey: {error}", "`transparency log vkey` prints it.") from error
