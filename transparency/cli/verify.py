"""``transparency verify``: one report a file, offline; many files share what they have in common."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import click
from rich.markup import escape

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, SIGN1_HEAD, STDIO, read_input
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, note, out, print_json, safe
from transparency.cli.settings import json_option
from transparency.cli.trust import load_trust, trust_options
from transparency.cli.verify_evidence import is_evidence, verify_evidence
from transparency.cli.verify_fetch import Complete, fetch_options, fetching
from transparency.cli.verify_inputs import earlier_beside, expand, find_payload, is_bundle
from transparency.cli.verify_many import MARKS, STYLES, verify_many
from transparency.cli.verify_witnesses import find_proofs, keep_seen, load_policy, load_seen, witness_options
from transparency.cose.keys import read_public_keys
from transparency.errors import TransparencyError
from transparency.records.disclosure import Disclosure
from transparency.verifier import Options, Report, TrustStore, Verifier, render_text

_LINE_STYLES = {"✓": GOOD, "✗": BAD, "!": UNSURE, "·": DIM}


@click.command(epilog="\b\nExample: transparency verify session.t.cose --log-key log.keys --issuer-key issuer.pub.pem")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@trust_options()
@click.option(
    "--payload", type=click.Path(), metavar="FILE", help="The record, if it is not in the statement nor beside it."
)
@click.option(
    "--disclosure",
    multiple=True,
    type=click.Path(),
    metavar="JSON",
    help="A redacted original, as `transparency disclose` wrote it (repeatable).",
)
@click.option(
    "--earlier",
    multiple=True,
    type=click.Path(),
    metavar="COSE",
    help="The statement that this one continues, if it is not beside it (repeatable).",
)
@click.option(
    "--consistency",
    multiple=True,
    type=click.Path(),
    metavar="COSE",
    help="A consistency receipt: from a receipt under a compromised key to a head of a good one, or from a tree seen.",
)
@witness_options()
@fetch_options()
@click.option("--receipt-only", is_flag=True, help="Signature and inclusion only, not the record.")
@click.option("--statement-only", is_flag=True, help="The statement only: it has no receipt yet.")
@click.option("--strict", is_flag=True, help="Hold other services' statements to the RFC 9943 profile too.")
@click.option("-q", "--quiet", is_flag=True, help="Only the sentence, not the checks.")
@json_option()
def command(
    files: tuple[str, ...], log_key: tuple[str, ...], issuer_key: tuple[str, ...], issuer_root: tuple[str, ...],
    trust: str | None, payload: str | None, disclosure: tuple[str, ...], earlier: tuple[str, ...],
    consistency: tuple[str, ...], witness_policy: str | None, proof: str | None, state: str | None,
    log_vkey: tuple[str, ...], log: str | None, cacert: str | None, receipt_only: bool, statement_only: bool,
    strict: bool, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Verify transparent statements, offline. FILE may be a folder, or "-" for standard input.

    Exit 0 verified, 1 not verified, 2 cannot tell, 3 verified with warnings. The report says what was not checked. The
    record of a detached x.cose is found beside it (x, x.json, x.payload).

    An evidence bundle (the folder that `transparency incident` writes) is checked as a whole, file by file.

    Evidence against a log (x.evidence, as `transparency monitor` writes it) is judged by the log's --log-vkey: exit 0
    if it convicts the log, 1 if it does not.
    """
    if any(is_evidence(file) for file in files):
        raise click.exceptions.Exit(verify_evidence(files, log_vkey, witness_policy, as_json=as_json))
    if log_vkey:
        raise CommandError(Exit.USAGE, "--log-vkey is for evidence files", "Receipts are checked by --log-key.")
    if statement_only and (receipt_only or log is not None):
        raise CommandError(Exit.USAGE, "--statement-only and --receipt-only or --log exclude each other")
    asked = {"--payload": payload, "--disclosure": disclosure, "--earlier": earlier, "--proof": proof}
    if any(is_bundle(Path(file)) for file in files):
        _refuse_beside(
            files,
            asked | {"--state": state, "--consistency": consistency, "--statement-only": statement_only, "--log": log},
        )
        from transparency.cli.verify_bundle import verify_bundle

        options = Options(receipt_only=receipt_only, strict=strict, now=int(time.time()))
        store = load_trust(log_key, issuer_key, issuer_root, trust)
        code = verify_bundle(Path(files[0]), store, options, load_policy(witness_policy), quiet=quiet, as_json=as_json)
        raise click.exceptions.Exit(code)
    names = expand(files)
    if len(names) > 1:
        _refuse_single(asked)
    if disclosure and receipt_only:
        raise CommandError(Exit.USAGE, "--receipt-only does not look at the record, so nothing can be disclosed")
    store = load_trust(log_key, issuer_key, issuer_root, trust)
    options = Options(receipt_only=receipt_only, statement_only=statement_only, strict=strict, now=int(time.time()))
    policy, seen = load_policy(witness_policy), load_seen(state)
    try:
        given = [read_input(name, most=MAX_KEY_FILE) for name in consistency]
        verifier = Verifier(store, options, consistency=given, witness_policy=policy, seen=seen)
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"--consistency: {error}", "`GET /consistency` gives it.") from error
    with fetching(log, cacert, witnessed=policy is not None) as complete:
        if len(names) == 1:
            report, beside = _verify(verifier, names[0], payload, disclosure, earlier, proof, complete)
            keep_seen(state, seen)
            _print_one(names[0], report, beside, quiet=quiet, as_json=as_json)
            if report.verdict == "cannot-tell" and not as_json:
                _hint(store)
            raise click.exceptions.Exit(report.exit_code)
        # Trees that were seen are remembered here, standard input is this process's, and so is a connection.
        alone = seen is not None or STDIO in names or complete is not None
        outcome = partial(_outcome, verifier, complete)
        code = verify_many(outcome, names, as_json=as_json, processes=1 if alone else None)
        keep_seen(state, seen)
        raise click.exceptions.Exit(code)


