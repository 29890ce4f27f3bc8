"""What to log of a fault that nobody foresaw."""

from __future__ import annotations

import logging

_logger = logging.getLogger("transparency.server")


def log_unexpected(where: str, error: object) -> None:
    """Log a fault by its type and the places it passed, never by its message: that may hold part of a request."""
    if not isinstance(error, BaseException):
        _logger.error("unexpected fault in %s", where)
        return
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    _logger.error("unexpected %s in %s, at %s", type(error).__name__, where, " < ".join(reversed(places)))
