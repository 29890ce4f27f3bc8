"""One changed byte in a bundle, whatever its file, is found and the file named; and it needs the base install alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.bundles import copied, files_of, log_with_incident, trust
from tests.cli.conftest import ROOT, Run, Served, shell
from transparency.verifier import Options, TrustStore
from transparency.verifier.bundle import BundleVerifier
from transparency.verifier.manifest import NAME, Manifest

BLOCKED = ("sqlite_utils", "prometheus_client", "pytest", "hypothesis", "mypy")


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with log_with_incident(tmp_path_factory.mktemp("tampered")) as log:
        yield log


@pytest.fixture(scope="module")
def bundle(incident: Served) -> Path:
    words = ("--scan", "--from", "2026-03-05T00:00:00Z", "--to", "2026-03-06T00:00:00Z", "--out", "day")
    ended = shell("incident", "--log", incident.url, *words, cwd=incident.data.parent)
    assert ended.returncode == 0, ended.stderr
    return incident.data.parent / "day"


def failed(bundle: Path) -> dict[str, str]:
    """The files that are wrong, and why."""
    report = BundleVerifier(bundle, TrustStore(), Options()).verify()
    wrong: dict[str, str] = {}
    for look in report.looks:
        if look.outcome == "failed":  # a name that the manifest has wrong is told of more than once
            wrong[look.file] = f"{wrong[look.file]}; {look.detail}" if look.file in wrong else look.detail
    assert (report.verdict == "failed") is bool(wrong)
    return wrong


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_flipped_bit_anywhere_is_found_and_its_file_named(bundle: Path, data: st.DataObject) -> None:
    for name in files_of(bundle):
        path = bundle / name
        before = path.read_bytes()
        place = data.draw(st.integers(0, len(before) - 1), label=name)
        try:
            path.write_bytes(flipped(before, place, data.draw(st.integers(0, 7))))
            wrong = failed(bundle)
        finally:
            path.write_bytes(before)
        assert name in wrong or name in " ".join(wrong.values()), (name, place, wrong)
        if name != NAME:
            assert set(wrong) == {name}


def test_the_command_names_the_file_that_was_changed(run: Run, incident: Served, bundle: Path, tmp_path: Path) -> None:
    for number, name in enumerate(files_of(bundle)):
        again = copied(bundle, tmp_path / str(number))
        (again / name).write_bytes(flipped((again / name).read_bytes(), -1, 0))
        ended = run("verify", again, *trust(incident))
        assert ended.exit_code == 1
        assert name in ended.output


def test_a_missing_or_an_extra_file_is_named(bundle: Path, tmp_path: Path) -> None:
    for number, name in enumerate(files_of(bundle)):
        again = copied(bundle, tmp_path / f"without-{number}")
        (again / name).unlink()
        wrong = failed(again)
        assert name in wrong
        assert "missing" in wrong[name] or name == NAME
    extra = copied(bundle, tmp_path / "extra")
    (extra / "statements" / "note.txt").write_text("x")
    (extra / "empty").mkdir()
    (extra / "link").symlink_to("README.txt")
    assert set(failed(extra)) == {"statements/note.txt", "empty/", "link"}


def test_a_link_in_the_place_of_a_file_is_not_that_file(bundle: Path, tmp_path: Path) -> None:
    again = copied(bundle, tmp_path / "linked")
    (again / "README.txt").unlink()
    (again / "README.txt").symlink_to(bundle / "README.txt")

    assert set(failed(again)) == {"README.txt"}


def test_a_pipe_in_the_place_of_the_manifest_is_not_waited_for(bundle: Path, tmp_path: Path) -> None:
    again = copied(bundle, tmp_path / "piped")
    (again / NAME).unlink()
    os.mkfifo(again / NAME)

    assert "it is not a file" in failed(again)[NAME]


def remade_manifest(bundle: Path) -> Path:
    (bundle / NAME).write_bytes(Manifest.of(bundle).to_bytes())
    return bundle


def remade(bundle: Path, target: Path, change: Callable[[Path], None]) -> dict[str, str]:
    """What is found where somebody changed a bundle and wrote its manifest anew."""
    again = copied(bundle, target)
    change(again)
    remade_manifest(again)
    report = BundleVerifier(again, TrustStore(), Options(), software=_software(again)).verify()
    return {look.file: look.detail for look in report.looks if look.outcome == "failed"}


def _software(bundle: Path) -> str:
    return str(json.loads((bundle / "incident.json").read_bytes())["software"])


def _edit(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(bundle: Path) -> None:
        data = (bundle / name).read_bytes()
        assert old in data
        (bundle / name).write_bytes(data.replace(old, new, 1))

    return change


def _drop_payload(bundle: Path) -> None:
    next((bundle / "statements").glob("*.payload")).write_bytes(b"another record")


def _swap_statements(bundle: Path) -> None:
    one, two, *_ = sorted((bundle / "statements").glob("*.cose"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_edit("timeline.json", b'"error"', b'"ok"'), "timeline.json"),
        (_edit("timeline.html", b"rm -rf", b"ls -la"), "timeline.html"),
        (_edit("index.html", b"error", b"fine."), "index.html"),
        (_edit("README.txt", b"EVIDENCE", b"evidence"), "README.txt"),
        (_edit("incident.json", b'"kind"', b'"KIND"'), "incident.json"),
        (lambda bundle: (bundle / "more.txt").write_text("x") and None, "more.txt"),
        (lambda bundle: (bundle / "README.txt").unlink(), "README.txt"),
        (_drop_payload, ".payload"),
        (_swap_statements, ".cose"),
    ],
)
def test_a_manifest_that_was_made_anew_hides_nothing_that_can_be_computed(
    bundle: Path, tmp_path: Path, change: Callable[[Path], None], named: str
) -> None:
    wrong = remade(bundle, tmp_path / "remade", change)

    assert any(name.endswith(named) for name in wrong), wrong


def test_a_question_that_was_changed_afterwards_gives_another_timeline(bundle: Path, tmp_path: Path) -> None:
    narrower = _edit("incident.json", b'"2026-03-06T00:00:00.000Z"', b'"2026-03-05T08:00:01.000Z"')

    assert "timeline.json" in remade(bundle, tmp_path / "remade", narrower)


@pytest.mark.parametrize("name", ["timeline.json", "timeline.html", "index.html", "README.txt"])
def test_what_another_version_made_is_not_checked_and_so_never_verified(
    run: Run, incident: Served, bundle: Path, tmp_path: Path, name: str
) -> None:
    """Nor may whoever changes a page get by with naming another version as its maker."""
    again = copied(bundle, tmp_path / "again")
    told = json.loads((again / "incident.json").read_bytes())
    _edit("incident.json", told["software"].encode(), b"transparency 99")(again)
    report = json.loads(run("verify", remade_manifest(again), *trust(incident), "--json").stdout)
    page = (again / name).read_bytes()
    (again / name).write_bytes(page.replace(b"rm -rf", b"ls -la") + (b" " if b"rm -rf" not in page else b""))
    ended = run("verify", remade_manifest(again), *trust(incident), "--json")
    looks = {look["file"]: look for look in json.loads(ended.stdout)["bundle"]}

    assert (report["verdict"], report["exit-code"]) == ("cannot-tell", 2)
    assert (ended.exit_code, looks[name]["outcome"]) == (2, "not_checked")
    assert "the bundle says transparency 99 made it" in looks[name]["detail"]


def base_install(target: Path) -> Path:
    """A folder with the package and what its base install needs, and nothing else: as pip would have made it."""
    wanted, known = ["agent-transparency"], set()
    while wanted:
        name = wanted.pop()
        found = metadata.distribution(name)
        for line in found.requires or ():
            requirement, _, marker = line.partition(";")
            each = re.split(r"[\[<>=!~ (]", requirement.strip())[0]
            if "extra" not in marker and each.lower() not in known:
                try:
                    metadata.distribution(each)
                except metadata.PackageNotFoundError:
                    continue  # of another platform or version of Python
                known.add(each.lower())
                wanted.append(each)
        for file in found.files or () if name != "agent-transparency" else ():
            top = file.parts[0]
            source = Path(str(found.locate_file(top)))
            if top not in ("..", "__pycache__", "bin") and source.exists() and not (target / top).exists():
                (target / top).symlink_to(source)
    (target / "transparency").symlink_to(ROOT / "transparency")
    return target


def test_an_empty_environment_with_the_base_install_verifies_it(incident: Served, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    site = base_install(tmp_path / "site")
    program = (
        f"import sys; sys.path.append({str(site)!r})\n"
        f"for name in {BLOCKED!r}:\n"
        "    try: __import__(name)\n"
        "    except ModuleNotFoundError: continue\n"
        "    raise SystemExit(f'{name} is installed')\n"
        "from transparency.cli.main import run; run()\n"
    )
    # -I -S: nothing of the user's, nothing of this environment's site-packages.
    words = [sys.executable, "-I", "-S", "-c", program, "verify", str(bundle), *map(str, trust(incident))]
    home = {"PATH": os.defpath, "HOME": str(tmp_path), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    ended = subprocess.run(words, cwd=tmp_path, env=home, capture_output=True, text=True, check=False, timeout=120)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "It verifies" in ended.stdout
