"""Helpers for testing software that uses this package, and this package itself. Documented, for users too.

* :class:`FakeClock` — a clock that stands still until told, and jumps both ways.
* :class:`MemoryStore` — a store in memory, with the contract of :mod:`transparency.log.store`.
* :class:`FaultyStore`, :class:`FaultyFile` — fail, or fail *after* having done it, on the n-th call of a method.
* :func:`make_log`, :func:`running` — a real log in a folder with an issuer whose statements it accepts.
* :func:`settled` — what it has acknowledged is in its files, for who looks there beside it.

>>> from transparency.testing import FakeClock
>>> clock = FakeClock(1_700_000_000)
>>> clock.advance(60); clock()
1700000060
"""

from transparency.testing.clock import FakeClock
from transparency.testing.faults import Fault, FaultyFile, FaultyStore, InjectedFaultError
from transparency.testing.fixtures import MadeLog, SampleIssuer, make_log, running, settled
from transparency.testing.memory_store import MemoryStore

__all__ = [
    "FakeClock",
    "Fault",
    "FaultyFile",
    "FaultyStore",
    "InjectedFaultError",
    "MadeLog",
    "MemoryStore",
    "SampleIssuer",
    "make_log",
    "running",
    "settled",
]
