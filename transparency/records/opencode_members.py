"""Where OpenCode keeps times, tokens and encrypted reasoning in its objects, taken out of their members."""

from __future__ import annotations

from typing import Any, Final

from transparency.records.canonical import time_member
from transparency.records.native import Members, count
from transparency.records.timestamps import instant

_TOKENS: Final = ("input", "output", "reasoning", "total")
_ENCRYPTED: Final = "reasoningEncryptedContent"


def moment(value: object, *names: str) -> int | None:
    """Epoch milliseconds of the first of these members of ``time`` that is a time."""
    times = value.get("time") if isinstance(value, dict) else None
    if not isinstance(times, dict):
        return None
    for name in names:
        found = instant(time_member(times.get(name))[0])
        if found is not None:
            return found
    return None


def take_time(members: Members, *names: str) -> tuple[str | None, dict[str, Any]]:
    """The first of these members of ``time``, as a timestamp; and what to keep: its original, and the other members."""
    times = members.left.get("time")
    if not isinstance(times, dict):
        return None, {}
    left = Members(times)
    stamp, kept = take_stamp(left, next((name for name in names if name in times), names[0]))
    if stamp is None or "timestamp" in members.left:
        # No time, or a native member of the name that the original would get: then ``time`` is kept as it is.
        return stamp, {}
    del members.left["time"]
    return stamp, {**kept, **({"time": left.left} if left.left else {})}


def take_stamp(times: Members, name: str) -> tuple[str | None, dict[str, Any]]:
    stamp, kept = time_member(times.left.get(name))
    if stamp is None:
        return None, {}
    del times.left[name]
    return stamp, kept


def take_usage(members: Members) -> dict[str, Any] | None:
    """Tokens and cost, where they are what -00 takes (uint, number); whatever is not stays under native."""
    usage: dict[str, Any] = {}
    tokens = members.left.get("tokens")
    if isinstance(tokens, dict):
        left = dict(tokens)
        usage |= {name: left.pop(name) for name in _TOKENS if count(left.get(name)) is not None}
        cache = left.get("cache")
        if isinstance(cache, dict) and count(cache.get("read")) is not None:
            usage["cached"] = cache["read"]
            left["cache"] = {name: value for name, value in cache.items() if name != "read"}
            if not left["cache"]:
                del left["cache"]
        if usage:
            members.left["tokens"] = left
            if not left:
                del members.left["tokens"]
    if type(members.left.get("cost")) in (int, float):
        usage["cost"] = members.left.pop("cost")
    return usage or None


def take_encrypted(members: Members) -> str | None:
    """``metadata.<provider>.reasoningEncryptedContent``: moved, not copied, for it is long."""
    metadata = members.left.get("metadata")
    if not isinstance(metadata, dict):
        return None
    for provider, said in metadata.items():
        if isinstance(said, dict) and isinstance(said.get(_ENCRYPTED), str):
            left = {name: value for name, value in said.items() if name != _ENCRYPTED}
            members.left["metadata"] = {**metadata, provider: left}
            return str(said[_ENCRYPTED])
    return None
