"""``prove``, ``log vkey`` and the witness options of ``serve``, as people run them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served, running, shell
from tests.log.witness_peers import Peer, listening
from tests.patience import PATIENCE
from transparency.cose.keys import PrivateKey
from transparency.log.log import system_clock
from transparency.merkle.hashing import leaf_hash
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.proof import TlogProof
from transparency.notes.vkey import ED25519, MLDSA, VerifierKey
from transparency.statements.statement import Statement, entry_id, sign_statement


@pytest.fixture
def registered(site: Served, good: Run, folder: Path) -> Path:
    """A statement that is on the log, as a file."""
    (folder / "session.txt").write_text(folder.parent.name)
    flags = ("--key", site.key, "--iss", ISS, "--sub", "s", "--content-type", "text/plain", "--log", site.url)
    good("submit", "session.txt", *flags, "--out", "session.cose")
    return folder / "session.cose"


def vkeys(good: Run, data: Path) -> list[str]:
    return good("log", "vkey", "--data", data).stdout.splitlines()


def test_the_verifier_keys_of_a_log_are_printed_one_a_line(good: Run, site: Served) -> None:
    """SN-2: both keys, under the origin's name; also while the log is being served."""
    keys = [VerifierKey.parse(line) for line in vkeys(good, site.data)]

    assert [key.kind for key in keys] == [ED25519, MLDSA]
    assert {key.name for key in keys} == {"log.example/cli"}
    view = json.loads(good("log", "vkey", "--data", site.data, "--json", "--all").stdout)
    assert view == {"origin": "log.example/cli", "vkeys": [key.text for key in keys]}


def test_rotated_keys_are_printed_when_all_are_asked_for(good: Run, folder: Path) -> None:
    good("init", "--data", "log")
    first = vkeys(good, folder / "log")
    good("log", "rotate-key", "--data", "log", "--role", "checkpoints")
    second = vkeys(good, folder / "log")

    assert len(second) == 2
    assert set(first).isdisjoint(second)
    assert set(good("log", "vkey", "--data", "log", "--all").stdout.splitlines()) == {*first, *second}


def test_the_proof_of_a_statement_is_kept_beside_it(good: Run, site: Served, registered: Path) -> None:
    """P-1."""
    done = good("prove", registered, "--log", site.url)

    proof = TlogProof.from_bytes(registered.with_suffix(".tlog-proof").read_bytes())
    keys = [VerifierKey.parse(line) for line in vkeys(good, site.data)]
    signed = proof.verify(leaf_hash(Statement.from_bytes(registered.read_bytes()).entry), keys)
    assert f"under its checkpoint of size {signed.checkpoint.size}" in " ".join(done.stderr.split())
    assert "no witness has cosigned" in done.stderr
    assert "keys that the log itself serves" in " ".join(done.stderr.split())


def test_a_receipt_that_carries_the_proof_is_got_and_seen(good: Run, run: Run, site: Served, registered: Path) -> None:
    """-70104: one file, which is checked against the log's key and by a policy, offline."""
    keys = vkeys(good, site.data)
    Path("policy").write_text("".join(f"log {line}\n" for line in keys) + "quorum none\n")
    good("keys", "--log", site.url, "--out", "log.keys")

    done = good("prove", registered, "--log", site.url, "--receipt", "--witness-policy", "policy")

    assert "session.t.cose: entry" in " ".join(done.stderr.split())
    view = json.loads(good("inspect", "session.t.cose", "--json").stdout)
    carried = [receipt["tlog-proof"] for receipt in view["receipt"] if "tlog-proof" in receipt]
    assert [proof["checkpoint"]["log"] for proof in carried] == ["log.example/cli"]
    assert len(view["receipt"]) == 2, "the first receipt says when it was registered"
    judged = run("verify", "session.t.cose", "--log-key", "log.keys", "--witness-policy", "policy", "--receipt-only")
    assert judged.exit_code in (0, 3), judged.stdout + judged.stderr
    assert "no proof" not in judged.stdout
    entry = entry_id(Statement.from_bytes(registered.read_bytes()).entry)
    good("prove", entry, "--log", site.url, "--receipt")
    assert "tlog-proof" in json.loads(good("inspect", Path.cwd() / f"{entry}.receipt", "--json").stdout)
    assert run("prove", "-", "--log", site.url, "--receipt", stdin=registered.read_bytes()).exit_code == 64


def test_an_entry_is_named_by_its_id_and_the_logs_key_is_pinned(good: Run, site: Served, registered: Path) -> None:
    entry = entry_id(Statement.from_bytes(registered.read_bytes()).entry)
    flags = [word for line in vkeys(good, site.data) for word in ("--log-vkey", line)]
    view = json.loads(good("prove", entry, "--log", site.url, "--out", "p.tlog-proof", *flags, "--json").stdout)

    assert (view["out"], view["entry"], view["origin"]) == ("p.tlog-proof", entry, "log.example/cli")
    assert TlogProof.from_bytes(Path("p.tlog-proof").read_bytes()).index == view["index"]
    assert good("prove", entry, "--log", site.url, "--out", "-").stdout_bytes.startswith(b"c2sp.org/tlog-proof@v1\n")


