"""Where a tile stands: its C2SP tlog-tiles name, and how wide it is in a tree of a given size."""

from __future__ import annotations

import re
from typing import Final

from transparency.errors import MalformedError
from transparency.merkle.hashing import MAX_SIZE

HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
MAX_LEVEL: Final = 63

# [0-9], not \d: that takes every script's digits. At most seven groups: 2^63 has 19 digits.
_PATH: Final = re.compile(
    r"tile/(?P<level>[0-9]{1,2})/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[0-9]{1,3}))?",
)


def tile_path(level: int, index: int, width: int = WIDTH) -> str:
    """The tile's path, such as ``tile/0/x001/067.p/5`` (TL-2)."""
    if type(level) is not int or not 0 <= level <= MAX_LEVEL:
        raise ValueError(f"tile level {level!r} is not between 0 and {MAX_LEVEL}")
    if type(index) is not int or not 0 <= index <= MAX_SIZE:
        raise ValueError(f"tile index {index!r} is out of range")
    if type(width) is not int or not 1 <= width <= WIDTH:
        raise ValueError(f"tile width {width!r} is not between 1 and {WIDTH}")
    name = f"{index % 1000:03}"
    while index := index // 1000:
        name = f"x{index % 1000:03}/{name}"
    return f"tile/{level}/{name}" if width == WIDTH else f"tile/{level}/{name}.p/{width}"


def parse_tile_path(path: str) -> tuple[int, int, int]:
    """Level, index and width, from what ``tile_path`` writes and nothing else: a tile has one path (TL-2)."""
    match = _PATH.fullmatch(path)
    if match is not None:
        level, width = int(match["level"]), int(match["width"] or WIDTH)
        index = int(match["index"].replace("/", "").replace("x", ""))
        # Printing it back catches leading zeros, empty groups and `.p/256` together.
        in_range = level <= MAX_LEVEL and index <= MAX_SIZE and 1 <= width <= WIDTH
        if in_range and tile_path(level, index, width) == path:
            return level, index, width
    raise MalformedError("not the path of a tile: tile/<level>/<index in groups of three digits>[.p/<1 to 255>]")


def tile_width(level: int, index: int, size: int) -> int:
    """How many hashes tile ``index`` of ``level`` has at tree size ``size``; 0 when there is no such tile."""
    return max(0, min(WIDTH, (size >> HEIGHT * level) - index * WIDTH))


def widths(size: int) -> tuple[int, ...]:
    """By level from 0, the width of the partial tile at the right edge: floor(size / 256^l) mod 256 (TL-4).

    0 means that the level has full tiles only. Levels without any hash are left out.
    """
    levels = -(-size.bit_length() // HEIGHT)
    return tuple((size >> HEIGHT * level) % WIDTH for level in range(levels))
