"""R3: who acted: the agent, the person, the signer."""

from __future__ import annotations

from collections import Counter
from typing import Final

from transparency.compliance.record_check import (
    Outcome,
    attest,
    by_share,
    failed,
    not_applicable,
    passed,
    record_check,
    warned,
)
from transparency.compliance.survey import USER, Survey, as_map, as_text, is_tool_output
from transparency.display import safe_text
from transparency.records.canonical import HUMAN, UNKNOWN
from transparency.records.vac import CLI_VENDORS

# Makers of models and tools: a signer with such a name says that the vendor signed (formats.md 3.2 row 7).
_VENDORS: Final = frozenset(CLI_VENDORS.values()) | {
    "mistral", "meta", "xai", "deepseek", "cohere", "amazon", "microsoft", "alibaba", "moonshot", "zhipu",
}  # fmt: skip


@record_check(
    "R3.1",
    "The agent is named: model, provider, program and its version",
    "agent-meta: model-id, model-provider, cli-name, cli-version",
    entries=False,
)
def agent_named(survey: Survey) -> Outcome:
    absent = [name for name in ("model-id", "model-provider", "cli-name", "cli-version") if not _known(survey, name)]
    counts = {name: safe_text(as_text(survey.meta.get(name)) or "-", 80) for name in ("model-id", "model-provider")}
    counts |= {name: safe_text(as_text(survey.meta.get(name)) or "-", 80) for name in ("cli-name", "cli-version")}
    if not absent:
        return passed(f"{counts['model-id']} of {counts['model-provider']}, run by {counts['cli-name']}", counts)
    grave = "model-id" in absent or "model-provider" in absent
    return (failed if grave else warned)(f"not known: {', '.join(absent)}", counts, ["/session/agent-meta"])


def _known(survey: Survey, name: str) -> bool:
    value = as_text(survey.meta.get(name))
    return bool(value) and value.casefold() != UNKNOWN


@record_check(
    "R3.2",
    "The person whom the agent worked for can be identified",
    "actors, iss and sub of the statement, contributors of file-attribution",
    entries=False,
)
def person_named(survey: Survey) -> Outcome:
    if survey.is_sub_agent:
        return not_applicable("a sub-agent's session without a person in it: see the session that started it")
    actors = survey.record.get("actors")
    people = [
        actor
        for actor in (actors if isinstance(actors, list) else [])
        if as_map(actor).get("type", HUMAN) == HUMAN
        and (as_text(as_map(actor).get("id")) or as_text(as_map(actor).get("name")))
    ]
    signer = next((text for text in _signer(survey) if text.startswith(("mailto:", "acct:")) or "@" in text), "")
    counts: dict[str, int | str] = {
        "people": len(people),
        "turns": len(survey.humans),
        "contributors": _human_ranges(survey),
    }
    if people:
        return passed(f"{len(people)} persons are named in the record", counts, ["/actors"])
    if signer:
        return passed("the statement's issuer or subject names a person", counts)
    return attest("no person is named: whoever runs the agent must state who worked with it", counts)


def _signer(survey: Survey) -> tuple[str, ...]:
    signing = survey.signing
    return () if signing is None else (signing.iss or "", signing.sub or "")


def _human_ranges(survey: Survey) -> int:
    """Contributions of people: that there was somebody, never who (VAC has no place for that)."""
    files = as_map(survey.record.get("file-attribution")).get("files")
    found = 0
    for file in files if isinstance(files, list) else ():
        conversations = as_map(file).get("conversations")
        for conversation in conversations if isinstance(conversations, list) else ():
            contributor = as_map(as_map(conversation).get("contributor")).get("type")
            found += contributor in ("human", "mixed")
    return found


@record_check("R3.3", "Every entry says who acted", "type and actor of each entry; content of entries of the user")
def attributed(survey: Survey) -> Outcome:
    nameless = [row for row in survey.rows if not row.actor]
    disguised = [
        row
        for row in survey.kind(USER)
        if row.entry.get("actor") == HUMAN and row.actor != HUMAN and is_tool_output(row.entry.get("content"))
    ]
    actors = Counter(row.actor or UNKNOWN for row in survey.rows)
    counts: dict[str, int | str] = {"entries": len(survey.rows), **dict(sorted(actors.items()))}
    counts |= {"user-not-human": len(survey.kind(USER)) - len(survey.humans)}
    if nameless:
        verdict = by_share(len(nameless), len(survey.rows), survey.settings.tolerated_percent)
        return Outcome(verdict, f"of {len(nameless)} entries nobody can say who acted", counts, nameless)
    if disguised:
        return warned(f"{len(disguised)} entries said to be a person's, and the output of a tool", counts, disguised)
    return passed(f"{actors[HUMAN]} entries by people, {len(survey.rows) - actors[HUMAN]} by others", counts)


@record_check(
    "R3.4",
    "The signer is known, and is not just the maker of the model",
    "iss, the key's place in the trust store, model-provider",
    content=False,
)
def signer_known(survey: Survey) -> Outcome:
    signing = survey.signing
    if signing is None:
        return not_applicable("nobody signed it")
    trusted = {True: "yes", False: "no", None: "not looked"}[signing.trusted]
    iss = signing.iss or ""
    counts = {"iss": safe_text(iss, 120), "trusted": trusted}
    if not iss:
        return failed("the statement names no issuer", counts)
    vendors = {*_VENDORS, as_text(survey.meta.get("model-provider")).casefold()} - {"", UNKNOWN}
    if iss.strip().casefold() in vendors:
        return failed("the issuer is only the name of the model's maker, who did not sign this", counts)
    if signing.trusted is False:
        return failed("the key is not one that is trusted for this issuer", counts)
    if signing.trusted is None:
        return warned("nobody looked whether the key is this issuer's", counts)
    return passed("signed by a key that is trusted for this issuer", counts)


CHECKS: Final = (agent_named, person_named, attributed, signer_known)
