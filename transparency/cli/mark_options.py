"""What ``--watermark`` may name: a file, or, where nodes share a mark, a database. One is never taken for the other."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit

_F = TypeVar("_F", bound=Callable[..., Any])

SHARED_LATER: Final = "Name a file, or give the database to `transparency serve --watermark`."
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DATABASES = ("postgresql://", "postgres://")


class MarkFile(click.Path):
    """A file. A URL would be one, too, to the system: it would be made, with the password for its name."""

    def __init__(self, hint: str) -> None:
        super().__init__(path_type=Path)
        self._hint = hint

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if _SCHEME.match(str(value)):
            raise CommandError(Exit.USAGE, "--watermark is a URL, and takes a file here", self._hint)
        return super().convert(value, param, ctx)


def mark_file_option(words: str, hint: str = "Name a file.") -> Callable[[_F], _F]:
    """``--watermark`` of a command that takes no database; *words* are its help."""
    return click.option("--watermark", type=MarkFile(hint), metavar="FILE", help=words)


def mark_place(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | str | None:
    """A file, or the URL of a second database."""
    if value is None or value.startswith(_DATABASES):
        return value
    if _SCHEME.match(value):
        raise CommandError(Exit.USAGE, "--watermark is a URL, but not one of PostgreSQL's", "Name a file, or one.")
    return Path(value)
