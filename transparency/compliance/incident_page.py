"""A bundle's README and pages, for people: made of ``incident.json`` and ``timeline.json`` and of nothing else.

Whoever verifies a bundle makes them again. Text of records is shown inert: escapes for what is invisible or moves a
cursor, and in pages nothing that is markup, under a policy that lets nothing load or run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from transparency.compliance.html import document
from transparency.compliance.html_elements import Element, el, join, text
from transparency.compliance.html_lists import facts
from transparency.compliance.incident_timeline import MAX_TEXT
from transparency.display import safe_text

SHOWN_EVENTS: Final = 5_000
SHOWN_ENTRIES: Final = 2_000
SHOWN_NAMES: Final = 10
SHOWN_LINES: Final = 40
_HONEST: Final = (
    "Nothing on this page proves anything by standing here. What is proven, `transparency verify` says of the folder "
    "it lies in, offline, with keys that you have from somebody you trust; the keys in the folder are only claimed."
)
_ALL_READ: Final = "nothing: every record that may be about it was here and could be read"


def readme(incident: Mapping[str, Any], timeline: Mapping[str, Any]) -> bytes:
    """README.txt, plain text without anything that a terminal obeys."""
    events, entries = timeline["events"], timeline["entries"]
    lines = [
        "EVIDENCE OF AN INCIDENT", "",
        *(f"{safe_text(name) + ':':<24}{safe_text(value, 600)}" for name, value in summary(incident, timeline)), "",
        "To verify it, offline, with the base install of agent-transparency:", "",
        "    transparency verify THIS-FOLDER --trust trust.toml", "",
        "trust.toml (docs/verify.md) holds the keys of the log and of the issuers, from somebody you trust. Those in",
        "log/ are what the log said of itself: claimed. Compare thumbprints before you rely on them.", "",
        "What is here", "",
        "    index.html, timeline.html   to read; they load nothing and run nothing",
        "    timeline.json               every entry that was found, in the order of its time",
        "    incident.json               the question, the method, what was not available and why",
        "    statements/                 each statement with its receipt, record (.payload), proof (.tlog-proof)",
        "    log/                        the log's keys, policy and newest checkpoint, as the log gave them",
        "    manifest.json               the SHA-256 of every other file", "",
        "Method", "", *(f"  - {safe_text(line, 600)}" for line in incident["method"]), "",
        "What this cannot tell", "", *(f"  - {safe_text(line, 600)}" for line in incident["limits"]), "",
        "Not available", "", *(_missing_lines(incident) or [f"  - {_ALL_READ}"]), "",
        f"{len(events)} entries of {len(entries)} records.",
    ]  # fmt: skip
    return ("\n".join(lines) + "\n").encode()


def index_page(incident: Mapping[str, Any], timeline: Mapping[str, Any]) -> bytes:
    missing = [el("li", line.removeprefix("  - ")) for line in _missing_lines(incident)]
    body = [
        el("header", el("p", "Evidence bundle", class_="kind"), el("h1", "What the records show of an incident"),
           facts(summary(incident, timeline)), el("p", _HONEST, class_="honest")),
        el("main",
           _section("Timeline", el("p", el("a", "timeline.html", href="timeline.html"), _counted(timeline))),
           _section("Records", _entries(timeline["entries"])),
           _section("Not available", el("ul", *missing) if missing else el("p", _ALL_READ)),
           _section("Method", el("ul", *(el("li", line) for line in incident["method"]))),
           _section("What this cannot tell", el("ul", *(el("li", line) for line in incident["limits"])))),
    ]  # fmt: skip
    return document("Evidence of an incident", *body).encode()


def timeline_page(incident: Mapping[str, Any], timeline: Mapping[str, Any]) -> bytes:
    events = timeline["events"]
    titles = ("Time", "Who", "What", "Result", "Text", "Where")
    head = el("thead", el("tr", *(el("th", title, scope="col") for title in titles)))
    rows = [_event(event) for event in events[:SHOWN_EVENTS]]
    left = len(events) - len(rows) + timeline["events-left-out"]
    more = [el("p", f"and {left} more; those of the bundle are in timeline.json", class_="note")] if left else []
    body = [
        el("header", el("p", "Evidence bundle", class_="kind"), el("h1", "Timeline of an incident"),
           facts(summary(incident, timeline)), el("p", _HONEST, class_="honest")),
        el("main", el("table", head, el("tbody", *rows), class_="held events"), *more),
    ]  # fmt: skip
    return document("Timeline of an incident", *body).encode()


def summary(incident: Mapping[str, Any], timeline: Mapping[str, Any]) -> list[tuple[str, str]]:
    events = timeline["events"]
    times = [event["time"] for event in events if event["time"] is not None]
    lines = [("log", str(incident["log"])), ("asked for", asked(timeline["query"])),
             ("found", _counted(timeline).removeprefix(": "))]  # fmt: skip
    if times:
        lines.append(("first and last", f"{times[0]} to {times[-1]}"))
    for name, member in (("agents", "agent"), ("tools", "tool"), ("results", "result")):
        lines.append((name, _most([event[member] for event in events if event[member]])))
    if incident["not-available"]:
        lines.append(("not available", f"{len(incident['not-available'])}, named in README.txt and index.html"))
    lines += [(name, str(value)) for name, value in sorted(incident["clocks"].items())]
    return [*lines, ("made", f"{incident['made']} by {incident['software']}")]


def asked(query: Mapping[str, Any]) -> str:
    words = [f"{name} {query[name]}" for name in ("from", "to") if query[name]]
    kinds = ("tools", "paths", "sessions", "issuers", "texts")
    words += [f"{name.removesuffix('s')} {' or '.join(query[name])}" for name in kinds if query[name]]
    return ", ".join(words) or "everything"


def _counted(timeline: Mapping[str, Any]) -> str:
    read = sum(entry["record"] == "read" for entry in timeline["entries"])
    left = f", {timeline['events-left-out']} more left out" if timeline["events-left-out"] else ""
    return f": {len(timeline['events'])} entries in {read} of {len(timeline['entries'])} records{left}"


def _most(names: Sequence[str]) -> str:
    counts = Counter(names).most_common()
    shown = ", ".join(f"{name} ({number})" for name, number in counts[:SHOWN_NAMES])
    return f"{shown} and {len(counts) - SHOWN_NAMES} others" if len(counts) > SHOWN_NAMES else shown or "none"


def _missing_lines(incident: Mapping[str, Any]) -> list[str]:
    missing = incident["not-available"]
    told = [f"{each['what']}: {each['why']}" for each in missing[:SHOWN_ENTRIES]]
    lines = [f"  - {safe_text(each, 600)}" for each in told]
    return [*lines, f"  - and {len(missing) - SHOWN_ENTRIES} more"] if len(missing) > SHOWN_ENTRIES else lines


def _entries(entries: Sequence[Mapping[str, Any]]) -> Element:
    titles = ("Index", "Registered", "Entry", "Issuer", "Format", "Sessions", "Found")
    rows = [
        el("tr", el("td", str(each["index"])), el("td", each["registered"] or "-", class_="state"),
           el("td", el("code", each["entry"])),
           el("td", each["issuer"]), el("td", each["format"] or each["record"]),
           el("td", ", ".join(each["sessions"][:SHOWN_NAMES])), el("td", str(each["events"])))
        for each in entries[:SHOWN_ENTRIES]
    ]  # fmt: skip
    left = len(entries) - len(rows)
    more = [el("p", f"and {left} more in timeline.json", class_="note")] if left else []
    head = el("thead", el("tr", *(el("th", title, scope="col") for title in titles)))
    return join(el("table", head, el("tbody", *rows), class_="held"), *more)


def _event(event: Mapping[str, Any]) -> Element:
    what = " ".join(filter(None, (event["type"], event["tool"])))
    paths = [el("div", el("code", path)) for path in event["paths"]]
    left = [el("span", f" ({event['text-left-out']} more characters)", class_="note")] if event["text-left-out"] else []
    return el(
        "tr", el("td", event["time"] or "no time", class_="state"),
        el("td", " ".join(filter(None, (event["actor"], event["agent"])))),
        el("td", what, *paths), el("td", event["result"]), el("td", *_lines(event["text"]), *left),
        el("td", el("code", f"{event['index']} {event['pointer']}"), el("div", event["session"], class_="note")),
    )  # fmt: skip


def _lines(said: str) -> list[Element]:
    """Text with its line breaks, so many of them: a record of empty lines makes no page of its own."""
    first, *others = (text(line, MAX_TEXT) for line in said.replace("\r\n", "\n").split("\n", SHOWN_LINES))
    return [first, *(join(el("br"), line) for line in others)]


def _section(title: str, content: Element) -> Element:
    return el("section", el("h2", title), content)
