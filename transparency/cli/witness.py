"""``transparency witness``: run a C2SP witness, which cosigns the checkpoints of logs that only ever grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transparency.cli import witness_follow, witness_logs, witness_overrides, witness_prove
from transparency.cli.cosigners import (
    init_options,
    listening_options,
    listening_settings,
    rate_option,
    tell_made,
    until_stopped,
)
from transparency.cli.errors import storage
from transparency.cli.output import note
from transparency.cli.passphrases import new_kept_passphrase
from transparency.cli.witness_folders import check_new, dir_option, print_vkeys, require_either, require_witness


@click.group()
def command() -> None:
    """Cosign the checkpoints of other people's logs: init, add-log, list, serve, vkey; or after replaying: follow."""


command.add_command(witness_logs.add_log)
command.add_command(witness_logs.list_)
command.add_command(witness_logs.evidence)
command.add_command(witness_overrides.forget)
command.add_command(witness_overrides.renew)
command.add_command(witness_follow.init_follower)
command.add_command(witness_follow.follow)
command.add_command(witness_prove.prove)


@command.command(epilog="\b\nExample: transparency witness init --dir ./witness --name witness.example/w1")
@dir_option(keys=True)
@init_options
def init(folder: Path, name: str, watermark: Path | None, encrypt_keys: bool, as_json: bool) -> None:
    """Make a witness in DIR: two keys, Ed25519 and ML-DSA-44, and a state in which nothing is cosigned.

    Its verifier keys are printed, one a line: publish them.
    """
    from transparency.witness.folder import create_witness

    check_new(folder, name, "witness.example/w1")
    passphrase = new_kept_passphrase() if encrypt_keys else None
    with storage(folder):
        made = create_witness(folder, name, watermark, passphrase)
    tell_made(
        made, {"dir": str(folder), "name": name},
        f"{folder}: a witness by the name {name}; these are its verifier keys, for logs and verifiers to trust",
        f"next: transparency witness add-log --dir {folder} VKEY, then transparency witness serve --dir {folder}",
        as_json=as_json,
    )  # fmt: skip


@command.command(epilog="\b\nExample: transparency witness vkey --dir ./witness")
@dir_option(keys=True)
def vkey(folder: Path) -> None:
    """Print the verifier keys of a witness, one a line: the Ed25519 one, then the ML-DSA-44 one."""
    print_vkeys(require_either(folder))


@command.command(epilog="\b\nExample: transparency witness serve --dir ./witness --port 8090")
@dir_option(keys=True)
@listening_options(8090)
@rate_option
def serve(folder: Path, watermark: Path | None, **options: Any) -> None:  # noqa: ANN401 - those of listening_settings
    """Run the witness in DIR until SIGTERM or Ctrl-C.

    When it is ready, one line with its URL is printed: the submission prefix and the monitoring prefix. Logs that are
    added meanwhile are noticed.
    """
    import asyncio

    from transparency.witness.serve import serve as run
    from transparency.witness.state import open_state

    found = require_witness(folder)
    settings = listening_settings(**options)
    with (
        storage(found.state),
        open_state(found, watermark=watermark) as state,
        until_stopped(found.state, "witness", settings),
    ):
        asyncio.run(run(found, state, settings, click.echo))
    note("stopped; everything that was cosigned is recorded")
