"""An interpreter for the CDDL that the two VAC schemas use, and both schemas as data: the oracle of the checker.

Deliberately slow and literal, after RFC 8610, and without a line of ``transparency``. Each construct has one function:

    "tstr" …                a name: a rule of the schema, else a prelude type (RFC 8610 appendix D)
    ("=", "ai")             a literal
    ("/", a, b)             a choice, tried in order
    ("~", pattern)          tstr .regexp pattern: anchored, as XSD patterns are
    ("*", a)                [* a]
    ("{}", member, …)       a map; a member is (occurrence, key, type), key a text, or ("key-type", t) for t => …
"""

from __future__ import annotations

import re
from typing import Any

Type = Any

# XSD's "." takes neither line feed nor carriage return; Python's takes the second.
_DOT = r"[^\n\r]"
_DATE = r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9]):(60|[0-5][0-9])([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
DATE_TIME = ("~", f"{_DATE}T{_TIME}")
URI = ("~", r"(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?")

OPEN = ("*", ("key-type", "tstr"), "any")


def one(key: str, type_: Type) -> tuple[str, Any, Type]:
    return ("1", key, type_)


def opt(key: str, type_: Type) -> tuple[str, Any, Type]:
    return ("?", key, type_)


def group(*members: tuple[str, Any, Type]) -> Type:
    return ("{}", *members)


def text(*literals: str) -> Type:
    return ("/", *(("=", literal) for literal in literals))


# What stands alike in both schemas.
_COMMON: dict[str, Type] = {
    "entry-id": "tstr",
    "session-trace": group(
        opt("format", "tstr"),
        one("session-id", "session-id"),
        opt("session-start", "abstract-timestamp"),
        opt("session-end", "abstract-timestamp"),
        one("agent-meta", "agent-meta"),
        opt("environment", "environment"),
        one("entries", ("*", "entry")),
        OPEN,
    ),
    "agent-meta": group(
        one("model-id", "tstr"),
        one("model-provider", "tstr"),
        opt("models", ("*", "tstr")),
        opt("cli-name", "tstr"),
        opt("cli-version", "tstr"),
        OPEN,
    ),
    "token-usage": group(
        opt("input", "uint"),
        opt("output", "uint"),
        opt("cached", "uint"),
        opt("reasoning", "uint"),
        opt("total", "uint"),
        opt("cost", "number"),
        OPEN,
    ),
    "file-attribution-record": group(one("files", ("*", "file"))),
    "file": group(one("path", "tstr"), one("conversations", ("*", "conversation"))),
    "conversation": group(
        opt("url", URI),
        opt("contributor", "contributor"),
        one("ranges", ("*", "range")),
        opt("related", ("*", "resource")),
    ),
    "resource": group(one("type", "tstr"), one("url", URI)),
    "trace-metadata": group(
        one("session-id", "session-id"),
        one("agent-vendor", "tstr"),
        one("trace-format", "trace-format-id"),
        one("timestamp-start", "abstract-timestamp"),
        opt("timestamp-end", "abstract-timestamp"),
        opt("content-hash", "tstr"),
        opt("content-hash-alg", "tstr"),
    ),
}
_ENTRY_END = (
    opt("timestamp", "abstract-timestamp"),
    opt("id", "entry-id"),
    opt("children", ("*", "entry")),
    OPEN,
)

FEBRUARY: dict[str, Type] = {
    **_COMMON,
    "abstract-timestamp": ("/", DATE_TIME, "number"),
    "session-id": "tstr",
    "verifiable-agent-record": group(
        one("version", "tstr"),
        one("id", "tstr"),
        opt("created", "abstract-timestamp"),
        opt("session", "session-trace"),
        opt("file-attribution", "file-attribution-record"),
        opt("vcs", "vcs-context"),
        opt("recording-agent", "recording-agent"),
        OPEN,
    ),
    "recording-agent": group(opt("name", "tstr"), opt("version", "tstr"), OPEN),
    "environment": group(opt("working-dir", "tstr"), opt("vcs", "vcs-context"), opt("sandboxes", ("*", "tstr")), OPEN),
    "vcs-context": group(
        opt("type", "tstr"), opt("revision", "tstr"), opt("branch", "tstr"), opt("repository", "tstr"), OPEN
    ),
    "entry": ("/", "message-entry", "tool-entry", "reasoning-entry", "event-entry"),
    "message-entry": group(
        one("type", text("user", "assistant")),
        opt("content", "any"),
        opt("model-id", "tstr"),
        opt("stop-reason", "tstr"),
        opt("parent-id", "entry-id"),
        opt("token-usage", "token-usage"),
        *_ENTRY_END,
    ),
    "tool-entry": group(
        one("type", text("tool-call", "tool-result")),
        opt("call-id", "tstr"),
        opt("name", "tstr"),
        opt("input", "any"),
        opt("output", "any"),
        opt("status", "tstr"),
        opt("is-error", "bool"),
        *_ENTRY_END,
    ),
    "reasoning-entry": group(
        one("type", text("reasoning")),
        opt("content", "any"),
        opt("encrypted", "tstr"),
        opt("subject", "tstr"),
        *_ENTRY_END,
    ),
    "event-entry": group(
        one("type", text("system-event")),
        opt("event-type", "tstr"),
        opt("data", group(OPEN)),
        *_ENTRY_END,
    ),
    "range": group(
        one("start_line", "uint"),
        one("end_line", "uint"),
        opt("content_hash", "tstr"),
        opt("content_hash_alg", "tstr"),
        opt("contributor", "contributor"),
    ),
    "contributor": group(one("type", text("human", "ai", "mixed", "unknown")), opt("model_id", "tstr")),
    "trace-format-id": (
        "/",
        *(("=", name) for name in ("ietf-vac-v3.0", "claude-jsonl", "gemini-json", "codex-jsonl")),
        *(("=", name) for name in ("opencode-json", "cursor-jsonl")),
        "tstr",
    ),
}

PUBLISHED: dict[str, Type] = {
    **_COMMON,
    "abstract-timestamp": ("/", DATE_TIME, "uint"),
    "session-id": ("/", "tstr", "bstr"),
    "verifiable-agent-record": group(
        one("version", "tstr"),
        one("id", "tstr"),
        one("session", "session-trace"),
        opt("created", "abstract-timestamp"),
        opt("file-attribution", "file-attribution-record"),
        opt("vcs", "vcs-context"),
        opt("recording-agent", "recording-agent"),
        OPEN,
    ),
    "recording-agent": group(one("name", "tstr"), opt("version", "tstr"), OPEN),
    "environment": group(one("working-dir", "tstr"), opt("vcs", "vcs-context"), opt("sandboxes", ("*", "tstr")), OPEN),
    "vcs-context": group(
        one("type", "tstr"), opt("revision", "tstr"), opt("branch", "tstr"), opt("repository", "tstr"), OPEN
    ),
    "entry": ("/", "message-entry", "tool-call-entry", "tool-result-entry", "reasoning-entry", "event-entry"),
    "message-entry": group(
        one("type", text("user", "assistant")),
        opt("content", "any"),
        opt("model-id", "tstr"),
        opt("parent-id", "entry-id"),
        opt("token-usage", "token-usage"),
        *_ENTRY_END,
    ),
    "tool-call-entry": group(
        one("type", text("tool-call")),
        one("name", "tstr"),
        one("input", "any"),
        opt("call-id", "tstr"),
        *_ENTRY_END,
    ),
    "tool-result-entry": group(
        one("type", text("tool-result")),
        one("output", "any"),
        opt("call-id", "tstr"),
        opt("status", "tstr"),
        opt("is-error", "bool"),
        *_ENTRY_END,
    ),
    "reasoning-entry": group(
        one("type", text("reasoning")),
        one("content", "any"),
        opt("encrypted", "tstr"),
        opt("subject", "tstr"),
        *_ENTRY_END,
    ),
    "event-entry": group(
        one("type", text("system-event")),
        one("event-type", "tstr"),
        opt("data", group(OPEN)),
        *_ENTRY_END,
    ),
    "range": group(
        one("start-line", "uint"),
        one("end-line", "uint"),
        opt("content-hash", "tstr"),
        opt("content-hash-alg", "tstr"),
        opt("contributor", "contributor"),
    ),
    "contributor": group(one("type", text("human", "ai", "mixed", "unknown")), opt("model-id", "tstr")),
    "trace-format-id": "tstr",
}

SCHEMAS = {"-00": PUBLISHED, "19 Feb": FEBRUARY}


def matches(value: object, type_: Type, rules: dict[str, Type]) -> bool:
    """Whether ``value`` is of the type."""
    if isinstance(type_, str):
        return matches(value, rules[type_], rules) if type_ in rules else _prelude(value, type_)
    operator, *operands = type_
    if operator == "=":
        return type(value) is str and value == operands[0]
    if operator == "/":
        return any(matches(value, operand, rules) for operand in operands)
    if operator == "~":
        pattern = operands[0].replace("(.*)", f"({_DOT}*)")
        return type(value) is str and re.fullmatch(pattern, value) is not None
    if operator == "*":
        return type(value) is list and all(matches(item, operands[0], rules) for item in value)
    if operator == "{}":
        return type(value) is dict and _map_matches(value, operands, rules)
    raise AssertionError(operator)


def _prelude(value: object, name: str) -> bool:
    kinds = {"tstr": str, "bstr": bytes, "bool": bool, "float": float}
    if name in kinds:
        return type(value) is kinds[name]
    if name in ("uint", "nint"):
        least, most = (0, 2**64 - 1) if name == "uint" else (-(2**64), -1)
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    if name == "number":
        return any(_prelude(value, part) for part in ("uint", "nint", "float"))
    assert name == "any"
    return True


def _map_matches(value: dict[Any, Any], members: list[tuple[str, Any, Type]], rules: dict[str, Type]) -> bool:
    used = set()
    for key, item in value.items():
        for number, (_, wanted, type_) in enumerate(members):
            by_name = isinstance(wanted, str)
            if not (matches(key, ("=", wanted), rules) if by_name else matches(key, wanted[1], rules)):
                continue
            if matches(item, type_, rules):
                used.add(number)
                break
            if by_name:  # "name: type" cuts: no later member may take the pair (RFC 8610 section 3.5.4)
                return False
        else:
            return False
    return all(number in used for number, (occurrence, _, _) in enumerate(members) if occurrence == "1")


def valid(value: object, profile: str, rule: str = "verifiable-agent-record") -> bool:
    """Whether ``value`` is what the rule of the profile's schema says."""
    return matches(value, rule, SCHEMAS[profile])