def test_an_entry_id_that_begins_with_a_dash_is_no_option(good: Run, site: Served, folder: Path) -> None:
    key = PrivateKey.from_pem(site.key.read_bytes())
    signed = (sign_statement(b"%d" % n, key, iss=ISS, sub="s", content_type="text/plain") for n in itertools.count())
    statement = next(each for each in signed if Statement.from_bytes(each).entry_id.startswith("-"))
    (folder / "dashed.cose").write_bytes(statement)
    good("submit", "dashed.cose", "--log", site.url)
    entry = Statement.from_bytes(statement).entry_id

    view = json.loads(good("prove", entry, "--out", "p.tlog-proof", "--log", site.url, "--json").stdout)

    assert (view["out"], view["entry"]) == ("p.tlog-proof", entry)
    good("prove", "--log", site.url, "--out", "q.tlog-proof", "--", entry)
    assert Path("q.tlog-proof").exists()


def test_a_checkpoint_by_another_key_is_refused_and_nothing_is_written(
    run: Run, good: Run, site: Served, registered: Path
) -> None:
    good("init", "--data", "other", "--origin", "log.example/cli")
    other = vkeys(good, Path("other"))[0]
    result = run("prove", registered, "--log", site.url, "--log-vkey", other)

    assert result.exit_code == 1
    assert not registered.with_suffix(".tlog-proof").exists()


def test_what_cannot_be_proven_says_why(run: Run, good: Run, site: Served, registered: Path) -> None:
    assert run("prove", "A" * 43, "--log", site.url).exit_code == 65
    assert run("prove", "nonsense", "--log", site.url).exit_code == 66
    assert run("prove", registered, "--log", site.url, "--log-vkey", "nonsense").exit_code == 64
    assert (
        run("prove", registered, "--log", "http://127.0.0.1:1", "--log-vkey", vkeys(good, site.data)[0]).exit_code == 69
    )
    good("prove", registered, "--log", site.url)
    again = run("prove", registered, "--log", site.url)
    assert (again.exit_code, "exists" in again.stderr) == (73, True)
    good("prove", registered, "--log", site.url, "--force")


@contextlib.contextmanager
def witnesses(*peers: Peer) -> Iterator[None]:
    """Witnesses in a thread with a loop of their own: the log is another process."""
    loop = asyncio.new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()

    async def serve() -> None:
        async with listening(*peers):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_a_log_with_witnesses_gives_proofs_that_a_quorum_stands_behind(good: Run, run: Run, folder: Path) -> None:
    """From init to a proof that is checked by a policy, with a log that is a process and three witnesses, one gone."""
    peers = [Peer(f"w{n}", time=system_clock()) for n in range(3)]
    with witnesses(*peers):
        peers[2].url = "http://127.0.0.1:1"
        good("init", "--data", "log", "--origin", "log.example/cli")
        keys = "".join(f"log {line}\n" for line in vkeys(good, Path("log")))
        policy = keys + "".join(peer.line for peer in peers) + "group g 2 w0 w1 w2\nquorum g\n"
        Path("policy.txt").write_text(policy)
        flags = ("serve", "--data", "log", "--port", "0", "--open", "--witness-policy", "policy.txt")
        with running(folder, *flags, "--checkpoint-interval", "0.05") as (url, _):
            entry = entry_of_policy(good)
            done = good("prove", entry, "--log", url, "--witness-policy", "policy.txt")
            assert "cosigned by w0, w1: a quorum" in " ".join(done.stderr.split())
            note = TlogProof.from_bytes(Path(f"{entry}.tlog-proof").read_bytes()).checkpoint
            assert len(SignedCheckpoint.from_bytes(note).note.signatures) == 4

            Path("strict.txt").write_text(policy.replace("group g 2", "group g 3"))
            missing = run("prove", entry, "--log", url, "--out", "x", "--witness-policy", "strict.txt")
            assert (missing.exit_code, "w2" in missing.stderr, Path("x").exists()) == (1, True, False)

        Path("all.txt").write_text(policy.replace("group g 2", "group g 3"))
        refused = shell("serve", "--data", "log", "--port", "0", "--witness-policy", "all.txt", cwd=folder)
        assert refused.returncode == 69
        assert b"--witness-quorum open" in refused.stderr


def entry_of_policy(good: Run) -> str:
    """The first entry of the log in ``log``: there is always one."""
    from transparency.log.folder import Folder
    from transparency.log.stores import open_for_reading

    with contextlib.closing(open_for_reading(Folder(Path("log").absolute()))) as store:
        row = store.entry(0)
    assert row is not None
    return entry_id(row.entry)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("quorum x\n", "no witness or group"),
        ("", "is empty"),
        ("witness w1 nonsense http://w.example\nquorum w1\n", "line 1"),
        ("WITNESS ftp://w.example\nquorum w1\n", "URL"),
        ("WITNESS\nquorum w1\n", "cannot make up its quorum"),
    ],
)
def test_a_policy_file_that_cannot_be_used_is_refused_before_anything_starts(
    run: Run, folder: Path, text: str, words: str
) -> None:
    (folder / "policy.txt").write_text(text.replace("WITNESS", f"witness w1 {Peer().signer.vkey.text}"))
    result = run("serve", "--data", "log", "--port", "0", "--witness-policy", "policy.txt")

    assert result.exit_code == 65
    assert words in " ".join(result.stderr.split())
    assert not (folder / "log").exists()


def test_a_quorum_without_a_policy_is_a_slip(run: Run, folder: Path) -> None:
    assert run("serve", "--data", "log", "--port", "0", "--witness-quorum", "open").exit_code == 64
    assert run("serve", "--data", "log", "--port", "0", "--checkpoint-interval", "-1").exit_code == 64
