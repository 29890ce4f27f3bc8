"""``transparency prove``: the tlog-proof of an entry, to be checked offline against a quorum of witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from transparency.cli.connection import connect
from transparency.cli.entry_command import EntryCommand
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, STDIO, read_input, refuse_existing, write_output
from transparency.cli.output import done, note, print_json, timestamp, warn
from transparency.cli.settings import json_option, log_options
from transparency.client.pinning import check_receipt
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, NoteError, PayloadMissingError
from transparency.merkle.hashing import leaf_hash
from transparency.notes.policy import QuorumResult, WitnessPolicy
from transparency.notes.proof import SUFFIX, TlogProof
from transparency.notes.vkey import VerifierKey
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.statements.statement import Entry, Statement, entry_id, parse_entry_id
from transparency.statements.transparent import attach_receipts, receipts_of

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient
    from transparency.notes.checkpoint import SignedCheckpoint

_TRANSPARENT: Final = ".t.cose"
_RECEIPT: Final = ".receipt"


@click.command(
    cls=EntryCommand,
    epilog="\b\nExample: transparency prove session.cose --log https://log.example\n"
    "transparency prove ENTRY --log https://log.example --out entry.tlog-proof --witness-policy policy.txt",
)
@click.argument("entry", metavar="ENTRY|STATEMENT")
@log_options()
@click.option(
    "--out", "target", type=click.Path(), metavar="F.tlog-proof",
    help="Default: beside STATEMENT, where `verify` finds it; else ENTRY.tlog-proof.",
)  # fmt: skip
@click.option(
    "--receipt", "in_receipt", is_flag=True,
    help="Write STATEMENT.t.cose, with the receipt that carries the proof (label -70104); of an ENTRY, ENTRY.receipt.",
)  # fmt: skip
@click.option(
    "--log-vkey", multiple=True, metavar="VKEY",
    help="A verifier key of the log, as `transparency log vkey` prints it (repeatable). Default: the log's own word.",
)  # fmt: skip
@click.option("--witness-policy", type=click.Path(), metavar="FILE", help="Ask for its quorum of witnesses.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@json_option()
def command(
    entry: str, log: str, token: str | None, cacert: str | None, target: str | None, log_vkey: tuple[str, ...],
    in_receipt: bool, witness_policy: str | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Fetch the proof that an entry is under a published checkpoint, check it, and keep it as a C2SP tlog-proof file.

    The checkpoint in it carries what witnesses signed, so that whoever has the file needs nobody's word but theirs.
    If no checkpoint covers the entry yet, the next one is waited for.
    """
    digest, beside = entry_and_file(entry)
    out = target or (_with_receipt(entry) if in_receipt else beside)
    refuse_existing(out, force=force)
    policy = _policy(witness_policy)
    keys = _keys(log_vkey, policy)
    with connect(log, token=token, cacert=cacert) as client:
        keys = keys or _served_keys(client)
        data = client.proof(entry_id(digest)) if not in_receipt else _witnessed_receipt(client, digest)
    try:
        proof = TlogProof.from_bytes(data if not in_receipt else _carried(data))
    except NoteError as error:
        raise CommandError(Exit.UNREACHABLE, f"{log} answered with another thing than a tlog-proof: {error}") from error
    signed = proof.verify(leaf_hash(digest), keys)
    quorum = None if policy is None else policy.check(signed)
    if quorum is not None and not quorum.ok:
        raise CommandError(
            Exit.NEGATIVE, f"the checkpoint is not cosigned by a quorum; missing: {', '.join(quorum.missing)}",
            "Nothing was written. Try again when the witnesses have answered, or look at the log's policy.",
        )  # fmt: skip
    if in_receipt and Path(entry).is_file():
        # The receipts that are there stay: the first one says when the statement was registered.
        statement = read_input(entry)
        data = attach_receipts(statement, [*receipts_of(Sign1.from_bytes(statement)), data])
    write_output(out, data, force=force)
    if out != STDIO:
        _tell(out, digest, proof, signed, quorum, own_word=not (log_vkey or (policy and policy.logs)), as_json=as_json)


