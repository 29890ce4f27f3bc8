"""``transparency retention``: as an operator uses it, on a folder at rest and beside a running server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.conftest import ISS, Run, serving, shell
from tests.log import erasing
from tests.log.erasing import MARKER, Erasing, files_with
from tests.patience import PATIENCE
from transparency.errors import StoreError
from transparency.log.log import Log
from transparency.statements.transparent import attach_receipts
from transparency.testing import Fault, running

BEFORE = 30 * 24 * 3600


@pytest.fixture
def made(tmp_path: Path) -> Erasing:
    """A log of a month ago, whose issuer's class is over after a week."""
    log = erasing.make(tmp_path)
    log.clock.set(int(time.time()) - BEFORE)

    async def shorten() -> None:
        async with running(log.made) as running_log:
            await erasing.shorten(log, running_log)

    asyncio.run(shorten())
    return log


def register(made: Erasing, *statements: bytes) -> list[tuple[int, str, bytes]]:
    """(index, entry id, receipt) of each."""

    async def all_of(log: Log) -> list[tuple[int, str, bytes]]:
        answers = [await log.register(statement) for statement in statements]
        return [(each.index, each.entry_id, each.receipt) for each in answers]

    async def run() -> list[tuple[int, str, bytes]]:
        async with running(made.made) as log:
            return await all_of(log)

    return asyncio.run(run())


@pytest.fixture
def asked(good: Run, made: Erasing) -> Callable[..., Any]:
    """What a retention command says about that log, as JSON."""

    def ask(what: str, *words: str) -> Any:
        return json.loads(good("retention", what, "--data", made.made.data, "--json", *words).stdout)

    return ask


@pytest.mark.sqlite_file
def test_what_is_due_is_planned_then_erased_and_the_holder_can_still_verify(
    good: Run, run: Run, made: Erasing, asked: Callable[..., Any], tmp_path: Path
) -> None:
    """REG-20: a grep of every file, and of a fresh backup, for what was in the artifact finds nothing."""
    record = erasing.record()
    digest = erasing.upload(made, record)
    statement = erasing.envelope(made.issuer, record)
    ((index, entry, receipt),) = register(made, statement)
    made.index()
    good("log", "backup", "--data", made.made.data, "--out", tmp_path / "old", "--keep-days", "90")

    planned = asked("plan")
    assert [(due["artifact"], due["entries"][0]["entry"]) for due in planned["due"]] == [(digest, entry)]
    assert planned["due"][0]["entries"][0]["rule"] == "retention class short, policy generation 2"
    applied = asked("apply")

    assert (applied["erased"], applied["unfinished"], len(applied["erasures"])) == ([index], "", 1)
    assert [(each["where"], each["entries"]) for each in applied["copies"]] == [(str(tmp_path / "old"), 1)]
    good("log", "backup", "--data", made.made.data, "--out", tmp_path / "new")
    made.index()
    assert files_with(MARKER, [made.made.data, tmp_path / "new"]) == []
    assert files_with(MARKER, [tmp_path / "old"]) == [f"artifacts/{digest[:2]}/{digest[2:]}"]
    after = asked("plan")
    assert (after["due"], after["erased"], after["unfinished"]) == ([], 1, 0)
    assert {each["where"]: each["erased-content"] for each in after["copies"]} == {
        str(tmp_path / "old"): 1,
        str(tmp_path / "new"): 0,
    }
    good("log", "fsck", "--data", made.made.data)
    _verify(good, made, tmp_path, attach_receipts(statement, [receipt]), record)


def test_an_erasure_that_was_interrupted_is_finished_and_that_is_said(
    good: Run, made: Erasing, asked: Callable[..., Any]
) -> None:
    _interrupt(made, 2)
    shown = good("retention", "apply", "--data", made.made.data).output
    _interrupt(made, 3)
    body = asked("apply")

    assert "finished: 1 erasures that were interrupted" in shown
    assert "nothing else is due" in shown
    assert (body["taken-up"], body["erased"], body["unfinished"]) == (1, [], "")
    assert asked("apply")["taken-up"] == 0


