"""Documents point only to what exists, and the changelog has its form (Keep a Changelog)."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from tests.project.tree import ROOT, tracked

if TYPE_CHECKING:
    from pathlib import Path

# [text](target), not an image of another site and not a bare anchor.
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def broken_links(text: str, folder: Path) -> list[str]:
    return [target for target in LINK.findall(text) if "://" not in target and not (folder / target).exists()]


def test_relative_links_in_documents_lead_somewhere() -> None:
    documents = tracked("*.md")
    broken = {path.relative_to(ROOT): broken_links(path.read_text(), path.parent) for path in documents}

    assert {str(path): links for path, links in broken.items() if links} == {}


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "present.md").touch()
    text = "[a](missing.md#part), [b](present.md#part), [c](https://example.org/x), [d](#below)"

    assert broken_links(text, tmp_path) == ["missing.md"]


def test_documents_name_no_machine_of_ours() -> None:
    """A newcomer's clone has neither ../shared nor anybody's home folder."""
    pattern = re.compile(r"/work/|/root/|/home/\w+/|\.\./shared")
    found = [str(path.relative_to(ROOT)) for path in tracked("*.md") if pattern.search(path.read_text())]

    assert found == []


def test_the_changelog_begins_with_what_is_unreleased_or_the_current_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    releases = re.findall(r"^## \[([^\]]+)\](?: - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)

    assert text.startswith("# Changelog\n")
    assert releases, "no release heading"
    assert releases[0] in {"Unreleased", version}
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(releases)
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= KINDS
