"""Garbage collection in the processes of a server: seldom, and not of what stays for ever.

What statements leave behind is freed by its reference count. Cycles are few (exceptions, tasks), but the collector runs
by the number of objects that were made, whatever they were, and looks through all that are alive: at the default it
took a tenth of the owner's time (docs/performance.md).
"""

from __future__ import annotations

import gc
from typing import Final

# Objects made and not freed between two looks; and how many looks at the young before one at the older.
_THRESHOLDS: Final = (20_000, 20, 10)


def collect_rarely() -> None:
    """When a process has loaded what it needs: all of that is taken as permanent.

    For who has the process to itself (a command, a worker): it changes the collector for everything in it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
