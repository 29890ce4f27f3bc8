"""What a process is to its log."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The owner of a folder is alone. Of the nodes of a cluster one leads, and the others are front ends."""

    OWNER = "owner"
    LEADER = "leader"
    FRONT_END = "front end"
