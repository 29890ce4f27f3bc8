"""What a way back from the canonical record returns, and when there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transparency.errors import MalformedError
from transparency.records.vac_check import check_vac
from transparency.records.vac_shapes import PUBLISHED


class NotConvertibleError(MalformedError):
    """The record does not hold what the other format requires. Nothing is made up to fill it."""


@dataclass(frozen=True, slots=True)
class Back:
    """``value`` is the document; ``lost`` has a sentence for everything that is not in it, or was filled in."""

    value: dict[str, Any]
    lost: tuple[str, ...]


def require_vac(record: Mapping[str, Any]) -> None:
    """Members may be relied on after this: the record is valid by -00."""
    wrong = check_vac(record).violations[PUBLISHED]
    if wrong:
        raise NotConvertibleError(f"not a VAC record by -00: {wrong[0].pointer or '/'}: {wrong[0].message}")
