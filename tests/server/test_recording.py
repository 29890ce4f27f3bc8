"""Every read of what is not public, and every admin action, has its line before its answer is sent."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.server.served import ISS, Served, served
from transparency.log.access_check import check_access
from transparency.log.access_digests import AccessDigests, digests_in
from transparency.log.access_lines import Use, read_line
from transparency.log.access_log import lines_of, segments
from transparency.log.admin import handle
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore

SECRET_WORD = "payload-nobody-may-see"


def uses(data: Path) -> list[Use]:
    folder = Folder(data).access_log
    lines = [read_line(line[:-1])[0] for number in segments(folder) for line in lines_of(folder, number)]
    return [line for line in lines if isinstance(line, Use)]


def seen(site: Served) -> list[tuple[str, str, int]]:
    return [(use.action, use.what, use.status) for use in uses(site.log.data)]


async def test_reads_are_recorded_by_token_and_public_things_are_not(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        body = SECRET_WORD.encode()
        digest = hashlib.sha256(body).hexdigest()
        token_id, secret = site.tokens.create(["submit", "read"])
        mine = {"Authorization": f"Bearer {secret}"}
        octets = {**mine, "Content-Type": "application/octet-stream"}
        posted = await site.post(site.statement(body), **mine)
        await site.ask("PUT", f"/artifacts/{digest}", data=body, headers=octets)
        entry = posted.headers["Location"].rpartition("/")[2]
        for path in ("/policy", "/keys", f"/entries/{entry}", "/.well-known/scitt-keys", "/healthz"):
            assert (await site.get(path)).status == 200
        nothing = seen(site)
        for path in (
            f"/entries/{entry}/statement",
            f"/entries/{entry}/siblings",
            f"/artifacts/{digest}",
            f"/artifacts/{'0' * 64}",
            "/export/entries?from=1",
            "/export/heads",
            f"/search?issuer={ISS}&tool={SECRET_WORD}",
        ):
            await site.get(path, **mine)
        await site.ask("HEAD", f"/entries/{entry}/statement", headers=mine)

        assert nothing == []
        assert seen(site) == [
            ("read-statement", entry, 200),
            ("read-siblings", entry, 200),
            ("read-artifact", digest, 200),
            ("read-artifact", "0" * 64, 404),
            ("export-entries", "from=1", 200),
            ("export-heads", "", 200),
            ("search", "issuer,tool", seen(site)[6][2]),
            ("read-statement", entry, 200),
        ]
        assert {use.who for use in uses(site.log.data)} == {f"token:{token_id}"}
        written = b"".join(path.read_bytes() for path in Folder(site.log.data).access_log.iterdir())
        for hidden in (SECRET_WORD, secret, secret[-43:], ISS):
            assert hidden.encode() not in written


async def test_who_is_turned_away_leaves_no_line(tmp_path: Path) -> None:
    """Strangers must not be able to fill the disk."""
    async with served(tmp_path, open=False) as site:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": site.bearer("submit")}):
            assert (await site.get("/export/heads", **headers)).status in (401, 403)
        assert seen(site) == []


async def test_what_a_client_writes_freely_is_not_recorded(site: Served) -> None:
    for path in (f"/entries/{SECRET_WORD}/statement", f"/artifacts/{SECRET_WORD}", f"/export/heads?from={SECRET_WORD}"):
        assert (await site.get(path)).status == 400

    assert seen(site) == [("read-statement", "", 400), ("read-artifact", "", 400), ("export-heads", "", 400)]
    assert {use.who for use in uses(site.log.data)} == {"127.0.0.1"}


async def test_admin_actions_are_recorded_over_http_and_through_the_socket(site: Served) -> None:
    policy = site.log.policy.without_issuer(ISS, previous=site.log.policy_entry_id)
    admin = site.bearer("admin")
    refused = await site.post(b"\x00", "/policy", Authorization=admin)
    done = await site.post(site.document(policy), "/policy", Authorization=admin)
    await handle(site.log, "manifest", {})
    await handle(site.log, "status", {})

    assert (refused.status, done.status) == (400, 201)
    entry = done.headers["Location"].rpartition("/")[2]
    assert seen(site) == [("update-policy", "", 400), ("update-policy", entry, 201), ("manifest", "", 200)]
    assert uses(site.log.data)[-1].who == "local"


async def test_what_cannot_be_recorded_is_not_given(
    site: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    posted = await site.post(site.statement())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transparency.log.access_log.os.write", full)
    reply = await site.get(posted.headers["Location"] + "/statement")
    receipt = await site.get(posted.headers["Location"])
    other = await site.post(site.statement(b"2"))
    monkeypatch.undo()

    assert (reply.status, reply.title) == (503, "Service Unavailable")
    assert "access log" in reply.detail
    assert (receipt.status, other.status) == (200, 201)
    assert not site.service.failed.is_set()
    assert (await site.get(posted.headers["Location"] + "/statement")).status == 200
    assert "cannot be written" in caplog.text


async def test_a_server_registers_the_digest_of_its_access_log_when_it_stops(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        await site.get("/export/heads")
    data, mark = tmp_path / "log", tmp_path / "mark"
    log = Log.open(data, watermark=mark)
    tokens = TokenStore(data / "access.sqlite")
    settings = ServerSettings(port=0, open=True)

    def fail(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await serve(log, settings, tokens, fail)
    tokens.close()

    (digest,) = digests_in(Folder(data))
    report = check_access(Folder(data).access_log, "log.example/test", [digest])
    assert (report.covered, report.lines, report.findings) == (2, 2, [])


async def test_a_damaged_access_log_stops_reads_and_not_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as site:
        await site.get("/export/heads")
    (path,) = Folder(tmp_path / "log").access_log.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b"junk\n")
    log = Log.open(tmp_path / "log", watermark=tmp_path / "mark")
    await log.start()
    digests = AccessDigests(log.data, log.origin, log.operate)
    await digests.start()
    await digests.stop()
    await log.stop()

    assert "cannot be continued" in caplog.text
    assert path.read_bytes().endswith(b"junk\n")
