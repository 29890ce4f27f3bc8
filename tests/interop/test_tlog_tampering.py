"""A flipped bit anywhere is found: by the client that was written from the C2SP texts, in all that our log publishes.

Every key that it knows must have signed, so a line that no longer counts is missed; all else the root binds.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interop import tlog_client
from tests.interop.grown import grown_log
from tests.interop.tlog_client import Key, TlogError

SIZES = (3, 256, 257, 700)


@dataclass(frozen=True)
class Snapshot:
    """All that a log published at one of its sizes."""

    files: dict[str, bytes]
    keys: list[Key]

    def audit(self, **changed: bytes | None) -> None:
        """Audit with some files changed, or gone."""
        files = {**self.files, **changed}

        def get(path: str) -> bytes:
            body = files.get(path)
            if body is None:
                raise TlogError(f"{path}: not found")
            return body

        tlog_client.audit(get, self.keys)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Snapshot]:
    async def publish() -> dict[int, Snapshot]:
        found = {}
        async with grown_log(tmp_path_factory.mktemp("log")) as grown:
            for size in SIZES:
                await grown.publish(size)
                found[size] = Snapshot(grown.snapshot(), grown.keys)
        return found

    return asyncio.run(publish())


def test_every_byte_of_a_checkpoint_counts(snapshots: dict[int, Snapshot]) -> None:
    """SN-1, SN-3, CP-1: each bit of text, names, key ids and the short signature, one of each byte of the long one."""
    note, keys = snapshots[700].files["checkpoint"], snapshots[700].keys
    assert tlog_client.open_checkpoint(note, keys).size == 700

    short = 400
    assert len(note) > 3000
    for at, bit in itertools.product(range(len(note)), range(8)):
        if at > short and bit != at % 8:
            continue
        with pytest.raises(TlogError):
            tlog_client.open_checkpoint(_flipped(note, at, bit), keys)


def test_every_bit_of_a_small_log_counts(snapshots: dict[int, Snapshot]) -> None:
    snapshot = snapshots[3]
    snapshot.audit()

    assert set(snapshot.files) == {"checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3"}
    for path in ("tile/0/000.p/3", "tile/entries/000.p/3"):
        body = snapshot.files[path]
        for at, bit in itertools.product(range(len(body)), range(8)):
            with pytest.raises(TlogError):
                snapshot.audit(**{path: _flipped(body, at, bit)})


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_bit_of_any_resource_counts(snapshots: dict[int, Snapshot], data: st.DataObject) -> None:
    snapshot = snapshots[data.draw(st.sampled_from(SIZES))]
    path = data.draw(st.sampled_from(sorted(snapshot.files)))
    body = snapshot.files[path]
    at, bit = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 7))

    with pytest.raises(TlogError):
        snapshot.audit(**{path: _flipped(body, at, bit)})


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body[:-1],
        lambda body: body + b"\0",
        lambda body: b"",
        lambda body: body[32:] + body[:32],
        lambda body: body + body[:32],
        lambda body: body + body[:34],
        lambda body: None,
    ],
    ids=["cut", "a byte more", "empty", "rotated", "a hash more", "an entry more", "gone"],
)
def test_what_is_cut_longer_moved_or_gone_is_found(
    snapshots: dict[int, Snapshot], change: Callable[[bytes], bytes | None]
) -> None:
    snapshot = snapshots[700]
    for path, body in snapshot.files.items():
        with pytest.raises(TlogError):
            snapshot.audit(**{path: change(body)})


def test_a_resource_of_another_size_is_found(snapshots: dict[int, Snapshot]) -> None:
    """A checkpoint that is behind its tiles, tiles that are ahead of it: each is true for itself."""
    older, newer = snapshots[257], snapshots[700]

    for path in ("checkpoint", "tile/0/001", "tile/entries/001"):
        with pytest.raises(TlogError):
            newer.audit(**{path: older.files.get(path) or older.files[f"{path}.p/1"]})
    with pytest.raises(TlogError):
        older.audit(checkpoint=newer.files["checkpoint"])


def test_two_entries_that_change_places_are_found(snapshots: dict[int, Snapshot]) -> None:
    """With the tile that belongs to the changed order: only the root tells."""
    files = snapshots[700].files
    entries = tlog_client.read_bundle(files["tile/entries/002.p/188"], 188)
    entries[5], entries[6] = entries[6], entries[5]
    bundle = b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
    tile = b"".join(tlog_client.leaf_hash(entry) for entry in entries)

    with pytest.raises(TlogError, match="the root"):
        snapshots[700].audit(**{"tile/entries/002.p/188": bundle, "tile/0/002.p/188": tile})


def test_a_key_that_did_not_sign_is_missed(snapshots: dict[int, Snapshot]) -> None:
    """The line of each key taken away, in turn."""
    note, keys = snapshots[3].files["checkpoint"], snapshots[3].keys
    text, _, tail = note.rpartition(b"\n\n")
    lines = tail.splitlines(keepends=True)
    assert len(lines) == len(keys) == 2

    for line in lines:
        with pytest.raises(TlogError, match="has not signed"):
            tlog_client.open_checkpoint(text + b"\n\n" + line, keys)


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
