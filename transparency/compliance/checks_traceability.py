"""R11: how an entry leads to its cause, its code, and the records beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transparency.compliance.finding import Verdict
from transparency.compliance.record_check import (
    Outcome,
    Place,
    by_share,
    failed,
    not_applicable,
    passed,
    record_check,
    warned,
)
from transparency.compliance.survey import Row, Survey, as_map, as_text
from transparency.compliance.touched import touched
from transparency.display import safe_text
from transparency.records.canonical import VERSION
from transparency.records.format import FORMATS
from transparency.records.hashes import BY_NAME
from transparency.records.vac_pointer import Path

_REVISION: Final = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_ALGORITHMS: Final = frozenset({*BY_NAME, "murmur3"})
_TRACE_FORMATS: Final = frozenset(format_.trace_format for format_ in FORMATS)
# An entry with such a mark stands beside the one that it repeats, under the same id.
_AGAIN: Final = frozenset({"duplicate-of", "superseded-by", "rewound-by", "replaced-by", "changed-by"})


@record_check(
    "R11.1", "Entries have ids, and parents that are there", "id and parent-id of each entry", conversation=True
)
def linked(survey: Survey) -> Outcome:
    having = [(row, row.entry["id"]) for row in survey.rows if isinstance(row.entry.get("id"), str)]
    ids = Counter([identity for row, identity in having if not _again(row)])
    unnamed = [row for row in survey.rows if not row.named]
    twice = [row for row, identity in having if ids[identity] > 1]
    known = {identity for _, identity in having}
    parents = [row for row in survey.rows if isinstance(row.entry.get("parent-id"), str)]
    dangling = [row for row in parents if row.entry["parent-id"] not in known]
    cycles = _cycles(parents)
    counts = {
        "entries": len(survey.rows), "ids": len(known), "repeated": len(twice), "without": len(unnamed),
        "parents": len(parents), "resolved": len(parents) - len(dangling), "cycles": len(cycles),
    }  # fmt: skip
    if not known:
        return failed("no entry has an id", counts)
    if twice or cycles:
        return failed(
            f"{len(twice)} entries with the id of another, {len(cycles)} that lead back to themselves",
            counts,
            [*twice, *cycles],
        )
    verdict = by_share(len(dangling), len(parents), survey.settings.tolerated_percent)
    if verdict is not Verdict.PASS:
        return Outcome(verdict, f"{len(dangling)} of {len(parents)} parents are not in the record", counts, dangling)
    if unnamed:
        return warned(f"{len(unnamed)} entries without an id, and in none that has one", counts, unnamed)
    return passed(f"{len(known)} ids, {len(parents)} links to parents, all resolved", counts)


def _again(row: Row) -> bool:
    return not _AGAIN.isdisjoint(as_map(row.entry.get("native")))


def _cycles(parents: list[Row]) -> list[Row]:
    """Entries that lead back to themselves. Each id is walked through once."""
    above: dict[str, tuple[str, Row]] = {}
    for row in parents:
        named = row.entry.get("id")
        if isinstance(named, str):
            above.setdefault(named, (row.entry["parent-id"], row))
    found: list[Row] = []
    done: set[str] = set()
    for start in above:
        trail: dict[str, None] = {}
        at = start
        while at in above and at not in done and at not in trail:
            trail[at] = None
            at = above[at][0]
        if at in trail:
            found.append(above[at][1])
        done.update(trail)
    return found


@record_check(
    "R11.2",
    "The state of the code is named: version control, revision, folder",
    "vcs and environment.vcs: type, revision; environment.working-dir",
    entries=False,
)
def located(survey: Survey) -> Outcome:  # noqa: PLR0911 - a list of decisions, the gravest first
    vcs = as_map(survey.record.get("vcs")) or as_map(survey.environment.get("vcs"))
    kind, revision = as_text(vcs.get("type")), as_text(vcs.get("revision"))
    folder = bool(as_text(survey.environment.get("working-dir")))
    edits = len(touched(survey).edits)
    counts: dict[str, int | str] = {
        "type": safe_text(kind or "-", 40), "revision": safe_text(revision or "-", 80),
        "working-dir": "yes" if folder else "no", "edits": edits,
    }  # fmt: skip
    place = ["/vcs" if "vcs" in survey.record else "/session/environment"]
    if kind == "none":
        return passed("declared: the code is under no version control", counts)
    if revision and kind == "git" and not _REVISION.fullmatch(revision):
        return failed("the revision is no whole commit of git", counts, place)
    if not kind and not revision:
        if edits:
            return failed(f"{edits} calls changed files, and no version control is named", counts)
        return warned("no version control is named", counts)
    if not revision:
        return warned(f"{counts['type']} without a revision", counts, place)
    if not kind:
        return warned("a revision without its version control", counts, place)
    if not folder and survey.rows and not survey.is_synthetic:
        return warned("the revision is named, the working directory is not", counts, place)
    return passed(f"{counts['type']} {safe_text(revision[:12])}", counts)


@record_check(
    "R11.3",
    "Changed files are attributed, line by line",
    "file-attribution, session.not-attributed, paths of tool calls that write",
    entries=False,
)
def attributed(survey: Survey) -> Outcome:
    files = touched(survey)
    stated = as_map(survey.record.get("file-attribution")).get("files")
    declared = survey.session.get("not-attributed")
    skipped = len(declared) if isinstance(declared, list) else 0
    attribution = stated if isinstance(stated, list) else []
    counts = {"edits": len(files.edits), "files": len(attribution), "not-attributed": skipped}
    if not attribution and not files.edits:
        return not_applicable("no tool changed a file, and nothing is attributed")
    if not attribution:
        if skipped:
            return warned(f"{len(files.edits)} edits; none could be attributed, which is declared", counts, files.edits)
        return failed(f"{len(files.edits)} edits, and nothing says which lines they made", counts, files.edits)
    wrong = [path for path, found in _ranges(attribution) if not _sane(found)]
    odd = [path for path, found in _ranges(attribution) if "content-hash" in found and not _known_hash(found)]
    strange = [] if survey.is_synthetic or not files.complete else _strangers(attribution, files.paths)
    counts |= {"wrong-ranges": len(wrong), "unknown-hashes": len(odd), "paths-not-in-calls": len(strange)}
    if wrong:
        return failed(f"{len(wrong)} ranges of lines that cannot be", counts, wrong)
    if strange or odd:
        summary = f"{len(strange)} attributed files appear in no tool call, {len(odd)} hashes are of an unknown kind"
        return warned(summary, counts, [*strange, *odd])
    return passed(f"{len(attribution)} files attributed, {len(files.edits)} edits", counts)


def _ranges(attribution: list[Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    top: Path = ((None, "file-attribution"), "files")
    for number, file in enumerate(attribution):
        conversations = as_map(file).get("conversations")
        for at, conversation in enumerate(conversations if isinstance(conversations, list) else ()):
            ranges = as_map(conversation).get("ranges")
            above: Path = ((((top, number), "conversations"), at), "ranges")
            for place, found in enumerate(ranges if isinstance(ranges, list) else ()):
                yield (above, place), as_map(found)


def _sane(found: Mapping[str, Any]) -> bool:
    start, end = found.get("start-line"), found.get("end-line")
    return type(start) is int and type(end) is int and 1 <= start <= end


def _known_hash(found: Mapping[str, Any]) -> bool:
    return as_text(found.get("content-hash-alg", "sha-256")).lower() in _ALGORITHMS


def _strangers(attribution: list[Any], paths: Mapping[str, None]) -> list[Place]:
    """Attributed files that no call names: by its whole path, or as the end of a longer one."""
    ends = {part for path in paths for part in _ends(path)}
    return [
        f"/file-attribution/files/{number}/path"
        for number, file in enumerate(attribution)
        if as_text(as_map(file).get("path")).replace("\\", "/") not in ends
    ]


def _ends(path: str) -> Iterator[str]:
    parts = path.replace("\\", "/").split("/")
    for start in range(max(0, len(parts) - 32), len(parts)):
        yield "/".join(parts[start:])
    yield path.replace("\\", "/")


@record_check(
    "R11.4",
    "Format, converter and linked records are known",
    "version, trace-format, source: converter-version; parent and child sessions, source.raw-hash in the log",
    entries=False,
)
def identified(survey: Survey) -> Outcome:
    version, format_ = as_text(survey.record.get("version")), survey.subject.format
    source = survey.record.get("source")
    links = _links(survey)
    resolved = survey.subject.resolved
    missing = [] if resolved is None else [place for place, link in links if resolved.get(link) is False]
    found = 0 if resolved is None else sum(resolved.get(link) is True for _, link in links)
    counts: dict[str, int | str] = {
        "version": safe_text(version or "-", 40), "links": len(links), "resolved": found, "missing": len(missing),
        "looked-up": "no" if resolved is None else "yes",
    }  # fmt: skip
    if version != VERSION:
        return failed("the version of the record is not known", counts, ["/version"])
    if format_ and format_ not in _TRACE_FORMATS:
        return failed("the trace-format is not known", counts)
    if missing:
        return warned(f"{len(missing)} of {len(links)} linked records do not stand in the log", counts, missing)
    if source is not None and not as_text(as_map(source).get("converter-version")):
        return warned("converted, and by which version is not recorded", counts, ["/source"])
    if source is None and not as_text(as_map(survey.record.get("recording-agent")).get("version")):
        return warned("what made the record, and which version of it, is not recorded", counts)
    looked = f", {found} found in the log" if resolved is not None else ", not looked up here" if links else ""
    return passed(f"version {counts['version']}; {len(links)} links{looked}", counts)


def _links(survey: Survey) -> list[tuple[Place, str]]:
    """Records that this one points to. The source of a native record is what was signed, and no other record."""
    links: list[tuple[Place, str]] = []
    parent = as_text(survey.session.get("parent-session-id"))
    if parent:
        links.append(("/session/parent-session-id", parent))
    children = survey.session.get("child-session-ids")
    for number, child in enumerate(children if isinstance(children, list) else ()):
        if isinstance(child, str):
            links.append((f"/session/child-session-ids/{number}", child))
    raw = as_text(as_map(survey.record.get("source")).get("raw-hash"))
    if raw and not survey.is_native:
        links.append(("/source/raw-hash", raw))
    return links


CHECKS: Final = (linked, located, attributed, identified)
