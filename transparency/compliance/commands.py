"""Commands that deserve a second look, found by their text: named patterns, each with one sentence of why.

A pattern says that somebody should look, not that harm was done. Every pattern is linear in the text: repeats are
bounded, and begin at a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

# Nobody types more; a script longer than this is looked at as far as this.
MAX_COMMAND: Final = 20_000

# A word of a shell begins here.
_WORD: Final = r"(?:^|(?<=[\s;&|(`'\"/]))"
_SHELL: Final = r"(?:sudo\s{1,8})?(?:ba|z|da|k)?sh\b"


@dataclass(frozen=True, slots=True)
class Risk:
    """``found`` says whether a command has it; *why* is shown to whoever asks why that matters."""

    name: str
    why: str
    found: Callable[[str], bool]

    @classmethod
    def of_words(cls, name: str, words: Iterable[str]) -> Risk:
        """The user's own: all the words, in their order, as far apart as they like."""
        wanted = tuple(words)

        def found(command: str) -> bool:
            at = 0
            for word in wanted:
                at = command.find(word, at)
                if at < 0:
                    return False
                at += len(word)
            return True

        return cls(name, f"has {' … '.join(wanted)}", found)


def _pattern(name: str, why: str, words: str, pattern: str) -> Risk:
    """*words*: a command without any of them cannot have it, which is quicker to see."""
    compiled, hints = re.compile(pattern), tuple(words.split())

    def found(command: str) -> bool:
        for hint in hints:
            if hint in command:
                return compiled.search(command) is not None
        return False

    return Risk(name, why, found)


BUILTIN: Final = (
    _pattern(
        "download-and-run",
        "what a stranger's server sends is run unread",
        "curl wget",
        rf"\b(?:curl|wget)\b[^\n|;]{{0,400}}\|\s{{0,8}}(?:{_SHELL}|python[0-9.]*\b|perl\b|node\b)"
        rf"|{_SHELL}\s{{1,8}}(?:-c\s{{1,8}})?[\"']?[$<]\((?:curl|wget)\b",
    ),
    _pattern("sudo", "runs with another user's rights", "sudo doas su", rf"{_WORD}(?:sudo|doas|su)\s+-?\S"),
    _pattern(
        "delete-recursively",
        "deletes folders without asking",
        "rm find mkfs shred wipefs dd",
        rf"{_WORD}rm\s{{1,8}}(?:-[a-zA-Z-]{{1,20}}\s{{1,8}}){{0,4}}(?:-[a-zA-Z]{{0,8}}[rR]|--recursive)"
        rf"|\bfind\b[^\n;|]{{0,200}}\s-delete\b|{_WORD}(?:mkfs\S*|shred|wipefs)\s|{_WORD}dd\s[^\n]{{0,200}}\bof=/dev/",
    ),
    _pattern(
        "credentials",
        "reads what gives access to something",
        ".ssh id_ .aws .netrc .pgpass .docker .kube shadow .git-credentials .env printenv find- auth",
        r"\.ssh/|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|\.netrc\b|\.pgpass\b|\.docker/config\.json|\.kube/config"
        r"|/etc/shadow\b|\.git-credentials\b|(?:^|[\s/'\"=])\.env(?:\.[a-z]{1,16})?(?=$|[\s'\";|)])|\bprintenv\b"
        r"|\bsecurity\s{1,8}find-(?:generic|internet)-password\b|\bgh\s{1,8}auth\s{1,8}token\b",
    ),
    _pattern(
        "network",
        "talks to other machines",
        "curl wget nc ncat netcat telnet ssh scp ftp rsync socat /dev/",
        rf"{_WORD}(?:curl|wget|nc|ncat|netcat|telnet|ssh|scp|sftp|ftp|rsync|socat)\s{{1,8}}[^\s]"
        r"|/dev/(?:tcp|udp)/",
    ),
    _pattern(
        "weakens-protection",
        "takes a protection away",
        "chmod --no-verify --privileged setenforce ufw --no-check StrictHost csrutil",
        rf"{_WORD}chmod\s{{1,8}}(?:-R\s{{1,8}})?(?:0?777|a\+rwx)\b|--no-verify\b|--privileged\b|\bsetenforce\s{{1,8}}0"
        r"|\bufw\s{1,8}disable\b|--no-check-certificate\b|StrictHostKeyChecking=no|\bcsrutil\s{1,8}disable\b",
    ),
    _pattern(
        "rewrites-history",
        "makes the past look different",
        "push filter-branch --hard history HISTFILE",
        r"\bgit\s{1,8}push\b[^\n;|&]{0,200}\s(?:--force(?:-with-lease)?|-f)\b|\bgit\s{1,8}filter-branch\b"
        r"|\bgit\s{1,8}reset\s{1,8}--hard\b|\bhistory\s{1,8}-c\b|\bunset\s{1,8}HISTFILE\b",
    ),
    _pattern(
        "hidden-code",
        "runs code that is not readable in the record",
        "base64 eval",
        rf"\bbase64\s{{1,8}}(?:-d|-D|--decode)\b[^\n]{{0,200}}\|\s{{0,8}}(?:{_SHELL}|python)|\beval\s{{1,8}}[\"']?\$\(",
    ),
)
