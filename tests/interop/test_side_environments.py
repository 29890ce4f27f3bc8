from __future__ import annotations

import pytest

from tests.interop.side_environments import ask


def test_a_missing_side_environment_fails_and_says_what_to_do_instead_of_skipping() -> None:
    with pytest.raises(pytest.fail.Exception, match="run make test"):
        ask("never-made", [])
