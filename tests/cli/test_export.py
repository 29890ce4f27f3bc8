"""``log export``, and every command that reads a log: it reads the folder, and the folder behind a plain web server."""

from __future__ import annotations

import contextlib
import errno
import functools
import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from transparency.log import static_target
from transparency.log.durable import publish_durably
from transparency.notes.proof import TlogProof

PARTS = ("--statements", "--artifacts")


class Silent(http.server.SimpleHTTPRequestHandler):
    """Files, and nothing else: it has never heard of logs."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@contextlib.contextmanager
def web_server(folder: Path) -> Iterator[str]:
    handler = functools.partial(Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def registered(site: Served, good: Run, folder: Path) -> Path:
    """A statement that is on the log, as a file without a receipt, and the log's export after that."""
    (folder / "session.txt").write_text(folder.parent.name)
    good("sign", "session.txt", "--key", site.key, "--iss", ISS, "--sub", "s", "--content-type", "text/plain",
         "--out", "session.cose")  # fmt: skip
    good("submit", "session.cose", "--log", site.url, "--out", "session.t.cose", "--key", site.key, "--iss", ISS)
    # The checkpoint that covers it is published when its proof is there.
    good("prove", "session.cose", "--log", site.url, "--out", "now.tlog-proof")
    good("log", "export", "www", "--data", site.data, *PARTS)
    return folder / "session.cose"


@pytest.fixture(params=["folder", "file-url", "http", "http-prefix"])
def place(request: pytest.FixtureRequest, registered: Path, folder: Path) -> Iterator[str]:
    """Where the export is read: as a folder, or at a URL."""
    if request.param == "folder":
        yield "www"
    elif request.param == "file-url":
        yield f"file://{folder}/www"
    elif request.param == "http":
        with web_server(folder / "www") as url:
            yield url
    else:
        with web_server(folder) as url:
            yield f"{url}/www/"


def test_an_export_is_monitored_as_a_log_is(good: Run, run: Run, site: Served, place: str, folder: Path) -> None:
    vkey = good("log", "vkey", "--data", site.data).stdout.splitlines()[0]

    words = ("monitor", place, "--log-vkey", vkey, "--state", "seen", "--once", "--from-start")
    assert good(*words).exit_code == 0
    assert good(*words).exit_code == 0

    # A monitor that has seen more notices an export that went back.
    (folder / "www" / "checkpoint").write_bytes(b"nothing")
    assert run(*words).exit_code == 1


def test_a_proof_is_computed_from_an_export(good: Run, place: str, registered: Path, folder: Path) -> None:
    good("prove", registered, "--log", place, "--out", "static.tlog-proof")

    static, live = (
        TlogProof.from_bytes((folder / name).read_bytes()) for name in ("static.tlog-proof", "now.tlog-proof")
    )
    assert static.index == live.index


def test_a_statement_without_a_receipt_is_verified_against_an_export(
    good: Run, run: Run, site: Served, place: str, registered: Path, folder: Path
) -> None:
    """The receipt that is computed is the one that the log gave."""
    good("keys", "--log", place, "--out", "static.keys")
    trust = ("--log-key", "static.keys", "--issuer-key", site.public)

    without = run("verify", registered, *trust)
    computed = good("verify", registered, *trust, "--log", place)

    assert without.exit_code != 0
    assert "session.cose" in computed.output or "registered" in computed.output
    good("prove", registered, "--log", place, "--receipt", "--out", "proven.t.cose")
    assert good("verify", "proven.t.cose", *trust).exit_code == 0


def test_receipts_that_are_files_keep_nobody_from_reading_from_a_plain_web_server(
    good: Run, site: Served, registered: Path, policy_key: str, folder: Path
) -> None:
    """``entries/ID`` is a folder then, and a web server answers 301 to whoever asks for it."""
    good("log", "export", "www", "--data", site.data, *PARTS, "--receipts")
    assert list((folder / "www" / "entries").glob("*/receipt"))

    with web_server(folder) as url:
        place = f"{url}/www"
        good("keys", "--log", place, "--out", "static.keys")
        trust = ("--log-key", "static.keys", "--issuer-key", site.public)
        good("verify", registered, *trust, "--log", place)
        good("prove", registered, "--log", place, "--out", "static.tlog-proof")
        good("prove", registered, "--log", place, "--receipt", "--out", "proven.t.cose")
        good("audit", "--log", place, "--policy-key", policy_key)
        good("log", "export", "copy", "--log", place, "--statements")

    assert good("verify", "proven.t.cose", *trust).exit_code == 0


@pytest.fixture
def policy_key(good: Run, site: Served) -> str:
    keys = json.loads(good("log", "keys", "--data", site.data, "--json").stdout)["keys"]
    return str(next(each["thumbprint"] for each in keys if each["role"] == "policy"))


def test_the_doctor_looks_at_an_export_by_what_it_has(run: Run, place: str, folder: Path) -> None:
    """There is no service that could say how it is: it failed for every folder."""
    healthy = run("doctor", "--log", place)
    for tile in (folder / "www" / "tile" / "0").rglob("*"):
        if tile.is_file():
            tile.unlink()
    broken = run("doctor", "--log", place)

    assert healthy.exit_code in (0, 3), healthy.stdout
    assert "the tiles at its edge give the root of its checkpoint" in " ".join(healthy.stdout.split())
    assert broken.exit_code == 1
    assert "transparency log export" in " ".join(broken.stdout.split()), "what to do"


