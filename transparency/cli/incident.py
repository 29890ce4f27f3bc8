"""``transparency incident``: what records say of an incident, with proofs, as a folder that verifies offline."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import write_output
from transparency.cli.incident_sources import Missing, Source, log_files, opened
from transparency.cli.output import done, note, print_json, progress, timestamp, warn
from transparency.cli.report_options import read_time, software
from transparency.cli.settings import Setting, json_option, log_options, refuse_several
from transparency.compliance.incident import Incident
from transparency.compliance.incident_query import IncidentQuery
from transparency.compliance.incident_timeline import Piece, Timeline, record_of, to_bytes
from transparency.compliance.stated import CONTENT_TYPES
from transparency.cose import labels
from transparency.errors import (
    AnswerTooLargeError,
    GoneError,
    MalformedError,
    NotFoundError,
    OverloadedError,
    ProofError,
    ServiceRefusedError,
)
from transparency.statements.statement import Statement
from transparency.verifier.bundle import INCIDENT, MANIFEST, PAGES, TIMELINE, stem
from transparency.verifier.manifest import Manifest

_HOUR: Final = 3_600
# So many things that could not be had are named on a terminal.
_NAMED: Final = 20
# Told in the bundle: one record that is gone, too large, or another than was asked for does not end the search.
_NOT_TO_BE_HAD: Final = (
    GoneError, NotFoundError, ServiceRefusedError, MalformedError, ProofError, AnswerTooLargeError,
)  # fmt: skip
METHOD: Final = (
    "Every record that may be about it was fetched with its statement and receipt, and brought to the canonical form.",
    "An entry of a record is in the timeline if all kinds of conditions hold for it; of one kind, one value is enough.",
    "Times are those of the entries themselves, as their recorder wrote them; the log's time bounds them from above.",
    "A result is found with its call. An entry without a time is kept if its session's times allow it; it stands last.",
    "Pointers lead into the canonical form of the record, as `transparency convert` writes it.",
)
LIMITS: Final = (
    "Whether there is more: what was never recorded or registered, or stands on another log, is not here.",
    "Whether whoever made this left something out: asking the log again is the only way to tell.",
    "Whether a record says what happened: it shows what its recorder wrote, and that nobody changed it since.",
    "Whether the keys in log/ are the log's: compare them with what its operator publishes.",
    "Text, tools and paths in records were written by agents and strangers, and may be meant to mislead.",
)
_SEARCHED: Final = (
    "Candidates by the log's search index, from a day before the time that was asked for on. A record of which the "
    "index has nothing, or says that it has not all, was fetched too; lines it cannot read it passes over (--scan)."
)
_SCANNED: Final = (
    "Every statement on the log was looked at; if a time was asked for, those registered from a day before it on."
)


@click.command(
    epilog="\b\nExample: transparency incident --log https://log.example --from 2026-11-16T07:00:00Z --tool Bash \\\n"
    "  --text 'rm -rf' --out ./incident"
)
@log_options(required=False)
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Look in this data folder, or its copy.")
@click.option("--from", "since", metavar="TIME", help="What happened at this time or later, as 2026-11-16T07:00:00Z.")
@click.option("--to", "until", metavar="TIME", help="What happened before this time.")
@click.option("--tool", multiple=True, metavar="NAME", help="A tool that was called (repeatable: any of them).")
@click.option(
    "--path", multiple=True, metavar="PATH", help="A file that a call names; 'src/*' for a folder (repeatable)."
)
@click.option("--session", multiple=True, metavar="ID", help="A session (repeatable).")
@click.option("--issuer", multiple=True, metavar="URI", help="Who registered it (repeatable).")
@click.option("--text", multiple=True, metavar="TEXT", help="Words in the entry, whatever their case (repeatable).")
@click.option("--scan", is_flag=True, help="Look at every record, not only at what the search index names.")
@click.option("--aware", metavar="TIME", help="When it became known: the bundle says when 24 h and 72 h are over.")
@click.option("--log-key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
              help="Take only what is registered under a key in this file (repeatable).")  # fmt: skip
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The bundle: a new folder.")
@json_option()
def command(
    log: str | None, token: str | None, cacert: str | None, data: Path | None, since: str | None, until: str | None,
    tool: tuple[str, ...], path: tuple[str, ...], session: tuple[str, ...], issuer: tuple[str, ...],
    text: tuple[str, ...], scan: bool, aware: str | None, log_key: tuple[str, ...], out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Extract what records say of an incident into a folder that anybody can verify offline.

    A timeline across records, each statement with its receipt, record and proof, the log's keys and checkpoint, and a
    manifest: `transparency verify DIR` checks all of it. Exit 2 if no event is found; then nothing is written. What
    could not be looked at (erased, hash-only, not readable) is always named.
    """
    refuse_several("data", "log")
    query = IncidentQuery(read_time("--from", since), read_time("--to", until), tool, path, session, issuer, text)
    if query.since is not None and query.until is not None and query.since >= query.until:
        raise CommandError(Exit.USAGE, f"--from {since} is not before --to {until}", "Give the earlier time to --from.")
    try:
        query = IncidentQuery.from_json(query.to_json())
    except MalformedError as error:
        raise CommandError(Exit.USAGE, str(error)) from error
    known = read_time("--aware", aware)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CommandError(Exit.CANNOT_WRITE, f"{out} exists and is not empty", "Choose another --out.")
    with opened(data, None if data is not None else log, token, cacert, log_key) as source, ExitStack() as stack:
        folder = _work_folder(out, stack)
        missing = Missing()
        gathering = _Gathering(source, query, folder, missing)
        gathering.run(scan=scan, quiet=as_json)
        if not gathering.found:
            if as_json:
                print_json({"out": None, **_figures(source, gathering, missing), "events": 0})
            else:
                _name(missing, "--json names more of them")
            raise _nothing(source, gathering, missing, scan=scan or data is not None)
        for each in gathering.unproven:
            missing.tell(*each)
        for name, content in log_files(source, gathering.issuers, missing).items():
            _write(folder, name, content)
        how = (_SCANNED if scan or data is not None else _SEARCHED, *METHOD)
        incident = Incident(
            query, timestamp(int(time.time())), software(), f"{source.documents()[2].log} ({source.name})", how, LIMITS,
            {} if known is None else _clocks(known // 1000), tuple(missing.shown()),
        )  # fmt: skip
        timeline = gathering.timeline.to_json()
        _write(folder, INCIDENT, incident.to_bytes())
        _write(folder, TIMELINE, to_bytes(timeline))
        for name, page in PAGES.items():
            _write(folder, name, page(incident.to_json(), timeline))
        _write(folder, MANIFEST, Manifest.of(folder).to_bytes())
        if out.exists():
            out.rmdir()
        folder.rename(out)
    events = len(timeline["events"])
    if as_json:
        print_json({"out": str(out), **_figures(source, gathering, missing), "events": events})
        return
    done(f"{out}: {events} events in {gathering.found} records; {gathering.looked_at} of {source.size} entries read")
    _name(missing, f"{out / 'README.txt'} names them")
    note(f"check it with `transparency verify {out} --trust trust.toml`")


def _figures(source: Source, gathering: _Gathering, missing: Missing) -> dict[str, Any]:
    return {
        "looked-at": gathering.looked_at,
        "log-size": source.size,
        "statements": gathering.kept if gathering.found else 0,
        "not-available": missing.count,
        "missing": [{"what": what, "why": why} for what, why in missing.shown()],
    }


def _name(missing: Missing, rest: str) -> None:
    """What could not be had, for whoever watches."""
    for what, why in missing.told[:_NAMED]:
        warn(f"not available: {what}: {why}")
    if missing.count > _NAMED:
        warn(f"{missing.count - _NAMED} more things were not available; {rest}")


def _nothing(source: Source, gathering: _Gathering, missing: Missing, *, scan: bool) -> CommandError:
    said = f"nothing found; {gathering.looked_at} of {source.size} entries were looked at"
    if not scan:
        said += ", of the others only what the log's index says"
    if missing.count:
        said += f"; {missing.count} could not be looked at, and may be about it"
    hint = "" if scan else "--scan looks at every record, and not at the index alone."
    return CommandError(Exit.CANNOT_TELL, f"{said}; nothing was written", hint)


class _Gathering:
    """Fetches candidates one by one, and keeps what is about the incident, and what may be: nobody could read it.

    ``found`` are the records with events in the timeline, ``kept`` those in the bundle; ``looked_at`` are the entries
    whose statement and record, if they have one, were read.
    """

    def __init__(self, source: Source, query: IncidentQuery, folder: Path, missing: Missing) -> None:
        self._source = source
        self._query = query
        self._folder = folder
        self._missing = missing
        self._service = source.documents()[2].iss
        self.timeline = Timeline(query)
        self.issuers: set[str] = set()
        self.unproven: list[tuple[str, str]] = []
        self.kept = self.found = self.looked_at = 0

    def run(self, *, scan: bool, quiet: bool) -> None:
        candidates = self._source.find(self._query, self._missing, scan=scan)
        with progress("looking", quiet=quiet) as bar:
            for index, entry in bar.track(candidates):
                self._take(index, entry)

    def _take(self, index: int, entry: str) -> None:
        name = f"entry {index} {entry}"
        try:
            data = self._source.statement(index, entry)
            statement = Statement.from_bytes(data)
        except (GoneError, NotFoundError, ServiceRefusedError, MalformedError) as error:
            self._missing.tell(name, str(error))
            return
        if statement.entry_id != entry:
            raise CommandError(
                Exit.NEGATIVE, f"the log gave another statement for entry {index}", "Nothing was written."
            )
        other = self._query.issuers and statement.iss not in self._query.issuers
        if other or _content_type(statement) in CONTENT_TYPES:
            self.looked_at += 1
            return
        record = self._record(name, statement)
        piece = Piece(data, record)
        looked = self.timeline.look(piece)
        state = looked.entry["record"]
        # What the service states about itself is no record, and log/ has what matters of it.
        ours = statement.iss == self._service and statement.envelope is None and state != "read"
        self.looked_at += ours or state == "read"
        if ours or (state == "read" and not looked.events):
            return
        if state == "not readable":
            self._missing.tell(f"the record of {name}", f"not readable: {looked.why}")
        self.found += bool(looked.events)
        self.timeline.keep(looked)
        self._keep(index, entry, piece, statement.iss)

    def _record(self, name: str, statement: Statement) -> bytes | None:
        if statement.envelope is None:
            return None
        try:
            record = self._source.artifact(statement.payload)
        except _NOT_TO_BE_HAD as error:
            self._missing.tell(f"the record of {name}", str(error))
            return None
        if record_of(statement, record) is None:
            self._missing.tell(f"the record of {name}", "what is kept is not the record whose digest was signed")
            return None
        return record

    def _keep(self, index: int, entry: str, piece: Piece, iss: str) -> None:
        name = stem(index, entry)
        _write(self._folder, f"{name}.cose", piece.data)
        if piece.record is not None:
            _write(self._folder, f"{name}.payload", piece.record)
        try:
            _write(self._folder, f"{name}.tlog-proof", self._source.proof(index, entry))
        except (NotFoundError, ServiceRefusedError, OverloadedError) as error:
            self.unproven.append((f"the checkpoint proof of entry {index} {entry}", str(error)))
        self.issuers.add(iss)
        self.kept += 1


def _content_type(statement: Statement) -> object:
    label = labels.CONTENT_TYPE if statement.envelope is None else labels.PREIMAGE_CONTENT_TYPE
    return statement.message.headers.get(label)


def _clocks(known: int) -> dict[str, str]:
    """NIS2 Article 23 and the CRA count from here; which of them binds whom is not for this file to say."""
    return {
        "known": timestamp(known),
        "known + 24 hours": timestamp(known + 24 * _HOUR),
        "known + 72 hours": timestamp(known + 72 * _HOUR),
    }


def _work_folder(out: Path, stack: ExitStack) -> Path:
    """A new folder beside *out*, readable by its owner alone; it goes unless it is renamed in the end."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name[:32]}.", dir=out.absolute().parent))
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{out}: {error.strerror}", "Choose another --out.") from error
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _write(folder: Path, name: str, data: bytes) -> None:
    target = folder / name
    target.parent.mkdir(exist_ok=True)
    write_output(target, data)
