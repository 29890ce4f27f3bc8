"""AgentLog, Agent Trace and A2A records broken at random: still read, valid, complete, and nothing lost on the way."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from transparency.errors import MalformedError
from transparency.records import a2a, agent_trace, agentlog
from transparency.records.back import NotConvertibleError, to_agent_trace, to_agentlog
from transparency.records.canonical_json import dumps
from transparency.records.format import A2A, AGENT_TRACE, AGENTLOG, Format
from transparency.records.vac_check import check_vac

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records"
ROUNDS = 150
# As JSON, so that each use is a fresh value.
ODD: Final = (
    *("null", "true", "0", "-1", "1", "1180591620717411303424", "1" * 390, "1.5", "1e300", '""', "[]", "{}", "[1]"),
    *('{"odd-member": "odd-text"}', '["odd-text"]', '"odd-text"', '"2026-01-01T00:00:00"', '"HOST"', "1700000000000"),
    *('"tool_response"', '"AGENT"', '"\\u001b[2J"', '"\\u0000"'),
)
NAMES: Final = (
    "type",
    "id",
    "name",
    "steps",
    "x~/y",
    "events",
    "ranges",
    "model_id",
    "native",
    "children",
    "response_trace",
)

Path_ = tuple[Any, ...]


def places(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    yield at
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[name], (*at, name))


def mutated(data: bytes, chance: random.Random) -> Any:
    value = json.loads(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        *way, last = chance.choice([at for at in places(value) if at])
        holder = value
        for name in way:
            holder = holder[name]
        match chance.randrange(4):
            case 0 | 1:
                holder[last] = json.loads(chance.choice(ODD))
            case 2:
                del holder[last]
            case _ if isinstance(holder, dict):
                holder[chance.choice(NAMES)] = json.loads(chance.choice(ODD))
            case _:
                holder.append(json.loads(json.dumps(holder[last])))
        if not value:
            break
    return value


def walk(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        yield from walk(entry.get("children", []))


def texts(value: Any) -> Iterator[str]:
    """Every text in a value but those whose meaning is the kind of entry."""
    if isinstance(value, str):
        yield value
    for name, held in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if name not in ("type", "role"):
            yield from texts(held)


CASES = [
    pytest.param(agentlog, AGENTLOG, "agentlog/every-event.agentlog.json", id="agentlog"),
    pytest.param(agent_trace, AGENT_TRACE, "agent-trace/record.json", id="agent-trace"),
    pytest.param(a2a, A2A, "a2a/proto.json", id="a2a-proto"),
    pytest.param(a2a, A2A, "a2a/python-status-event.json", id="a2a-python"),
]


@pytest.mark.parametrize(("module", "known", "name"), CASES)
def test_a_broken_record_is_converted_completely_or_refused(module: ModuleType, known: Format, name: str) -> None:
    chance = random.Random(name)
    fixture = (FIXTURES / name).read_bytes()
    made = 0
    for _ in range(ROUNDS):
        value = mutated(fixture, chance)
        data = json.dumps(value).encode()
        try:
            records = [draft.finish(data, "2026-05-01T00:00:00.000Z") for draft in module.sessions(data, known)]
        except MalformedError:
            continue
        made += 1
        module.check(data, known)

        assert all(check_vac(record).is_valid("-00") for record in records), data
        named = {json.dumps(entry["source-ref"]) for record in records for entry in walk(record["session"]["entries"])}
        assert named == {json.dumps(unit.source_ref()) for unit in module.units(data)}, data
        kept = dumps(records).decode()
        lost = [text for text in texts(value) if json.dumps(text, ensure_ascii=False)[1:-1] not in kept]
        assert lost == [], data
    assert made > ROUNDS // 2


@pytest.mark.parametrize(("module", "known", "name"), CASES)
def test_what_comes_back_from_a_valid_record_is_conformant(module: ModuleType, known: Format, name: str) -> None:
    chance = random.Random(name)
    fixture = (FIXTURES / name).read_bytes()
    for _ in range(ROUNDS):
        data = json.dumps(mutated(fixture, chance)).encode()
        try:
            records = [draft.finish(data, "2026-05-01T00:00:00.000Z") for draft in module.sessions(data, known)]
        except MalformedError:
            continue
        broken = any(one.level == "violation" for one in module.check(data, known))
        for record in records:
            for back, checker, target in (
                (to_agentlog, agentlog, AGENTLOG),
                (to_agent_trace, agent_trace, AGENT_TRACE),
            ):
                try:
                    returned = back(record)
                except NotConvertibleError:
                    continue
                wrong = [one for one in checker.check(dumps(returned.value), target) if one.level == "violation"]
                # What was wrong in the same format before may be wrong again; nothing new may be.
                assert not wrong or broken, (wrong, data)