def test_an_export_with_statements_is_audited(good: Run, site: Served, place: str, policy_key: str) -> None:
    audited = json.loads(good("audit", "--log", place, "--policy-key", policy_key, "--json").stdout)
    live = json.loads(good("audit", "--data", site.data, "--policy-key", policy_key, "--json").stdout)

    assert audited["verdict"] == "reproduced"
    assert {**audited, "entries": None} == {**live, "entries": None}


def test_nothing_can_be_registered_in_an_export(run: Run, site: Served, registered: Path) -> None:
    refused = run("submit", registered, "--log", "www", "--key", site.key, "--iss", ISS, "--force")

    assert refused.exit_code == 65
    assert "nothing can be registered" in refused.output


def test_a_second_run_has_nothing_to_write(good: Run, site: Served, registered: Path) -> None:
    again = json.loads(good("log", "export", "www", "--data", site.data, "--json").stdout)

    assert again["files"] <= 1, "the log may have signed its checkpoint anew"
    assert again["size"] == again["before"]


def test_a_check_writes_anew_what_was_lost_or_damaged(
    good: Run, run: Run, site: Served, registered: Path, folder: Path, policy_key: str
) -> None:
    """A run goes by what it noted: "0 files written", while nobody could read the export."""
    good("log", "export", "www", "--data", site.data, *PARTS, "--receipts")
    parts = ("tile/0", "tile/entries", "heads", "statements", "entries", "documents")
    files = [next(each for each in sorted((folder / "www" / part).rglob("*")) if each.is_file()) for part in parts]
    before = [file.read_bytes() for file in files]
    for at, file in enumerate(files):
        file.unlink() if at % 2 else file.write_bytes(bytes(len(before[at])))
    assert run("audit", "--log", "www", "--policy-key", policy_key).exit_code != 0

    mended = good("log", "export", "www", "--data", site.data, "--check")
    again = json.loads(good("log", "export", "www", "--data", site.data, "--check", "--json").stdout)

    assert f"{len(files)} files that should have been there were missing or damaged" in " ".join(mended.output.split())
    assert again["mended"] == 0
    assert again["files"] <= 1, "the log may have signed its checkpoint anew"
    assert [file.read_bytes() for file in files] == before
    good("audit", "--log", "www", "--policy-key", policy_key)


def test_a_log_is_exported_over_http(good: Run, site: Served, registered: Path, folder: Path) -> None:
    """What a folder gives and what the service gives make the same files."""
    good("log", "export", "other", "--log", site.url, "--statements")

    ours, theirs = (
        {path.relative_to(folder / name): path.read_bytes() for path in (folder / name).rglob("*") if path.is_file()}
        for name in ("www", "other")
    )
    volatile = {Path("checkpoint"), Path("export.json"), Path(".lock")}
    assert {path for path in ours if path.parts[0] != "artifacts"} == set(theirs)
    assert all(theirs[path] == ours[path] for path in set(theirs) - volatile)


def test_an_export_is_exported_on(good: Run, site: Served, registered: Path, folder: Path) -> None:
    good("log", "export", "copy", "--log", "www", "--statements")

    assert (folder / "copy" / "checkpoint").read_bytes() == (folder / "www" / "checkpoint").read_bytes()


def test_a_folder_with_other_things_is_left_alone(run: Run, site: Served, folder: Path) -> None:
    (folder / "www").mkdir()
    (folder / "www" / "index.html").write_text("a web site")

    refused = run("log", "export", "www", "--data", site.data)

    assert refused.exit_code == 73
    assert "is left as it is; name an empty folder" in refused.output
    assert "goes on" not in refused.output
    assert sorted(path.name for path in (folder / "www").iterdir() if not path.name.startswith(".")) == ["index.html"]


@pytest.mark.parametrize("left", [0, 3, 9])
def test_a_disk_that_is_full_in_the_middle_loses_nothing_and_the_next_run_goes_on(
    run: Run, good: Run, site: Served, folder: Path, policy_key: str, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The message names the file that is missing, not the one that was written on the way to it."""
    there = iter(range(left))

    def full(descriptor: int, temporary: Path, path: Path) -> None:
        if next(there, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary))
        publish_durably(descriptor, temporary, path)

    with monkeypatch.context() as patched:
        patched.setattr(static_target, "publish_durably", full)
        failed = run("log", "export", "www", "--data", site.data, *PARTS)

    assert failed.exit_code == 73
    assert "could not be written: No space left on device" in failed.output
    assert "the next run goes on from there" in failed.output
    assert ".incoming" not in failed.output
    assert not (folder / "www" / "checkpoint").exists()
    assert not list(folder.rglob(".incoming"))
    good("log", "export", "www", "--data", site.data, *PARTS)
    good("audit", "--log", "www", "--policy-key", policy_key)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("www",), 64, "nothing to export"),
        (("http://127.0.0.1/x", "--data", "DATA"), 73, "not written"),
        (("nothing://x/y", "--data", "DATA"), 64, "of the form"),
        (("s3:///x", "--data", "DATA"), 64, "s3://bucket"),
        (("/dev/null/x", "--data", "DATA"), 73, "/dev/null is no folder; name one"),
        (("www", "--data", "nowhere"), 66, "there is no log"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    run: Run, site: Served, folder: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = run("log", "export", *(str(site.data) if word == "DATA" else word for word in words))

    assert refused.exit_code == code, refused.output
    assert said in refused.output
