"""fsck: content that is here in spite of an erasure, or gone without one, is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log import erasing
from transparency.testing import running


async def test_content_that_was_to_be_erased_and_is_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    digest = erasing.upload(made, data)
    async with running(made.made) as log:
        beside = await log.register(erasing.envelope(made.issuer, data))
        inside = await log.register(made.issuer.sign(b"text"))
        await erasing.state_audit(made, log)
        monkeypatch.setattr("transparency.log.erasure.carry_out", lambda *_: "later")
        await erasing.by_order(log, beside.index, inside.index)

    found = {finding.where: finding.what for finding in made.made.fsck().findings}

    assert set(found) == {f"artifact {digest}", f"entry {inside.index}"}
    assert all("retention apply` finishes it" in what for what in found.values())


async def test_a_marker_that_no_erasure_justifies_is_named_and_one_that_was_removed(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    digest = erasing.upload(made, data)
    other = erasing.upload(made, b"other")
    async with running(made.made) as log:
        registered = await log.register(erasing.envelope(made.issuer, data))
        await erasing.by_order(log, registered.index)
    assert made.made.fsck().findings == []

    (made.folder.artifacts / digest[:2] / f"{digest[2:]}.gone").unlink()
    made.artifacts.erase(other)

    found = {finding.where: finding.what for finding in made.made.fsck().findings}
    assert "nothing keeps it from being sent again" in found[f"artifact {digest}"]
    assert "no erasure of it stands on the log" in found[f"artifact {other}"]
