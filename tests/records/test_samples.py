"""Every real file in ../shared/samples: known for what its folder says, converted whole, or named as unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.records.conversions import CREATED, assert_nothing_is_lost, assert_repeatable
from transparency.records import convert, tree
from transparency.records import format as known
from transparency.records.detect import UnknownFormatError, detect
from transparency.records.trace_metadata import compare, describe_or_reason
from transparency.records.vac_check import check_vac

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/samples is not here")

FOLDERS = {
    "a2a-traceability": "a2a",
    "agent-trace": "agent-trace",
    "agentlog": "agentlog",
    "claude-code": "claude",
    "codex-cli": "codex",
    "cursor": "cursor",
    "gemini-cli": "gemini",
    "opencode": "opencode",
}
TREES = ("claude-code/agent-sessions-subagent", "opencode/agent-sessions-storage_v2")


def _files(*folders: str) -> list[str]:
    found = (path for folder in folders for path in (SAMPLES / folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(SAMPLES).as_posix() for path in found if path.suffix != ".md")


def _is_schema(name: str) -> bool:
    return name.endswith(".schema.json")


RECORDS = [name for name in _files(*FOLDERS) if not _is_schema(name)]
UNKNOWN = [*(name for name in _files(*FOLDERS) if _is_schema(name)), *_files("related")]
VAC = [name for name in _files("vac") if "signed" not in name]
COSE = [name for name in _files("vac/signed") if name.endswith(".cbor")]


def read(name: str) -> bytes:
    """A file, or a folder packed into one record."""
    path = SAMPLES / name
    if path.is_dir():
        files = (file for file in path.rglob("*") if file.is_file())
        return tree.pack({file.relative_to(path).as_posix(): file.read_bytes() for file in files})
    return path.read_bytes()


@pytest.mark.parametrize("name", [*RECORDS, *(TREES if SAMPLES.is_dir() else ())])
def test_a_sample_is_what_its_folder_says_and_every_unit_is_accounted_for(name: str) -> None:
    data = read(name)
    detected = detect(data)

    assert detected.format.event_prefix == FOLDERS[name.split("/", 1)[0]]
    assert_nothing_is_lost(data, detected)
    assert_repeatable(data, detected)


@pytest.mark.parametrize("name", RECORDS)
def test_a_sample_breaks_a_rule_only_where_real_tools_do(name: str) -> None:
    violations = [found for found in convert.check(read(name)) if found.level == "violation"]

    # Native formats have no specification to break, and Agent Trace is read leniently (formats.md 4); AgentLog made by
    # the converter of formats.md 5 breaks its own prose.
    assert not violations or name.startswith(("agentlog/", "agent-trace/", "a2a-traceability/"))


@pytest.mark.parametrize("name", [*RECORDS, *VAC])
def test_trace_metadata_of_a_sample_agrees_with_it_or_the_reason_is_said(name: str) -> None:
    data = read(name)

    metadata, reason = describe_or_reason(data)

    if metadata is None:
        assert "sessions" in reason or "does not give" in reason
    else:
        assert {finding.level for finding in compare(metadata.to_map(), data, where="label 100")} == {"pass"}


@pytest.mark.parametrize("name", VAC)
def test_a_vac_sample_is_valid_and_converts_to_itself(name: str) -> None:
    data = read(name)

    (record,) = convert.convert(data, created=CREATED)

    assert detect(data).format in convert.VAC
    assert not check_vac(record).violations["-00"]
    if detect(data).format is known.VAC_JSON:
        assert list(convert.convert_to_bytes(data, created=CREATED)) == [data]


@pytest.mark.parametrize("name", COSE)
def test_a_signed_sample_is_a_statement(name: str) -> None:
    assert detect(read(name)).format is known.COSE


@pytest.mark.parametrize("name", UNKNOWN)
def test_schemas_and_formats_not_read_are_unknown_and_named(name: str) -> None:
    with pytest.raises(UnknownFormatError, match=r"JSON Schema|ATIF 1\.7|members|several JSON values"):
        detect(read(name))
