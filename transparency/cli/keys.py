"""``transparency keys``: what a log says its keys are, kept to verify with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, refuse_existing, write_output
from transparency.cli.output import note, out, print_json, safe, timestamp, warn
from transparency.cli.settings import json_option, log_options
from transparency.cose.keys import PublicKey, encode_key_set
from transparency.errors import ServiceRefusedError
from transparency.policy import keyset

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient
    from transparency.policy.keyset import ServiceKey, ServiceKeys

_NO_SUCH_THING = (404, 405, 406)


@click.command(epilog="\b\nExample: transparency keys --log https://log.example --trust trust.toml")
@log_options()
@click.option(
    "--out", "target", type=click.Path(), metavar="KEYFILE",
    help="Write a COSE_KeySet, for `verify --log-key`. It knows no names, and leaves compromised keys out.",
)  # fmt: skip
@click.option(
    "--trust", type=click.Path(), metavar="TOML",
    help="Write a trust file, for `verify --trust`: the log by name, each key with its end.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
@json_option()
def command(
    log: str, token: str | None, cacert: str | None, target: str | None, trust: str | None, force: bool, as_json: bool
) -> None:
    """Fetch a log's public keys (GET /.well-known/scitt-keys, GET /keys).

    A log can serve any keys it likes: compare the thumbprints with what its operator published elsewhere, once, then
    keep the file. Fetch again after a rotation, and when a key is found compromised.
    """
    refuse_existing(*(path for path in (target, trust) if path is not None), force=force)
    with connect(log, token=token, cacert=cacert) as client:
        keys = client.keys()
        service = _service_keys(client)
    told = {} if service is None else {item.key.thumbprint: item for item in service.keys}
    _check_agree(keys, service)
    if target is not None:
        good = [key for key in keys if not _is_compromised(told.get(key.thumbprint))]
        write_output(target, encode_key_set(good), force=force)
    if trust is not None:
        write_output(trust, trust_entry(service), force=force)
    if STDIO in (target, trust):
        return
    rows = [_row(key, told.get(key.thumbprint)) for key in keys]
    if as_json:
        identity = {} if service is None else {"iss": service.iss, "origin": service.log}
        print_json({"log": log, **identity, "keys": rows, "file": target, "trust": trust})
        return
    for key in keys:
        out().print(f"{key.thumbprint.hex()}  {safe(key.kty_name)}{_times(told.get(key.thumbprint))}")
    for path in (path for path in (target, trust) if path is not None):
        note(f"{path} is written; compare the thumbprints with the operator's before relying on them")


def _service_keys(client: SyncLogClient) -> ServiceKeys | None:
    """Names and times; SCRAPI knows neither, so another service may have none."""
    try:
        return client.service_keys()
    except ServiceRefusedError as error:
        if error.status in _NO_SUCH_THING:
            return None
        raise


def _check_agree(keys: tuple[PublicKey, ...], service: ServiceKeys | None) -> None:
    if service is not None and {key.thumbprint for key in service.ever(keyset.RECEIPTS)} != {
        key.thumbprint for key in keys
    }:
        warn("the keys this log serves are not those of its registered key set; a cache may be behind, or it lies")


def trust_entry(service: ServiceKeys | None) -> bytes:
    from transparency.verifier import LogTrust, TrustedKey
    from transparency.verifier.trust_file import write_log

    if service is None:
        hint = "Write the [[log]] entry by hand (docs/verify.md), with the file of --out as its keys."
        raise CommandError(Exit.BAD_INPUT, "this log does not say its name and its keys' times (GET /keys)", hint)
    receipts = [item for item in service.keys if item.role == keyset.RECEIPTS and not item.never_used]
    keys = tuple(TrustedKey(item.key, item.until, item.compromised_since) for item in receipts)
    return write_log(LogTrust(keys, service.iss, service.log)).encode()


def _is_compromised(item: ServiceKey | None) -> bool:
    return item is not None and item.compromised_since is not None


def _row(key: PublicKey, item: ServiceKey | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "thumbprint": key.thumbprint.hex(),
        "kid": key.kid.hex(),
        "type": key.kty_name,
        "alg": key.alg,
    }
    if item is None:
        return row
    times = (("since", item.since), ("until", item.until), ("compromised-since", item.compromised_since))
    return row | {name: None if time is None else timestamp(time) for name, time in times}


def _times(item: ServiceKey | None) -> str:
    if item is None:
        return ""
    until = "" if item.until is None else f" until {timestamp(item.until)}"
    told = "" if item.compromised_since is None else f", compromised since {timestamp(item.compromised_since)}"
    return f"  since {timestamp(item.since)}{until}{told}"
