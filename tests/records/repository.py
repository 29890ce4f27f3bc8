"""A real git repository in which tests do what sessions say they did. Without git they fail: they must not skip."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.patience import PATIENCE
from transparency.records import diffs

BASE, AGENT, SHELL = "person", "agent", "shell"


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, author: str = BASE) -> str:
        name = {"NAME": author, "EMAIL": f"{author}@example.org", "DATE": "2026-05-01T10:00:00Z"}
        who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in name.items()}
        outside = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        ended = subprocess.run(
            ["git", "-c", "commit.gpgsign=false", *words],
            cwd=self.folder,
            env={**outside, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
        return ended.stdout.decode()

    def write(self, path: str, text: str, author: str) -> str:
        """Write a file and commit it; what the commit is called."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", author, author=author)
        return self.git("rev-parse", "HEAD").strip()

    def last_diff(self, path: str) -> str:
        """What the last commit did to a file."""
        return self.git("diff", "HEAD~1", "HEAD", "--", path)

    def authors(self, path: str) -> list[str]:
        """Who wrote each line, as git blame says."""
        rows = self.git("blame", "--line-porcelain", "--", path).split("\n")
        return [row.removeprefix("author ") for row in rows if row.startswith("author ")]


def structured(diff: str) -> list[dict[str, object]]:
    """A diff as Claude Code records it."""
    patch = []
    for hunk in diffs.unified(diff) or []:
        kept = dict(hunk.kept)
        lines, after = [], 0
        for number, line in enumerate(hunk.before):
            if number in kept:
                lines += [f"+{added}" for added in hunk.after[after : kept[number]]]
                after = kept[number] + 1
                lines.append(f" {line}")
            else:
                lines.append(f"-{line}")
        lines += [f"+{added}" for added in hunk.after[after:]]
        patch.append(
            {
                "oldStart": hunk.old,
                "oldLines": len(hunk.before),
                "newStart": hunk.new,
                "newLines": len(hunk.after),
                "lines": lines,
            }
        )
    return patch
