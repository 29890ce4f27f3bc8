"""``transparency witness``: run a C2SP witness, which cosigns the checkpoints of logs that only ever grow."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli import witness_follow, witness_logs, witness_overrides, witness_prove
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.listening import (
    cannot_listen,
    check_can_append,
    check_can_listen,
    check_tls,
    fit_connections,
    tls_options,
    warn_of_plain_http,
)
from transparency.cli.output import done, note, print_json
from transparency.cli.passphrases import new_kept_passphrase
from transparency.cli.settings import json_option
from transparency.cli.witness_folders import check_new, dir_option, print_vkeys, require_either, require_witness
from transparency.errors import StoreError


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
@click.option("--name", required=True, metavar="NAME", help="Its name in every cosignature, for ever: a URL, no https.")
@click.option("--watermark", type=click.Path(path_type=Path), metavar="FILE",
              help="Its high-water mark. Default: beside the folder, not in it.")  # fmt: skip
@click.option("--encrypt-keys", is_flag=True, help="Encrypt its private keys with a passphrase.")
@json_option()
def init(folder: Path, name: str, watermark: Path | None, encrypt_keys: bool, as_json: bool) -> None:
    """Make a witness in DIR: two keys, Ed25519 and ML-DSA-44, and a state in which nothing is cosigned.

    Its verifier keys are printed, one a line: publish them.
    """
    from transparency.witness.folder import create_witness

    check_new(folder, name, "witness.example/w1")
    passphrase = new_kept_passphrase() if encrypt_keys else None
    with storage(folder):
        made = create_witness(folder, name, watermark, passphrase)
    vkeys = [key.text for key in made.load_keys().vkeys]
    if as_json:
        print_json({"dir": str(folder), "name": name, "vkeys": vkeys})
        return
    for line in vkeys:
        click.echo(line)
    done(f"{folder}: a witness by the name {name}; these are its verifier keys, for logs and verifiers to trust")
    note(f"next: transparency witness add-log --dir {folder} VKEY, then transparency witness serve --dir {folder}")


@command.command(epilog="\b\nExample: transparency witness vkey --dir ./witness")
@dir_option(keys=True)
def vkey(folder: Path) -> None:
    """Print the verifier keys of a witness, one a line: the Ed25519 one, then the ML-DSA-44 one."""
    print_vkeys(require_either(folder))


@command.command(epilog="\b\nExample: transparency witness serve --dir ./witness --port 8090")
@dir_option(keys=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option(
    "--rate-limit", type=click.IntRange(0), metavar="N", help="Requests a minute and address; 0 lifts the limit."
)
@click.option("--access-log", metavar="FILE", help="Structured access log; - is stderr.")
@tls_options
@click.option("--watermark", type=click.Path(path_type=Path), metavar="FILE", help="The mark, if it was moved.")
def serve(
    folder: Path, host: str, port: int, rate_limit: int | None, access_log: str | None, tls_cert: Path | None,
    tls_key: Path | None, watermark: Path | None,
) -> None:  # fmt: skip
    """Run the witness in DIR until SIGTERM or Ctrl-C.

    When it is ready, one line with its URL is printed: the submission prefix and the monitoring prefix. Logs that are
    added meanwhile are noticed.
    """
    import asyncio

    from transparency.server.settings import ServerSettings
    from transparency.witness.serve import serve as run
    from transparency.witness.state import open_state

    found = require_witness(folder)
    check_tls(tls_cert, tls_key)
    check_can_listen(host, port)
    check_can_append(access_log)
    limit = ServerSettings().rate_limit if rate_limit is None else rate_limit or None
    settings = fit_connections(
        ServerSettings(
            host=host, port=port, rate_limit=limit, access_log=access_log, tls_cert=tls_cert, tls_key=tls_key
        )
    )
    warn_of_plain_http(settings)
    with storage(found.state), open_state(found, watermark=watermark) as state:
        try:
            asyncio.run(run(found, state, settings, click.echo))
        except OSError as error:
            raise cannot_listen(host, port, error) or error from error
        except StoreError as error:
            hint = "Look at its disk and start it again: nothing that was cosigned is in doubt."
            raise CommandError(Exit.CANNOT_WRITE, f"{found.state}: the witness has stopped: {error}", hint) from error
    note("stopped; everything that was cosigned is recorded")
