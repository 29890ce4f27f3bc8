"""``transparency mirror``: from an empty folder to a copy that others read, as an operator does it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sqlite3
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Run, running, shell
from tests.interop import tlog_client
from tests.interop.tlog_client import ED25519, Key
from tests.interop.tlog_pusher import Pusher
from tests.interop.tlog_writer import Signer, Writer
from tests.mirror.mirrored import NAME
from transparency.log.store import Kind, StoredEntry
from transparency.mirror.statements import StatementStore
from transparency.notes.checkpoint import origin_hash
from transparency.notes.vkey import COSIGNATURE, MLDSA, VerifierKey
from transparency.statements.statement import Entry

LOG = "foreign.example/log"
TIME = 1_790_000_000


@pytest.fixture
def made(folder: Path, good: Run) -> list[str]:
    """Its verifier keys."""
    return good("mirror", "init", "--dir", "m", "--name", NAME).stdout.splitlines()


@pytest.fixture
def writer(folder: Path) -> Writer:
    writer = Writer(LOG, [Signer(LOG, ED25519)])
    _publish(writer, folder, 300)
    return writer


def test_init_prints_the_verifier_keys_and_vkey_prints_them_again(folder: Path, made: list[str], good: Run) -> None:
    keys = [VerifierKey.parse(line) for line in made]

    assert [(key.name, key.kind) for key in keys] == [(NAME, COSIGNATURE), (NAME, MLDSA)]
    assert good("mirror", "vkey", "--dir", "m").stdout.splitlines() == made
    assert json.loads(good("mirror", "init", "--dir", "x", "--name", NAME, "--json").stdout)["name"] == NAME


def test_one_command_mirrors_a_log_and_serves_it(folder: Path, writer: Writer, good: Run) -> None:
    """M-3: `transparency mirror LOG --dir D`; the second time it needs neither keys nor name."""
    vkey = writer.signers[0].vkey
    log, there = str(folder / "log"), ("--dir", "m", "--port", "0", "--interval", "1")
    for words in (("--name", NAME, "--log-vkey", vkey), ()):
        with running(folder, "mirror", log, *there, *words) as (url, errors):
            audited = _audit(url, vkey, good("mirror", "vkey", "--dir", "m").stdout.splitlines(), len(writer.entries))
            assert audited.entries == writer.entries
        assert "every entry that was cosigned is here" in errors.read_text()
        _publish(writer, folder, 100)

    (row,) = json.loads(good("mirror", "list", "--dir", "m", "--json").stdout)
    assert (row["origin"], row["cosigned-size"], row["entries"], row["url"]) == (LOG, 400, 400, log)
    assert "400 entries cosigned at" in good("mirror", "list", "--dir", "m").stdout
    assert "400 entries" in good("mirror", "check", "--dir", "m").stdout


def test_a_log_pushes_and_a_fork_of_it_is_refused_and_kept(
    folder: Path, made: list[str], writer: Writer, run: Run, good: Run
) -> None:
    """M-1, M-2: as real processes; the log is added while the mirror runs; it is pushed by two clients."""
    vkey = writer.signers[0].vkey
    with running(folder, "mirror", "serve", "--dir", "m", "--port", "0") as (url, errors):
        unknown = run("mirror", "push", "log", url, "--log-vkey", vkey)
        assert (unknown.exit_code, f"the mirror {url} answered 404" in unknown.stderr) == (65, True)
        assert f"Its operator adds {LOG} with `transparency mirror add-log`" in unknown.stderr
        good("mirror", "add-log", "--dir", "m", vkey)
        pushed = good("mirror", "push", "log", url, "--log-vkey", vkey, "--mirror-vkey", made[0])
        tlog_client.open_checkpoint(pushed.stdout.encode(), [Key.from_vkey(each) for each in (vkey, *made)])
        stranger = run("mirror", "push", "log", url, "--log-vkey", vkey, "--mirror-vkey", Signer("x", 4).vkey)
        assert stranger.exit_code == 1
        _publish(writer, folder, 30)
        Pusher(url, LOG).push(writer.entries, writer.files["checkpoint"])
        assert _audit(url, vkey, made, 330).entries == writer.entries
        fork = Writer(LOG, writer.signers)
        fork.publish([b"another %d" % at for at in range(330)], TIME)
        with pytest.raises(tlog_client.TlogError, match="answered 422"):
            Pusher(url, LOG).push(fork.entries, fork.files["checkpoint"])
        busy = shell("mirror", "serve", "--dir", "m", "--port", "0", cwd=folder)
        assert (busy.returncode, b"in use by another process" in busy.stderr) == (75, True)
        status = json.loads(_get(f"{url}/status"))
        assert status["logs"][0]["cosigned-size"] == 330
        assert b'transparency_mirror_entries{origin="foreign.example/log"} 330.0' in _get(f"{url}/metrics")
    assert "signed another history" in errors.read_text()

    assert "forked: 1 kept as evidence" in good("mirror", "list", "--dir", "m").stdout
    good("mirror", "evidence", "--dir", "m", "--out", "evidence")
    convicted = good("verify", "evidence/0001.fork.evidence", "--log-vkey", vkey)
    assert "Convicted of a fork" in convicted.stdout


def test_a_mirror_and_a_witness_are_never_taken_for_each_other(made: list[str], run: Run, good: Run) -> None:
    """tlog-mirror: "this witness service MUST be a distinct cosigner"."""
    good("witness", "init", "--dir", "w", "--name", "witness.example/w1")

    for words in (
        ("mirror", "serve", "--dir", "w"),
        ("witness", "serve", "--dir", "m"),
        ("witness", "vkey", "--dir", "m"),
        ("witness", "follow", "https://log.example", "--dir", "m"),
    ):
        refused = run(*words)
        assert (refused.exit_code, "keys have another meaning" in refused.stderr) == (77, True), words


def test_an_older_copy_of_the_folder_or_of_its_trees_is_refused(
    folder: Path, made: list[str], writer: Writer, run: Run, good: Run
) -> None:
    """A mirror whose disk went back has forgotten what it cosigned, or no longer has it."""
    vkey = writer.signers[0].vkey
    good("mirror", "add-log", "--dir", "m", vkey)
    shutil.copytree(folder / "m", folder / "old")
    with running(folder, "mirror", "serve", "--dir", "m", "--port", "0") as (url, _):
        good("mirror", "push", "log", url, "--log-vkey", vkey)

    older = run("mirror", "serve", "--dir", "old", "--port", "0")
    assert (older.exit_code, "an older copy was put back" in older.stderr) == (1, True)
    shutil.copy(folder / "old" / "tree.sqlite", folder / "m" / "tree.sqlite")
    lost = run("mirror", "serve", "--dir", "m", "--port", "0")
    assert (lost.exit_code, "are not all here" in lost.stderr) == (1, True)
    assert run("mirror", "check", "--dir", "m").exit_code == 1


def test_check_finds_an_entry_and_a_tile_that_were_changed(
    folder: Path, made: list[str], writer: Writer, run: Run, good: Run
) -> None:
    good("mirror", "add-log", "--dir", "m", writer.signers[0].vkey)
    with running(folder, "mirror", "serve", "--dir", "m", "--port", "0") as (url, _):
        good("mirror", "push", "log", url, "--log-vkey", writer.signers[0].vkey)
    assert good("mirror", "check", "--dir", "m", "--json").stdout
    for table in ("pieces", "tiles"):
        shutil.copytree(folder / "m", folder / table)
        with sqlite3.connect(folder / table / "tree.sqlite") as connection:
            (data,) = connection.execute(f"SELECT data FROM {table} LIMIT 1").fetchone()  # noqa: S608 - our own name
            changed = data[:-1] + bytes([data[-1] ^ 1])
            connection.execute(f"UPDATE {table} SET data = ? WHERE data = ?", (changed, data))  # noqa: S608
        connection.close()
        found = run("mirror", "check", "--dir", table)
        assert (found.exit_code, "not what the entries hash to" in found.stdout) == (1, True)


def test_a_mirror_that_found_damage_does_not_end_as_if_all_were_here(
    folder: Path, made: list[str], writer: Writer, run: Run, good: Run
) -> None:
    """It is found when it is read, while the mirror runs; the exit and the last line say so."""
    vkey = writer.signers[0].vkey
    good("mirror", "add-log", "--dir", "m", vkey)
    with running(folder, "mirror", "serve", "--dir", "m", "--port", "0", ends=1) as (url, errors):
        good("mirror", "push", "log", url, "--log-vkey", vkey)
        with contextlib.closing(sqlite3.connect(folder / "m" / "tree.sqlite")) as connection, connection:
            connection.execute("UPDATE pieces SET data = zeroblob(length(data)) WHERE start = 0")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            _get(f"{url}/{origin_hash(LOG)}/tile/entries/000")
        _publish(writer, folder, 1)
        refused = run("mirror", "push", "log", url, "--log-vkey", vkey)
        assert (refused.exit_code, "answered 503, Damaged" in refused.stderr) == (69, True)
    assert f"not every entry that was cosigned is here: {LOG}: entries from 0 on" in errors.read_text()


def test_statements_are_written_all_or_none(
    folder: Path, made: list[str], run: Run, good: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle leaves nothing that could be taken for all of them."""
    rows = [StoredEntry(at, Entry(bytes([at]) * 32), Kind.STATEMENT, 1, b"", b"statement", b"") for at in range(3)]
    with StatementStore(folder / "m" / "statements.sqlite") as store:
        store.keep(LOG, rows, [1])
    synced = iter([None])

    def full(_: int) -> None:
        if next(synced, 0) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    nobody = run("mirror", "statements", "--dir", "m", "nosuch/x", "--out", "copies")
    assert (nobody.exit_code, f"no statements of nosuch/x. It has those of {LOG}" in nobody.stderr) == (66, True)
    assert not (folder / "copies").exists()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        failed = run("mirror", "statements", "--dir", "m", LOG, "--out", "copies")
    left = [path.name for path in folder.iterdir() if "copies" in path.name]
    good("mirror", "statements", "--dir", "m", LOG, "--out", "copies")

    assert (failed.exit_code, "No space left" in failed.stderr, left) == (73, True, [])
    assert sorted(path.name for path in (folder / "copies").iterdir()) == ["0.cose", "2.cose"]


