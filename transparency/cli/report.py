"""``transparency report``: what records, or a whole log, can show of what laws and standards ask for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import refuse_existing, write_output
from transparency.cli.output import ascii_json, done, print_json
from transparency.cli.passphrases import passphrase_option
from transparency.cli.report_options import ReportOptions, chosen_frameworks, read_optional, read_times
from transparency.cli.report_output import print_report
from transparency.cli.report_signing import sign_report
from transparency.cli.settings import iss_option, json_option
from transparency.cli.trust import load_trust, trust_options
from transparency.cli.verify_witnesses import load_policy
from transparency.verifier import TrustStore

if TYPE_CHECKING:
    from transparency.compliance.report import Report


@click.command(
    epilog="\b\nExample: transparency report session.t.cose --trust trust.toml --framework eu-ai-act --html r.html\n"
    "transparency report --log https://log.example --from 2026-01-01T00:00:00Z --html report.html"
)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE...]")
@trust_options()
@click.option(
    "--witness-policy", type=click.Path(), metavar="FILE", help="Ask for a quorum of witnesses (a C2SP policy file)."
)
@click.option(
    "--framework", multiple=True, metavar="ID",
    help="Only this law or standard, as eu-ai-act, or with a profile, as eu-ai-act/biometric (repeatable).",
)  # fmt: skip
@click.option("--settings", type=click.Path(), metavar="TOML", help="Thresholds of the checks (docs/checks.md).")
@click.option("--log", metavar="URL", help="A report about this log, instead of files.")
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="A report about the log in this folder, or its copy."
)
@click.option("--token", envvar="TRANSPARENCY_TOKEN", metavar="T", help="Access token [TRANSPARENCY_TOKEN].")
@click.option("--cacert", type=click.Path(), metavar="FILE", help="Trust this CA file for TLS, beside the system's.")
@click.option("--policy-key", metavar="THUMBPRINT", help="With a log: its policy key, as `transparency audit` has it.")
@click.option("--from", "since", metavar="TIME", help="With a log: registered at this time or later.")
@click.option("--to", "until", metavar="TIME", help="With a log: registered before this time.")
@click.option("--issuer", metavar="URI", help="With a log: only records of this issuer.")
@click.option("--inventory", type=click.Path(), metavar="TOML", help="With a log: which agents should have recorded.")
@click.option(
    "--repository", type=click.Path(path_type=Path), metavar="DIR", help="With a log: look up revisions in this git."
)
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="With a log: processes. Default: one a core.")
@click.option("--html", "page", type=click.Path(), metavar="FILE", help="Write a page to read and print.")
@click.option("--out", type=click.Path(), metavar="FILE", help="Write the report as JSON.")
@click.option("--sign", "key", type=click.Path(), metavar="PEM", help="Sign the report (with --out): FILE.cose.")
@iss_option()
@click.option("--submit", metavar="URL", help="Register the signed report on this log.")
@passphrase_option()
@click.option("--force", is_flag=True, help="Replace existing output files.")
@json_option()
def command(
    files: tuple[str, ...], log_key: tuple[str, ...], issuer_key: tuple[str, ...], issuer_root: tuple[str, ...],
    trust: str | None, witness_policy: str | None, framework: tuple[str, ...], settings: str | None, log: str | None,
    data: Path | None, token: str | None, cacert: str | None, policy_key: str | None, since: str | None,
    until: str | None, issuer: str | None, inventory: str | None, repository: Path | None, jobs: int | None,
    page: str | None, out: str | None, key: str | None, iss: str | None, submit: str | None,
    passphrase_file: str | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show what records evidence of what laws and standards ask for. FILE is a statement, a record, or a folder.

    For each requirement and clause: evidence present, partial, missing, to be attested, or not applicable. A report is
    evidence and no verdict of law. Exit 0 when a report was made, whatever it says; 2 when nothing could be examined.
    """
    about_a_log: dict[str, object] = {
        "--from": since, "--to": until, "--issuer": issuer, "--inventory": inventory, "--repository": repository,
        "--policy-key": policy_key, "--jobs": jobs,
    }  # fmt: skip
    _refuse_mixed(files, log, data, about_a_log)
    if (key is None) != (iss is None) and key is not None:
        raise CommandError(Exit.USAGE, "--sign needs --iss: who says what the report says")
    if submit is not None and key is None:
        raise CommandError(Exit.USAGE, "--submit goes with --sign", "A log registers signed statements.")
    if key is not None and out is None:
        raise CommandError(Exit.USAGE, "--sign goes with --out", "What is signed is the JSON file.")
    targets = [target for target in (page, out, None if key is None else f"{out}.cose") if target is not None]
    refuse_existing(*targets, force=force)
    begins, ends = read_times(since, until)
    store = load_trust(log_key, issuer_key, issuer_root, trust)
    options = ReportOptions(
        now=time.time_ns() // 1_000_000, frameworks=chosen_frameworks(framework), trust=store,
        trust_lines=_trust_lines(store, witness_policy), witness_policy=load_policy(witness_policy), files=files,
        log=log, data=data, token=token, cacert=cacert, policy_key=policy_key, since=begins,
        until=ends, issuer=issuer, settings=read_optional(settings),
        inventory=read_optional(inventory), repository=repository, jobs=jobs, quiet=as_json,
    )  # fmt: skip
    report = _make(options)
    body = report.to_json()
    if as_json:
        print_json(body)
    else:
        print_report(report)
    if page is not None:
        from transparency.compliance.html import html

        write_output(page, html(report).encode(), force=force)
        done(f"{page}: the report as a page")
    if out is not None:
        write_output(out, ascii_json(body).encode() + b"\n", force=force)
        done(f"{out}: the report as JSON")
        if key is not None and iss is not None:
            sign_report(out, key, iss, passphrase_file, submit=submit, token=token, cacert=cacert, force=force)


def _make(options: ReportOptions) -> Report:
    if options.log is None and options.data is None:
        from transparency.cli.report_records import run

        return run(options)
    from transparency.cli.report_log import run as run_log

    return run_log(options)


def _refuse_mixed(files: tuple[str, ...], log: str | None, data: Path | None, others: dict[str, object]) -> None:
    if sum((bool(files), log is not None, data is not None)) != 1:
        raise CommandError(Exit.USAGE, "a report is about files, or --log, or --data", "Give one of them.")
    given = [name for name, value in others.items() if value is not None]
    if files and given:
        raise CommandError(Exit.USAGE, f"{', '.join(given)} can only be said of a log", "Give --log or --data.")


def _trust_lines(store: TrustStore, witness_policy: str | None) -> tuple[tuple[str, str], ...]:
    """Whom the report rests on; "none" where nobody is trusted, since then nothing is verified."""
    logs = [each.origin or each.iss or "a key that was given" for each in store.logs]
    issuers = [each.iss or "a key that was given" for each in store.issuers]
    return (
        ("logs trusted", ", ".join(dict.fromkeys(logs)) or "none: receipts could not be verified"),
        ("issuers trusted", ", ".join(dict.fromkeys(issuers)) or "none: issuers' signatures could not be verified"),
        ("witness policy", witness_policy or "none: nobody asked for witnesses"),
    )
