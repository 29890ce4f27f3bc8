"""Packages import only in the direction of design.md §2; the checker is tested by planting violations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.project.import_rules import MAY_IMPORT, ORDER, PURE, violations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The packages without their modules, to plant things in: each planted module is judged by itself."""
    package = ROOT / "transparency"
    for path in (*package.glob("*.py"), *package.glob("*/__init__.py")):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def plant(tree: Path, module: str, source: str) -> None:
    path = tree / "transparency" / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)


def test_every_import_goes_up_the_list() -> None:
    assert [str(violation) for violation in violations(ROOT)] == []


def test_the_walking_skeleton_is_where_the_order_says() -> None:
    present = {path.parent.name for path in (ROOT / "transparency").glob("*/__init__.py")}

    assert present <= set(MAY_IMPORT)
    assert {"cose", "merkle", "notes", "statements", "policy", "verifier", "client", "log", "server", "cli"} <= present


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("cose/planted.py", "import transparency.merkle", "cose must not import merkle"),
        ("cose/planted.py", "from transparency.log import log", "cose must not import log"),
        ("cose/planted.py", "from ..statements import receipt", "cose must not import statements"),
        ("cose/planted.py", "from .. import log", "cose must not import log"),
        ("merkle/deep/planted.py", "from ...log import log", "merkle must not import log"),
        ("verifier/planted.py", "from transparency import client", "verifier must not import client"),
        ("verifier/planted.py", "def f():\n    import transparency.log.log", "verifier must not import log"),
        ("verifier/planted.py", "import transparency.server.app as a", "verifier must not import server"),
        ("verifier/planted.py", "import transparency.witness", "verifier must not import witness"),
        ("client/planted.py", "import transparency.log", "client must not import log"),
        ("log/planted.py", "from transparency.server import tokens", "log must not import server"),
        ("server/planted.py", "from transparency.cli.exits import DONE", "server must not import cli"),
        ("testing/planted.py", "import transparency.cli.main", "testing must not import cli"),
        ("errors.py", "import transparency.cose.labels", "errors must not import cose"),
        ("log/planted.py", "from transparency import verify", "log imports the face"),
        ("log/planted.py", "from transparency.testing import clock", "log must not import testing"),
        ("policy/planted.py", "import time", "policy is pure and must not import time"),
        ("policy/planted.py", "from urllib.request import urlopen", "must not import urllib.request"),
        ("policy/planted.py", "from urllib import request", "must not import urllib.request"),
        ("policy/planted.py", "import os.path", "policy is pure and must not import os"),
        ("records/planted.py", "import asyncio", "records is pure and must not import asyncio"),
        ("merkle/planted.py", "import sqlite3", "merkle is pure and must not import sqlite3"),
        ("statements/planted.py", "import secrets", "statements is pure and must not import secrets"),
        ("verifier/planted.py", "import aiohttp", "verifier is pure and must not import aiohttp"),
        ("verifier/planted.py", "import time", "verifier is pure and must not import time"),
        (
            "cose/planted.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import aiohttp",
            "cose is pure and must not import aiohttp",
        ),
        (
            "verifier/planted.py",
            "import importlib\nimportlib.import_module('transparency.log')",
            "verifier must not import log",
        ),
        (
            "verifier/planted.py",
            "from importlib import import_module\nimport_module('.log', 'transparency')",
            "verifier must not import log",
        ),
        ("cose/planted.py", "__import__('socket')", "cose is pure and must not import socket"),
        ("cose/planted.py", "def f(n):\n    return __import__(n)", "must not import by a computed name"),
        ("records/planted.py", "data = open('x').read()", "records is pure and must not call open()"),
        (
            "policy/planted.py",
            "import datetime\nnow = datetime.datetime.now()",
            "must not read the clock by datetime.now()",
        ),
        ("newcomer/__init__.py", "", "transparency.newcomer has no place in the order"),
    ],
)
def test_a_planted_forbidden_import_is_found(tree: Path, module: str, source: str, complaint: str) -> None:
    before = violations(tree)
    plant(tree, module, source)

    found = [str(violation) for violation in violations(tree) if violation not in before]

    assert any(line.startswith(f"transparency/{module}") and complaint in line for line in found), found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cose/planted.py", "from transparency.errors import MalformedError"),
        ("cose/planted.py", "from transparency import errors"),
        ("cose/planted.py", "from . import labels"),
        ("statements/planted.py", "from transparency.cose import labels\nimport transparency.merkle"),
        ("verifier/planted.py", "from pathlib import Path\nfrom transparency.policy import document"),
        ("server/planted.py", "import time, asyncio, aiohttp\nfrom transparency.log import log"),
        ("cli/planted.py", "from transparency import verify\nfrom transparency.server import app"),
        ("policy/planted.py", "from urllib.parse import urlsplit\nimport tomllib, datetime"),
        ("testing/planted.py", "from transparency.log import log\nimport random"),
    ],
)
def test_an_import_that_goes_up_the_list_is_not_reported(tree: Path, module: str, source: str) -> None:
    before = violations(tree)
    plant(tree, module, source)

    assert [violation for violation in violations(tree) if violation not in before] == []


IMPORT_ALL = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"aiohttp", "sqlite_utils", "prometheus_client"}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
import transparency
assert transparency.__file__.startswith(sys.argv[1]), transparency.__file__
for package in sys.argv[2:]:
    module = importlib.import_module("transparency." + package)
    for found in pkgutil.walk_packages(module.__path__, module.__name__ + "."):
        importlib.import_module(found.name)
"""


def import_everything(root: Path, packages: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IMPORT_ALL, str(root), *packages]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def packages_without_io() -> list[str]:
    names = [name for name in ORDER if name in PURE or name == "verifier"]
    return [name for name in names if (ROOT / "transparency" / name / "__init__.py").exists()]


def test_pure_packages_and_the_verifier_import_without_the_server_dependencies() -> None:
    done = import_everything(ROOT, packages_without_io())

    assert done.returncode == 0, done.stderr


def test_a_worker_starts_without_what_only_the_owner_of_the_log_needs() -> None:
    """To import aiohttp takes longer than all else that a worker does before it serves."""
    program = IMPORT_ALL.partition("import transparency\n")[0] + "import transparency.server.worker"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert done.returncode == 0, done.stderr


def test_the_blocked_import_would_be_noticed(tmp_path: Path) -> None:
    # Given an import that hides from the syntax check behind a variable, in a package that is otherwise fine.
    tree = tmp_path
    shutil.copytree(ROOT / "transparency", tree / "transparency", ignore=shutil.ignore_patterns("__pycache__"))
    plant(tree, "cose/planted.py", "import importlib\nname = 'aiohttp'\nimportlib.import_module(name)")

    done = import_everything(tree, packages_without_io())

    assert done.returncode != 0
    assert "aiohttp is blocked" in done.stderr
