"""The documents say what the code does: commands and flags exist, the profile's example is what the code makes.

(That relative links lead somewhere is tested for all documents in test_docs_style.py.)
"""

from __future__ import annotations

import inspect
import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from tests.project.profile_example import profile_example
from tests.project.tree import ROOT
from transparency.cli.main import cli
from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.log import backup, checkpoints, create, documents, folder, fsck, mark, opening, sqlite, witness_check
from transparency.policy import key_directory
from transparency.server.surface import ENDPOINTS
from transparency.verifier.report import EXIT_CODES, TITLES

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "keys/README.md"])
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`transparency ([a-z][^`]*)`")
# A heading as GitHub makes an anchor of it.
ANCHOR = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")


def command_lines(text: str) -> list[str]:
    """What follows ``transparency`` on each line of the fenced blocks that are not of some other language."""
    lines = []
    for block in FENCE.finditer(text):
        if block["kind"].strip() in {"", "sh", "console", "bash"}:
            joined = block["body"].replace("\\\n", " ")
            for line in joined.splitlines():
                found = re.search(r"(?:^|[\s/])transparency (?=[a-z-])(.*)$", line.partition(" #")[0].strip())
                if found:
                    lines.append(found[1])
    return lines


def fault_in(line: str) -> str | None:
    """Why this command line cannot be meant, resolved in the click tree; None if it can."""
    words = shlex.split(line.rstrip("&").strip())
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return f"no command {words[0]!r}"
        command, words = found, words[1:]
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    flags |= {"--help", "-h"}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in flags]
    return f"no flag {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_shown_uses_commands_and_flags_that_exist(page: Path) -> None:
    text = page.read_text()
    lines = command_lines(text) + INLINE.findall(FENCE.sub("", text))

    faults = {line: fault for line in lines if (fault := fault_in(line))}

    assert faults == {}


def test_a_wrong_command_or_flag_would_be_found() -> None:
    lines = (
        "transparency serve --data d --prot 1",
        "transparency isuer add",
        "/opt/bin/transparency log fsck --data d",
    )
    text = "\n".join(("```", *lines, "```", ""))

    assert [fault_in(line) for line in command_lines(text)] == ["no flag --prot", "no command 'isuer'", None]


def test_operators_submitters_and_auditors_are_shown_command_lines() -> None:
    assert {
        page: bool(command_lines((DOCS / page).read_text())) for page in ("operate.md", "submit.md", "verify.md")
    } == {
        "operate.md": True,
        "submit.md": True,
        "verify.md": True,
    }


def test_anchors_in_documents_name_headings() -> None:
    broken = []
    for page in PAGES:
        for target, anchor in ANCHOR.findall(page.read_text()):
            if "://" not in target and anchor not in anchors((page.parent / target) if target else page):
                broken.append(f"{page.name}: {target}#{anchor}")

    assert broken == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_worked_example_of_the_profile_is_what_the_code_makes() -> None:
    """A deterministic example: whoever writes a verifier from the page gets the bytes the log gives out."""
    shown = {
        block["kind"].removeprefix("hex "): "".join(block["body"].split())
        for block in FENCE.finditer((DOCS / "profile.md").read_text())
        if block["kind"].startswith("hex ")
    }

    assert shown == profile_example()


def test_the_profile_names_every_algorithm_and_every_private_label() -> None:
    text = (DOCS / "profile.md").read_text()
    private = [value for value in vars(labels).values() if type(value) is int and value < -65536]
    understood = ", ".join(str(label) for label in sorted(labels.UNDERSTOOD, key=lambda label: (label < 0, abs(label))))

    assert [
        alg.name for alg in ALGORITHMS.values() if not re.search(rf"[ ,-]{re.escape(short(alg.name))}\b", text)
    ] == []
    assert [number for number in ALGORITHMS if not re.search(rf"[| ]{number}\b", text)] == []
    assert [label for label in private if str(label) not in text] == []
    assert understood in text.replace("\n", " ").replace("  ", " ")


def short(name: str) -> str:
    """The table writes ML-DSA-44, -65, -87."""
    return name if name == "ML-DSA-44" else name.removeprefix("ML-DSA-")


def test_the_page_for_auditors_names_every_check_and_verdict() -> None:
    text = (DOCS / "verify.md").read_text()

    assert [name for name in TITLES if name not in text] == []
    assert [name for name in EXIT_CODES if name.replace("-", " ") not in text] == []


def test_the_page_for_operators_has_a_remedy_for_every_reason_why_a_log_is_unusable() -> None:
    """The telling words of each LogUnusableError stand in the tables of operate.md."""
    text = re.sub(r"\s+", " ", (DOCS / "operate.md").read_text())
    sources = (
        backup, checkpoints, create, documents, folder, fsck, mark, opening, sqlite, witness_check, key_directory
    )  # fmt: skip
    raised = re.compile(r"LogUnusableError\(\s*f?\"((?:[^\"\\]|\\.)*)\"")
    messages = [message for source in sources for message in raised.findall(inspect.getsource(source))]

    missing = {message: part for message in messages for part in telling_parts(message) if part not in text}

    assert len(messages) > 25
    assert missing == {}


def telling_parts(message: str) -> list[str]:
    """The words of a message's first clause, before it gives advice, between the values it names."""
    first_clause = re.split(r"[;.] |\. ?\{OLD_COPY", message)[0]
    parts = [part.strip(" :,()") for part in re.split(r"\{[^}]*\}", first_clause)]
    return [part for part in parts if len(part) > 3] or ["config.toml: …"]


def test_resources_that_documents_name_are_served() -> None:
    served = {re.sub(r"\{\w+\}", "*", endpoint.path) for endpoint in ENDPOINTS}
    named = {
        (page.name, re.sub(r"/(?:ID|N|\{\w+\})(?=/|$)", "/*", path))
        for page in PAGES
        for path in re.findall(r"`(?:GET|POST) (/[^`? ]*)", page.read_text())
    }

    assert named
    assert sorted((page, path) for page, path in named if path not in served) == []


def test_the_profile_says_what_each_mandatory_field_of_a_receipt_gives_away() -> None:
    """RC-16: a privacy analysis of the mandatory fields; every claim and label a receipt carries is in its table."""
    section = (DOCS / "profile.md").read_text().partition("## 18. Privacy")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")][2:]

    for field in ("iss", "sub", "kid", "iat", "tree-size", "leaf-index", "path hashes", "entry"):
        assert any(field in row for row in rows), field
