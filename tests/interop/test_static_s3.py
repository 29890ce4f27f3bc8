"""Exports to a bucket: a server of the S3 protocol that we did not write takes them, and readers read them there."""

from __future__ import annotations

import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from yarl import URL

from tests.interop import tlog_client
from tests.interop.grown import Grown, grown_log
from tests.interop.side_environments import PEERS, environment
from tests.interop.tlog_client import Get, TlogError
from transparency.client.client import LogClient
from transparency.client.objects import Bucket, BucketError
from transparency.client.places import log_url
from transparency.errors import StoreError, UnreachableError
from transparency.log.static_export import Exported, Parts, export
from transparency.log.static_source import FolderExport
from transparency.log.static_target import open_target
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.statements.statement import Entry, entry_id

BUCKET = "transparency"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with subprocess.Popen(
        [environment("s3") / "bin" / "python", "-I", PEERS / "s3_server.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.communicate(timeout=30)


@pytest.fixture
def place(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A prefix of its own in a bucket, with credentials for it in the environment."""
    set_up(monkeypatch, endpoint)
    made = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")  # noqa: S310 - our own server
    with urllib.request.urlopen(made, timeout=20):  # noqa: S310 - likewise
        pass
    return f"s3://{BUCKET}/{request.node.name}"


def set_up(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "example",
        "AWS_SECRET_ACCESS_KEY": "example",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)


def in_bucket(place: str) -> Get:
    bucket = Bucket(log_url(place))

    def get(path: str) -> bytes:
        data = bucket.get(path)
        if data is None:
            raise TlogError(f"{path}: not there")
        return data

    return get


def exported(log: Grown, place: str, parts: Parts | None = None) -> Exported:
    source = FolderExport(log.site.log.data)
    try:
        return export(source, open_target(place), parts or Parts())
    finally:
        source.close()


async def test_the_independent_client_reads_a_bucket(tmp_path: Path, place: str) -> None:
    async with grown_log(tmp_path) as log:
        for size in (300, 700):
            await log.publish(size)
            result = exported(log, place, Parts(statements=True, artifacts=True))
            assert tlog_client.audit(in_bucket(place), log.keys).checkpoint.size == size
            assert result.written > 5
        assert exported(log, place).written == 0
        bucket = Bucket(log_url(place))
        assert sorted(bucket.paths("statements/")) == ["statements/000", "statements/001", "statements/002.p/188"]
        entry = Entry(log.site.log.opened.store.digests(600, 601)[0])
        async with LogClient(place) as static:
            assert await static.receipt(entry_id(entry))
            assert await static.keys() == log.site.log.service_keys.ever("receipts")
            assert await static.export("entries", 0)


async def test_types_and_cache_times_are_those_of_the_texts(tmp_path: Path, place: str) -> None:
    """TL-1, TL-2, TL-5: as the bucket gives them to a web browser."""
    async with grown_log(tmp_path) as log:
        await log.publish(300)
        exported(log, place)

    bucket = Bucket(log_url(place))
    found = {}
    for path in ("checkpoint", "tile/0/000", "tile/0/001.p/44", "tile/entries/000", "keys", ".well-known/scitt-keys"):
        got = bucket._store.get(path).attributes
        found[path] = (got["Content-Type"], got["Cache-Control"])
    immutable = ("application/octet-stream", "public, max-age=31536000, immutable")
    assert found == {
        "checkpoint": ("text/plain; charset=utf-8", "public, max-age=5"),
        "tile/0/000": immutable,
        "tile/0/001.p/44": immutable,
        "tile/entries/000": immutable,
        "keys": ("application/toml; charset=utf-8", "public, max-age=5"),
        ".well-known/scitt-keys": ("application/cbor", "public, max-age=300"),
    }


async def test_an_exporter_that_is_overtaken_does_not_put_an_older_checkpoint_back(tmp_path: Path, place: str) -> None:
    """It read the target before the other wrote: what it swaps is compared, and the newer one stays."""
    async with grown_log(tmp_path) as log:
        await log.publish(300)
        exported(log, place)
        await log.publish(400)
        late, target = FolderExport(log.site.log.data), Overtaken(log_url(place))
        await log.publish(500)
        came = []
        target.meanwhile = lambda: came.append(exported(log, place))

        export(late, target, Parts())
        late.close()

        assert [each.size for each in came] == [500]
        assert tlog_client.audit(in_bucket(place), log.keys).checkpoint.size == 500


class Overtaken(Bucket):
    """A bucket that another exporter writes to in the moment in which this one swaps the checkpoint."""

    meanwhile: Callable[[], object] | None = None

    def swap(self, path: str, data: bytes, keeps: Callable[[bytes | None], bool]) -> bool:
        def asked(there: bytes | None) -> bool:
            kept = keeps(there)
            if path == "checkpoint" and self.meanwhile is not None:
                other, self.meanwhile = self.meanwhile, None
                other()
            return kept

        return super().swap(path, data, asked)


def test_what_is_compared_and_swapped_is_swapped_by_one(place: str) -> None:
    """Three at once count up; none of them loses another's step."""
    bucket = Bucket(URL(place))
    done = []

    def count() -> None:
        for _ in range(4):
            while True:
                number = int(bucket.get("policy") or b"0") + 1
                if bucket.swap("policy", b"%d" % number, partial(is_past, number)):
                    done.append(number)
                    break

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(done) == list(range(1, 13))


def is_past(number: int, there: bytes | None) -> bool:
    return int(there or b"0") >= number


async def test_a_bucket_that_is_not_there_is_named(tmp_path: Path, place: str) -> None:
    async with grown_log(tmp_path) as log:
        with pytest.raises(BucketError, match=r"s3://missing/x: there is no such bucket; make it first"):
            exported(log, "s3://missing/x")


async def test_credentials_that_are_not_there_are_asked_for(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    async with grown_log(tmp_path) as log:
        with pytest.raises(StoreError, match="no credentials: set AWS_ACCESS_KEY_ID"):
            exported(log, place)


async def test_an_endpoint_that_does_not_answer_is_unreachable(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("transparency.client.objects._RETRIES", {"max_retries": 0})
    async with grown_log(tmp_path) as log:
        with pytest.raises(UnreachableError, match="cannot be reached"):
            exported(log, place)


async def test_a_checkpoint_in_a_bucket_is_signed_by_the_log(tmp_path: Path, place: str) -> None:
    async with grown_log(tmp_path) as log:
        await log.publish(10)
        exported(log, place)

    assert SignedCheckpoint.from_bytes(in_bucket(place)("checkpoint")).checkpoint.size == 10
