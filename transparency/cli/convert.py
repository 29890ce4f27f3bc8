"""``transparency convert``: a session of any format as canonical records, or as another format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, write_output
from transparency.cli.json_lines import now, write_line
from transparency.cli.output import done, warn
from transparency.cli.sessions import CANONICAL, one
from transparency.errors import MalformedError
from transparency.records import back, canonical_json, convert, strict_json

_ENDINGS = {"vac": CANONICAL, "agentlog": ".agentlog.json", "agent-trace": ".agent-trace.json"}


@click.command(epilog="\b\nExample: transparency convert session.jsonl --json")
@click.argument("file", type=click.Path())
@click.option("--to", type=click.Choice(list(_ENDINGS)), default="vac", show_default=True, help="The format to write.")
@click.option("--out", type=click.Path(), metavar="FILE", help="Default: FILE.vac.json beside it, or what --to says.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print the records instead, one a line; errors too, on stderr.")
def command(file: str, to: str, out: str | None, force: bool, as_json: bool) -> None:
    """Convert FILE to canonical records (VAC), one for each session in it. "-" reads standard input.

    An OpenCode storage tree, or a Claude session with its sub-agents, is given as its folder. What could not be mapped
    is kept under `native` or counted in `source.dropped`: the original stays the evidence. Records are what strangers
    wrote: do not feed them to an agent unguarded.
    """
    source = one(file)
    data = source.read()
    try:
        if as_json or source.name == STDIO:
            for record, lost in _converted(data, to):
                write_line(record)
                _tell(lost)
            return
        made = list(_converted(data, to))
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    for number, (record, lost) in enumerate(made, 1):
        target = _target(source.name, to, out, number, len(made))
        write_output(target, record, force=force)
        done(f"{target}: {_summary(record)}")
        _tell(lost)


def _converted(data: bytes, to: str) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    for record in convert.convert_to_bytes(data, created=now()):
        if to == "vac":
            yield record, ()  # a record that is canonical already, byte for byte
            continue
        value = strict_json.loads(record)
        made = back.to_agentlog(value) if to == "agentlog" else back.to_agent_trace(value)
        yield canonical_json.dumps(made.value), made.lost


def _target(name: str, to: str, out: str | None, number: int, count: int) -> str:
    ending = _ENDINGS[to]
    if count == 1:
        return out if out is not None else name + ending
    first, dot, rest = (out if out is not None else name + ending).partition(ending)
    if dot:
        return f"{first}{ending.removesuffix('.json')}-{number}.json{rest}"
    path = Path(first)
    return str(path.with_name(f"{path.stem}-{number}{path.suffix}"))


def _summary(record: bytes) -> str:
    value = strict_json.loads(record)
    session = value.get("session") if isinstance(value, dict) else None
    if not isinstance(session, dict):
        return "written"
    source = value.get("source")
    source = source if isinstance(source, dict) else {}
    entries = sum(1 for _ in convert.flat(session.get("entries") or []))
    text = f"session {session.get('session-id')}, {entries} entries"
    if source.get("native-units") is not None:
        text += f" from {source['native-units']} units"
    dropped = source.get("dropped") or []
    left = ", ".join(f"{item['kind']} ({item['count']})" for item in dropped)
    return f"{text}; left out: {left}" if left else f"{text}; nothing left out"


def _tell(lost: tuple[str, ...]) -> None:
    for sentence in lost:
        warn(sentence)
