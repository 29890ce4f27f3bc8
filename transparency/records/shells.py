"""Shell commands in sessions: which calls run one, and whether it can be seen that it writes no file.

Nobody can tell from its text what a command does. So the question is turned around: a command is passed over only if
all of it is plainly reading; every other one is declared as not attributed, with what shows that it writes where the
text shows it. Being wrong on the safe side costs a line in a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Tools that run commands, by their names in the agents' records.
TOOLS: Final = frozenset({
    "bash", "powershell", "shell", "shell_command", "local_shell", "exec_command", "container.exec", "write_stdin",
    "unified_exec", "run_shell_command", "terminal", "run_terminal_cmd", "run_terminal_command", "execute_command",
})  # fmt: skip
_MAX_TEXT: Final = 100_000

# What shows that a command writes, most telling first. Shown as evidence, never used to find out what was written.
_WRITES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("sed -i", re.compile(r"\bsed\s(?:[^|;&\n]{0,200}\s)?(?:-[a-zA-Z]{0,8}i|--in-place)")),
    ("perl -i", re.compile(r"\b(?:perl|ruby)\s(?:[^|;&\n]{0,200}\s)?-[a-zA-Z]{0,8}i")),
    ("tee", re.compile(r"(?:^|[|;&(\s])tee\s")),
    ("patch", re.compile(r"(?:^|[|;&(\s])(?:patch|git\s+(?:apply|am))\s")),
    ("python", re.compile(r"\bpython[0-9.]*\s[^\n]{0,400}?(?:-c|<<)|\bwrite_text\(|\bopen\([^)\n]{0,200}['\"][wax]")),
    ("git", re.compile(
        r"\bgit\s+(?:checkout|restore|reset|stash|merge|rebase|pull|revert|cherry-pick|clean|mv|rm|switch)\b"
    )),
    ("redirection", re.compile(r">")),
    ("cp, mv, rm", re.compile(r"(?:^|[|;&(\s])(?:cp|mv|rm|install|ln|truncate|dd|touch|mkdir|rsync|unzip|tar)\s")),
)  # fmt: skip
_HARMLESS: Final = re.compile(r"[12&]?>\s?(?:&[12]|/dev/null)(?=$|[\s;|&)])")
_SEPARATOR: Final = re.compile(r"&&|\|\||[;|\n]")
# Anything that can hide a second command or a second target.
_HIDES: Final = re.compile(r"[>`]|\$\(|<\(|<<|&")
_READERS: Final = frozenset({
    "ls", "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "wc", "pwd", "echo", "printf", "which", "whoami",
    "stat", "du", "df", "uname", "diff", "cmp", "cut", "tr", "nl", "true", "false", "test", "[", "cd", "type",
    "basename", "dirname", "realpath", "readlink", "md5sum", "sha1sum", "sha256sum", "jq", "hexdump", "xxd", "find",
    "sed", "git", "sort", "uniq",
})  # fmt: skip
_GIT_READS: Final = frozenset({
    "status", "log", "diff", "show", "blame", "rev-parse", "ls-files", "describe", "grep", "shortlog", "cat-file",
})  # fmt: skip
_SED_PRINTS: Final = re.compile(r"sed\s+-n\s+(['\"]?)[0-9$]+(?:,[0-9$]+)?p\1(?:\s+[^-]\S*)*")
_WRITING_FLAGS: Final = re.compile(
    r"\s(?:-o|-O|--output\S*|--ext-diff|--textconv|--pre\S*|-delete|-exec\S*|-ok\S*|-f(?:print|ls)\S*|-r\s+-|-c\s)"
)
_PLAIN: Final = re.compile(r"[\w./:=@%+,-]+")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was run: whether it plainly only reads, and what shows that it writes."""

    text: str
    only_reads: bool
    shows: str | None


def command_of(tool: str, given: object) -> Command | None:
    """The command a call runs; None for a tool that runs none."""
    if tool.lower().rsplit("__", 1)[-1] not in TOOLS:
        return None
    if isinstance(given, Mapping) and given.get("chars") == "":
        return Command("", only_reads=True, shows=None)  # waiting for a command that runs already
    text = command_text(given)
    if text is None or len(text) > _MAX_TEXT:
        return Command(text or "", only_reads=False, shows=None)
    if only_reads(text):
        return Command(text, only_reads=True, shows=None)
    bare = _HARMLESS.sub("", text)
    return Command(
        text, only_reads=False, shows=next((name for name, pattern in _WRITES if pattern.search(bare)), None)
    )


def command_text(given: object) -> str | None:
    """The text of a command out of a tool's input: a text, a list of words, or a member that is one of them."""
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        words = [word for word in given if isinstance(word, str)]
        if len(words) != len(given) or not words:
            return None
        # ``bash -lc SCRIPT``: the script is the command.
        return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    if not isinstance(given, Mapping):
        return None
    members: Mapping[str, Any] = given
    for name in ("command", "cmd", "script", "action"):
        found = command_text(members[name]) if isinstance(members.get(name), str | list) else None
        if found is not None:
            return found
    action = members.get("action")
    inner = action.get("command") if isinstance(action, Mapping) else None
    return command_text(inner) if isinstance(inner, str | list) else None


def only_reads(command: str) -> bool:
    """Whether every part of the command is one that is known to write no file."""
    bare = _HARMLESS.sub("", command)
    parts = [part.strip() for part in _SEPARATOR.split(bare)]
    return not _HIDES.search(bare.replace("&&", "")) and any(parts) and all(_reads(part) for part in parts if part)


def _reads(part: str) -> bool:
    words = part.split()
    name = words[0]
    if name not in _READERS or _WRITING_FLAGS.search(part):
        return False
    if name == "git":
        return len(words) > 1 and words[1] in _GIT_READS
    if name == "sed":
        return _SED_PRINTS.fullmatch(part) is not None
    if name in ("uniq", "xxd"):  # a second file is written
        return all(word.startswith("-") for word in words[1:])
    if name == "sort":
        return all(_PLAIN.fullmatch(word) for word in words) and not any(word.startswith("-o") for word in words)
    return True
