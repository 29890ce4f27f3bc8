"""R8: whether an incident could be reconstructed from the record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from transparency.compliance.outcomes import ABORTED, DENIED, ERROR, outcomes
from transparency.compliance.record_check import Outcome, Place, failed, not_applicable, passed, record_check, warned
from transparency.compliance.survey import CALL, RESULT, Survey, as_map, as_text
from transparency.compliance.touched import touched
from transparency.records.shells import command_text

_HOST: Final = re.compile(r"://(?:[^/?#\s\"'<>\\@]{1,256}@)?([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,64}\])")
_EXITED: Final = re.compile(r"[Ee]xit(?:ed with)? code:? -?[0-9]")
_LOOK: Final = 4_000
_EXIT_MEMBERS: Final = frozenset({"exitCode", "exit_code", "exit", "returncode"})


@record_check(
    "R8.1",
    "The record can be searched: times, tools, paths, hosts, exit codes",
    "times of entries; name and input of tool calls; output of tool results",
)
def searchable(survey: Survey) -> Outcome:
    calls = survey.kind(CALL)
    timed = sum(row.effective is not None for row in survey.rows)
    unnamed = [row for row in calls if not as_text(row.entry.get("name"))]
    files = touched(survey)
    hosts: set[str] = set()
    for row in calls:
        command = _command(row.entry.get("input"))
        if "://" in command:
            hosts.update(match.lower() for match in _HOST.findall(command[:_LOOK]))
    exits = sum(_has_exit(row.entry) for row in survey.kind(RESULT))
    counts = {
        "timed": timed, "calls": len(calls), "tools": len({as_text(row.entry.get("name")) for row in calls} - {""}),
        "paths": len(files.paths), "hosts": len(hosts), "exit-codes": exits,
    }  # fmt: skip
    places: list[Place] = list(unnamed)
    if not timed:
        return failed("nothing has a time: the record cannot be found by when it happened", counts)
    if unnamed:
        return warned(f"{len(unnamed)} tool calls do not name their tool", counts, places)
    return passed(
        f"found by time, {counts['tools']} tools, {counts['paths']} paths, {counts['hosts']} hosts, {exits} exit codes",
        counts,
    )


def _command(given: object) -> str:
    if isinstance(given, dict):
        url = given.get("url")
        return url if isinstance(url, str) else command_text(given) or ""
    return command_text(given) or ""


def _has_exit(entry: object) -> bool:
    members = as_map(entry)
    output, native = members.get("output"), as_map(members.get("native"))
    if isinstance(output, str):
        said = output[:_LOOK]
        if "xit" in said and _EXITED.search(said) is not None:
            return True
    elif _states_exit(as_map(output)):
        return True
    held = (native, as_map(native.get("toolUseResult")), as_map(native.get("metadata"))) if native else ()
    return any(_states_exit(each) for each in held)


def _states_exit(members: Mapping[str, Any]) -> bool:
    return not _EXIT_MEMBERS.isdisjoint(members) and any(
        type(members[name]) is int for name in _EXIT_MEMBERS & members.keys()
    )


@record_check(
    "R8.2",
    "What failed, was denied or aborted can be listed",
    "status and is-error of tool results; events of errors, approvals and aborts",
)
def listed(survey: Survey) -> Outcome:
    results = survey.kind(RESULT)
    found = outcomes(survey)
    kinds = Counter(found.values())
    counts = {"results": len(results), "errors": kinds[ERROR], "denied": kinds[DENIED], "aborted": kinds[ABORTED]}
    if not results and not found:
        return not_applicable("the session has no results of tools, and no events of errors")
    silent = sum(row.entry.get("is-error") is None and not as_text(row.entry.get("status")) for row in results)
    if results and silent == len(results) and not found:
        return warned("no result says whether it failed: errors cannot be listed", counts)
    summary = f"{kinds[ERROR]} errors, {kinds[DENIED]} denied, {kinds[ABORTED]} aborted, of {len(results)} results"
    return passed(summary, counts, found)


CHECKS: Final = (searchable, listed)
