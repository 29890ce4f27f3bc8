"""Frameworks as data: which clause of which law or standard is evidenced by which checks.

One TOML file a framework, in ``compliance/frameworks/``; adding a framework is adding a file (docs/frameworks.md). The
wording is ours, never the document's. ``verified`` says that a person read the clause's own text and names the copy
that was read; reports print every other row as unverified.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from transparency.errors import MalformedError
from transparency.policy.toml import Source, Table, load

MAX_CLAUSES: Final = 500
MAX_MONTHS: Final = 1200
_SUFFIX: Final = ".toml"
_RECORD_CHECKS: Final = {1: 3, 2: 5, 3: 4, 4: 3, 5: 4, 6: 1, 7: 4, 8: 2, 9: 4, 10: 2, 11: 4}
_LOG_CHECKS: Final = 13
# The vocabulary of formats.md 10.3 and 10.4; that the registries of checks have just these is a test.
CHECK_IDS: Final = (
    *(f"R{requirement}.{number}" for requirement, count in _RECORD_CHECKS.items() for number in range(1, count + 1)),
    *(f"L{number}" for number in range(1, _LOG_CHECKS + 1)),
)
REQUIREMENTS: Final = {
    1: "Automatic event logging",
    2: "Timestamps",
    3: "Actor identification",
    4: "Action and event type",
    5: "Input and output",
    6: "Retention",
    7: "Tamper evidence",
    8: "Incident response",
    9: "Anomaly and risk detection",
    10: "Human oversight",
    11: "Traceability and reproducibility",
}


@dataclass(frozen=True, slots=True)
class Clause:
    """``attest`` are subjects that no data can show, so that somebody has to state them. ``read`` is what was read."""

    id: str
    title: str
    text: str
    checks: tuple[str, ...]
    verified: bool
    read: str | None = None
    retention_months: int | None = None
    note: str | None = None
    attest: tuple[str, ...] = ()
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Clauses that bind only some systems; they are reported when the profile is asked for (``id/profile``)."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Framework:
    id: str
    title: str
    document: str
    version: str
    articles: str
    clauses: tuple[Clause, ...]
    profiles: tuple[Profile, ...] = ()
    note: str | None = None

    def with_profile(self, name: str | None) -> Framework:
        """The clauses that bind everybody, and those of the profile *name*."""
        clauses = tuple(clause for clause in self.clauses if clause.profile in (None, name))
        profiles = tuple(profile for profile in self.profiles if profile.id == name)
        identity = self.id if name is None else f"{self.id}/{name}"
        return Framework(identity, self.title, self.document, self.version, self.articles, clauses, profiles, self.note)


def read_framework(data: bytes, name: str = "framework.toml", known: Collection[str] = CHECK_IDS) -> Framework:
    """Read a framework file; MalformedError names the line and the clause. A check that is not *known* is refused."""
    source = Source(data, name)
    members = load(data, "framework", name)
    rows = _rows(members.pop("clause", []), source)
    table = Table(members, "framework", source)
    identity = _name(table, "id")
    title, note = _text(table, "title"), _optional(table, "note")
    origin = table.table("source")
    document, version, articles = (_text(origin, member) for member in ("document", "version", "articles"))
    origin.done()
    profiles = tuple(_profile(each) for each in table.tables("profile"))
    table.done()
    if not 0 < len(rows) <= MAX_CLAUSES:
        raise table.fault("clause", f"has {len(rows)} rows, and needs from 1 to {MAX_CLAUSES}")
    clauses: list[Clause] = []
    names = {profile.id for profile in profiles}
    for row in rows:
        clause = _clause(row, known, names)
        if any((other.id, other.profile) == (clause.id, clause.profile) for other in clauses):
            raise row.fault(None, f'is a second clause "{clause.id}"')
        clauses.append(clause)
    unused = names - {clause.profile for clause in clauses}
    if unused:
        raise table.fault("profile", f"has no clause for {', '.join(sorted(unused))}")
    return Framework(identity, title, document, version, articles, tuple(clauses), profiles, note)


@cache
def load_frameworks() -> tuple[Framework, ...]:
    """Every framework that comes with the package, by id."""
    folder = resources.files("transparency.compliance").joinpath("frameworks")
    files = sorted((item for item in folder.iterdir() if item.name.endswith(_SUFFIX)), key=lambda item: item.name)
    found = tuple(read_framework(item.read_bytes(), item.name) for item in files)
    for item, framework in zip(files, found, strict=True):
        if item.name != framework.id + _SUFFIX:
            raise MalformedError(f'{item.name}: its id is "{framework.id}", so it is named {framework.id}{_SUFFIX}')
    return found


def select(frameworks: Sequence[Framework], wanted: Sequence[str] = ()) -> tuple[Framework, ...]:
    """The frameworks *wanted*, as ``id`` or ``id/profile``; all of them, without profiles, where nothing is named."""
    if not wanted:
        return tuple(framework.with_profile(None) for framework in frameworks)
    by_id = {framework.id: framework for framework in frameworks}
    chosen: list[Framework] = []
    for name in dict.fromkeys(wanted):
        identity, _, profile = name.partition("/")
        framework = by_id.get(identity)
        if framework is None:
            raise MalformedError(f'there is no framework "{identity}"; there are {", ".join(by_id)}')
        profiles = [each.id for each in framework.profiles]
        if "/" in name and profile not in profiles:
            offer = f"it has {', '.join(profiles)}" if profiles else "it has none"
            raise MalformedError(f'{identity} has no profile "{profile}"; {offer}')
        chosen.append(framework.with_profile(profile or None))
    return tuple(chosen)


def _clause(row: _Row, known: Collection[str], profiles: Collection[str]) -> Clause:
    identity = _text(row, "id")
    checks = row.texts("checks")
    unknown = [check for check in checks if check not in known]
    if unknown:
        raise row.fault("checks", f'of clause "{identity}" names checks that there are not: {", ".join(unknown)}')
    if len(set(checks)) != len(checks):
        raise row.fault("checks", f'of clause "{identity}" names a check twice')
    attest = row.texts("attest") if "attest" in row else ()
    if not checks and not attest:
        raise row.fault("checks", f'of clause "{identity}" is empty, and nothing is to be attested')
    months = row.optional_number("retention-months")
    if months is not None and not 0 < months <= MAX_MONTHS:
        raise row.fault("retention-months", f'of clause "{identity}" is not from 1 to {MAX_MONTHS}')
    profile = _optional(row, "profile")
    if profile is not None and profile not in profiles:
        raise row.fault("profile", f'of clause "{identity}" names a profile that there is not: {profile}')
    verified, read = row.flag("verified"), _optional(row, "read")
    if verified != (read is not None):
        said = "is verified without saying what was read" if verified else "says what was read and is not verified"
        raise row.fault("verified", f'of clause "{identity}" {said} (read = "…")')
    clause = Clause(
        identity, _text(row, "title"), _text(row, "text"), checks, verified, read, months, _optional(row, "note"),
        attest, profile,
    )  # fmt: skip
    row.done()
    return clause


def _profile(row: Table) -> Profile:
    profile = Profile(_name(row, "id"), _text(row, "title"), _text(row, "text"))
    row.done()
    return profile


class _Row(Table):
    """A table with a member that is true or false; no document of the service's own has one."""

    def flag(self, name: str) -> bool:
        value = self._take(name)
        if not isinstance(value, bool):
            raise self.fault(name, "is neither true nor false")
        return value


def _rows(value: object, source: Source) -> list[_Row]:
    if not isinstance(value, list):
        raise source.fault(("clause",), "framework.clause is not a list of tables ([[clause]])")
    return [_Row(item, f"framework.clause[{number}]", source, ("clause", number)) for number, item in enumerate(value)]


def _text(row: Table, name: str) -> str:
    value = " ".join(row.text(name).split())
    if not value:
        raise row.fault(name, "is empty")
    return value


def _optional(row: Table, name: str) -> str | None:
    return _text(row, name) if name in row else None


def _name(row: Table, name: str) -> str:
    value = row.text(name)
    if not value or not all(character.isascii() and (character.isalnum() or character == "-") for character in value):
        raise row.fault(name, "is not a name of letters, digits and hyphens")
    return value
