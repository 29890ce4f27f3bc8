"""The keys that verify receipts (SCRAPI §2.1, §2.2)."""

from __future__ import annotations

import base64
import time

import pytest

from tests.server.served import Served
from transparency.cose.algorithms import algorithm
from transparency.cose.cbor import decode
from transparency.cose.keys import PrivateKey, decode_key_set
from transparency.policy import keyset
from transparency.policy.key_directory import KeyDirectory
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement


def b64(kid: bytes) -> str:
    return base64.urlsafe_b64encode(kid).rstrip(b"=").decode()


async def test_the_key_set_is_an_array_of_public_cose_keys(site: Served) -> None:
    """KEY-1, KEY-7, KEY-10, API-7: only receipts keys, only public parts, the kid a thumbprint."""
    reply = await site.get("/.well-known/scitt-keys", Accept="application/cbor")
    (key,) = decode(reply.body)
    (parsed,) = decode_key_set(reply.body)

    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/cbor"
    assert set(key) <= {1, 2, 3, -1, -2, -3}
    assert key[2] == parsed.thumbprint == site.log.service_keys.current(keyset.RECEIPTS)[0].kid
    assert reply.headers["Cache-Control"] == "public, max-age=300"


@pytest.mark.parametrize("accept", [None, "*/*", "application/*", "application/cbor;q=0.1, text/html"])
async def test_any_client_that_takes_cbor_gets_the_keys(site: Served, accept: str | None) -> None:
    """KEY-2."""
    headers = {} if accept is None else {"Accept": accept}

    assert (await site.get("/.well-known/scitt-keys", **headers)).status == 200


async def test_who_takes_no_cbor_is_told_406(site: Served) -> None:
    """API-8."""
    for path in ("/.well-known/scitt-keys", "/.well-known/scitt-keys/x"):
        assert (await site.get(path, Accept="application/json")).title == "Not Acceptable"


async def test_one_key_is_found_by_the_base64url_of_its_kid(site: Served) -> None:
    """KEY-3, KEY-5, KEY-9: a single COSE_Key map, not an array."""
    kid = site.log.service_keys.current(keyset.RECEIPTS)[0].kid
    reply = await site.get(f"/.well-known/scitt-keys/{b64(kid)}")

    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/cbor"
    assert decode(reply.body)[2] == kid
    assert "max-age" in reply.headers["Cache-Control"]


async def test_an_unknown_kid_is_404_with_scrapis_words(site: Served) -> None:
    """KEY-4; KEY-10: keys of other purposes are not among those for receipts."""
    others = [item.key.kid for item in site.log.service_keys.keys if item.role != keyset.RECEIPTS]
    for segment in (
        "nothing",
        "AAAA",
        b64(bytes(32)),
        b64(site.log.service_keys.current(keyset.RECEIPTS)[0].kid) + "=",
    ):
        reply = await site.get(f"/.well-known/scitt-keys/{segment}")
        assert reply.status == 404
        assert reply.problem == {-1: "No such key", -2: "No key could be found for this kid value"}
    for kid in others:
        assert (await site.get(f"/.well-known/scitt-keys/{b64(kid)}")).status == 404


def test_a_kid_that_is_a_path_segment_is_found_raw_too() -> None:
    """KEY-5: both ways lead to the same key; a kid that is a step in a path only one way."""
    key = PrivateKey.generate(algorithm("ES256").id).public
    named = KeyDirectory([key.with_kid(b"log-key_1.~")])
    step = KeyDirectory([key.with_kid(b"..")])
    binary = KeyDirectory([key.with_kid(b"a/b")])

    assert named.find("log-key_1.~") == named.find(b64(b"log-key_1.~")) is not None
    assert step.find("..") is None
    assert step.find(b64(b"..")) is not None
    assert binary.find("a/b") is None
    assert binary.find(b64(b"a/b")) is not None


async def test_after_a_rotation_old_receipts_and_keys_are_still_there(site: Served) -> None:
    """KEY-8, KEY-10, API-4: the retired key stays resolvable; entries get receipts under the newest head."""
    statement = site.statement()
    before = await site.post(statement)
    old_receipt = Receipt.from_bytes(before.body)
    tagged = await site.get(before.headers["Location"])
    new_key = PrivateKey.generate(algorithm("ES256").id)
    rotated = site.log.service_keys.rotated(
        keyset.RECEIPTS, new_key.public, previous=site.log.service_keys_entry_id, now=int(time.time())
    )
    admin = site.bearer("admin")
    missing = await site.post(site.document(rotated), "/keys", Authorization=admin)
    site.log._opened.folder.save_key(keyset.RECEIPTS, new_key)
    reply = await site.post(site.document(rotated), "/keys", Authorization=admin)
    after = await site.get(before.headers["Location"], If_None_Match=tagged.headers["ETag"])
    keys = decode_key_set((await site.get("/.well-known/scitt-keys")).body)

    assert (missing.status, missing.title) == (400, "Rejected")
    assert "/" not in missing.detail
    assert reply.status == 201
    assert [key.kid for key in keys] == [new_key.public.kid, old_receipt.kid]
    assert (await site.get(f"/.well-known/scitt-keys/{b64(old_receipt.kid or b'')}")).status == 200
    assert after.status == 200
    receipt = Receipt.from_bytes(after.body)
    assert receipt.kid == new_key.public.kid
    receipt.verify_inclusion(Statement.from_bytes(statement).entry, new_key.public)
    again = await site.post(site.document(rotated), "/keys", Authorization=admin)
    assert again.headers["Location"] == reply.headers["Location"]
