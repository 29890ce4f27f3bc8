"""A target that is damaged, or somebody else's: an export says which, leaves it as it is, and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.grown import grown_log
from tests.interop.test_static_export import exported
from transparency.client.client import LogClient
from transparency.client.static_layout import KEYS, MARKER
from transparency.errors import LogUnusableError, UnreachableError
from transparency.log.static_target import FolderTarget, TargetError


async def test_a_checkpoint_that_was_changed_is_damaged_and_no_other_history(tmp_path: Path) -> None:
    """Its signature is checked first: only what the log has signed is held against the log."""
    checkpoint = tmp_path / "www" / "checkpoint"
    async with grown_log(tmp_path / "log") as log:
        await log.publish(300)
        exported(log, tmp_path / "www")
        sound = checkpoint.read_bytes()
        for size in (b"\n299\n", b"\n301\n"):
            checkpoint.write_bytes(sound.replace(b"\n300\n", size))
            changed = checkpoint.read_bytes()
            with pytest.raises(TargetError, match=r"its checkpoint is damaged, or was changed: .*delete that file"):
                exported(log, tmp_path / "www")
            assert checkpoint.read_bytes() == changed
        checkpoint.unlink()
        exported(log, tmp_path / "www")

        assert checkpoint.read_bytes() == sound


async def test_another_history_is_said_to_be_signed_by_whom(tmp_path: Path) -> None:
    async with grown_log(tmp_path / "one") as one, grown_log(tmp_path / "two") as two:
        await one.publish(30)
        await two.publish(31)
        exported(one, tmp_path / "www")
        with pytest.raises(LogUnusableError, match=r"another history .* signed by keys that this log does not have"):
            exported(two, tmp_path / "www")


@pytest.mark.parametrize("content", [b"", b"{", b'{"format":"transparency-export/9"}'])
async def test_a_broken_marker_is_called_that_by_who_writes_and_by_who_reads(tmp_path: Path, content: bytes) -> None:
    """It was taken for a log that does not have the entry."""
    async with grown_log(tmp_path / "log") as log:
        await log.publish(30)
        exported(log, tmp_path / "www")
        (tmp_path / "www" / MARKER).write_bytes(content)

        with pytest.raises(TargetError, match=r"export.json is broken, .*or export to an empty folder"):
            exported(log, tmp_path / "www")
    async with LogClient(str(tmp_path / "www")) as static:
        with pytest.raises(UnreachableError, match=r"export.json in .*/www is broken"):
            await static.receipt("A" * 43)
        with pytest.raises(UnreachableError, match=r"export.json in .*/www is broken"):
            await static.export("heads", 0)


async def test_every_file_that_was_written_is_counted_with_its_bytes(tmp_path: Path) -> None:
    async with grown_log(tmp_path / "log") as log:
        await log.publish(30)
        exported(log, tmp_path / "www")
        keys = tmp_path / "www" / KEYS
        length = len(keys.read_bytes())
        keys.write_bytes(b"")
        again = exported(log, tmp_path / "www")

    assert (again.written, again.bytes) == (1, length)


def test_a_file_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "issuer.pem").write_bytes(b"a key")
    for path in (tmp_path / "issuer.pem", tmp_path / "issuer.pem" / "www"):
        with pytest.raises(TargetError, match=r"issuer.pem is no folder; name one"):
            FolderTarget(path)
