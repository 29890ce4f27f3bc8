"""A bucket (S3 and what speaks its protocol, Google, Azure), through ``obstore``: read as a log, written as an export.

Credentials, endpoint and region come from the environment, as obstore reads them (AWS_ACCESS_KEY_ID …). A bucket says
what it minds in pages of XML; here that becomes one line that says what to do.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, BinaryIO, Final, NoReturn

import obstore.store
from obstore import exceptions
from yarl import URL

from transparency.client.places import FileTransport
from transparency.client.static_layout import kind_of
from transparency.errors import AnswerTooLargeError, StoreError, UnreachableError

MAX_OBJECT: Final = 1024 * 1024 * 1024
_ATTEMPTS: Final = 10
_TIMEOUT: Final = "30s"
_RETRIES: Final = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
_AMAZON: Final = ("s3", "s3a")
# Each of them is a way to credentials that obstore goes by itself.
_CREDENTIALS: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SKIP_SIGNATURE",
)  # fmt: skip
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_STATUS: Final = re.compile(r"non-2xx status code: ([0-9]{3}) ([A-Za-z ]{1,40})")
_WORDS: Final = {
    "NoSuchBucket": "there is no such bucket; make it first",
    "AccessDenied": "these credentials may not do this; reading, writing, deleting and listing objects is needed",
    "InvalidAccessKeyId": "the access key is not known there; look at AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the secret key is wrong; look at AWS_SECRET_ACCESS_KEY",
    "ExpiredToken": "the session's credentials have expired",
    "QuotaExceeded": "there is no space left in the bucket",
    "XMinioStorageFull": "there is no space left on its disks",
    "EntityTooLarge": "an object is larger than is taken there",
}  # fmt: skip


class BucketError(StoreError):
    """A bucket did not take or give something. What was written before stays, and the next run goes on from there."""


class Bucket:
    """The objects below a prefix. Its methods may be called from several threads."""

    def __init__(self, url: URL) -> None:
        self.name = str(url)
        self._store = _open(url)

    def get(self, path: str, most: int = MAX_OBJECT) -> bytes | None:
        return self._get(path, most)[0]

    def put(self, path: str, data: bytes | BinaryIO) -> None:
        """Put an object, with its type and how long it may be cached. What was there is replaced."""
        try:
            self._store.put(path, data, attributes=_attributes(path))
        except _FAILURES as error:
            self._fail(error)

    def swap(self, path: str, data: bytes, keeps: Callable[[bytes | None], bool]) -> bool:
        """Replace an object unless *keeps* says of what is there that it stays; True if it was replaced.

        What another writer puts there meanwhile is looked at again: nothing is lost that ought to stay.
        """
        for _ in range(_ATTEMPTS):
            known, tag = self._get(path)
            if keeps(known):
                return False
            mode: Any = "create" if known is None else {"e_tag": tag}
            try:
                self._store.put(path, data, attributes=_attributes(path), mode=mode)
            except (exceptions.PreconditionError, exceptions.AlreadyExistsError):
                continue
            except (exceptions.NotSupportedError, NotImplementedError):
                # Not every service compares; there, one exporter at a time is the operator's to see to.
                self.put(path, data)
            except _FAILURES as error:
                self._fail(error)
            return True
        raise BucketError(f"{self.name}: {path} changes all the time; who else writes it?")

    def delete(self, path: str) -> None:
        try:
            self._store.delete(path)
        except FileNotFoundError:
            return
        except _FAILURES as error:
            self._fail(error)

    def paths(self, prefix: str) -> Iterator[str]:
        """What there is below a prefix that ends with a slash, in no particular order."""
        try:
            for page in self._store.list(prefix.rstrip("/")):
                yield from (each["path"] for each in page)
        except _FAILURES as error:
            self._fail(error)

    def close(self) -> None:
        """Nothing is held."""

    def _get(self, path: str, most: int = MAX_OBJECT) -> tuple[bytes | None, str | None]:
        try:
            found = self._store.get(path)
            if found.meta["size"] > most:
                msg = f"{path} in {self.name} has more than {most} bytes, which no such file has"
                raise AnswerTooLargeError(msg)
            return bytes(found.bytes()), found.meta["e_tag"]
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                self._fail(error)
            return None, None
        except _FAILURES as error:
            self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        text = str(error)
        code, status = _CODE.search(text), _STATUS.search(text)
        if "169.254.169.254" in text or "credential" in text.lower():
            words = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the instance's role"
        elif code is not None and code[1] in _WORDS:
            words = _WORDS[code[1]]
        elif code is not None:
            words = f"the service says {code[1]}"
        elif status is not None:
            words = f"the service answers {status[1]} {status[2]}"
        elif "error sending request" in text or "timed out" in text:
            raise UnreachableError(f"{self.name} cannot be reached; look at the network and the endpoint") from error
        else:
            words = text.split("\n", 1)[0][:300]
        raise BucketError(f"{self.name}: {words}") from error


class BucketTransport(FileTransport):
    """A log in a bucket, read with the bucket's own protocol."""

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        # What a bucket minds is the log's trouble here, and never that of a store of the reader's.
        try:
            self._bucket = Bucket(url)
        except BucketError as error:
            raise UnreachableError(str(error)) from error

    async def read(self, path: str, most: int) -> bytes | None:
        try:
            return await asyncio.to_thread(self._bucket.get, path, most)
        except BucketError as error:
            raise UnreachableError(str(error)) from error


_FAILURES: Final = (exceptions.BaseError, OSError, ValueError)


def _open(url: URL) -> Any:  # noqa: ANN401 - one of obstore's stores; they have no common base
    options: dict[str, Any] = {"timeout": _TIMEOUT}
    if url.scheme in _AMAZON:
        endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
        options["allow_http"] = endpoint.startswith("http://")
        barred = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
        if barred and not any(os.environ.get(name) for name in _CREDENTIALS):
            raise BucketError(f"{url}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    try:
        return obstore.store.from_url(str(url), client_options=options, retry_config=_RETRIES)  # type: ignore[call-overload] # any scheme
    except _FAILURES as error:
        raise BucketError(f"{url}: {str(error).split(chr(10), 1)[0][:300]}") from error


def _attributes(path: str) -> dict[str, str]:
    kind, caching = kind_of(path)
    return {"Content-Type": kind, "Cache-Control": caching}
