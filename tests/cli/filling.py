"""A log with records on it that stays as it is while tests count what is there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from tests.cli.conftest import ISS, Served, shell
from tests.patience import PATIENCE
from transparency.client.sync import SyncLogClient
from transparency.log.folder import Folder
from transparency.log.search import SearchIndex

# What a log has before its first record: policy, keys, and the policy with the issuer.
OWN = 3


def fill(log: Served, records: Mapping[str, bytes], words: Mapping[str, Sequence[str]] | None = None) -> None:
    """Register *records*, each with its *words*: entry 3, and from 5 on. When this returns, all is indexed and proven.

    Entry 4 is the log's admission manifest, asked for here. A server makes its first by itself, a minute after its
    start: where among the entries it stands, and whether the index has it yet, would depend on how long a test has
    taken so far. It needs a record to cover, so it cannot come before the first; the next is due a day later.
    """
    folder = log.data.parent
    last = ""
    for name, record in records.items():
        (folder / name).write_bytes(record)
        submit = ("submit", name, "--log", log.url, "--key", "issuer.pem", "--iss", ISS, "--json")
        ended = shell(*submit, *(words or {}).get(name, ()), cwd=folder)
        assert ended.returncode == 0, ended.stderr
        if not last:
            cover(log)
        last = json.loads(ended.stdout)["entry-id"]
    wait_for_index(log, OWN + 1 + len(records))
    with SyncLogClient(log.url) as client:
        client.proof(last)  # waits for a checkpoint that covers it


def cover(log: Served) -> None:
    """Have the log state its manifest now, where it has not done so yet."""
    ended = shell("log", "manifest", "--data", log.data, cwd=log.data.parent)
    assert ended.returncode == 0, ended.stderr


def wait_for_index(log: Served, size: int) -> None:
    index = SearchIndex(Folder(log.data).search)
    until = time.monotonic() + PATIENCE
    while index.indexed() < size:
        assert time.monotonic() < until, f"indexed {index.indexed()} of {size}: {log.errors.read_text()}"
        time.sleep(0.05)
