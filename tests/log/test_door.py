"""Whether anybody is behind a folder's door: said soon, and also of one who does not open."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from transparency.log.door import is_served, reachable
from transparency.log.folder import Folder


@pytest.fixture(params=["short", "longer-than-the-name-of-a-socket-may-be" * 3])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    path = tmp_path / request.param
    path.mkdir()
    return Folder(path)


def test_nobody_is_there_where_there_is_no_door_or_nobody_behind_it(folder: Folder) -> None:
    assert not is_served(folder)

    with reachable(folder.socket) as name, socket.socket(socket.AF_UNIX) as door:
        door.bind(name)
        door.listen()
        assert is_served(folder)

    assert folder.socket.exists()
    assert not is_served(folder)


def test_one_who_stands_still_is_there_however_often_somebody_knocks(folder: Folder) -> None:
    """What nobody accepts stays in the queue; when that is full a knock would wait for ever."""
    with reachable(folder.socket) as name, socket.socket(socket.AF_UNIX) as door:
        door.bind(name)
        door.listen(2)

        assert [is_served(folder) for _ in range(5)] == [True] * 5
