"""The demo, as ``make demo`` runs it, and that it would notice if a forgery passed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests.cli.conftest import Run, shell
from transparency.cli import demo
from transparency.cli.errors import CommandError
from transparency.records.trace_metadata import describe
from transparency.records.vac import read_vac

SAMPLE = Path(demo.__file__).with_name("sample_session.json")


def demo_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("transparency-demo-*"))


def test_the_demo_registers_verifies_and_catches_both_forgeries(tmp_path: Path) -> None:
    before = demo_folders()
    ended = shell("demo", cwd=tmp_path)
    text = ended.stdout.decode()

    assert ended.returncode == 0, text
    assert text.count("caught: exit code 1") == 2
    assert "✓ Verified" in text
    assert "inclusion-proof" in text
    for command in ("serve", "keygen", "issuer add", "sign", "keys", "submit", "verify", "log fsck"):
        assert f"$ transparency {command}" in text
    assert demo_folders() <= before
    assert list(tmp_path.iterdir()) == []


def test_the_demo_fails_when_a_forgery_is_not_caught(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def does_nothing(self: object, arguments: str, **_: object) -> int:
        return 0

    monkeypatch.setattr(demo._Demo, "_run", does_nothing)

    with pytest.raises(CommandError, match="was not caught") as caught:
        demo._Demo(folder)._must_fail("tampered.cose", made=True)

    assert caught.value.code == 1


def test_a_step_that_takes_too_long_is_named_and_can_be_tried_later(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_STEP_SECONDS", 0.01)

    result = run("demo")

    assert result.exit_code == 75
    assert result.stderr == (
        "error: `transparency keygen --alg ES256 --out issuer.pem` did not end in 0 seconds. "
        "Try again on a less busy machine.\n"
    )


def test_a_log_that_does_not_start_in_time_can_be_tried_later(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_START_SECONDS", 0.01)

    result = run("demo")

    assert result.exit_code == 75
    assert "the log did not start in 0 seconds. Try again" in result.stderr


def test_what_the_demo_does_can_be_kept(tmp_path: Path) -> None:
    ended = shell("demo", "--keep", "kept", cwd=tmp_path)

    assert ended.returncode == 0
    assert {"session.json", "session.t.cose", "log.keys", "tampered.cose", "forged.cose"} <= {
        path.name for path in (tmp_path / "kept").iterdir()
    }
    assert shell("demo", "--keep", "kept", cwd=tmp_path).returncode == 73


def test_the_sample_is_a_vac_record_that_gives_all_of_its_trace_metadata() -> None:
    record = read_vac(SAMPLE.read_bytes())
    metadata = describe(SAMPLE.read_bytes())

    assert record is not None
    assert metadata is not None
    assert metadata.timestamp_end is not None
    assert json.loads(SAMPLE.read_bytes())["session"]["entries"]
