"""Rotation as clients see it: two of them over HTTP, an announced key, a compromised one (KEY-8, API-4)."""

from __future__ import annotations

import time

from tests.server.served import Served
from transparency.cose import labels
from transparency.cose.algorithms import algorithm
from transparency.cose.cbor import decode
from transparency.cose.keys import PrivateKey, PublicKey, decode_key_set
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement


async def rotate(site: Served, *, overlap: int = 0, alg: str = "ES256") -> PublicKey:
    """The operator's part: a new key in the folder, the next key set over HTTP."""
    new = PrivateKey.generate(algorithm(alg).id)
    now = site.log.newest_head().time
    keys = site.log.service_keys.rotated(
        keyset.RECEIPTS, new.public, previous=site.log.service_keys_entry_id, now=now, since=now + overlap
    )
    site.log._opened.folder.save_key(keyset.RECEIPTS, new)
    await register(site, keys)
    return new.public


async def register(site: Served, keys: ServiceKeys) -> None:
    reply = await site.post(site.document(keys), "/keys", Authorization=site.bearer("admin"))
    assert reply.status == 201, reply.problem


async def served_keys(site: Served) -> tuple[PublicKey, ...]:
    return decode_key_set((await site.get("/.well-known/scitt-keys")).body)


async def test_a_receipt_is_renewed_at_each_of_two_rotations_and_every_old_one_stays_good(site: Served) -> None:
    """KEY-8, API-4: the first-head receipt while its key is current, else one under the newest head."""
    statement = site.statement()
    entry = Statement.from_bytes(statement).entry
    posted = await site.post(statement)
    where = posted.headers["Location"]
    receipts = [posted.body]
    for alg in ("ES384", "Ed25519"):
        tag = (await site.get(where)).headers["ETag"]
        new = await rotate(site, alg=alg)
        renewed = await site.get(where, If_None_Match=tag)
        receipts.append(renewed.body)

        assert renewed.status == 200, "not 304: another key signs now"
        assert Receipt.from_bytes(renewed.body).kid == new.kid
        assert (await site.get(where, If_None_Match=renewed.headers["ETag"])).status == 304
    keys = {key.kid: key for key in await served_keys(site)}

    assert len(keys) == len({Receipt.from_bytes(each).kid for each in receipts}) == 3
    for each in receipts:
        receipt = Receipt.from_bytes(each)
        assert receipt.kid is not None
        receipt.verify_inclusion(entry, keys[receipt.kid])
    first = await site.get(f"{where}?size=3")
    assert first.body == receipts[0], "a head that is named stays what it was"


async def test_an_announced_key_is_served_before_any_receipt_carries_it(site: Served) -> None:
    (old,) = site.log.service_keys.current(keyset.RECEIPTS)
    new = await rotate(site, overlap=3600)
    posted = await site.post(site.statement())

    assert {key.kid for key in await served_keys(site)} == {old.kid, new.kid}
    assert Receipt.from_bytes(posted.body).kid == old.kid
    assert (await site.get(posted.headers["Location"])).body == posted.body


async def test_the_key_set_is_served_as_it_is_registered(site: Served) -> None:
    reply = await site.get("/keys")

    assert reply.headers["Content-Type"] == "application/toml; charset=utf-8"
    assert reply.body == site.log.service_keys_document
    assert ServiceKeys.from_toml(reply.body) == site.log.service_keys
    assert (await site.get("/keys", If_None_Match=reply.headers["ETag"])).status == 304
    await rotate(site)
    assert (await site.get("/keys", If_None_Match=reply.headers["ETag"])).status == 200
    assert (await site.get("/keys", Accept="application/cbor")).status == 406


async def test_the_directory_says_which_key_is_compromised(site: Served) -> None:
    (old,) = site.log.service_keys.current(keyset.RECEIPTS)
    new = await rotate(site)
    since = int(time.time()) - 60
    keys, entry = site.log.service_keys, site.log.service_keys_entry_id
    item = next(item for item in keys.keys if item.key == old)
    await register(site, keys.compromised(item, since=since, previous=entry, now=int(time.time())))
    told = {each[labels.KEY_KID]: each for each in decode((await site.get("/.well-known/scitt-keys")).body)}

    assert told[old.kid][labels.KEY_COMPROMISED_SINCE] == since
    assert labels.KEY_COMPROMISED_SINCE not in told[new.kid]
    assert {key.thumbprint for key in await served_keys(site)} == {old.thumbprint, new.thumbprint}
    back = site.log.service_keys
    undone = ServiceKeys.from_toml(back.to_toml().replace(b"compromised-since", b"# compromised-since"))
    following = ServiceKeys(back.log, back.iss, back.generation + 1, site.log.service_keys_entry_id, undone.keys)
    refused = await site.post(site.document(following), "/keys", Authorization=site.bearer("admin"))
    assert (refused.status, "takes back" in refused.detail) == (400, True)
