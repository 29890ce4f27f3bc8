"""Charts as inline SVG: verdicts as stacked bars, each verdict with a pattern of its own beside its colour."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from transparency.compliance.finding import Verdict
from transparency.compliance.html_elements import Element, el
from transparency.compliance.report import DAY_STATUSES, NOT_AVAILABLE
from transparency.compliance.rollup import ATTESTED, UNREAD, UNSIGNED

MAX_BARS: Final = 92
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 900, 220, 44, 26, 12
_CLASSES: Final = {
    Verdict.PASS.value: "pass",
    ATTESTED: "pass",
    Verdict.WARN.value: "warn",
    Verdict.FAIL.value: "fail",
    UNSIGNED: "fail",
    UNREAD: "none",
    Verdict.ATTEST.value: "attest",
    Verdict.NOT_APPLICABLE.value: "none",
    NOT_AVAILABLE: "none",
}
WORDS: Final = {
    "pass": "pass",
    "warn": "warning",
    "fail": "fail",
    "attest": "to be attested",
    "none": "not applicable, not available",
}
_ORDER: Final = ("pass", "attest", "warn", "fail", "none")


def patterns() -> Element:
    """What the bars are filled with; once a page. Solid: pass. Hatched: warning. Crossed: fail. Dotted: attest."""
    lines = {
        "warn": (el("path", class_="hatch", d="M-1,7 L7,-1"),),
        "fail": (el("path", class_="hatch", d="M-1,7 L7,-1"), el("path", class_="hatch", d="M-1,-1 L7,7")),
        "attest": (el("circle", class_="dot", cx=3, cy=3, r=1),),
    }
    made = [
        el(
            "pattern", el("rect", class_=f"f-{name}", width=6, height=6), *drawn,
            id=f"p-{name}", width=6, height=6, patternUnits="userSpaceOnUse",
        )
        for name, drawn in lines.items()
    ]  # fmt: skip
    return el("svg", el("defs", *made), width=0, height=0, aria_hidden="true")


def legend() -> Element:
    items = [
        el("li", el("svg", _box(name, 0, 0, 14, 11), width=14, height=11, viewbox="0 0 14 11"), WORDS[name])
        for name in _ORDER
    ]
    return el("ul", *items, class_="legend")


def bar(counts: Mapping[str, int]) -> Element:
    """One horizontal bar of all verdicts; not applicable ones are thin, since they are no part of any share."""
    shares = _shares(counts)
    total = sum(shares.values())
    said = ", ".join(f"{shares[name]} {WORDS[name]}" for name in _ORDER if shares[name])
    boxes: list[Element] = []
    at = 0.0
    for name in _ORDER:
        width = 180 * shares[name] / total if total else 0
        if width:
            thin = name == "none"
            boxes.append(_box(name, at, 5 if thin else 0, width, 4 if thin else 14))
        at += width
    return el("svg", *boxes, class_="bar", viewbox="0 0 180 14", role="img", aria_label=said or "nothing judged")


def over_time(days: Sequence[tuple[str, Mapping[str, int]]]) -> Element | None:
    """Records a day by their worst verdict; several days share a bar where there are many."""
    bars, step = _calendar(days)
    if not bars:
        return None
    highest = max(sum(counts.values()) for _, counts in bars)
    room, tall = _WIDTH - _LEFT, _HEIGHT - _TOP - _BOTTOM
    each = room / len(bars)
    drawn: list[Element] = []
    for value in _ticks(highest):
        y = _TOP + tall * (1 - value / highest)
        drawn.append(el("line", class_="axis", x1=_LEFT, x2=_WIDTH, y1=_number(y), y2=_number(y)))
        drawn.append(el("text", str(value), x=_LEFT - 8, y=_number(y + 4), text_anchor="end"))
    for number, (_, counts) in enumerate(bars):
        y = float(_TOP + tall)
        shares = _shares(counts)
        for name in _ORDER:
            height = tall * shares[name] / highest
            if height:
                y -= height
                drawn.append(_box(name, _LEFT + number * each + each * 0.1, y, min(each * 0.8, 60), height))
    base = _TOP + tall
    drawn.append(el("line", class_="base", x1=_LEFT, x2=_WIDTH, y1=base, y2=base))
    for number in _labelled(len(bars)):
        x = _LEFT + number * each + each * 0.1
        drawn.append(el("text", bars[number][0], x=_number(min(x, _WIDTH - 62)), y=_HEIGHT - 8))
    said = f"records by worst verdict from {bars[0][0]}, at most {highest} in one bar"
    caption = f"Records by their worst verdict, a bar for {'each day' if step == 1 else f'{step} days'}."
    return el(
        "figure",
        el("svg", *drawn, viewbox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=said),
        el("figcaption", caption),
        legend(),
    )


def _shares(counts: Mapping[str, int]) -> dict[str, int]:
    shares = dict.fromkeys(_ORDER, 0)
    for verdict, count in counts.items():
        shares[_CLASSES.get(verdict, "none")] += count
    return shares


def _calendar(days: Sequence[tuple[str, Mapping[str, int]]]) -> tuple[list[tuple[str, dict[str, int]]], int]:
    """Bars from the first day to the last, and how many days each is for; a day without records is an empty place."""
    dated = {_ordinal(day): counts for day, counts in days if _ordinal(day)}
    if not dated:
        return [], 1
    first, last = min(dated), max(dated)
    step = -(-(last - first + 1) // MAX_BARS)
    bars = [
        (date.fromordinal(start).isoformat(), dict.fromkeys(DAY_STATUSES, 0)) for start in range(first, last + 1, step)
    ]
    for day, counts in dated.items():
        held = bars[(day - first) // step][1]
        for status, count in counts.items():
            held[status] = held.get(status, 0) + count
    return bars, step


def _ordinal(day: str) -> int:
    """0 for what is no day of the calendar, as a record may claim."""
    try:
        return date.fromisoformat(day).toordinal() if _DAY.fullmatch(day) else 0
    except ValueError:
        return 0


def _ticks(highest: int) -> list[int]:
    for size in (base * 10**power for power in range(16) for base in (1, 2, 5)):
        if highest <= 4 * size:
            return list(range(0, highest + 1, size))[1:]
    return [highest]


def _labelled(count: int) -> list[int]:
    """The bars that get their day written under them: first, last, and some between."""
    step = max(1, -(-count // 8))
    return sorted({*range(0, count, step)})


def _box(name: str, x: float, y: float, width: float, height: float) -> Element:
    """A filled box; ``none`` and ``pass`` are solid, the others have their patterns."""
    solid = name in ("pass", "none")
    return el(
        "rect", x=_number(x), y=_number(y), width=_number(width), height=_number(height),
        class_=f"f-{name}" if solid else None, fill=None if solid else f"url(#p-{name})",
    )  # fmt: skip


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
