"""Mutants of VAC records: each a valid record with a few members deleted, retyped, renamed, added or nested."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

# Values at the edges of every type of the schemas, and of what Python takes for them.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**64 - 1, 2**64, -(2**64), -(2**64) - 1, 10**30, 0.0, 1.0, -2.5, 1775124002250.0,
    "", "text", "user", "tool-call", "tool-result", "reasoning", "system-event", "ai", "human", "robot", "User",
    "2026-04-02T10:00:00Z", "2026-04-02t10:00:00z", "2026-04-02T10:00:00Z\n", " 2026-04-02T10:00:00Z",
    "2026-04-02T10:00:00", "2026-04-02T24:00:00Z", "2026-13-02T10:00:00Z", "2026-02-30T10:00:60.5-23:59",
    "٢٠٢٦-04-02T10:00:00Z", "https://example.org/#a\nb", "a\nb?c\nd", "#\r", "::::", "C:\\x#y",
    b"", b"bytes", b"2026-04-02T10:00:00Z", [], ["a"], [1], [[]], [{}], {}, {"type": "user"}, {"a": 1},
    {1: 2}, {b"k": 1}, [{"type": "user"}], [{"type": "reasoning"}], [{"type": "tool-call", "name": "n", "input": 0}],
    [{"type": "system-event", "children": [{"type": "tool-result"}]}], {"name": "n"}, {"type": "git"},
)  # fmt: skip
NAMES = (
    "version", "id", "session", "created", "type", "name", "input", "output", "content", "timestamp", "children",
    "status", "is-error", "stop-reason", "event-type", "data", "encrypted", "subject", "call-id", "model-id",
    "model_id", "start-line", "start_line", "end-line", "end_line", "content-hash", "content_hash", "content-hash-alg",
    "content_hash_alg", "contributor", "url", "related", "token-usage", "cost", "total", "parent-id", "models",
    "working-dir", "vcs", "sandboxes", "extra", "Type", "", "session-id", "timestamp-end", "file-attribution",
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or index) of a value."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(item, dict | list):
                waiting.append(item)


def mutate(value: Any, dice: random.Random) -> Any:
    """Change one place of the value, which is the caller's to change; give the value."""
    found = list(places(value)) if isinstance(value, dict | list) else []
    if not found or dice.random() < 0.005:
        return copy.deepcopy(dice.choice(VALUES))
    holder, key = dice.choice(found)
    choice = dice.choice(("delete", "retype", "retype", "rename", "add", "nest", "move", "respell", "key"))
    new = copy.deepcopy(dice.choice(VALUES))
    if choice == "delete":
        del holder[key]
    elif choice == "retype":
        holder[key] = new
    elif choice == "nest":
        holder[key] = dice.choice(([holder[key]], {"type": holder[key]}, {"children": holder[key]}))
    elif choice == "move":  # one part of the record in the place of another
        other, other_key = dice.choice(found)
        holder[key] = copy.deepcopy(other[other_key])
    elif isinstance(holder, list):
        holder.insert(key, new)
    elif choice == "rename":
        holder[dice.choice(NAMES)] = holder.pop(key)
    elif choice == "add":
        holder[dice.choice(NAMES)] = new
    elif choice == "respell" and isinstance(key, str):
        holder[key.translate(str.maketrans("-_", "_-"))] = holder.pop(key)
    else:
        holder[dice.choice((0, -1, b"type", True))] = new
    return value


def mutants(originals: list[Any], count: int, seed: int) -> Iterator[Any]:
    """``count`` mutants of one to four changes."""
    dice = random.Random(seed)
    for _ in range(count):
        value = copy.deepcopy(dice.choice(originals))
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            value = mutate(value, dice)
        yield value