def test_a_key_that_is_none_makes_no_mirror(folder: Path, run: Run) -> None:
    """Neither a folder nor a mark, that would be in the way of the next attempt."""
    refused = run("mirror", "https://log.example", "--dir", "m", "--name", NAME, "--log-vkey", "junk")

    assert (refused.exit_code, "VKEY" in refused.stderr) == (65, True)
    assert list(folder.iterdir()) == []


def test_a_mirror_that_cannot_start_is_not_called_a_witness(folder: Path, made: list[str], run: Run) -> None:
    """It was told to start a new witness."""
    for name in ("tree.sqlite", "state.sqlite", "keys/ed25519.pem"):
        moved = (folder / "m" / name).rename(folder / "away")
        refused = run("mirror", "serve", "--dir", "m", "--port", "0")
        moved.rename(folder / "m" / name)

        assert refused.exit_code == 1, refused.stderr
        assert "witness" not in refused.stderr.replace(str(folder), "")
    assert "witness" not in (folder / "m" / "mirror.toml").read_text() + (folder / "m" / "logs.toml").read_text()


@pytest.mark.parametrize("first", [0, 4096], ids=["no database", "pages are damaged"])
def test_trees_that_sqlite_cannot_read_stop_the_mirror_and_the_way_out_is_the_mirrors(
    folder: Path, made: list[str], writer: Writer, run: Run, good: Run, first: int
) -> None:
    """It was exit 70, and the advice for a log's own folder."""
    vkey = writer.signers[0].vkey
    good("mirror", "add-log", "--dir", "m", vkey)
    with running(folder, "mirror", "serve", "--dir", "m", "--port", "0") as (url, _):
        good("mirror", "push", "log", url, "--log-vkey", vkey)
    trees = folder / "m" / "tree.sqlite"
    with contextlib.closing(sqlite3.connect(trees)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = trees.read_bytes()
    trees.write_bytes(data[:first] + b"\xa5" * (len(data) - first))

    refused = run("mirror", "serve", "--dir", "m", "--port", "0")
    checked = run("mirror", "check", "--dir", "m")

    assert refused.exit_code == 73, refused.stderr
    assert f"`transparency mirror check --dir {folder / 'm'}`" in refused.stderr
    assert checked.exit_code == 1, checked.stderr
    for said in (refused.stderr, checked.stderr):
        assert "SQLITE_" in said
        assert "new mirror with a new name" in said, "what to do"
        assert "log fsck" not in said


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("serve", "--dir", "none"), 66, "there is no mirror"),
        (("https://log.example", "--dir", "none"), 66, "--name"),
        (("https://log.example", "--dir", "none", "--name", NAME), 64, "no key of the log"),
        (("https://log.example", "--dir", "m"), 64, "no key of the log"),
        (("sreve", "--dir", "m"), 64, "is not where a log is"),
        (("init", "--dir", "y", "--name", "https://m.example"), 64, "without https://"),
        (("init", "--dir", "m", "--name", NAME), 73, "not an empty folder"),
        (("add-log", "--dir", "m", "junk"), 65, "VKEY"),
        (("push", "https://log.example", "ftp://mirror.example", "--log-vkey", "junk"), 64, "--log-vkey"),
    ],
)
def test_a_slip_is_one_line_that_says_what_to_do(
    made: list[str], run: Run, words: tuple[str, ...], code: int, says: str
) -> None:
    result = run("mirror", *words)

    assert (result.exit_code, says in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr


def _publish(writer: Writer, folder: Path, count: int) -> None:
    """As files in a folder, which is a log that can be read."""
    first = len(writer.entries)
    writer.publish([b"entry %d" % at for at in range(first, first + count)], TIME + first)
    for path, body in writer.files.items():
        file = folder / "log" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def _audit(url: str, vkey: str, own: list[str], size: int) -> tlog_client.Audited:
    """The whole log by the independent client, once the mirror has *size* entries of it."""
    keys = [Key.from_vkey(each) for each in (vkey, *own)]
    get = tlog_client.over_http(f"{url}/{origin_hash(LOG)}")
    late = time.monotonic() + 60
    while time.monotonic() < late:
        with contextlib.suppress(tlog_client.TlogError):
            audited = tlog_client.audit(get, keys)
            if audited.checkpoint.size == size:
                return audited
        time.sleep(0.02)  # it looks at the log once a second, and has no way to tell us
    raise AssertionError("the mirror does not get there")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        return bytes(answer.read())
