"""The vectors under ``c2sp`` in ../shared, beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2].parent / "shared" / "vectors" / "scitt-vectors.json"


def scitt_vectors() -> dict[str, Any]:
    if not FILE.exists():
        pytest.skip("no ../shared/vectors/scitt-vectors.json")
    loaded: dict[str, Any] = json.loads(FILE.read_bytes())
    return loaded


def c2sp_vectors() -> dict[str, str]:
    found: dict[str, str] = scitt_vectors()["c2sp"]
    return found