def test_nothing_due_is_nothing_done(good: Run, made: Erasing) -> None:
    result = good("retention", "apply", "--data", made.made.data)
    assert "nothing is due" in result.output
    assert "0 artifacts are due" in good("retention", "plan", "--data", made.made.data).output


def test_a_payload_goes_by_order_after_an_audit_that_is_registered(
    good: Run, run: Run, made: Erasing, asked: Callable[..., Any], tmp_path: Path
) -> None:
    """REG-20: the order audits the log, registers that, and only then erases."""
    record = erasing.record()
    statement = made.issuer.sign(record)
    ((index, entry, receipt),) = register(made, statement)
    data = ("--data", made.made.data)

    assert asked("plan")["payloads"] == {"attached": 1, "past-their-term": 1}
    assert run("retention", "apply", *data, "--entry", entry, "--order", "request 4711").exit_code == 64
    applied = asked("apply", "--entry", entry, "--order", "request 4711", "--authoriser", "D. Officer")

    assert applied["erased"] == [index]
    assert files_with(MARKER, [made.made.data]) == []
    again = run("retention", "apply", *data, "--entry", entry, "--order", "x", "--authoriser", "y")
    assert (again.exit_code, "was erased already" in again.output) == (77, True)
    good("log", "fsck", *data)
    _verify(good, made, tmp_path, attach_receipts(statement, [receipt]), None)


def test_holds_keep_what_is_due_until_they_are_released(run: Run, made: Erasing, asked: Callable[..., Any]) -> None:
    record = erasing.record()
    erasing.upload(made, record)
    register(made, erasing.envelope(made.issuer, record))
    who = ("--authoriser", "A. Counsel", "--reason", "case 17")

    held = asked("hold", "--iss", made.issuer.iss, *who)["hold"]
    planned = asked("plan")
    assert (planned["due"], planned["held"][0]["hold"]) == ([], held)
    assert planned["holds"][0] | {"since": ""} == {
        "hold": held, "scope": "issuer", "value": made.issuer.iss, "authoriser": "A. Counsel", "reason": "case 17",
        "since": "",
    }  # fmt: skip
    assert asked("apply")["erased"] == []
    asked("release", "--hold", held, "--authoriser", "A. Counsel", "--reason", "case closed")
    assert len(asked("apply")["erased"]) == 1
    once_more = run("retention", "release", "--data", made.made.data, "--hold", held, *who)
    assert (once_more.exit_code, "no hold" in once_more.output) == (77, True)


def test_an_order_about_what_is_on_hold_is_refused_before_anything_is_registered(
    run: Run, made: Erasing, asked: Callable[..., Any]
) -> None:
    """No manifest and no audit for an erasure that cannot be."""
    ((_, entry, _),) = register(made, made.issuer.sign(erasing.record()))
    asked("hold", "--entry", entry, "--authoriser", "A. Counsel", "--reason", "case 17")
    words = ("--entry", entry, "--order", "request 4711", "--authoriser", "D. Officer")

    before = made.plan().size
    refused = run("retention", "apply", "--data", made.made.data, *words)

    assert (refused.exit_code, "is on hold by" in refused.stderr) == (77, True)
    assert made.plan().size == before


@pytest.mark.parametrize(
    "words",
    [
        ("hold", "--authoriser", "a", "--reason", "r"),
        ("hold", "--authoriser", "a", "--reason", "r", "--iss", "https://a.example", "--session", "s"),
        ("apply", "--order", "without an entry"),
        ("apply", "--entry", "not an id", "--order", "o", "--authoriser", "a"),
        ("copy", "--where", "x", "--keep-days", "0"),
    ],
)
def test_what_is_not_meant_is_said_in_one_line(run: Run, made: Erasing, words: tuple[str, ...]) -> None:
    result = run("retention", words[0], "--data", made.made.data, *words[1:])
    assert result.exit_code == 64
    assert result.stdout == ""


def test_a_copy_that_was_made_otherwise_is_noted(good: Run, made: Erasing, asked: Callable[..., Any]) -> None:
    asked("copy", "--where", "auditor X", "--keep-days", "7")
    (noted,) = asked("plan")["copies"]
    assert (noted["where"], noted["over"], noted["erased-content"]) == ("auditor X", False, 0)
    assert "auditor X is kept until" in good("retention", "plan", "--data", made.made.data).output


