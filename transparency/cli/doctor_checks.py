"""The single checks of ``doctor``: each gives findings, a level and what to do, and never raises for what it finds."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from yarl import URL

from transparency.cli.connection import is_protected
from transparency.cli.settings import config_path, read_config
from transparency.errors import FolderOwnedError, TransparencyError
from transparency.log import stores
from transparency.log.folder import Config, Folder, Ownership
from transparency.log.fsck import check_newest
from transparency.log.store import Store

Level = Literal["ok", "warn", "fail"]

# This code was written after this moment: a clock before it is wrong.
_EARLIEST = 1_788_000_000
_MIB = 1024 * 1024
_LITTLE_SPACE = 1024 * _MIB
_NO_SPACE = 64 * _MIB
_SLOW_SYNC = 0.05
_SYNCS = 8
_SOON_DAYS = 21
_SKEW_WARN = 5.0
_SKEW_FAIL = 300.0
_TLS_TIMEOUT = 10.0
_MARK = "high-water mark"
# A commit and its mark take this long at the most, on a slow disk; looked at so often meanwhile.
_COMMIT_SECONDS = 2.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    title: str
    detail: str


def check_clock(now: float) -> Iterator[Finding]:
    if now < _EARLIEST:
        yield Finding("fail", "clock", f"it says {time.strftime('%Y-%m-%d', time.gmtime(now))}, which is past; set it")
    else:
        yield Finding("ok", "clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))


def check_disk(folder: Path) -> Iterator[Finding]:
    """Space, and how long it takes until a write is on the disk: that is the latency of every registration."""
    place = folder if folder.is_dir() else folder.absolute().parent
    try:
        free = shutil.disk_usage(place).free
        seconds = _sync_time(place)
    except OSError as error:
        yield Finding("fail", "disk", f"{place}: {error.strerror}")
        return
    level: Level = "fail" if free < _NO_SPACE else "warn" if free < _LITTLE_SPACE else "ok"
    yield Finding(level, "disk space", f"{free // _MIB} MiB free at {place}")
    level = "warn" if seconds > _SLOW_SYNC else "ok"
    yield Finding(level, "disk sync", f"{seconds * 1000:.1f} ms until a write is durable")


def _sync_time(place: Path) -> float:
    times = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(_SYNCS):
            file.write(bytes(4096))
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return sorted(times)[_SYNCS // 2]


def check_folder(data: Path) -> Iterator[Finding]:
    folder = Folder(data.absolute())
    if not folder.exists():
        yield Finding(
            "fail", "data folder", f"there is no log in {data}; make one with `transparency init --data {data}`"
        )
        return
    yield _private("data folder", data, 0o077, "chmod 700 it")
    try:
        config = Config.read(folder.config)
    except TransparencyError as error:
        yield Finding("fail", "config.toml", str(error))
        return
    yield from _state(folder, config)
    yield _owner(folder)
    keys = sorted(folder.keys.glob("*.pem"))
    if not keys:
        yield Finding("fail", "private keys", f"{folder.keys} holds none")
    for key in keys:
        yield _private("private key", key, 0o077, "chmod 600 it")


def _state(folder: Folder, config: Config) -> Iterator[Finding]:
    """The tree, and whether it is the newest: what is behind its mark is refused by whatever would open it."""
    where = config.db if config.db is not None else str(folder.database)
    try:
        with closing(stores.open_for_reading(folder)) as store:
            size = store.tip().size
            yield Finding("ok", "database", f"{where} answers, with {size} entries")
            yield _mark(folder, config, store, size)
    except TransparencyError as error:
        yield Finding("fail", "database", str(error))
        if config.watermark_db is None and not config.watermark.exists():
            yield _no_mark(config)


def _mark(folder: Folder, config: Config, store: Store, size: int) -> Finding:
    try:
        if config.watermark_db is not None:
            value = check_newest(store, folder, config, config.watermark_db)
            return Finding("ok", _MARK, f"{config.watermark_db} has it, at size {value.size}")
        if config.db is not None:
            stores.check_file_vouches(folder, store)
        if not config.watermark.exists():
            return _no_mark(config)
        value = check_newest(store, folder, config, config.watermark)
        until = time.monotonic() + _COMMIT_SECONDS
        while value.size < size and time.monotonic() < until:  # a commit comes before its mark
            time.sleep(_LOOK_SECONDS)
            value = check_newest(store, folder, config, config.watermark)
    except TransparencyError as error:
        return Finding("fail", _MARK, str(error))
    warning = _odd_mark(folder, config, value.size, size)
    return Finding("warn" if warning else "ok", _MARK, f"{config.watermark}{warning or f', at size {value.size}'}")


def _odd_mark(folder: Folder, config: Config, mark: int, size: int) -> str:
    if mark < size:
        return (
            f" is at size {mark} and the log at {size}: the log was killed between a commit and its mark, and its next "
            "start mends that; or it runs, and writes another file: then /readyz says so"
        )
    if config.watermark.is_relative_to(folder.path):
        return " lies in the data folder; move it out"
    if config.db is None and config.watermark.stat().st_mode & 0o077:
        return " may be read by others, so nothing is kept in it; chmod it to 600"
    return ""


def _no_mark(config: Config) -> Finding:
    return Finding("fail", _MARK, f"{config.watermark} is missing; the log will not start without it")


def _owner(folder: Folder) -> Finding:
    try:
        Ownership(folder.lock).release()
    except FolderOwnedError:
        if folder.socket.exists():
            return Finding("ok", "owner", "a running server; commands reach it through admin.sock")
        return Finding("warn", "owner", "a process that has no admin.sock; commands with --data have to wait for it")
    except OSError as error:
        return Finding("fail", "owner", f"{folder.lock}: {error.strerror}")
    return Finding("ok", "owner", "nobody; commands work on the folder")


def check_key(path: str) -> Iterator[Finding]:
    if not Path(path).is_file():
        yield Finding("fail", "signing key", f"{path} does not exist")
        return
    yield _private("signing key", Path(path), 0o077, "chmod 600 it")


def check_config() -> Iterator[Finding]:
    path = config_path()
    if not path.exists():
        yield Finding("ok", "config file", f"none ({path})")
        return
    values = read_config(path)
    if "token" in values:
        yield _private("config file", path, 0o077, "it holds a token: chmod 600 it")
    else:
        yield Finding("ok", "config file", str(path))


def _private(title: str, path: Path, forbidden: int, what_to_do: str) -> Finding:
    try:
        status = path.stat()
    except OSError as error:
        return Finding("fail", title, f"{path}: {error.strerror}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & forbidden:
        return Finding("fail", title, f"{path} has mode {mode:04o}, open to others; {what_to_do}")
    return Finding("ok", title, f"{path} ({mode:04o})")


def check_certificate_file(path: str, now: float) -> Iterator[Finding]:
    try:
        certificates = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except OSError as error:
        yield Finding("fail", "TLS certificate", f"{path}: {error.strerror}")
    except ValueError:
        yield Finding("fail", "TLS certificate", f"{path} holds no PEM certificate")
    else:
        yield _expiry(certificates[0], path, now)


def check_tls(log: str, cacert: str | None, now: float) -> Iterator[Finding]:
    url = URL(log)
    if url.scheme != "https":
        if is_protected(log):
            yield Finding("ok", "TLS", "not needed: the log is on this machine")
            return
        yield Finding("warn", "TLS", "the log is reached over plain HTTP; tokens and records can be read on the way")
        return
    try:
        context = ssl.create_default_context(cafile=cacert)
        with (
            socket.create_connection((url.host or "", url.port or 443), _TLS_TIMEOUT) as connection,
            context.wrap_socket(connection, server_hostname=url.host) as tls,
        ):
            der = tls.getpeercert(binary_form=True)
    except ssl.SSLError as error:
        yield Finding("fail", "TLS", f"{url.host}: {error.reason or 'the handshake failed'}")
    except OSError as error:
        yield Finding("fail", "TLS", f"{url.host}: {error.strerror or 'no connection'}")
    else:
        if der is not None:
            yield _expiry(x509.load_der_x509_certificate(der), str(url.host), now)


def _expiry(certificate: x509.Certificate, where: str, now: float) -> Finding:
    days = (certificate.not_valid_after_utc.timestamp() - now) / 86400
    text = f"{where}: valid until {certificate.not_valid_after_utc:%Y-%m-%d}"
    if days < 0:
        return Finding("fail", "TLS certificate", f"{text}, which is past; renew it")
    if days < _SOON_DAYS:
        return Finding("warn", "TLS certificate", f"{text}, in {days:.0f} days; renew it")
    return Finding("ok", "TLS certificate", text)


def judge_skew(skew: float | None) -> Finding:
    if skew is None:
        return Finding("warn", "clock skew", "the log sends no Date")
    ahead = "ahead of" if skew > 0 else "behind"
    text = f"the log's clock is {abs(skew):.1f} s {ahead} ours"
    if abs(skew) > _SKEW_FAIL:
        return Finding("fail", "clock skew", f"{text}; one of them is wrong")
    if abs(skew) > _SKEW_WARN:
        return Finding("warn", "clock skew", text)
    return Finding("ok", "clock skew", text)
