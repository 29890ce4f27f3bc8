"""``transparency policy show``: what a log accepts, as the document that stands on it."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import require_log
from transparency.cli.output import print_json
from transparency.cli.settings import Setting, json_option
from transparency.display import safe_text
from transparency.policy.document import Policy

_WIDEST = 100_000


@click.group()
def command() -> None:
    """The registration policy: who may register what."""


@command.command(epilog="\b\nExample: transparency policy show --log https://log.example")
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="The log's data folder; or:")
@click.option("--log", cls=Setting, envvar="TRANSPARENCY_LOG", metavar="URL", help="The log [TRANSPARENCY_LOG].")
@click.option(
    "--token", cls=Setting, envvar="TRANSPARENCY_TOKEN", metavar="T", help="Access token [TRANSPARENCY_TOKEN]."
)
@click.option("--cacert", cls=Setting, type=click.Path(), metavar="FILE", help="Trust this CA file for TLS.")
@json_option()
def show(data: Path | None, log: str | None, token: str | None, cacert: str | None, as_json: bool) -> None:
    """Print the policy in force (TOML), of a folder or of a log."""
    if data is not None:
        toml = _of_folder(data)
    elif log is not None:
        from transparency.cli.connection import connect

        with connect(log, token=token, cacert=cacert) as client:
            toml = client.policy()
    else:
        raise CommandError(Exit.USAGE, "which log?", "Give --data DIR or --log URL.")
    policy = Policy.from_toml(toml)
    if as_json:
        issuers = [{"iss": each.iss, "keys": [key.thumbprint.hex() for key in each.keys]} for each in policy.issuers]
        print_json({
            "log": policy.log, "generation": policy.generation, "previous": policy.previous,
            "policy-key-thumbprint": policy.policy_key.thumbprint.hex(), "algorithms": list(policy.algorithms),
            "content-types": list(policy.content_types), "max-statement-size": policy.max_statement_size,
            "issuers": issuers,
        })  # fmt: skip
        return
    # It comes from elsewhere: line by line, so that only its line ends are line ends.
    for line in toml.decode("utf-8").removesuffix("\n").split("\n"):
        click.echo(safe_text(line, _WIDEST))


def _of_folder(data: Path) -> bytes:
    from transparency.log.admin import open_admin

    require_log(data)
    with open_admin(data, reading=True) as admin:
        toml = admin.call("documents")["policy"]
    if not isinstance(toml, bytes):
        raise CommandError(Exit.INTERNAL, "the log's owner did not answer with a policy")
    return toml
