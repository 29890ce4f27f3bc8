"""How long anything may take before a test says that it never comes.

Nothing waits for it to pass, so it is generous: a process that shares two cores with others may stand still for
seconds, and a new one takes many to start.
"""

from __future__ import annotations

PATIENCE = 120.0
