"""The import direction of design.md §2 as data, and a reader of source files that finds what breaks it.

It reads syntax, not behaviour, so an import inside a function or behind ``TYPE_CHECKING`` counts as well.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Each package may import only those before it.
ORDER: Final = (
    "cose", "merkle", "notes", "records", "statements", "policy", "compliance",
    "verifier", "client", "log", "server", "witness", "mirror", "cli",
)  # fmt: skip
PURE: Final = frozenset(ORDER[: ORDER.index("verifier")])

# Modules that every package may import.
BASE: Final = frozenset({"errors", "display"})
# What else stands directly under transparency/: "" is its __init__, the public face.
MAY_IMPORT: Final = {name: frozenset(ORDER[:place]) for place, name in enumerate(ORDER)} | {
    "verifier": PURE,
    "errors": frozenset(),
    "display": frozenset(),
    "": frozenset(ORDER) - {"cli", "server"},
    "testing": frozenset(ORDER) - {"cli"},
    "__main__": frozenset({"cli"}),
}

# No clock, no randomness, no input or output: those are passed in (style.md, h11).
IMPURE_MODULES: Final = frozenset({
    "aiohttp", "apsw", "asyncio", "click", "concurrent", "ctypes", "fcntl", "getpass", "glob", "http",
    "httpx", "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "prometheus_client",
    "psycopg", "random", "requests", "rich", "sched", "secrets", "select", "selectors", "shutil",
    "signal", "socket", "socketserver", "sqlite3", "sqlite_utils", "ssl", "subprocess", "tempfile",
    "threading", "time", "urllib.request", "uuid",
})  # fmt: skip
# The verifier reads files and may spread work over cores; it still has no network, database or clock.
FILES: Final = frozenset({"concurrent", "glob", "os", "pathlib"})

IMPURE_BUILTINS: Final = frozenset({"input", "open"})
CLOCKS: Final = frozenset({"now", "today", "utcnow"})


class Violation(NamedTuple):
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def violations(root: Path) -> list[Violation]:
    """Everything under *root*/transparency that breaks the direction, in order of file and line."""
    found: list[Violation] = []
    for path in sorted((root / "transparency").rglob("*.py")):
        found.extend(_file_violations(path, path.relative_to(root)))
    return found


def _file_violations(path: Path, relative: Path) -> Iterator[Violation]:
    parts = relative.with_suffix("").parts
    package = list(parts[:-1])
    own = "" if parts[1:] == ("__init__",) else parts[1]
    if own not in MAY_IMPORT:
        yield Violation(str(relative), f"transparency.{own} has no place in the order (import_rules.ORDER)")
        return
    tree = ast.parse(path.read_bytes(), filename=str(relative))
    for node in ast.walk(tree):
        where = f"{relative}:{getattr(node, 'lineno', 0)}"
        for module in _imported(node, package):
            reason = _judge(own, module)
            if reason:
                yield Violation(where, reason)
        if own in PURE or own == "verifier":
            reason = _impure_call(own, node)
            if reason:
                yield Violation(where, reason)


def _imported(node: ast.AST, package: list[str]) -> Iterator[str]:
    """Dotted names that a statement or call imports; ``from a import b`` gives ``a.b``: b may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        prefix = ".".join([*base, *([node.module] if node.module else [])])
        yield from (f"{prefix}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and _name(node.func) in {"import_module", "__import__"}:
        # A name that is computed cannot be judged; in pure packages _impure_call refuses it.
        literals = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        match literals:
            case [str(module), str(anchor), *_] if module.startswith("."):
                yield f"{anchor}{module}"
            case [str(module), *_]:
                yield ".".join([*package, module.lstrip(".")]) if module.startswith(".") else module


def _judge(own: str, module: str) -> str | None:
    parts = module.split(".")
    if parts[0] == "transparency":
        target = parts[1] if len(parts) > 1 else ""
        if target in BASE | {own, "__version__"} or target in MAY_IMPORT[own]:
            return None
        if target not in MAY_IMPORT:
            # A name of the public face, as in ``from transparency import verify``.
            return None if own in {"cli", "testing"} else f"{own or 'the face'} imports the face ({module})"
        return f"{own or 'the face'} must not import {target or 'the face'} ({module})"
    if own in PURE or own in BASE | {"verifier"}:
        allowed = FILES if own == "verifier" else frozenset()
        names = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        impure = sorted((names & IMPURE_MODULES) - allowed)
        if impure:
            return f"{own} is pure and must not import {impure[0]}"
    return None


def _impure_call(own: str, node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    name = _name(node.func)
    if name in {"import_module", "__import__"} and not (node.args and isinstance(node.args[0], ast.Constant)):
        return f"{own} is pure and must not import by a computed name"
    if isinstance(node.func, ast.Name) and name in IMPURE_BUILTINS and own != "verifier":
        return f"{own} is pure and must not call {name}()"
    if isinstance(node.func, ast.Attribute) and name in CLOCKS:
        clock = _name(node.func.value)
        if clock in {"date", "datetime"}:
            return f"{own} is pure and must not read the clock by {clock}.{name}()"
    return None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
