"""A canonical record as a timeline to read in a terminal: who said and did what, when, at which cost.

Everything in a record was written by strangers, its agents included. Each line of it goes through ``safe_text``, and
into rich as plain text, so that nothing in it moves a cursor, changes a colour or turns the reading direction. Long
texts are cut and say so; ``full`` shows them whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from rich.cells import cell_len, chop_cells
from rich.text import Text

from transparency.cli.timeline_figures import clock, moment, span, total, usage
from transparency.display import safe_text

WIDEST: Final = 100
_MARGIN: Final = 10
_UNCUT: Final = 1 << 30
_DEEPEST: Final = 4
_REPEATED: Final = 4


@dataclass(frozen=True, slots=True)
class _Look:
    mark: str
    style: str
    lines: int
    """How many lines of it are shown before it is cut."""


_LOOKS: Final[Mapping[str, _Look]] = {
    "user": _Look("▸", "bold cyan", 40),
    "assistant": _Look("●", "bold green", 40),
    "reasoning": _Look("…", "magenta", 12),
    "tool-call": _Look("⚙", "bold yellow", 12),
    "tool-result": _Look("↳", "yellow", 10),
    "system-event": _Look("·", "dim", 1),
}
_OTHER: Final = _Look("?", "dim", 4)
_USUAL: Final = frozenset({"", "success", "completed", "ok", "error"})
# Members of an event that say where it stands, not what happened.
_PLACE: Final = frozenset({
    "type", "uuid", "parentUuid", "id", "sessionId", "sessionID", "session_id", "isSidechain", "userType", "timestamp",
    "version", "cwd", "gitBranch", "time", "projectID", "messageID",
})  # fmt: skip
_COUNTED: Final = {
    "user": "user", "assistant": "assistant", "tool-call": "tool call(s)", "tool-result": "result(s)",
    "reasoning": "reasoning", "system-event": "event(s)",
}  # fmt: skip


class Timeline:
    """One record, rendered line by line for a width."""

    def __init__(self, record: Mapping[str, Any], *, width: int = 80, full: bool = False) -> None:
        self._record = record
        session = record.get("session")
        self._session: Mapping[str, Any] = session if isinstance(session, Mapping) else {}
        entries = self._session.get("entries")
        self._entries = list(_placed(entries if isinstance(entries, list) else []))
        self._width = max(40, min(width, WIDEST))
        self._full = full
        self._day = ""
        self._fresh = True

    def lines(self) -> Iterator[Text]:
        yield from self._head()
        runs = groupby(self._entries, key=lambda placed: _run_key(placed.entry))
        for _, run in runs:
            group = list(run)
            if len(group) >= _REPEATED and group[0].entry.get("type") == "system-event" and not self._full:
                yield from self._repeated(group)
                continue
            for placed in group:
                yield from self._entry(placed)

    # -- the head --------------------------------------------------------------------------------------------------

    def _head(self) -> Iterator[Text]:
        session = self._session
        yield Text(_one_line(session.get("session-id")) or "a session without an id", style="bold")
        meta = session.get("agent-meta")
        meta = meta if isinstance(meta, Mapping) else {}
        tool = " ".join(filter(None, (_one_line(meta.get("cli-name")), _one_line(meta.get("cli-version")))))
        models = meta.get("models")
        named = models if isinstance(models, list) and models else [meta.get("model-id")]
        model = ", ".join(_one_line(each) for each in named[:5])
        provider = _one_line(meta.get("model-provider"))
        yield from self._fact("agent", " · ".join(filter(None, (tool, f"{model} ({provider})" if model else ""))))
        yield from self._fact("time", span(session.get("session-start"), session.get("session-end")))
        yield from self._fact("folder", self._folder())
        for member, name in (("parent-session-id", "parent"), ("child-session-ids", "children")):
            value = session.get(member)
            shown = ", ".join(map(_one_line, value[:10])) if isinstance(value, list) else _one_line(value)
            yield from self._fact(name, shown)
        yield from self._fact("entries", self._counts())
        yield from self._fact("tokens", usage(total(placed.entry for placed in self._entries)))
        yield from self._fact("source", self._source())

    def _fact(self, name: str, value: str) -> Iterator[Text]:
        if not value:
            return
        for number, part in enumerate(_broken(value, self._width - _MARGIN)):
            yield Text.assemble((f"{name if not number else '':<{_MARGIN - 2}}  ", "dim"), part)

    def _folder(self) -> str:
        environment = self._session.get("environment")
        environment = environment if isinstance(environment, Mapping) else {}
        vcs = environment.get("vcs") or self._record.get("vcs")
        vcs = vcs if isinstance(vcs, Mapping) else {}
        git = " ".join(_one_line(vcs.get(name)) for name in ("type", "branch", "revision") if vcs.get(name))
        folder = _one_line(environment.get("working-dir"))
        return f"{folder} ({git})" if folder and git else folder or git

    def _counts(self) -> str:
        kinds = Counter(str(placed.entry.get("type")) for placed in self._entries)
        counted = [(kinds.pop(kind), name) for kind, name in _COUNTED.items() if kind in kinds]
        known = [f"{count} {name.replace('(s)', '' if count == 1 else 's')}" for count, name in counted]
        other = sum(kinds.values())
        return ", ".join(known + ([f"{other} of other kinds"] if other else [])) or "none"

    def _source(self) -> str:
        source = self._record.get("source")
        if not isinstance(source, Mapping):
            return ""
        dropped = source.get("dropped")
        left = [item for item in dropped if isinstance(item, Mapping)] if isinstance(dropped, list) else []
        text = f"{_one_line(source.get('format'))}, {_one_line(source.get('native-units'))} units"
        told = ", ".join(f"{_one_line(item.get('kind'))} ({_one_line(item.get('count'))})" for item in left[:10])
        return f"{text}; left out: {told}" if told else text

    # -- the entries -----------------------------------------------------------------------------------------------

    def _entry(self, placed: _Placed) -> Iterator[Text]:
        entry, look = placed.entry, _LOOKS.get(str(placed.entry.get("type")), _OTHER)
        margin = _MARGIN + 2 * placed.depth
        self._fresh = False
        yield from self._day_change(entry)
        if entry.get("type") == "system-event" and not self._full:
            yield self._event(placed, look)
            return
        label, inline, body = _shown(entry, self._width - margin)
        if not placed.continues:
            if entry.get("type") == "user" and not self._fresh:
                yield Text("")
            yield self._title(entry, look, margin, label, inline)
        style = "dim" if look.style in ("dim", "magenta") or entry.get("type") == "tool-result" else ""
        yield from self._body(body, margin + 2, _UNCUT if self._full else look.lines, style)

    def _title(self, entry: Mapping[str, Any], look: _Look, margin: int, label: str, inline: str) -> Text:
        style = "bold red" if entry.get("is-error") is True else look.style
        line = Text(f"{clock(entry.get('timestamp')):<{_MARGIN}}" + " " * (margin - _MARGIN), style="dim")
        line.append(f"{look.mark} {label}", style=style)
        if inline:
            line.append(f"  {inline}")
        more = usage(total([entry]))
        if entry.get("type") == "assistant" and entry.get("model-id"):
            more = " · ".join(filter(None, (_one_line(entry.get("model-id")), more)))
        if more and cell_len(line.plain) + cell_len(more) + 2 <= self._width:
            line.append(f"  {more}", style="dim")
        return line

    def _event(self, placed: _Placed, look: _Look) -> Text:
        """One line: what happened, and as much of its data as fits."""
        entry, margin = placed.entry, _MARGIN + 2 * placed.depth
        line = Text(f"{clock(entry.get('timestamp')):<{_MARGIN}}" + " " * (margin - _MARGIN), style="dim")
        line.append(f"{look.mark} {_one_line(entry.get('event-type')) or 'event'}", style="dim")
        room = self._width - cell_len(line.plain) - 2
        told = _brief(entry.get("data"), room)
        if told:
            line.append(f"  {told}", style="dim")
        return line

    def _repeated(self, group: Sequence[_Placed]) -> Iterator[Text]:
        first = group[0]
        yield from self._day_change(first.entry)
        line = self._event(_Placed({**first.entry, "data": None}, first.depth), _LOOKS["system-event"])
        line.append(f"  {len(group)} times; --full shows each", style="dim")
        yield line

    def _body(self, text: str, margin: int, most: int, style: str) -> Iterator[Text]:
        if not text.strip():
            return
        width = self._width - margin
        # What cannot be shown need not be wrapped either: a line of a hundred megabytes is cut before.
        kept = text if most == _UNCUT else text[: (most + 1) * width * 4]
        lines = list(_wrapped(kept, width))
        hidden = text.count("\n") + 1 - kept.count("\n") if len(kept) < len(text) else 0
        for line in lines[:most]:
            yield Text(" " * margin + line, style=style)
        left = len(lines) - most + max(0, hidden - 1)
        if len(lines) > most:
            yield Text(" " * margin + f"⋮ {left} more line{'s' if left != 1 else ''} (--full)", style="dim italic")

    def _day_change(self, entry: Mapping[str, Any]) -> Iterator[Text]:
        at = moment(entry.get("timestamp"))
        day = at.strftime("%Y-%m-%d") if at is not None else self._day
        if day != self._day or (not self._day and entry is self._entries[0].entry):
            self._day = day
            yield Text("")
            self._fresh = True
            if day:
                yield Text(f"{day} UTC", style="bold dim")


@dataclass(frozen=True, slots=True)
class _Placed:
    entry: Mapping[str, Any]
    depth: int
    continues: bool = False
    """The text of the entry above it, which has none of its own (OpenCode's messages and their parts)."""


def _placed(entries: list[Any]) -> Iterator[_Placed]:
    """Every entry before its children, never recursing; the first level of children stands with its parent."""
    stack: list[tuple[Iterator[Any], Mapping[str, Any] | None]] = [(iter(entries), None)]
    while stack:
        siblings, parent = stack[-1]
        entry = next(siblings, None)
        if entry is None:
            stack.pop()
            continue
        if not isinstance(entry, Mapping):
            continue
        empty = parent is not None and parent.get("type") == entry.get("type") and not parent.get("content")
        yield _Placed(
            entry, min(max(0, len(stack) - 2), _DEEPEST), empty and entry.get("type") in ("user", "assistant")
        )
        children = entry.get("children")
        if isinstance(children, list):
            stack.append((iter(children), entry))


def _run_key(entry: Mapping[str, Any]) -> object:
    if entry.get("type") != "system-event":
        return id(entry)
    return ("event", str(entry.get("event-type")))


def _shown(entry: Mapping[str, Any], width: int) -> tuple[str, str, str]:
    """Label, what stands on its line, and the text below it."""
    kind = entry.get("type")
    if kind == "tool-call":
        name = _one_line(entry.get("name")) or "a tool"
        inline, body = _arguments(entry.get("input"), width - cell_len(name) - 4)
        return name, inline, body
    if kind == "tool-result":
        status = _one_line(entry.get("status"))
        label = "error" if entry.get("is-error") is True else "result"
        return label, "" if status in _USUAL else status, _text(entry.get("output"))
    if kind == "reasoning":
        text = _text(entry.get("content"))
        note = "(encrypted: the text is not in the record)" if not text and entry.get("encrypted") else ""
        return "reasoning", _one_line(entry.get("subject")) or note, text
    if kind == "system-event":
        return _one_line(entry.get("event-type")) or "event", "", _text(entry.get("data"))
    if kind in ("user", "assistant"):
        # Who wrote what the format calls "user" is not always a person (formats.md 8.1, rule 9).
        actor = str(entry.get("actor"))
        label = actor if kind == "user" and actor in ("human", "tool", "system") else str(kind)
        return label, "", _text(entry.get("content"))
    return _one_line(kind) or "entry", "", _text({name: value for name, value in entry.items() if name != "children"})


def _arguments(value: object, room: int) -> tuple[str, str]:
    """A call's input: on the line of the call where it is one short value, else a line for each member."""
    if isinstance(value, Mapping) and len(value) != 1:
        return "", "\n".join(f"{name}: {_text(each)}" for name, each in value.items())
    text = _text(next(iter(value.values())) if isinstance(value, Mapping) else value)
    return (_one_line(text), "") if "\n" not in text and len(text) <= room else ("", text)


def _text(value: object) -> str:
    """The words in a value of any shape, as tools nest them; JSON where there are none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(part) for part in value)
    if isinstance(value, Mapping):
        inner = value.get("functionResponse")
        if isinstance(inner, Mapping):
            return _text(inner.get("response"))
        for name in ("text", "output", "content"):
            if isinstance(value.get(name), str) and len(value) <= 3:
                return str(value[name])
    return _json(value, indent=1)


def _json(value: object, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=lambda other: f"({type(other).__name__})")
    except (ValueError, RecursionError):
        return "(a value that cannot be shown)"


def _brief(value: object, room: int) -> str:
    if not value or room < 8:
        return ""
    if isinstance(value, Mapping):
        rest = {name: each for name, each in value.items() if name not in _PLACE}
        value = next(iter(rest.values())) if len(rest) == 1 else rest
    return _one_line(value if isinstance(value, str) else _json(value), room) if value else ""


def _one_line(value: object, longest: int = 200) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else _json(value)
    shown = safe_text(" ".join(text[: longest * 4].split()), longest)
    cut = chop_cells(shown, longest)
    return cut[0][:-1] + "…" if len(cut) > 1 else shown


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of *text*, safe to show, each in pieces of at most *width* cells."""
    for raw in text.expandtabs(4).strip("\n").split("\n"):
        yield from _broken(safe_text(raw.rstrip(), _UNCUT), width)


def _broken(line: str, width: int) -> Iterator[str]:
    """One line in pieces, broken at spaces where there are any."""
    start = 0
    while True:
        piece = _fitting(line[start : start + width + 1], width)
        if start + len(piece) >= len(line):
            break
        space = piece.rfind(" ")
        piece = piece[: space + 1] if space > width // 2 else piece
        yield piece.rstrip()
        start += len(piece)
    yield line[start:]


def _fitting(text: str, width: int) -> str:
    """As much of *text* as *width* cells hold; a wide character takes two."""
    return text[:width] if text.isascii() else (chop_cells(text, width) or [""])[0]
