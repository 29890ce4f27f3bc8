"""What deploy/ tells an operator to run exists, and the hardening it promises is there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.project.deploy_files import (
    commands_in_comments,
    complaints,
    exec_form,
    read_containerfile,
    read_unit,
)
from transparency.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
COMPOSE = DEPLOY / "compose.yaml"
UNIT = DEPLOY / "transparency.service"


def container_command() -> list[str]:
    instructions = dict(read_containerfile(CONTAINERFILE))
    return exec_form(instructions["ENTRYPOINT"]) + exec_form(instructions["CMD"])


def compose_service() -> dict[str, Any]:
    service = yaml.safe_load(COMPOSE.read_text())["services"]["log"]
    assert isinstance(service, dict)
    return service


def compose_command() -> list[str]:
    return ["transparency", *compose_service()["command"]]


def unit_command() -> list[str]:
    (line,) = read_unit(UNIT)["Service"]["ExecStart"]
    return shlex.split(line)


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


@pytest.mark.parametrize("command", [container_command, compose_command, unit_command])
def test_every_flag_that_is_passed_exists(command: Callable[[], list[str]]) -> None:
    words = command()

    assert words[1] == "serve"
    assert complaints(words) == []


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_commands_in_comments_exist(path: Path) -> None:
    assert [complaints(words) for words in commands_in_comments(path) if complaints(words)] == []


def test_a_flag_a_command_or_an_argument_that_does_not_exist_is_found() -> None:
    assert complaints(["transparency", "serve", "--nonsense"]) == ["serve has no option --nonsense"]
    assert complaints(["transparency", "surf", "--data", "x"]) == ["no command surf"]
    assert complaints(["transparency", "serve", "--data"]) == ["serve --data wants a value"]
    assert complaints(["transparency", "serve", "stray"]) == ["serve takes no argument stray"]
    assert complaints(["transparency", "log"]) == ["the command is missing"]
    assert complaints(["/usr/bin/python3", "serve"]) == ["not our command: /usr/bin/python3"]


@pytest.mark.parametrize("command", [container_command, compose_command, unit_command])
def test_the_mark_lies_outside_the_data_folder_and_its_volume(command: Callable[[], list[str]]) -> None:
    words = command()
    data, mark = Path(option(words, "--data")), Path(option(words, "--watermark"))

    assert data.is_absolute()
    assert mark.is_absolute()
    assert data.parent not in mark.parents


def test_the_container_runs_as_nobody_special_with_pinned_versions() -> None:
    instructions = read_containerfile(CONTAINERFILE)
    names = [name for name, _ in instructions]
    users = [rest for name, rest in instructions if name == "USER"]
    (install,) = [rest for name, rest in instructions if "pip install" in rest]

    assert users == ["10001:10001"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "-c constraints.txt" in install
    assert "'.[server]'" in install
    assert dict(instructions)["FROM"] == "${BASE}"


def test_the_container_copies_only_what_exists() -> None:
    copies = [rest.split()[:-1] for name, rest in read_containerfile(CONTAINERFILE) if name == "COPY"]

    assert [name for names in copies for name in names if not (DEPLOY.parent / name).exists()] == []


def test_the_health_check_asks_the_port_that_is_served() -> None:
    instructions = dict(read_containerfile(CONTAINERFILE))
    port = option(container_command(), "--port")

    assert f"http://127.0.0.1:{port}/healthz" in exec_form(instructions["HEALTHCHECK"])[2]
    compile(exec_form(instructions["HEALTHCHECK"])[2], "HEALTHCHECK", "exec")
    assert instructions["EXPOSE"] == port


def test_compose_says_the_same_command_as_the_image() -> None:
    assert compose_command() == container_command()


def test_compose_takes_everything_away_that_the_log_does_not_need() -> None:
    service = compose_service()

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["user"] == "10001:10001"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_keeps_data_and_mark_in_separate_volumes() -> None:
    document = yaml.safe_load(COMPOSE.read_text())
    mounts = dict(volume.split(":") for volume in document["services"]["log"]["volumes"])

    assert len(mounts) == 2
    assert set(mounts) == set(document["volumes"])
    assert set(mounts.values()) == {"/data", "/mark"}


HARDENING = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "DynamicUser": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "ProtectClock": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "LimitCORE": "0",
}


@pytest.mark.parametrize(("key", "value"), HARDENING.items())
def test_the_unit_is_hardened(key: str, value: str) -> None:
    assert read_unit(UNIT)["Service"][key] == [value]


def test_the_unit_filters_system_calls() -> None:
    assert read_unit(UNIT)["Service"]["SystemCallFilter"][0] == "@system-service"


def test_the_unit_writes_only_to_its_state_folders() -> None:
    words = unit_command()
    (state,) = read_unit(UNIT)["Service"]["StateDirectory"]
    folders = [Path("/var/lib") / name for name in state.split()]

    assert Path(option(words, "--data")).parent in folders
    assert Path(option(words, "--watermark")).parent in folders
    assert "ReadWritePaths" not in read_unit(UNIT)["Service"]


def test_the_unit_restarts_after_a_failure_but_not_for_ever_nor_when_the_state_was_refused() -> None:
    unit = read_unit(UNIT)
    final = {int(code) for code in unit["Service"]["RestartPreventExitStatus"][0].split()}

    assert unit["Service"]["Restart"] == ["on-failure"]
    assert int(unit["Unit"]["StartLimitBurst"][0]) <= 5
    assert int(unit["Unit"]["StartLimitIntervalSec"][0]) >= 60
    assert {Exit.NEGATIVE, Exit.USAGE, Exit.BAD_INPUT, Exit.NO_INPUT, Exit.CANNOT_WRITE} <= final
    assert Exit.INTERNAL not in final
    assert Exit.TRY_LATER not in final
