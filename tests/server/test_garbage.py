"""The collector of a server's process is its own; that of a program which serves a log beside other things is not."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.server.served import served
from transparency.log.log import Log
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore


def test_what_a_process_has_loaded_is_not_looked_through_again() -> None:
    program = (
        "import gc; from transparency.server.garbage import collect_rarely; collect_rarely(); "
        "assert gc.isenabled(); assert gc.get_freeze_count() > 1000; assert gc.get_threshold()[0] > 10_000"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_a_program_that_serves_a_log_keeps_its_collector(tmp_path: Path) -> None:
    async with served(tmp_path):
        pass
    before = gc.get_threshold(), gc.get_freeze_count()
    log = Log.open(tmp_path / "log", watermark=tmp_path / "mark")

    def ready(_: str) -> None:
        raise KeyboardInterrupt

    with closing(TokenStore(tmp_path / "log" / "access.sqlite")) as tokens, pytest.raises(KeyboardInterrupt):
        await serve(log, ServerSettings(port=0, open=True), tokens, ready)

    assert (gc.get_threshold(), gc.get_freeze_count()) == before
