"""``transparency log vkey``: the verifier keys of a log's checkpoints, for witnesses, monitors and verifiers."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import open_admin, require_log
from transparency.cli.output import print_json
from transparency.cli.settings import data_option, json_option
from transparency.errors import NoteError
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.keyset import ServiceKeys


@click.command("vkey", epilog="\b\nExample: transparency log vkey --data ./log")
@data_option(keys=False)
@click.option("--all", "every", is_flag=True, help="Retired and announced ones too.")
@json_option()
def command(data: Path, every: bool, as_json: bool) -> None:
    """Print the verifier keys of the log's checkpoints, one a line: Ed25519 and ML-DSA-44.

    A witness takes them (`transparency witness add-log`), and a policy file has them after `log`.
    """
    require_log(data)
    with open_admin(data, reading=True) as admin:
        documents = admin.call("documents")
        now = documents.get("time", admin.call("status")["head_time"])
    key_set = ServiceKeys.from_toml(documents["keys"])
    try:
        vkeys = [key.text for key in checkpoint_vkeys(key_set, None if every else now)]
    except NoteError as error:
        raise CommandError(
            Exit.CANNOT_TELL, f"the log {key_set.log} cannot sign checkpoints: {error}",
            "Its origin is for ever; a new log, with another --origin, can.",
        ) from error  # fmt: skip
    if as_json:
        print_json({"origin": key_set.log, "vkeys": vkeys})
        return
    for vkey in vkeys:
        click.echo(vkey)
