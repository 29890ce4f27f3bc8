"""Packets: connections on their way from one process to another, each a descriptor with what was read of it.

Over a pair of packet sockets (SCM_RIGHTS) between the owner of the log and each worker. Some are taken at once: a crowd
of clients that is shared out waits here for its first answers, and a turn of a busy event loop may have a commit in it.
"""

from __future__ import annotations

import socket
from typing import Final

# More than the head of a request and what was read behind it.
MAX_PACKET: Final = 1024 * 1024
AT_ONCE: Final = 16


def receive(packets: socket.socket) -> tuple[list[tuple[bytes, socket.socket]], bool]:
    """What has come, up to :data:`AT_ONCE`, and whether more may come: not if the other end has gone."""
    found: list[tuple[bytes, socket.socket]] = []
    for _ in range(AT_ONCE):
        try:
            data, descriptors, _, _ = socket.recv_fds(packets, MAX_PACKET, 1)
        except (BlockingIOError, InterruptedError):
            break
        except OSError:
            return found, False
        if not data:
            return found, False
        for descriptor in descriptors:
            came = socket.socket(fileno=descriptor)
            came.setblocking(False)
            found.append((data, came))
    return found, True
