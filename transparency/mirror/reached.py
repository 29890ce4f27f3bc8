"""How far the scrub (scrub.py) has come in each log: DIR/scrub.json, the next bundle by origin.

It is no more than a note of where to go on. A file that is lost or unreadable means that it begins anew.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from transparency.errors import MalformedError
from transparency.log.durable import create_durably
from transparency.records.strict_json import loads

_logger = logging.getLogger("transparency.mirror")


class Reached:
    """From any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._places = _read(path)

    @property
    def places(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._places)

    def move(self, origin: str, index: int) -> None:
        with self._lock:
            self._places[origin] = index

    def save(self) -> None:
        """A disk that takes nothing is no reason to stop: whoever writes what matters finds out."""
        with self._lock:
            try:
                create_durably(self._path, json.dumps(self._places, sort_keys=True).encode() + b"\n")
            except OSError as error:
                _logger.warning("%s could not be written: %s", self._path, error.strerror)


def _read(path: Path) -> dict[str, int]:
    try:
        found = loads(path.read_bytes())
    except (OSError, MalformedError):
        return {}
    places = found if isinstance(found, dict) else {}
    return {origin: place for origin, place in places.items() if type(place) is int and place >= 0}
