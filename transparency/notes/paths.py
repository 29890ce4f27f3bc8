"""Where a tiled log's resources stand below its prefix (C2SP tlog-tiles): tiles as in ``merkle``, and entry bundles.

Each resource has one path, and no other is read (TL-2, TL-5).
"""

from __future__ import annotations

from typing import Final

from transparency.errors import MalformedError, NoteError
from transparency.merkle.tile_paths import WIDTH, parse_tile_path, tile_path

__all__ = ["CHECKPOINT", "entries_path", "parse_entries_path", "parse_tile_path", "tile_path"]

CHECKPOINT: Final = "checkpoint"
_ENTRIES: Final = "tile/entries/"
_LEVEL_0: Final = "tile/0/"


def entries_path(index: int, width: int = WIDTH) -> str:
    """The path of an entry bundle, such as ``tile/entries/x001/067.p/5``: it is named as its tile of level 0 is."""
    return _ENTRIES + tile_path(0, index, width).removeprefix(_LEVEL_0)


def parse_entries_path(path: str) -> tuple[int, int]:
    """Index and width, from what ``entries_path`` writes and nothing else."""
    if path.startswith(_ENTRIES):
        try:
            _, index, width = parse_tile_path(_LEVEL_0 + path.removeprefix(_ENTRIES))
        except MalformedError:
            pass
        else:
            return index, width
    raise NoteError("not the path of an entry bundle: tile/entries/<index in groups of three digits>[.p/<1 to 255>]")
