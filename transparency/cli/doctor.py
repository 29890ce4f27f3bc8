"""``transparency doctor``: one line a check, ok, warn or fail, with what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from transparency.cli.connection import connect
from transparency.cli.doctor_checks import (
    Finding,
    check_certificate_file,
    check_clock,
    check_config,
    check_disk,
    check_folder,
    check_key,
    check_tls,
    judge_skew,
)
from transparency.cli.doctor_export import look_at_export
from transparency.cli.errors import describe, one_line
from transparency.cli.exits import Exit
from transparency.cli.output import BAD, GOOD, UNSURE, out, print_json, sentence
from transparency.cli.settings import json_option, key_option, log_options
from transparency.errors import TransparencyError

_STYLES = {"ok": GOOD, "warn": UNSURE, "fail": BAD}


@click.command(epilog="\b\nExample: transparency doctor --data ./log --log https://log.example")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="TRANSPARENCY_DATA",
    metavar="DIR",
    help="Check this data folder too.",
)
@log_options(required=False)
@key_option()
@click.option("--tls-cert", type=click.Path(), metavar="PEM", help="Check when this certificate expires.")
@json_option()
def command(
    data: Path | None, log: str | None, token: str | None, cacert: str | None, key: str | None, tls_cert: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Check clock, disk, keys, TLS, and whether the log answers. Exit 1 if something fails, 3 for warnings only."""
    findings = []
    for finding in _findings(data, log, token, cacert, key, tls_cert):
        findings.append(finding)
        if not as_json:
            style = _STYLES[finding.level]
            out().print(f"[{style}]{finding.level:<4}[/]  {finding.title:<16} {sentence(finding.detail)}")
    if as_json:
        print_json([{"level": each.level, "check": each.title, "detail": each.detail} for each in findings])
    levels = {finding.level for finding in findings}
    if "fail" in levels:
        raise click.exceptions.Exit(Exit.NEGATIVE)
    if "warn" in levels:
        raise click.exceptions.Exit(Exit.WARNINGS)


def _findings(
    data: Path | None, log: str | None, token: str | None, cacert: str | None, key: str | None, tls_cert: str | None
) -> Iterator[Finding]:
    now = time.time()
    yield from check_clock(now)
    yield from check_disk(data if data is not None else Path())
    yield from check_config()
    if data is not None:
        yield from check_folder(data)
    if key is not None:
        yield from check_key(key)
    if tls_cert is not None:
        yield from check_certificate_file(tls_cert, now)
    if log is not None:
        yield from _check_log(log, token, cacert, now)


def _check_log(log: str, token: str | None, cacert: str | None, now: float) -> Iterator[Finding]:
    with connect(log, token=token, cacert=cacert, timeout=10.0, retries=1) as client:
        yield from check_tls(log, cacert, now)
        try:
            keys = client.keys()
            yield Finding("ok", "log", f"{log} answers, with {len(keys)} key(s)")
            exported = look_at_export(log, cacert)
            yield judge_skew(client.clock_skew()) if exported is None else exported
        except TransparencyError as error:
            yield Finding("fail", "log", one_line(describe(error).message))
