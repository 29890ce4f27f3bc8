"""Where an option's value comes from: the flag, else its environment variable, else the config file.

The file is TOML at ``$XDG_CONFIG_HOME/transparency/config.toml`` (``~/.config`` by default). It is read strictly: a
name that is not known is an error, because a misspelt setting that is silently ignored is worse.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from transparency.cli.errors import OTHER_USER, CommandError
from transparency.cli.exits import Exit
from transparency.cli.passphrases import passphrase_option

NAMES: Final = frozenset({"log", "token", "key", "iss", "log_key", "issuer_key", "issuer_root", "trust", "cacert"})
_LISTS: Final = frozenset({"log_key", "issuer_key", "issuer_root"})
_PATHS: Final = frozenset({"key", "trust", "cacert"}) | _LISTS
MAX_CONFIG_BYTES = 64 * 1024

_F = TypeVar("_F", bound=Callable[..., Any])


def config_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    root = Path(base) if base.startswith("/") else Path.home() / ".config"  # XDG: a relative path is invalid
    return root / "transparency" / "config.toml"


def read_config(path: Path) -> dict[str, str | list[str]]:
    """The settings in *path*; {} where there is no such file. Relative paths are relative to the file."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{path}: {error.strerror}") from error
    if len(data) > MAX_CONFIG_BYTES:
        raise CommandError(Exit.BAD_INPUT, f"{path} is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        values = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(Exit.BAD_INPUT, f"{path} is not TOML: {error}") from error
    return {name: _checked(path, name, value) for name, value in values.items()}


def _checked(path: Path, name: str, value: object) -> str | list[str]:
    if name not in NAMES:
        known = ", ".join(sorted(NAMES))
        raise CommandError(Exit.BAD_INPUT, f"{path}: unknown setting {name!r}", f"Known are: {known}.")
    items = value if name in _LISTS and isinstance(value, list) else [value]
    texts = [item for item in items if isinstance(item, str) and item and item.isprintable()]
    if len(texts) != len(items):
        raise CommandError(Exit.BAD_INPUT, f"{path}: {name} is not printable text")
    if name in _PATHS:
        texts = [str(path.parent / Path(text).expanduser()) for text in texts]
    return texts if name in _LISTS else texts[0]


class Setting(click.Option):
    """An option whose default is a setting of the config file; its environment variable is click's own ``envvar``."""

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:  # noqa: ANN401 - click's
        values = ctx.find_root().meta.get(__name__)
        if values is None:
            values = ctx.find_root().meta[__name__] = read_config(config_path())
        if self.name in values:
            return values[self.name]
        return super().get_default(ctx, call=call)


def refuse_several(*names: str) -> None:
    """Of the options *names*, which mean the same thing otherwise, one was typed. Settings count as not typed."""
    ctx = click.get_current_context()
    typed = [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if len(typed) > 1:
        flags = " and ".join(option.opts[0] for option in ctx.command.params if option.name in typed)
        raise CommandError(Exit.USAGE, f"{flags} exclude each other", "Give one of them.")


def log_options(*, required: bool = True) -> Callable[[_F], _F]:
    """``--log``, ``--token`` and ``--cacert``: how to reach a log."""

    def decorate(function: _F) -> _F:
        function = click.option(
            "--cacert",
            cls=Setting,
            type=click.Path(),
            metavar="FILE",
            help="Trust this CA file for TLS, beside the system's.",
        )(function)
        function = click.option(
            "--token", cls=Setting, envvar="TRANSPARENCY_TOKEN", metavar="T", help="Access token [TRANSPARENCY_TOKEN]."
        )(function)
        return click.option(
            "--log", "log", cls=Setting, envvar="TRANSPARENCY_LOG", required=required, metavar="URL",
            help="The log, or a folder that `log export` wrote [TRANSPARENCY_LOG].",
        )(function)  # fmt: skip

    return decorate


def iss_option(**kwargs: Any) -> Callable[[_F], _F]:  # noqa: ANN401 - handed to click
    return click.option(
        "--iss", cls=Setting, envvar="TRANSPARENCY_ISS", metavar="URI", help="The issuer [TRANSPARENCY_ISS].", **kwargs
    )


def key_option(**kwargs: Any) -> Callable[[_F], _F]:  # noqa: ANN401 - handed to click
    return click.option(
        "--key", cls=Setting, envvar="TRANSPARENCY_KEY", type=click.Path(), metavar="PEM",
        help="The issuer's private key [TRANSPARENCY_KEY].", **kwargs,
    )  # fmt: skip


def data_option(*, keys: bool = True) -> Callable[[_F], _F]:
    """``--data``; and ``--passphrase-file``, unless the command needs none of the log's private *keys*."""

    def decorate(function: _F) -> _F:
        if keys:
            function = passphrase_option(keeper="log")(function)
        return click.option(
            "--data", "data", required=True, envvar="TRANSPARENCY_DATA", type=click.Path(path_type=Path), metavar="DIR",
            help="The log's data folder [TRANSPARENCY_DATA].",
        )(function)  # fmt: skip

    return decorate


def json_option() -> Callable[[_F], _F]:
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON object on standard output; errors too, on stderr."
    )
