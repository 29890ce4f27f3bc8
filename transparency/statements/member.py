"""A member of a header or claims map: absent, or a value. Null is neither: it is there, and of no type we know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transparency.errors import MalformedError


def member(members: Mapping[Any, Any], key: int) -> Any:  # noqa: ANN401 - what the caller goes on to check
    """The value at *key*, or None where it is absent. Otherwise ``{4: null}`` would pass for "no kid"."""
    value = members.get(key)
    if value is None and key in members:
        raise MalformedError(f"label {key} is null, which is no value for it")
    return value