def test_beside_a_running_server_content_goes_at_once_and_is_answered_with_410(folder: Path) -> None:
    """The same command, through the admin socket: statement and artifact are gone, and are not taken again."""
    with serving(folder, "--open") as served:
        record, note = folder / "large.jsonl", folder / "small.jsonl"
        record.write_bytes(erasing.record())
        note.write_bytes(erasing.record(2))
        words = ("--key", "issuer.pem", "--iss", ISS, "--log", served.url, "--json")
        entries = [json.loads(shell("submit", path, *words, cwd=folder).stdout)["entry-id"] for path in (record, note)]
        _wait_for_search(folder, served.url)
        apply = ("retention", "apply", "--data", "log", "--order", "request 1", "--authoriser", "D. Officer", "--json")
        ended = shell(*apply, "--entry", entries[0], "--entry", entries[1], cwd=folder)

        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["unfinished"] == ""
        assert files_with(MARKER, [served.data]) == []
        digest = hashlib.sha256(record.read_bytes()).hexdigest()
        for path in (f"/artifacts/{digest}", f"/entries/{entries[1]}/statement"):
            assert _status(served.url + path) == 410
        assert _status(f"{served.url}/entries/{entries[0]}/statement") == 200
        assert _status(f"{served.url}/entries/{entries[1]}") == 200
        assert _status(f"{served.url}/artifacts/{digest}", record.read_bytes()) == 410
        kept = json.loads(shell("submit", note, *words, cwd=folder).stdout)
        sent = json.loads(shell("submit", note, *words, "--force", cwd=folder).stdout)
        said = shell("submit", note, *words[:-1], "--force", cwd=folder).stderr.decode()

    assert (kept["known"], kept["readable-by"].endswith("unless the log has erased it since")) == (True, True)
    assert (sent["entry-id"], sent["erased"]) == (entries[1], True)
    assert "whoever may read" not in sent["readable-by"] + said
    assert "the log has erased this statement and did not keep it again" in " ".join(said.split())


def _interrupt(made: Erasing, lines: int) -> None:
    """Register a payload and its erasure; the store fails before the end of it, as where the process is killed."""

    async def run() -> None:
        log, store = made.made.open_faulty()
        await log.start()
        try:
            registered = await log.register(made.issuer.sign(erasing.record(lines)))
            await erasing.state_audit(made, log)
            store.fail("note_erased", Fault.FAILS)
            with pytest.raises(StoreError):
                await erasing.by_order(log, registered.index)
        finally:
            await log.stop()

    asyncio.run(run())


def _wait_for_search(folder: Path, url: str) -> None:
    """Until the index has both: then there is something to erase from it."""
    for _ in range(600):
        ended = shell("search", "--log", url, "--session", erasing.SESSION, "--json", cwd=folder)
        if ended.stdout.count(b"entry") and len(json.loads(ended.stdout)["entries"]) == 2:
            return
        time.sleep(0.1)
    raise AssertionError(ended.stdout)


def _status(url: str, body: bytes | None = None) -> int:
    try:
        with urlopen(Request(url, data=body, method="GET" if body is None else "PUT"), timeout=PATIENCE) as answer:  # noqa: S310 - ours
            return int(answer.status)
    except HTTPError as error:
        return error.code


def _verify(good: Run, made: Erasing, tmp_path: Path, transparent: bytes, record: bytes | None) -> None:
    """Offline, with the keys of log and issuer and nothing else: as the holder of the original does."""
    (tmp_path / "x.cose").write_bytes(transparent)
    (tmp_path / "issuer.pub.pem").write_bytes(made.issuer.key.public.to_pem())

    async def keys() -> bytes:
        async with running(made.made) as log:
            return b"".join(key.to_pem() for key in log.receipt_keys())

    (tmp_path / "log.pem").write_bytes(asyncio.run(keys()))
    payload: tuple[str | Path, ...] = ()
    if record is not None:
        (tmp_path / "record").write_bytes(record)
        payload = ("--payload", tmp_path / "record")
    good("verify", tmp_path / "x.cose", *payload, "--log-key", tmp_path / "log.pem",
         "--issuer-key", tmp_path / "issuer.pub.pem")  # fmt: skip
