"""Readers for the files under deploy/: just enough of each form to see which commands and settings they hold."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import click

from transparency.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path


def read_unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Sections of a systemd unit; a key may repeat, so each has a list (systemd.syntax(7))."""
    unit: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            section = unit.setdefault(line.strip("[]"), {})
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ValueError(f"not a setting: {line}")
        section.setdefault(key, []).append(value)
    return unit


def read_containerfile(path: Path) -> list[tuple[str, str]]:
    """Instructions in order, as (NAME, rest), continuation lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines()]


def exec_form(rest: str) -> list[str]:
    words = json.loads(rest[rest.index("[") :])
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"not an exec form: {rest}")
    return list(words)


def complaints(words: list[str]) -> list[str]:
    """What of ``transparency …`` the real command line would not understand."""
    if words[0].rpartition("/")[2] != "transparency":
        return [f"not our command: {words[0]}"]
    command: click.Command = cli
    rest = words[1:]
    while isinstance(command, click.Group):
        if not rest:
            return ["the command is missing"]
        name, *rest = rest
        found = command.get_command(click.Context(command), name)
        if found is None:
            return [f"no command {name}"]
        command = found
    return _unknown_options(command, rest)


def _unknown_options(command: click.Command, rest: list[str]) -> list[str]:
    options = {
        spelling: parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }
    arguments = sum(isinstance(parameter, click.Argument) for parameter in command.params)
    found: list[str] = []
    words = iter(rest)
    for word in words:
        name, equals, _ = word.partition("=")
        if not word.startswith("-"):
            arguments -= 1
            if arguments < 0:
                found.append(f"{command.name} takes no argument {word}")
        elif name not in options:
            found.append(f"{command.name} has no option {name}")
        elif not options[name].is_flag and not equals and next(words, None) is None:
            found.append(f"{command.name} {name} wants a value")
    return found


def commands_in_comments(path: Path) -> list[list[str]]:
    """Lines of comment that are a ``transparency`` command or end in one, as an operator would paste them."""
    found: list[list[str]] = []
    for line in path.read_text().splitlines():
        text = line.lstrip("# ")
        if line.startswith("#") and (text.startswith("transparency ") or " exec log transparency " in text):
            words = shlex.split(text)
            found.append(words[words.index("transparency") :])
    return found
