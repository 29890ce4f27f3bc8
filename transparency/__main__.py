"""``python -m transparency`` is the ``transparency`` command."""

from __future__ import annotations

from transparency.cli.main import run

if __name__ == "__main__":
    run()
