"""``transparency search``: find registered entries by what their statements and records say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.markup import escape

from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input, write_output
from transparency.cli.output import done, note, out, print_json, timestamp, warn
from transparency.cli.settings import json_option, log_options
from transparency.client.search import SearchHit, SearchPage
from transparency.client.sync import SyncLogClient
from transparency.display import safe_text

PAGE: Final = 100
_DIGEST: Final = re.compile(r"[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}")
_MANY: Final = 3
_F = TypeVar("_F", bound=Callable[..., Any])


def _several(name: str, metavar: str, text: str) -> Callable[[_F], _F]:
    return click.option(f"--{name}", multiple=True, metavar=metavar, help=f"{text} (repeatable: all must hold).")


@click.command(
    epilog="\b\nExample: transparency search --log https://log.example --path 'src/*' --tool Edit\n"
    "transparency search --log https://log.example --session 7d1f3a52 --proofs ./proofs"
)
@log_options()
@click.option("--issuer", metavar="URI", help="The issuer, exactly.")
@click.option("--subject", metavar="TEXT", help="The subject of the statement, exactly.")
@_several("session", "ID", "A session in the record")
@_several("agent", "NAME", "Vendor, name or name/version of the agent")
@_several("model", "NAME", "A model that the record names")
@_several("tool", "NAME", "A tool that the record calls")
@_several("path", "PATH", "A file that the record names; 'src/*' for a folder")
@click.option("--from", "since", metavar="TIME", help="Registered at this time or later, as 2026-11-16T07:00:00Z.")
@click.option("--to", "until", metavar="TIME", help="Registered before this time.")
@click.option("--content", metavar="FILE|DIGEST", help="This record: a file, or its SHA-256 in hexadecimal.")
@click.option("--sibling", metavar="ENTRY", help="Every signature over the bytes that this entry signs.")
@click.option("--oldest", is_flag=True, help="The oldest first.")
@click.option(
    "--limit", type=click.IntRange(1), default=PAGE, show_default=True, metavar="N", help="At most this many entries."
)
@click.option("--all", "everything", is_flag=True, help="Every entry, however many.")
@click.option(
    "--proofs", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Write each entry's transparent statement there, for `transparency verify DIR`.",
)  # fmt: skip
@json_option()
def command(
    log: str, token: str | None, cacert: str | None, issuer: str | None, subject: str | None,
    session: tuple[str, ...], agent: tuple[str, ...], model: tuple[str, ...], tool: tuple[str, ...],
    path: tuple[str, ...], since: str | None, until: str | None, content: str | None, sibling: str | None,
    oldest: bool, limit: int, everything: bool, proofs: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Find registered entries by what their statements and records say.

    Every condition must hold; values are compared exactly. What is found is what the log says: --proofs writes what
    proves it. Erased content is not found.
    """
    single = {
        "issuer": issuer, "subject": subject, "from": since, "to": until, "sibling": sibling,
        "content": None if content is None else _digest(content),
    }  # fmt: skip
    several = {"session": session, "agent": agent, "model": model, "tool": tool, "path": path}
    parameters = [(name, value) for name, value in single.items() if value is not None]
    parameters += [(name, value) for name, values in several.items() for value in values]
    if oldest:
        parameters.append(("order", "oldest"))
    with connect(log, token=token, cacert=cacert) as client:
        pages = Pages(client, parameters)
        hits = list(pages.read(None if everything else limit))
        files = [] if proofs is None else list(_write(client, hits, proofs))
    if as_json:
        shown = [_plain(hit) for hit in hits]
        print_json({"log": log, "size": pages.size, "lag": pages.lag, "more": pages.more, "entries": shown,
                    **({} if proofs is None else {"files": [str(file) for file in files]})})  # fmt: skip
        return
    _print(hits)
    if proofs is not None:
        done(f"{proofs}: {len(files)} transparent statements; check them with `transparency verify {proofs}`")
    _say(pages, len(hits), limit)


class Pages:
    """The pages of one search, each asked for when the one before it is used up."""

    def __init__(self, client: SyncLogClient, parameters: list[tuple[str, str]]) -> None:
        self._client = client
        self._parameters = parameters
        self.size = self.lag = 0
        self.more = False

    def read(self, most: int | None) -> Iterator[SearchHit]:
        page: SearchPage | None = None
        found = 0
        while page is None or page.after is not None:
            wanted = PAGE if most is None else min(PAGE, most - found)
            place = [] if page is None else [("size", str(page.size)), ("after", str(page.after))]
            page = self._client.search([*self._parameters, *place, ("limit", str(wanted))])
            self.size, self.lag = page.size, page.lag
            yield from page.hits
            found += len(page.hits)
            if most is not None and found >= most:
                self.more = page.after is not None
                return


def _digest(content: str) -> str:
    if _DIGEST.fullmatch(content):
        return content
    return hashlib.sha256(read_input(content, may_be_empty=True)).hexdigest()


def _write(client: SyncLogClient, hits: Iterable[SearchHit], folder: Path) -> Iterator[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{folder}: {error.strerror}") from error
    for hit in hits:
        if hit.facts.get("erased"):
            warn(f"entry {hit.index} is erased: there is no statement to write")
            continue
        # The index in front: an entry id may begin with a hyphen.
        file = folder / f"{hit.index}-{hit.entry_id}.cose"
        write_output(file, client.statement(hit.entry_id), force=True)
        yield file


def _plain(hit: SearchHit) -> dict[str, Any]:
    return {"index": hit.index, "entry": hit.entry_id, "time": timestamp(hit.time), **hit.facts}


def _print(hits: list[SearchHit]) -> None:
    """Columns as wide as what is in them; a line is never broken, so that it can be cut and sorted."""
    rows = [_HEADER, *(_cells(hit) for hit in hits)] if hits else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))] if rows else []
    for number, row in enumerate(rows):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        out().print(f"[bold]{escape(line)}[/]" if number == 0 else escape(line))


_HEADER: Final = ("index", "registered", "entry", "agent", "model", "issuer", "subject")


def _cells(hit: SearchHit) -> tuple[str, ...]:
    facts = hit.facts
    agent = "/".join(str(facts[name]) for name in ("agent", "version") if facts.get(name))
    cells = (
        str(hit.index), timestamp(hit.time), hit.entry_id, agent or facts.get("vendor", "-"),
        _few(facts.get("models", [])), facts.get("issuer", "(erased)" if facts.get("erased") else "-"),
        facts.get("subject", "-"),
    )  # fmt: skip
    return tuple(safe_text(cell) for cell in cells)


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_MANY])
    return f"{shown} and {len(names) - _MANY} more" if len(names) > _MANY else shown or "-"


def _say(pages: Pages, found: int, limit: int) -> None:
    if not found:
        note(f"nothing found among {pages.size} entries")
    if pages.more:
        note(f"the first {limit}; --all gives the rest")
    if pages.lag:
        note(f"{index_behind(pages.lag)}: the newest may be missing")


def index_behind(lag: int) -> str:
    return f"the log's index is {lag} {'entry' if lag == 1 else 'entries'} behind"
