"""What commands print: standard output is the result, standard error is for the person watching.

Colours only on a terminal and not under NO_COLOR (rich sees to both). Text that others wrote (claims, records, a log's
words) passes ``safe`` first, so that it can neither move the cursor nor pretend to be our own output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from transparency.cli.redaction import redacted
from transparency.display import iso_utc, safe_text

if TYPE_CHECKING:
    from rich.progress import Progress

LONGEST_LINE = 600
GOOD, BAD, UNSURE, DIM = "green", "bold red", "yellow", "dim"


def out() -> Console:
    """A console on standard output as it is now (a test runner exchanges it)."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False)


def err() -> Console:
    return Console(file=sys.stderr, highlight=False, soft_wrap=True, emoji=False)


def safe(value: object) -> str:
    """*value* as text that is safe to show, with rich's own markup escaped."""
    return escape(safe_text(value if isinstance(value, str) else str(value)))


def sentence(text: str) -> str:
    """One of our own, with names in it that somebody gave: a key or token among them is not repeated."""
    return escape(safe_text(redacted(text), LONGEST_LINE))


def note(text: str) -> None:
    """A line for the person watching, on standard error."""
    err().print(f"[{DIM}]{sentence(text)}[/]")


def warn(text: str) -> None:
    err().print(f"[{UNSURE}]warning:[/] {sentence(text)}")


def done(text: str) -> None:
    err().print(f"[{GOOD}]✓[/] {sentence(text)}")


def progress(what: str, *, quiet: bool = False) -> Progress:
    """A bar on standard error that goes away at its end; nothing where no terminal is, or where it is to be *quiet*."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = err()
    return Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=quiet or not console.is_terminal,
    )  # fmt: skip


def lines_above(bar: Progress) -> Console:
    """Where results go meanwhile: above the bar on one terminal; otherwise standard output and nothing else."""
    console = out()
    return bar.console if bar.console.is_terminal and console.is_terminal else console


def print_json(value: object) -> None:
    sys.stdout.write(ascii_json(value) + "\n")


def ascii_json(value: object) -> str:
    """Printable whatever is in it: of ASCII's controls, JSON leaves DEL as it is."""
    return json.dumps(value, ensure_ascii=True, indent=2).replace("\x7f", "\\u007f")


def timestamp(seconds: int | None) -> str:
    """A NumericDate for people: UTC, ISO 8601."""
    return "-" if seconds is None else iso_utc(seconds)


def print_tree(value: Mapping[str, Any], console: Console, indent: int = 0) -> None:
    """A nested mapping as aligned lines: what ``inspect`` prints, and its JSON form as the same data."""
    pad = "  " * indent
    width = max((len(name) for name, item in value.items() if not _nested(item)), default=0)
    for name, item in value.items():
        if isinstance(item, Mapping):
            console.print(f"{pad}[bold]{safe(name)}[/]")
            print_tree(item, console, indent + 1)
        elif _nested(item):
            for number, part in enumerate(item, 1):
                title = f"{name} {number}" if len(item) > 1 else name
                console.print(f"{pad}[bold]{safe(title)}[/]")
                print_tree(part, console, indent + 1)
        else:
            console.print(f"{pad}[{DIM}]{safe(name):<{width}}[/]  {_leaf(item)}")


def _nested(item: object) -> bool:
    if isinstance(item, Mapping):
        return True
    return (
        isinstance(item, Sequence)
        and not isinstance(item, str)
        and all(isinstance(x, Mapping) for x in item)
        and len(item) > 0
    )


def _leaf(item: object) -> str:
    if item is None:
        return f"[{DIM}]-[/]"
    if isinstance(item, list | tuple):
        return safe(", ".join(str(part) for part in item)) if item else f"[{DIM}]none[/]"
    return safe(item)
