"""Whether a value is a VAC record, by each of the two profiles, and where it is not (formats.md 2).

Written by hand because no CDDL engine at hand can be the gate (formats.md 11). The shapes are data in ``vac_shapes``;
this is the walk over them, one for both profiles. It never recurses, so the depth of ``children`` costs no stack, and
it never looks into members of type ``any``. Values are those of ``strict_json`` or ``vac_cbor``: dict, list and str,
exactly.

Pointers and messages may hold text of the record, which is untrusted: whoever prints them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any, Final, Literal

from transparency.records.vac_plausible import implausible
from transparency.records.vac_pointer import Path, pointer, quoted
from transparency.records.vac_shapes import (
    FEBRUARY,
    PROFILES,
    PUBLISHED,
    RECORD,
    TRACE_METADATA,
    UINT_END,
    ByType,
    Differing,
    ListOf,
    MapOf,
    Profile,
    Scalar,
    Shape,
)
from transparency.records.violation import MAX_VIOLATIONS, Violation

# Of a record valid by one profile, some examples say enough of why the other does not take it.
_MAX_OF_THE_OTHER: Final = 20


@dataclass(frozen=True, slots=True)
class VacVerdict:
    """What the check found. ``violations`` has an entry for each profile, empty where the record is valid."""

    violations: Mapping[Profile, tuple[Violation, ...]]
    warnings: tuple[Violation, ...] = ()

    @property
    def profile(self) -> Literal["-00", "19 Feb", "both", "none"]:
        valid = [profile for profile in PROFILES if not self.violations[profile]]
        if len(valid) == len(PROFILES):
            return "both"
        return valid[0] if valid else "none"

    @property
    def nearest(self) -> Profile:
        """The profile to speak of: -00 where it is valid, else the one with fewer violations."""
        return min(PROFILES, key=lambda profile: len(self.violations[profile]))

    def is_valid(self, profile: Profile) -> bool:
        return not self.violations[profile]


def check_vac(value: object) -> VacVerdict:
    """Check a decoded record against both profiles."""
    return VacVerdict(_violations(value, RECORD), tuple(implausible(value)))


def check_trace_metadata(value: object) -> VacVerdict:
    """Check a trace-metadata map (COSE label 100) against both profiles."""
    return VacVerdict(_violations(value, TRACE_METADATA))


def is_valid(value: object, profile: Profile = PUBLISHED) -> bool:
    """Whether the record is valid by one profile, without looking past the first violation."""
    return not _misfits(value, RECORD, (profile,), limit=0)[profile]


_Profiles = tuple[Profile, ...]
_Misfit = tuple[Profile, Path, str]
# A key, what stands there, its shape, and the profiles to check it by.
_Step = tuple[Any, Any, Shape, _Profiles]


def _violations(value: object, shape: Shape) -> dict[Profile, tuple[Violation, ...]]:
    """The violations by each profile, bounded, with a last one that says so where there are more."""
    limit = _MAX_OF_THE_OTHER
    found = _misfits(value, shape, PROFILES, limit)
    if all(found.values()) and any(len(misfits) > limit for misfits in found.values()):
        limit = MAX_VIOLATIONS
        found = _misfits(value, shape, PROFILES, limit)
    return {profile: tuple(_listed(misfits, limit)) for profile, misfits in found.items()}


def _listed(misfits: list[tuple[Path, str]], limit: int) -> Iterator[Violation]:
    for path, message in misfits[:limit]:
        yield Violation("violation", pointer(path), message)
    if len(misfits) > limit:
        yield Violation("violation", "", f"more than {limit} violations; the rest is not listed")


def _misfits(value: object, shape: Shape, profiles: _Profiles, limit: int) -> dict[Profile, list[tuple[Path, str]]]:
    """Where each profile does not fit, in document order; one with more than ``limit`` misfits is not pursued.

    Depth first, on a stack of iterators: a list of a million entries waits there as one of them.
    """
    found: dict[Profile, list[tuple[Path, str]]] = {profile: [] for profile in profiles}
    settled: set[_Profiles] = set()
    wrong: list[_Misfit] = []
    stack: list[tuple[Iterator[_Step], Path]] = [(iter(_inside(value, shape, profiles, None, wrong)), None)]
    while stack or wrong:
        if wrong:
            for profile, where, message in wrong:
                misfits = found[profile]
                if len(misfits) <= limit:
                    misfits.append((where, message))
                if len(misfits) > limit:
                    settled.add((profile,))
            wrong.clear()
            if len(settled) == len(profiles):
                break
            continue
        steps, path = stack[-1]
        for key, item, item_shape, by in steps:
            if by in settled:
                continue
            here = (path, key)
            inner = _inside(item, item_shape, by, here, wrong)
            if inner:
                stack.append((iter(inner), here))
                break
            if wrong:
                break
        else:
            stack.pop()
    return found


def _inside(value: object, shape: Shape, profiles: _Profiles, path: Path, wrong: list[_Misfit]) -> Iterable[_Step]:
    """Check one value but not what it holds; give the steps to what it holds."""
    if type(shape) is MapOf:
        return _map(value, shape, profiles, path, wrong)
    if type(shape) is ByType:
        kind = value.get("type") if type(value) is dict else None
        chosen = shape.alternatives.get(kind) if type(kind) is str else None
        if chosen is not None:
            return _map(value, chosen, profiles, path, wrong)
        wrong += _by(profiles, *_unchosen(value, shape, path))
    elif type(shape) is ListOf:
        if type(value) is list:
            return zip(count(), value, repeat(shape.item), repeat(profiles)) if value else ()
        wrong += _by(profiles, path, f"this is {_kind(value)}, not an array")
    elif type(shape) is Scalar and not shape.fits(value):
        wrong += _by(profiles, path, f"this is {_kind(value)}, not {shape.what}")
    return ()


def _map(value: object, shape: MapOf, profiles: _Profiles, path: Path, wrong: list[_Misfit]) -> list[_Step]:
    if type(value) is not dict:
        wrong += _by(profiles, path, f"this is {_kind(value)}, not a map ({shape.name})")
        return []
    for name in shape.expected:
        if name not in value:
            wrong += _missing(name, shape, profiles, path)
    types, members = shape.types, shape.members
    inner: list[_Step] = []
    for name, member in value.items():
        kind = type(member)
        if types.get(name) is kind and (kind is not int or 0 <= member < UINT_END):
            continue  # most members by far, and no call for them
        rule = members.get(name)
        if rule is None:
            if shape.closed or type(name) is not str:
                wrong += _by(profiles, *_stranger(name, shape, path))
        elif type(rule) is Differing:
            if not rule.fits(member):
                inner += _apart(name, member, rule, profiles)
        elif type(rule) is not Scalar or not rule.fits(member):
            inner.append((name, member, rule, profiles))
    return inner


# Comprehensions stand here and not above: a variable that one captures is slower wherever it is used.
def _by(profiles: _Profiles, path: Path, message: str) -> list[_Misfit]:
    return [(profile, path, message) for profile in profiles]


def _missing(name: str, shape: MapOf, profiles: _Profiles, path: Path) -> list[_Misfit]:
    misfits = _by(profiles, path, f"{name} is missing, which {shape.name} must have")
    return [misfit for misfit in misfits if misfit[0] == PUBLISHED or name in shape.required]


def _apart(name: str, member: object, rule: Differing, profiles: _Profiles) -> list[_Step]:
    return [(name, member, rule.by_profile[profile], (profile,)) for profile in profiles]


def _unchosen(value: object, choice: ByType, path: Path) -> tuple[Path, str]:
    """Why no alternative can be chosen for an entry."""
    if type(value) is not dict:
        return path, f"this is {_kind(value)}, not an entry (a map)"
    if "type" not in value:
        return path, "type is missing, which every entry must have"
    kind = value["type"]
    seen = quoted(kind) if type(kind) is str else _kind(kind)
    return (path, "type"), f"this is {seen}, not one of {', '.join(choice.alternatives)}"


def _stranger(name: object, shape: MapOf, path: Path) -> tuple[Path, str]:
    """What is wrong with a member that the map has no rule for: its key (formats.md 2.4), or that it is there."""
    if type(name) is not str:
        return path, f"a key is {_kind(name)}; {shape.name} has text keys only"
    return (path, name), _not_in(shape, name)


def _not_in(shape: MapOf, name: str) -> str:
    other = name.replace("_", "-") if "_" in name else name.replace("-", "_")
    hint = f": this profile spells it {other}" if other != name and other in shape.members else ""
    return f"{shape.name} is closed and has no such member{hint}"


_KINDS: Final[Mapping[type, str]] = {
    str: "text",
    bytes: "bytes",
    bool: "a boolean",
    float: "a float",
    list: "an array",
    dict: "a map",
    type(None): "null",
}


def _kind(value: object) -> str:
    if type(value) is str:
        return f"the text {quoted(value)}"
    if type(value) is int:
        if not -(1 << 64) <= value < 1 << 64:
            return "an integer of more than 64 bits"
        return "a negative integer" if value < 0 else "an integer"
    return _KINDS.get(type(value), f"a {type(value).__name__}")


__all__ = [
    "FEBRUARY",
    "PROFILES",
    "PUBLISHED",
    "Profile",
    "VacVerdict",
    "check_trace_metadata",
    "check_vac",
    "is_valid",
]