def _refuse_beside(files: Sequence[str], others: Mapping[str, object]) -> None:
    given = [name for name, value in others.items() if value]
    if given or len(files) > 1:
        hint = f"Leave out {', '.join(given) or 'the other files'}."
        raise CommandError(Exit.USAGE, "an evidence bundle is verified by itself: all it needs is in it", hint)


def _refuse_single(asked: Mapping[str, object]) -> None:
    """What is said of one file is not said of several."""
    if asked["--payload"] is not None:
        raise CommandError(Exit.USAGE, "--payload goes with a single file", "Put each record beside its statement.")
    if asked["--disclosure"] or asked["--earlier"]:
        raise CommandError(Exit.USAGE, "--disclosure and --earlier go with a single file")
    if asked["--proof"] is not None:
        raise CommandError(Exit.USAGE, "--proof goes with a single file", "Put each x.tlog-proof beside its x.cose.")


def _verify(
    verifier: Verifier,
    file: str,
    payload: str | None,
    disclosure: Sequence[str] = (),
    earlier: Sequence[str] = (),
    proof: str | None = None,
    complete: Complete | None = None,
) -> tuple[Report, str | None]:
    data = read_input(file)
    if not data.startswith(SIGN1_HEAD):
        raise _not_a_statement("standard input" if file == STDIO else file, data)
    record, path = find_payload(file, data) if payload is None else (read_input(payload, may_be_empty=True), payload)
    if complete is not None:
        data = complete(data, record)
    statements = chain((read_input(name) for name in earlier), earlier_beside(file, data))
    disclosures = [_disclosed(name) for name in disclosure]
    proofs = find_proofs(file, proof)
    report = verifier.verify(data, record, disclosures=disclosures, earlier=statements, proofs=proofs)
    return report, path


def _disclosed(file: str) -> Disclosure:
    try:
        return Disclosure.from_json(read_input(file))
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error


def _not_a_statement(name: str, data: bytes) -> CommandError:
    message = f"{name} is not a COSE_Sign1 message, so there is nothing to verify"
    with contextlib.suppress(TransparencyError):
        if len(data) <= MAX_KEY_FILE and read_public_keys(data):
            # In the message, since of many files only that is shown: `--log-key A B` means the keys A and the file B.
            message = f"{name} is a key file, not a statement; repeat --log-key or --issuer-key before each key file"
            return CommandError(Exit.BAD_INPUT, message)
    return CommandError(Exit.BAD_INPUT, message, "`transparency inspect FILE` shows what a file is.")


def _outcome(verifier: Verifier, complete: Complete | None, file: str) -> Report | CommandError:
    """One of many: a file that cannot be read does not keep the others from being verified."""
    try:
        return _verify(verifier, file, None, complete=complete)[0]
    except CommandError as error:
        return error


def _print_one(file: str, report: Report, beside: str | None, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        print_json({"file": file, "payload": beside, **report.to_json()})
        return
    console = out()
    # The report made its text safe for a terminal; what is left to escape is rich's own markup.
    lines = render_text(report).splitlines()
    for number, line in enumerate(lines[:1] if quiet else lines):
        if number == 0:
            style = STYLES[report.verdict]
            console.print(f"[{style}]{MARKS[report.verdict]}[/] [bold]{escape(line)}[/]")
        else:
            console.print(_coloured(line))
    if beside is not None and not quiet:
        console.print(f"[{DIM}]record: {safe(beside)}[/]")


def _coloured(line: str) -> str:
    mark = line.strip()[:1]
    if mark in _LINE_STYLES and line.startswith("  "):
        return f"  [{_LINE_STYLES[mark]}]{mark}[/]{escape(line[3:])}"
    return escape(line)


def _hint(store: TrustStore) -> None:
    if not store.logs:
        note("no log is trusted: give its keys with --log-key (fetch them with `transparency keys`) or --trust")
    elif not store.issuers:
        note("no issuer is trusted: give its --issuer-key or its CA (--issuer-root), or ask for --receipt-only")
