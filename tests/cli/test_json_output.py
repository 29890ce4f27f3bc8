"""JSON on standard output: harmless on a terminal, and the same value whoever reads it."""

from __future__ import annotations

import io
import json
import sys

import pytest

from tests.cli.conftest import Run
from transparency.cli import json_lines, output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("record", ['{\t"a":\r\n\t[1,\t2]}', '{"a":"x\x7f\x9b\u202e\U0001f600"}', '{"a":"\\t\\u0000"}'])
def test_a_record_on_a_terminal_is_one_line_of_ascii(monkeypatch: pytest.MonkeyPatch, record: str) -> None:
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())

    json_lines.write_line(record.encode())

    shown = terminal.getvalue()
    assert shown.isascii()
    assert shown.removesuffix("\n").isprintable()
    assert json.loads(shown) == json.loads(record)


def test_every_control_character_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": "".join(map(chr, range(0xA0)))}

    output.print_json(value)

    shown = capsys.readouterr().out
    assert shown.isascii()
    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == value


def test_an_error_of_a_stranger_is_one_printable_line(run: Run) -> None:
    result = run("check", "no\x7f\x1b[2J\u202e\ufe01such", "--json")

    assert result.exit_code == 66
    assert json.loads(result.stderr)["message"].isprintable()
    assert result.stderr.removesuffix("\n").isprintable()
