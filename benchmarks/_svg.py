"""A plot of lines over sizes, both axes logarithmic, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 860, 420
LEFT, TOP, RIGHT, BOTTOM = 56, 46, 250, 44
COLOURS = ("#1b6ca8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0f766e", "#be123c", "#475569")
_TEXT = 'font-family="system-ui, sans-serif" font-size="12"'


def plot(title: str, across: Sequence[float], lines: Mapping[str, Sequence[float]], limit: float, up: str) -> str:
    """*lines* over *across*; a dashed one at *limit*, a level at 1. What stands *up* is named at the top."""
    values = [value for line in lines.values() for value in line] + [limit * 1.25, 0.5]
    low, high = min(values), max(values)

    def x(value: float) -> float:
        span = math.log(across[-1] / across[0]) or 1.0
        return LEFT + math.log(value / across[0]) / span * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + math.log(high / value) / math.log(high / low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 20, title, weight="bold"),
        _text(LEFT, 36, up, colour="#555555"),
    ]
    for mark in (0.25, 0.5, 1, 2, 4, 8, 16):
        if low <= mark <= high:
            dashes, colour = ("6 4", "#b91c1c") if mark == limit else ("", "#dddddd")
            parts.append(_line([(LEFT, y(mark)), (WIDTH - RIGHT, y(mark))], colour, dashes=dashes, width=1))
            parts.append(_text(LEFT - 8, y(mark) + 4, f"{mark:g}", anchor="end"))
    for size in across:
        parts.append(_line([(x(size), TOP), (x(size), HEIGHT - BOTTOM)], "#eeeeee", width=1))
        parts.append(_text(x(size), HEIGHT - BOTTOM + 18, f"{size:,.0f}", anchor="middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "entries in the log", anchor="middle", colour="#555555"))
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(size), y(value)) for size, value in zip(across, line, strict=True)]
        parts.append(_line(points, colour, width=2))
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points]
        at = TOP + 14 + number * 20
        parts.append(_line([(WIDTH - RIGHT + 16, at - 4), (WIDTH - RIGHT + 36, at - 4)], colour, width=2))
        parts.append(_text(WIDTH - RIGHT + 42, at, f"{name}: {line[-1]:.2f}"))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}"'
    return f"<text {place} {_TEXT}>{escape(text)}</text>"


def _line(points: Sequence[tuple[float, float]], colour: str, *, width: int, dashes: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"/>'
    )
