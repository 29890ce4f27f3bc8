"""``transparency log keys|rotate-key|compromise-key``: the log's own keys."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import open_admin, require_log
from transparency.cli.output import done, note, out, print_json, safe, timestamp, warn
from transparency.cli.rotation import compromise_key, listed, rotate_key
from transparency.cli.settings import data_option, json_option
from transparency.cose.algorithms import ALGORITHMS
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys
from transparency.records.timestamps import instant

# Others hold these: whoever pins a log's receipts or checkpoint keys wants the next one before it is used.
_HELD_BY_OTHERS = (keyset.RECEIPTS, keyset.CHECKPOINTS)
_NAMES = {
    keyset.RECEIPTS: keyset.RECEIPT_ALGORITHMS,
    keyset.CHECKPOINTS: (),
    keyset.POLICY: tuple(each.name for each in ALGORITHMS.values()),
    keyset.OPERATIONS: tuple(each.name for each in ALGORITHMS.values()),
}


@click.command("keys", epilog="\b\nExample: transparency log keys --data ./log")
@data_option(keys=False)
@json_option()
def keys(data: Path, as_json: bool) -> None:
    """List every key the log has or had: what for, since when, until when."""
    require_log(data)
    with open_admin(data, reading=True) as admin:
        documents = admin.call("documents")
        now = admin.call("status")["head_time"]
    key_set = ServiceKeys.from_toml(documents["keys"])
    rows = listed(key_set, documents.get("time", now))
    if as_json:
        print_json({"iss": key_set.iss, "origin": key_set.log, "generation": key_set.generation, "keys": rows})
        return
    for row in rows:
        told = row["compromised-since"]
        since = f", compromised since {timestamp(told)}" if told is not None else ""
        until = f" until {timestamp(row['until'])}" if row["until"] is not None else ""
        out().print(
            f"{row['thumbprint']}  {safe(row['role'])}  {safe(row['alg'])}  {row['state']}, "
            f"since {timestamp(row['since'])}{until}{since}"
        )


@click.command("rotate-key", epilog="\b\nExample: transparency log rotate-key --data ./log --overlap 604800")
@data_option()
@click.option(
    "--role", type=click.Choice(keyset.ROLES), default=keyset.RECEIPTS, show_default=True,
    help="Which key; checkpoints are two, exchanged together.",
)  # fmt: skip
@click.option("--alg", metavar="NAME", help="Its algorithm. Default: as the one it replaces.")
@click.option(
    "--overlap", type=click.IntRange(0, keyset.MAX_OVERLAP), default=0, metavar="SECONDS",
    help="Announce the key now, sign with it only then. Default: at once.",
)  # fmt: skip
@click.option("--signer", metavar="NAME:ARGUMENT", help="A key that lives elsewhere, by an installed signer.")
@json_option()
def rotate(data: Path, role: str, alg: str | None, overlap: int, signer: str | None, as_json: bool) -> None:
    """Put a new key in the place of one of the log's own. Old receipts stay valid under the old key.

    With --overlap everybody can fetch and pin the new key before the first receipt carries it; the log changes over by
    itself, also if it was restarted in between.
    """
    _check_rotation(role, alg, overlap, signer)
    folder = require_log(data)
    with open_admin(data, allow_lost_key=role == keyset.RECEIPTS) as admin:
        changed = rotate_key(admin, folder, role, alg=alg, signer=signer, overlap=overlap)
    generation, since = changed.keys.generation, timestamp(changed.since)
    thumbprints = [key.thumbprint.hex() for key in changed.new]
    if as_json:
        first = {"thumbprint": thumbprints[0], "thumbprints": thumbprints}
        print_json({"role": role, **first, "since": since, "generation": generation})
        return
    for key in changed.new:
        state = f"is announced and in use from {since} on" if overlap else "is in use"
        done(f"{role} key {key.thumbprint.hex()} ({key.kty_name}) {state}, key set generation {generation}")
    if role == keyset.POLICY:
        note("auditors keep the thumbprint they pinned: the log proves the change from there")
    elif role in _HELD_BY_OTHERS:
        note("verifiers fetch it with `transparency keys`; whoever pinned the old one adds the new")


def _check_rotation(role: str, alg: str | None, overlap: int, signer: str | None) -> None:
    if alg is not None and alg not in _NAMES[role]:
        taken = ", ".join(_NAMES[role]) or "no other than Ed25519 and ML-DSA-44"
        raise CommandError(Exit.USAGE, f"--alg {alg} is not for {role}", f"Taken are: {taken}.")
    if signer is not None and (alg is not None or role == keyset.CHECKPOINTS):
        raise CommandError(Exit.USAGE, "--signer brings one key and its algorithm: no --alg, and not for checkpoints")
    if overlap and role not in _HELD_BY_OTHERS:
        raise CommandError(Exit.USAGE, f"--overlap is for keys that others hold: {' and '.join(_HELD_BY_OTHERS)}")


@click.command(
    "compromise-key",
    epilog="\b\nExample: transparency log compromise-key --data ./log --kid 3f2a --since 2026-11-01T00:00:00Z",
)
@data_option()
@click.option("--kid", required=True, metavar="HEX", help="The key: its id or thumbprint, or the beginning of either.")
@click.option("--since", required=True, metavar="TIME", help="Since when, as 2026-11-01T00:00:00Z.")
@json_option()
def compromise(data: Path, kid: str, since: str, as_json: bool) -> None:
    """Register that a key of the log is in other hands since TIME. One that is in use is replaced at once.

    Receipts under it are renewed under the key in use by whoever fetches them again. Verifiers that know of it take an
    old one only with a consistency receipt under a good key (`verify --consistency`).
    """
    moment = instant(since)
    if moment is None or moment < 0:
        raise CommandError(Exit.USAGE, f"--since {since} is not a time", "Write it as 2026-11-01T00:00:00Z.")
    folder = require_log(data)
    with open_admin(data, allow_lost_key=True) as admin:
        changed, item = compromise_key(admin, folder, kid, moment // 1000)
    thumbprint, new = item.key.thumbprint.hex(), [key.thumbprint.hex() for key in changed.new]
    if as_json:
        body = {"role": item.role, "thumbprint": thumbprint, "compromised-since": timestamp(moment // 1000)}
        print_json({**body, "replaced-by": new, "generation": changed.keys.generation})
        return
    done(f"{item.role} key {thumbprint} is registered as compromised since {timestamp(moment // 1000)}")
    for each in new:
        done(f"{item.role} key {each} is in use in its place")
    if item.role == keyset.RECEIPTS:
        warn("verifiers that work offline learn of it from you: have them run `transparency keys --trust FILE` again")
