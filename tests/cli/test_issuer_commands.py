"""``issuer add`` from key sets and certificates, patterns, and ``issuer compromise``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, serving, shell
from transparency.cli.issuer_compromise import Listing
from transparency.cose.keys import PrivateKey, PublicKey
from transparency.log.folder import Folder
from transparency.log.stores import open_for_reading
from transparency.testing import FakeClock, make_log, running
from transparency.testing.pki import Authority


@pytest.fixture
def log(good: Run, folder: Path) -> Path:
    good("init", "--data", "log", "--origin", "log.example/i")
    return folder / "log"


def issuers(good: Run, log: Path) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(good("issuer", "list", "--data", log, "--json").stdout)["issuers"]
    return listed


def jwks(*keys: dict[str, object]) -> None:
    Path("keys.json").write_text(json.dumps({"keys": keys}))


def jwk(alg: int = -7, **more: object) -> dict[str, object]:
    return {**PrivateKey.generate(alg).public.to_jwk(), **more}


def test_a_jwk_set_brings_each_key_that_signs(good: Run, log: Path) -> None:
    jwks(jwk(kid="one", use="sig"), jwk(-8, kid="two"), jwk(kid="enc", use="enc"), {"kty": "oct-of-tomorrow"})

    added = good("issuer", "add", "--data", log, "--iss", ISS, "--jwks", "keys.json")

    (issuer,) = issuers(good, log)
    assert [key["kid"] for key in issuer["keys"]] == [b"one".hex(), b"two".hex()]  # type: ignore[attr-defined]
    assert "2 of 4 keys are not for signatures" in added.stderr


def test_a_jwk_set_with_anything_private_in_it_is_refused(run: Run, log: Path) -> None:
    jwks(jwk(kid="one"), {**jwk(kid="two"), "d": "AAAA"})

    result = run("issuer", "add", "--data", log, "--iss", ISS, "--jwks", "keys.json")

    assert result.exit_code == 65
    assert "private" in result.stderr
    assert "AAAA" not in result.output


def test_what_is_no_jwk_set_or_has_another_key_under_a_known_kid_is_refused(run: Run, good: Run, log: Path) -> None:
    Path("keys.json").write_text(json.dumps(jwk()))
    alone = run("issuer", "add", "--data", log, "--iss", ISS, "--jwks", "keys.json")
    jwks(jwk(kid="one"))
    good("issuer", "add", "--data", log, "--iss", ISS, "--jwks", "keys.json")
    jwks(jwk(kid="one"))
    another = run("issuer", "add", "--data", log, "--iss", ISS, "--jwks", "keys.json")

    assert (alone.exit_code, another.exit_code) == (65, 65)
    assert "JWK Set" in alone.stderr
    assert "another key under that kid" in another.stderr


def test_a_root_is_added_with_what_it_requires(good: Run, run: Run, log: Path) -> None:
    root = Authority.create("Acme Root")
    Path("ca.pem").write_bytes(root.pem)
    words = ("issuer", "add", "--data", log, "--iss", ISS, "--root", "ca.pem", "--subject", "O=Acme")
    good(*words, "--san", "dns:*.acme.example", "--eku", "1.3.6.1.5.5.7.3.3")
    again = good(*words, "--san", "dns:*.acme.example", "--eku", "1.3.6.1.5.5.7.3.3")
    shown = good("policy", "show", "--data", log).stdout

    assert 'subject = { "O" = "Acme" }' in shown
    assert 'san = ["dns:*.acme.example"]' in shown
    assert 'eku = ["1.3.6.1.5.5.7.3.3"]' in shown
    assert "Acme Root" in good("issuer", "list", "--data", log).stdout
    assert "nothing changed" in again.stderr
    assert run(*words[:-2], "--subject", "XX=1").exit_code == 64
    assert run(*words[:-2], "--san", "ip:1").exit_code == 65


def test_a_root_that_cannot_be_one_is_refused(run: Run, log: Path) -> None:
    root = Authority.create("Acme Root")
    Path("leaf.pem").write_bytes(root.leaf("agent").pem)
    Path("junk.pem").write_text("junk")

    for file in ("leaf.pem", "junk.pem"):
        assert run("issuer", "add", "--data", log, "--iss", ISS, "--root", file).exit_code == 65
    assert run("issuer", "add", "--data", log, "--iss", ISS, "--san", "dns:x", "--key", "leaf.pem").exit_code in (
        64,
        65,
    )


def test_a_pattern_is_added_listed_and_removed(good: Run, run: Run, log: Path) -> None:
    good("keygen", "--out", "issuer.pem")
    named = ("--pattern", "https://*.acme.example")
    good("issuer", "add", "--data", log, *named, "--key", "issuer.pub.pem")

    assert [each.get("pattern") for each in issuers(good, log)] == ["https://*.acme.example"]
    assert "(pattern)" in good("issuer", "list", "--data", log).stdout
    assert run("issuer", "add", "--data", log, *named, "--iss", ISS, "--key", "issuer.pub.pem").exit_code == 64
    assert run("issuer", "remove", "--data", log).exit_code == 64
    good("issuer", "remove", "--data", log, *named)
    assert issuers(good, log) == []


def test_a_compromise_is_in_force_at_once_and_lists_what_is_affected(tmp_path: Path) -> None:
    """With a running server: the key signs nothing more, what it registered since is listed."""
    with serving(tmp_path, "--open") as served:
        (tmp_path / "note.txt").write_text("hello\n")
        submit = (
            "submit", "note.txt", "--key", served.key, "--iss", ISS, "--content-type", "text/plain", "--log", served.url
        )  # fmt: skip
        first = shell(*submit, "--sub", "one", cwd=tmp_path)
        kid = json.loads(shell("issuer", "list", "--data", served.data, "--json", cwd=tmp_path).stdout)
        key = kid["issuers"][0]["keys"][0]["kid"]
        words = ("issuer", "compromise", "--data", served.data, "--iss", ISS, "--kid", key[:8])
        listed = shell(*words, "--since", "2026-01-01T00:00:00Z", cwd=tmp_path)
        refused = shell(*submit, "--sub", "two", "--out", "two.cose", cwd=tmp_path)

    assert first.returncode == 0, first.stderr
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.decode().split()[0] == "3"  # after policy, keys and the policy with the issuer
    assert listed.stdout.count(b"\n") == 1
    assert b"entries affected: 1" in listed.stderr
    assert refused.returncode == 77
    assert b"key: the key is compromised since 2026-01-01T00:00:00Z, and signs nothing new" in refused.stderr


def test_a_compromise_without_a_server_can_be_said_again_and_after_removal(good: Run, run: Run, log: Path) -> None:
    good("keygen", "--out", "issuer.pem")
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    ((key,),) = ([each["kid"] for each in row["keys"]] for row in issuers(good, log))  # type: ignore[attr-defined]
    good("issuer", "remove", "--data", log, "--iss", ISS)
    words = ("issuer", "compromise", "--data", log, "--iss", ISS, "--kid", key, "--json", "--since")
    first = json.loads(good(*words, "2026-01-01T00:00:00Z").stdout)
    again = json.loads(good(*words, "2026-01-01T01:00:00+01:00").stdout)

    assert first == again == {"issuer": ISS, "kid": key, "generation": 4, "affected": [], "count": 0, "erased": 0}
    assert "compromised-since 2026-01-01T00:00:00Z" in good("issuer", "list", "--data", log).stdout
    good("log", "fsck", "--data", log)
    assert run(*words[:-3], "ffff", "--since", "2026-01-01T00:00:00Z").exit_code == 65
    assert run(*words, "yesterday").exit_code == 64
    assert run(*words, "2999-01-01T00:00:00Z").exit_code == 64


def test_affected_is_what_was_registered_since_by_that_issuer_and_key(tmp_path: Path) -> None:
    """By registration time, which is the head's; whatever the statement says of itself."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    key = made.issuer.key.public

    async def fill() -> list[int]:
        times = []
        async with running(made) as log:
            for number in range(6):
                times.append(clock())
                await log.register(made.issuer.sign(b"%d" % number, sub=f"s{number}"))
                clock.advance(10)
        return times

    times = asyncio.run(fill())
    store = open_for_reading(Folder(made.data))
    try:
        for number, since in enumerate(times):
            listing = Listing(store, lambda iss: iss == made.issuer.iss, key, since)
            assert [each.sub for each in listing] == [f"s{n}" for n in range(number, 6)]
            assert listing.found == 6 - number
            assert [each.time for each in listing] == times[number:]
        assert list(Listing(store, lambda iss: iss == "https://x.example", key, 0)) == []
        assert list(Listing(store, lambda iss: iss == made.issuer.iss, PrivateKey.generate(-7).public, 0)) == []
        assert list(Listing(store, lambda iss: iss == made.issuer.iss, key, times[-1] + 1)) == []
    finally:
        store.close()


def test_a_key_of_a_jwk_set_signs_with_our_own_command_and_is_listed_with_its_kid(good: Run, log: Path) -> None:
    good("keygen", "--out", "issuer.pem")
    jwks({**PublicKey.from_pem(Path("issuer.pub.pem").read_bytes()).to_jwk(), "kid": "one"})
    good("issuer", "add", "--data", log, "--iss", ISS, "--jwks", "keys.json")
    Path("note.txt").write_text("hello\n")
    good("sign", "note.txt", "--key", "issuer.pem", "--iss", ISS, "--sub", "note")

    assert "accepted" in good("policy", "explain", "note.cose", "--data", log).stdout
    assert f"kid {b'one'.hex()}" in good("issuer", "list", "--data", log).stdout
