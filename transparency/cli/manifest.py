"""``transparency log manifest``: register the admission manifest of what is not covered yet."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.folders import open_admin, require_log
from transparency.cli.output import done, print_json
from transparency.cli.settings import data_option, json_option


@click.command("manifest", epilog="\b\nExample: transparency log manifest --data ./log")
@data_option()
@json_option()
def command(data: Path, as_json: bool) -> None:
    """Say, in a statement on the log, under what each entry was admitted. A server does so daily and at its stop.

    A manifest lists policy generation, decision time and certificates' digest of every entry since the one before.
    `transparency audit` finds what was replaced since.
    """
    require_log(data)
    with open_admin(data) as admin:
        answer = admin.call("manifest")
    if as_json:
        print_json({"entries": list(answer["entries"]), "covered": answer["covered"]})
        return
    if not answer["entries"]:
        done(f"nothing was registered since the last manifest, which covers {answer['covered']} entries")
    for entry in answer["entries"]:
        done(f"manifest {entry}")
    if answer["entries"]:
        done(f"{answer['covered']} entries are covered")
