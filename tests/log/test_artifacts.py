"""Artifacts: a file appears under its SHA-256 whole, durable and private, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.errors import MalformedError, NotFoundError, OverloadedError
from transparency.log import durable
from transparency.log.artifacts import ArtifactStore

DATA = b"a record that is too large for a statement" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts", reserve=0)


def put(store: ArtifactStore, data: bytes, digest: str) -> bool:
    with store.receive(digest) as incoming:
        for at in range(0, len(data), 1000):
            incoming.write(data[at : at + 1000])
        return incoming.finish()


def files(store: ArtifactStore) -> list[str]:
    return sorted(path.relative_to(store.folder).as_posix() for path in store.folder.rglob("*") if path.is_file())


def test_what_was_put_can_be_had_and_lies_under_its_digest(store: ArtifactStore) -> None:
    assert put(store, DATA, DIGEST) is True

    assert files(store) == [f"{DIGEST[:2]}/{DIGEST[2:]}"]
    assert store.size(DIGEST) == len(DATA)
    with store.open(DIGEST) as file:
        assert file.read() == DATA


def test_nobody_else_may_read_it_and_nobody_may_run_it(store: ArtifactStore) -> None:
    put(store, DATA, DIGEST)

    path = store.folder / DIGEST[:2] / DIGEST[2:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_same_bytes_again_are_known_and_not_written_again(store: ArtifactStore) -> None:
    put(store, DATA, DIGEST)
    before = (store.folder / DIGEST[:2] / DIGEST[2:]).stat()

    assert put(store, DATA, DIGEST) is False

    after = (store.folder / DIGEST[:2] / DIGEST[2:]).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("known", [False, True])
def test_other_bytes_than_the_digest_says_are_refused_and_leave_nothing(store: ArtifactStore, known: bool) -> None:
    if known:
        put(store, DATA, DIGEST)
    before = files(store) if known else []

    with pytest.raises(MalformedError, match="nothing was kept"):
        put(store, DATA[:-1], DIGEST)

    assert files(store) == before


def test_an_upload_broken_off_leaves_nothing(store: ArtifactStore) -> None:
    with store.receive(DIGEST) as incoming:
        incoming.write(DATA[:100])

    assert files(store) == []
    with pytest.raises(NotFoundError):
        store.open(DIGEST)


def test_what_a_crash_left_behind_is_removed_at_the_next_start(store: ArtifactStore) -> None:
    store.receive(DIGEST).write(DATA[:100])
    put(store, DATA, DIGEST)
    assert len(files(store)) == 2

    store.clear_incoming()

    assert files(store) == [f"{DIGEST[:2]}/{DIGEST[2:]}"]


@pytest.mark.parametrize("name", ["", "ab", DIGEST.upper(), DIGEST + "0", "../" + DIGEST[3:], DIGEST[:-1] + "\n"])
def test_only_a_digest_is_a_name(store: ArtifactStore, name: str) -> None:
    for use in (store.receive, store.open, store.size):
        with pytest.raises(MalformedError):
            use(name)


def test_bytes_and_name_are_on_the_disk_before_it_is_said_to_be_kept(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of system calls: sync the file, give it its name, sync the folder."""
    calls: list[str] = []
    sync, replace, sync_folder = os.fsync, Path.replace, durable.sync_folder

    def synced(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def named(path: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    put(store, DATA, DIGEST)

    assert calls == ["folder", "file", "rename", "folder"]
    assert sync_folder is durable.sync_folder


def test_a_full_disk_is_a_reason_to_come_back_later(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with store.receive(DIGEST) as incoming:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OverloadedError, match="no room"):
            incoming.write(DATA)
    assert files(store) == []


def test_room_is_left_for_the_log(tmp_path: Path) -> None:
    greedy = ArtifactStore(tmp_path / "artifacts", reserve=2**62)

    with pytest.raises(OverloadedError, match="no room"):
        greedy.receive(DIGEST)


def test_an_upload_is_not_closed_under_the_thread_that_writes_it(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed descriptor's number goes to the next file opened: a late write would land in that."""
    writing, go_on = threading.Event(), threading.Event()
    write = os.write
    open_while_writing: list[bool] = []

    def slow(descriptor: int, data: bytes) -> int:
        writing.set()
        go_on.wait(PATIENCE)
        open_while_writing.append(stat.S_ISREG(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", slow)
    incoming = store.receive(DIGEST)
    writer = threading.Thread(target=incoming.write, args=(DATA,))
    closer = threading.Thread(target=incoming.__exit__)
    writer.start()
    assert writing.wait(PATIENCE)
    closer.start()
    go_on.set()
    writer.join()
    closer.join()

    assert open_while_writing == [True]
    assert files(store) == []


def test_two_who_send_the_same_at_once_both_succeed(store: ArtifactStore) -> None:
    with store.receive(DIGEST) as first, store.receive(DIGEST) as second:
        first.write(DATA)
        second.write(DATA)

        assert (first.finish(), second.finish()) == (True, False)

    assert files(store) == [f"{DIGEST[:2]}/{DIGEST[2:]}"]
