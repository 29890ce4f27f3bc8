"""What benchmarks/growth.py measures is a log like any other, and what it draws is a picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import growth
from benchmarks._growth_log import build, issuer_of
from transparency.log.folder import Folder
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.log.manifests import newest_manifest
from transparency.log.store import Kind
from transparency.log.stores import open_for_reading

pytestmark = pytest.mark.sqlite_file


async def test_the_log_that_is_measured_has_heads_and_manifests_and_takes_statements(tmp_path: Path) -> None:
    data = tmp_path / "log"

    build(data, 5_000)

    report = fsck(data)
    assert (report.findings, report.size, report.heads) == ([], 5_000, 21)
    store = open_for_reading(Folder(data))
    assert newest_manifest(store, 5_000)[0] == 4_096
    assert len(store.documents(Kind.OPERATION)) == 1
    store.close()
    log = Log.open(data)
    await log.start()
    made = issuer_of(data)
    assert (await log.register(made.sign(10**12))).index == 5_000
    await log.stop()


def test_the_plot_is_drawn_and_a_broken_promise_is_named() -> None:
    first = {name: 10.0 for name, *_ in growth.ROWS} | {"size": 1e4, "start": 1.0, "start, CPU": 1.0}
    first["start after a kill, CPU"] = 1.5
    last = first | {"size": 1e5, "append in batches, CPU": 25.0, "bytes of tree": 64.3}

    picture = ET.fromstring(growth.draw([first, last]))  # noqa: S314 - our own

    lines = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "append in batches, CPU: 2.50" in lines
    assert growth.broken(first, last) == [
        "append in batches, CPU: 2.50 times, promised 2",
        "bytes of tree: 64.30 a leaf, promised 40",
    ]
    assert "| bytes of tree | a leaf | 10 | 64.3 | 6.43 | ≤ 40 a leaf |" in list(growth.table([first, last]))
