"""``transparency log reindex``: make the search index anew from statements and artifacts."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from transparency.cli.errors import storage
from transparency.cli.folders import require_log
from transparency.cli.output import done, print_json, progress
from transparency.cli.settings import data_option, json_option
from transparency.log.artifacts import ArtifactStore
from transparency.log.search import SearchIndex
from transparency.log.stores import open_for_reading


@click.command("reindex", epilog="\b\nExample: transparency log reindex --data ./log")
@data_option()
@json_option()
def command(data: Path, as_json: bool) -> None:
    """Make the search index anew from what the log stores; searches give the same answers afterwards.

    Also while a server runs: until it is done, searches see the part that is there.
    """
    folder = require_log(data)
    store = open_for_reading(folder)
    with storage(f"indexing {data}"), contextlib.closing(store), SearchIndex(folder.search) as index:
        index.clear()
        with progress("indexing", quiet=as_json) as bar:
            task = bar.add_task("entries", total=None)
            size = index.catch_up(
                store, ArtifactStore(folder.artifacts),
                lambda count, total: bar.update(task, completed=count, total=total),
            )  # fmt: skip
        index.checkpoint()
    if as_json:
        print_json({"data": str(data), "indexed": size})
        return
    done(f"{folder.search}: {size} entries")
