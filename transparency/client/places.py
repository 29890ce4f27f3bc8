"""Where a log is read from: its URL, a folder that ``transparency log export`` wrote, or a bucket. One transport each.

Whatever reads a log (``TileClient``, ``LogClient``) sends its requests through a transport; a folder and a bucket
answer GET with the file at that path, or with 404. So nothing above needs to know what kind of place it is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final, NoReturn

from yarl import URL

from transparency.client.retry import Backoff
from transparency.client.static_layout import kind_of
from transparency.client.transport import Answer, Request, Transport
from transparency.errors import AnswerTooLargeError, MalformedError, ServiceRefusedError, UnreachableError

WEB: Final = ("http", "https")
FOLDER: Final = "file"
BUCKETS: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_NOT_FOUND: Final = 404
_NOT_ALLOWED: Final = 405


def base_url(text: str) -> URL:
    """A log's URL, or MalformedError."""
    try:
        url = URL(text)
        if url.scheme not in WEB or not url.host or url.query_string or url.fragment or url.user:
            raise ValueError  # noqa: TRY301 - one message for all
    except ValueError as error:
        msg = "the log's URL is not of the form https://host[:port][/prefix]"
        raise MalformedError(msg) from error
    return url.with_path(url.path.rstrip("/") or "/")


def log_url(text: str) -> URL:
    """Where a log is: a URL, or the path of a folder as a file URL."""
    scheme, colon, rest = text.partition("://")
    if colon and scheme in BUCKETS:
        return _bucket_url(text)
    if colon and scheme == FOLDER:
        return _folder_url(_from_file_url(rest))
    if not colon and text and Path(text).is_dir():
        return _folder_url(Path(text))
    try:
        return base_url(text)
    except MalformedError as error:
        if colon:
            raise
        raise MalformedError(f"{error}, and there is no such folder") from error


def is_web(text: str) -> bool:
    """Whether a log is asked over HTTP; what is not, needs no token and no TLS."""
    return text.partition("://")[0] in WEB


def open_transport(url: URL, **options: Any) -> Transport:  # noqa: ANN401 - Transport's own
    """What answers requests below *url*, which is one of :func:`log_url`."""
    if url.scheme == FOLDER:
        return FolderTransport(url)
    if url.scheme in BUCKETS:
        from transparency.client.objects import BucketTransport  # noqa: PLC0415 - the extra `export`

        return BucketTransport(url)
    return Transport(**options)


class FileTransport(Transport):
    """A place with files: GET gives one, and there is nothing else to ask for."""

    def __init__(self, url: URL) -> None:
        super().__init__(backoff=Backoff(retries=0))
        self._url = url

    async def send(self, request: Request) -> Answer:
        place = str(self._url)
        if request.method != "GET":
            detail = f"{place} is an export of a log, and nothing can be registered in it"
            raise ServiceRefusedError(_NOT_ALLOWED, "Read-only", detail)
        path = str(request.url).removeprefix(place.rstrip("/") + "/")
        # What has a query is not a file, but the answer to a question.
        body = None if request.url.query_string else await self.read(path, request.most)
        if body is None:
            raise ServiceRefusedError(_NOT_FOUND, "Not found", f"there is no {path.partition('?')[0]} in {place}")
        if len(body) > request.most:
            raise AnswerTooLargeError(f"{path} in {place} has more than {request.most} bytes, which no such file has")
        return Answer(200, {"Content-Type": kind_of(path)[0]}, body, None)

    async def read(self, path: str, most: int) -> bytes | None:
        """The file at a path, or how it begins if it has more than *most* bytes; None where there is none."""
        raise NotImplementedError


class FolderTransport(FileTransport):
    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._folder = Path(url.path)

    async def read(self, path: str, most: int) -> bytes | None:
        place = self._folder / path
        try:
            return _beginning_of(place, most + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise UnreachableError(f"{place} cannot be read: {error.strerror}") from error


def _beginning_of(path: Path, most: int) -> bytes:
    """Of a file, and of nothing else: a pipe in its place would hold up its reader for ever."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreachableError(f"{path} is something else than a file")
        return file.read(most)


def _folder_url(path: Path) -> URL:
    return URL.build(scheme=FOLDER, path=str(path.absolute()))


def _from_file_url(rest: str) -> Path:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash or "?" in path or "#" in path:
        _refuse("a folder's URL is of the form file:///folder")
    return Path(URL(f"file:///{path}").path)


def _bucket_url(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if not url.host or url.query_string or url.fragment or url.user:
        _refuse("a bucket's URL is of the form s3://bucket[/prefix]")
    return url.with_path(url.path.rstrip("/"))


def _refuse(words: str) -> NoReturn:
    raise MalformedError(words)
