"""The door of a folder: the socket by which its owner hears commands (admin.py), and whether anybody is there."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from transparency.log.folder import Folder

KNOCK_SECONDS: Final = 1.0
_MAX_SOCKET_PATH: Final = 100


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name for a socket that fits into sun_path, however deep its folder lies."""
    if len(os.fsencode(path)) < _MAX_SOCKET_PATH or not Path("/proc/self/fd").exists():
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def is_served(folder: Folder) -> bool:
    """Whether a server listens there, be it one that stands still. Who may not knock does not know."""
    try:
        with reachable(folder.socket) as path, socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(KNOCK_SECONDS)
            knocking.connect(path)
    except (TimeoutError, BlockingIOError):  # others wait there already, and nobody opens
        return True
    except OSError:
        return False
    return True
