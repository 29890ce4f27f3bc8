"""Whether a value is a VAC record, by each of the two profiles, and where it is not (formats.md 2).

Written by hand because no CDDL engine at hand can be the gate (formats.md 11). The shapes are data in ``vac_shapes``;
this is the walk over them. It never recurses, so the depth of ``children`` costs no stack, and it never looks into
members of type ``any``. Values are those of ``strict_json`` or ``vac_cbor``: dict and list, exactly.

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
    COMMON,
    FEBRUARY,
    PROFILES,
    PUBLISHED,
    SCHEMAS,
    TEXT,
    ByType,
    ListOf,
    MapOf,
    Profile,
    Scalar,
    Shape,
)
from transparency.records.violation import MAX_VIOLATIONS, Violation

# Of a record valid by -00, some examples say enough of why 19 Feb does not take it.
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
    # Real records mostly fit both but for their attribution, which fits one at most: a single walk says the first.
    apart = next(_walk(value, COMMON.record), None) is not None
    violations: dict[Profile, tuple[Violation, ...]] = {}
    for profile, schema in SCHEMAS.items():
        limit = MAX_VIOLATIONS if all(violations.values()) else _MAX_OF_THE_OTHER
        violations[profile] = tuple(_violations(value, schema.record if apart else schema.attribution, limit))
    return VacVerdict(violations, tuple(implausible(value)))


def check_trace_metadata(value: object) -> VacVerdict:
    """Check a trace-metadata map (COSE label 100) against both profiles."""
    return VacVerdict({profile: tuple(_violations(value, SCHEMAS[profile].trace_metadata)) for profile in PROFILES})


def is_valid(value: object, profile: Profile = PUBLISHED) -> bool:
    """Whether the record is valid by one profile, without collecting more than the first violation."""
    return next(_violations(value, SCHEMAS[profile].record), None) is None


_Step = tuple[Any, Any, Shape]


def _violations(value: object, shape: Shape, limit: int = MAX_VIOLATIONS) -> Iterator[Violation]:
    """The violations in document order, at most ``limit`` and a last one that says there are more."""
    for number, (path, message) in enumerate(_walk(value, shape)):
        if number == limit:
            yield Violation("violation", "", f"more than {limit} violations; the rest is not listed")
            return
        yield Violation("violation", pointer(path), message)


def _walk(value: object, shape: Shape) -> Iterator[tuple[Path, str]]:
    """Depth first, on a stack of iterators: a list of a million entries waits there as one of them."""
    wrong: list[tuple[Path, str]] = []
    stack: list[tuple[Iterator[_Step], Path]] = [(iter(_inside(value, shape, None, wrong)), None)]
    while stack:
        if wrong:
            yield from wrong
            wrong.clear()
        steps, path = stack[-1]
        for key, item, item_shape in steps:
            here = (path, key)
            inner = _inside(item, item_shape, here, wrong)
            if inner:
                stack.append((iter(inner), here))
                break
            if wrong:
                break
        else:
            stack.pop()
    yield from wrong


def _inside(value: object, shape: Shape, path: Path, wrong: list[tuple[Path, str]]) -> Iterable[_Step]:
    """Check one value but not what it holds; give the steps to what it holds."""
    if type(shape) is ByType:
        kind = value.get("type") if type(value) is dict else None
        chosen = shape.alternatives.get(kind) if type(kind) is str else None
        if chosen is None:
            wrong.append(_misfit(value, shape, path))
            return ()
        return _map(value, chosen, path, wrong)
    if type(shape) is MapOf:
        return _map(value, shape, path, wrong)
    if type(shape) is ListOf:
        if type(value) is not list:
            wrong.append((path, f"this is {_kind(value)}, not an array"))
            return ()
        return zip(count(), value, repeat(shape.item)) if value else ()
    if type(shape) is Scalar and not shape.fits(value):
        wrong.append((path, f"this is {_kind(value)}, not {shape.what}"))
    return ()


def _misfit(value: object, choice: ByType, path: Path) -> tuple[Path, str]:
    """Why no alternative can be chosen for an entry."""
    if type(value) is not dict:
        return path, f"this is {_kind(value)}, not an entry (a map)"
    if "type" not in value:
        return path, "type is missing, which every entry must have"
    kind = value["type"]
    seen = quoted(kind) if type(kind) is str else _kind(kind)
    return (path, "type"), f"this is {seen}, not one of {', '.join(choice.alternatives)}"


def _map(value: object, shape: MapOf, path: Path, wrong: list[tuple[Path, str]]) -> list[_Step]:
    if type(value) is not dict:
        wrong.append((path, f"this is {_kind(value)}, not a map ({shape.name})"))
        return []
    for name in shape.required:
        if name not in value:
            wrong.append((path, f"{name} is missing, which {shape.name} must have"))  # noqa: PERF401 - mostly none
    members = shape.members
    inner: list[_Step] = []
    for name, member in value.items():
        # Before the lookup: a key of another type is wrong in every map of a record (formats.md 2.4).
        if type(name) is not str:
            wrong.append((path, f"a key is {_kind(name)}; {shape.name} has text keys only"))
            continue
        rule = members.get(name)
        if rule is None:
            if shape.closed:
                wrong.append(((path, name), _not_in(shape, name)))
        elif rule is TEXT and type(member) is str:  # most members by far, and no call for them
            continue
        elif type(rule) is not Scalar:
            inner.append((name, member, rule))
        elif not rule.fits(member):
            wrong.append(((path, name), f"this is {_kind(member)}, not {rule.what}"))
    return inner


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
