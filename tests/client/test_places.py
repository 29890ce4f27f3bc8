"""Where a log is read from: what is a folder, what a URL, what neither; and what files can and cannot answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from transparency.client.client import LogClient
from transparency.client.places import FolderTransport, is_web, log_url, open_transport
from transparency.client.static_layout import FORMAT, MARKER, Marker, kind_of
from transparency.client.tiles import TileClient
from transparency.client.transport import Request, Transport
from transparency.errors import AnswerTooLargeError, MalformedError, ServiceRefusedError, UnreachableError


@pytest.mark.parametrize("name", ["www", "a b", "50%25", "ü/ñ", "what?", "#1", "a%2Fb", "x001"])
async def test_a_folder_of_any_name_is_read(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "checkpoint").write_bytes(b"a note")

    for place in (str(folder), str(folder) + "/", str(log_url(str(folder)))):
        async with TileClient(place) as client:
            assert await client.checkpoint() == b"a note"


def test_a_path_is_a_folder_only_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "www").mkdir()

    assert log_url("www").scheme == "file"
    assert isinstance(open_transport(log_url("www")), FolderTransport)
    assert type(open_transport(log_url("http://log.example/x"))) is Transport
    with pytest.raises(MalformedError, match="no such folder"):
        log_url("missing")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "file://host/x",
        "file:relative",
        "s3://",
        "s3:///x",
        "s3://user@bucket/x",
        "s3://b/x?y",
        "ftp://x/y",
        "file://",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        log_url(text)


def test_only_what_is_asked_over_http_is_told_a_token() -> None:
    assert is_web("http://log.example")
    assert not is_web("s3://bucket/log")
    assert not is_web("./www")


async def test_a_folder_answers_get_with_files_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"12345")
    (tmp_path / "tile").mkdir()
    url = log_url(str(tmp_path))
    transport = open_transport(url)

    async def get(path: str, most: int = 100, method: str = "GET") -> bytes:
        return (await transport.send(Request(method, url / path, {}, None, most))).body

    assert await get("keys") == b"12345"
    for path in ("tile", "missing", "keys/below"):
        with pytest.raises(ServiceRefusedError, match="there is no"):
            await get(path)
    with pytest.raises(ServiceRefusedError, match="nothing can be registered"):
        await get("keys", method="POST")
    with pytest.raises(AnswerTooLargeError):
        await get("keys", most=4)
    with pytest.raises(ServiceRefusedError):
        await transport.send(Request("GET", (url / "keys").with_query({"from": "1"}), {}))


async def test_a_folder_that_is_no_export_computes_nothing(tmp_path: Path) -> None:
    async with LogClient(str(tmp_path)) as log:
        with pytest.raises(ServiceRefusedError, match="there is no entries"):
            await log.receipt("A" * 43)


async def test_files_that_are_not_what_they_should_be_are_no_log(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_bytes(Marker("log.example").to_bytes())
    (tmp_path / "checkpoint").write_bytes(b"not a checkpoint")
    async with LogClient(str(tmp_path)) as log:
        with pytest.raises(UnreachableError, match="is none"):
            await log.proof("A" * 43)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"format":"transparency-export/2"}',
        b'{"format":"%b","tiles":-1}' % FORMAT.encode(), b'{"format":"%b","tiles":true}' % FORMAT.encode(),
        b'{"format":"%b","statements":"5"}' % FORMAT.encode(), b'{"format":"%b","origin":5}' % FORMAT.encode(),
        b'{"format":"%b","awaited":5}' % FORMAT.encode(), b'{"format":"%b","awaited":[null]}' % FORMAT.encode(),
        b'{"format":"%b","edges":{}}' % FORMAT.encode(), b'{"format":"%b","artifacts":1}' % FORMAT.encode(),
    ],
)  # fmt: skip
def test_a_marker_of_another_form_is_none(data: bytes) -> None:
    with pytest.raises(MalformedError):
        Marker.from_bytes(data)


def test_a_marker_is_read_as_it_was_written() -> None:
    marker = Marker("log.example", 512, 256, None, True, 300, (7, 9), (300,))

    assert Marker.from_bytes(marker.to_bytes()) == marker


def test_what_may_be_erased_is_not_cached_for_ever() -> None:
    for path in ("statements/000", "large/x", "artifacts/ab", "something"):
        assert kind_of(path)[1] == "no-cache"
    assert "immutable" in kind_of("tile/0/000")[1]
