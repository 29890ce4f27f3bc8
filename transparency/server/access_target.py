"""Where the lines of the access log go, for the owner of the log and for its workers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def access_log(target: str | None) -> Iterator[logging.Logger | None]:
    """Where the lines go: a file, standard error for ``-``, nowhere for None. The logger is in no global registry."""
    if target is None:
        yield None
        return
    handler: logging.Handler = (
        logging.StreamHandler(sys.stderr) if target == "-" else logging.FileHandler(Path(target), encoding="utf-8")
    )
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.Logger("transparency.server.access", logging.INFO)  # noqa: LOG001 - two servers must not share one
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        handler.close()