def entry_and_file(text: str) -> tuple[Entry, str]:
    """The entry that is meant, and where its proof goes. A file that is there is a statement."""
    path = Path(text)
    if path.is_file() or text == STDIO:
        try:
            digest = Statement.from_bytes(read_input(text)).entry
        except PayloadMissingError as error:
            raise CommandError(
                Exit.BAD_INPUT, f"{text} has no payload, so its entry cannot be computed", "Give its entry id instead."
            ) from error
        return digest, STDIO if text == STDIO else str(path.with_suffix(SUFFIX))
    try:
        return parse_entry_id(text), f"{text}{SUFFIX}"
    except MalformedError as error:
        raise CommandError(
            Exit.NO_INPUT, f"{text} is neither a file nor an entry id",
            "An entry id has 43 letters, digits, - and _; `transparency inspect x.cose` shows it.",
        ) from error  # fmt: skip


def _with_receipt(text: str) -> str:
    """Where the receipt of an entry goes: with its statement, if that is here."""
    if text == STDIO:
        raise CommandError(Exit.USAGE, "--receipt goes with a file or an entry id, not with standard input")
    if not Path(text).is_file():
        return f"{text}{_RECEIPT}"
    return text.removesuffix(".cose").removesuffix(".t") + _TRANSPARENT


def _witnessed_receipt(client: SyncLogClient, digest: Entry) -> bytes:
    receipt = client.receipt(entry_id(digest), witnessed=True)
    check_receipt(receipt, digest, client.keys())
    return receipt


def _carried(receipt: bytes) -> bytes:
    proof = Sign1.from_bytes(receipt).unprotected.get(labels.TLOG_PROOF)
    if not isinstance(proof, bytes):
        raise NoteError("the receipt carries none; is it a log of this project?")
    return proof


def _policy(path: str | None) -> WitnessPolicy | None:
    if path is None:
        return None
    try:
        return WitnessPolicy.from_text(read_input(path, most=MAX_KEY_FILE))
    except NoteError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error}") from error


def _keys(given: Sequence[str], policy: WitnessPolicy | None) -> list[VerifierKey]:
    try:
        keys = [VerifierKey.parse(text) for text in given]
    except NoteError as error:
        raise CommandError(Exit.USAGE, f"--log-vkey: {error}", "`transparency log vkey` prints it.") from error
    return keys or ([] if policy is None else [log.key for log in policy.logs])


def _served_keys(client: SyncLogClient) -> list[VerifierKey]:
    try:
        return list(checkpoint_vkeys(client.service_keys()))
    except NoteError as error:
        raise CommandError(Exit.UNREACHABLE, f"the log's checkpoint keys cannot be used: {error}") from error


def _tell(
    out: str, digest: Entry, proof: TlogProof, signed: SignedCheckpoint, quorum: QuorumResult | None, *,
    own_word: bool, as_json: bool,
) -> None:  # fmt: skip
    tree = signed.checkpoint
    if as_json:
        view: dict[str, object] = {
            "out": out, "entry": entry_id(digest), "index": proof.index, "origin": tree.origin, "size": tree.size,
        }  # fmt: skip
        if quorum is not None:
            view["cosigned-by"] = list(quorum.counted)
            view["times"] = [timestamp(each.time) for each in quorum.cosignatures]
        print_json(view)
        return
    done(f"{out}: entry {proof.index} of {tree.origin}, under its checkpoint of size {tree.size}")
    if quorum is not None:
        note(f"cosigned by {', '.join(quorum.counted)}: a quorum")
    elif len({line.name for line in signed.note.signatures}) == 1:
        warn("no witness has cosigned this checkpoint: it is the log's word alone")
    if own_word:
        note("checked with the keys that the log itself serves; --log-vkey or a policy with `log` lines pins them")
