"""The policy and tree over HTTP: in force, history, admin routes, consistency receipts."""

from __future__ import annotations

import tomllib

import pytest

from tests.server.served import ISS, Served
from transparency.cose.algorithms import algorithm
from transparency.cose.cbor import decode
from transparency.cose.keys import PrivateKey
from transparency.log import stated
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.server import policy
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement


async def test_the_policy_in_force_is_public(site: Served) -> None:
    """REG-6, REG-7: whoever submits can know by which rules."""
    reply = await site.get("/policy")

    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/toml; charset=utf-8"
    assert tomllib.loads(reply.body.decode())["issuer"][0]["iss"] == ISS
    assert Policy.from_toml(reply.body) == site.log.policy
    assert (await site.get("/policy", If_None_Match=reply.headers["ETag"])).status == 304
    assert (await site.get("/policy", Accept="text/plain")).headers["Content-Type"] == "text/plain; charset=utf-8"
    assert (await site.get("/policy", Accept="image/png")).status == 406


async def test_a_new_policy_takes_effect_through_the_admin_route(site: Served) -> None:
    """REG-8, REG-9, REG-22: in force from its place on; the history shows every generation with its statement."""
    newcomer = PrivateKey.generate(algorithm("Ed25519").id)
    statement = site.statement(b"n", iss="https://new.example", signer=newcomer)
    before = await site.post(statement)
    next_policy = site.log.policy.with_issuer(
        "https://new.example", (newcomer.public,), previous=site.log.policy_entry_id
    )
    document = site.document(next_policy)
    reply = await site.post(document, "/policy", Authorization=site.bearer("admin"))
    after = await site.post(statement)
    history = decode((await site.get("/policy/history")).body)

    assert before.title == "Rejected"
    assert reply.status == 201
    assert after.status == 201
    assert [version["generation"] for version in history] == [1, 2]
    assert [version["index"] for version in history] == [0, 2]
    assert history[1]["entry"] == Statement.from_bytes(document).entry_id
    assert history[1]["policy"].encode() == next_policy.to_toml()
    for version in history:
        registered = await site.get(f"/policy/{version['generation']}/statement")
        assert Statement.from_bytes(registered.body).entry_id == version["entry"]
        assert Statement.from_bytes(registered.body).payload == version["policy"].encode()


async def test_a_policy_comes_in_by_no_other_door(site: Served) -> None:
    """REG-22: replayed it changes nothing; as an ordinary statement, or signed by another key, it is refused."""
    admin = site.bearer("admin")
    next_policy = site.log.policy.without_issuer(ISS, previous=site.log.policy_entry_id)
    ordinary = await site.post(site.document(next_policy))
    by_issuer = await site.post(site.statement(next_policy.to_toml(), sub="policy"), "/policy", Authorization=admin)
    good = await site.post(site.document(next_policy), "/policy", Authorization=admin)
    replayed = await site.post(site.document(next_policy), "/policy", Authorization=admin)

    assert (ordinary.status, ordinary.title) == (400, "Rejected")
    assert by_issuer.status == 400
    assert good.status == replayed.status == 201
    assert good.headers["Location"] == replayed.headers["Location"]
    assert site.log.policy.generation == 2


async def test_the_admin_routes_take_whole_statements_only(site: Served) -> None:
    """API-8: no form, no other type, no garbage."""
    admin = site.bearer("admin")
    for path in ("/policy", "/keys"):
        form = await site.post(b"", path, Authorization=admin, Content_Type="multipart/form-data; boundary=x")
        text = await site.post(b"", path, Authorization=admin, Content_Type="application/toml")
        junk = await site.post(b"junk", path, Authorization=admin)
        assert (form.status, text.status, junk.status) == (415, 415, 400)


async def test_generations_that_do_not_exist_are_404(site: Served) -> None:
    assert (await site.get("/policy/2/statement")).status == 404
    for wrong in ("x", "01", "-1", "9223372036854775808"):
        assert (await site.get(f"/policy/{wrong}/statement")).status == 400, wrong


async def test_the_history_comes_in_pages_and_few_read_it_at_once(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.remove_issuer()
    monkeypatch.setattr(stated, "POLICIES_BYTES", 1)
    pages = [decode((await site.get(f"/policy/history{query}")).body) for query in ("", "?from=2", "?from=3")]
    monkeypatch.setattr(policy, "MAX_AT_ONCE", 0)
    busy = [await site.get("/policy/history"), await site.get("/policy/1/statement")]

    assert [[version["generation"] for version in page] for page in pages] == [[1], [2], []]
    assert [reply.status for reply in busy] == [503, 503]
    assert all(int(reply.headers["Retry-After"]) >= 1 for reply in busy)
    assert (await site.get("/policy")).status == 200
    assert (await site.get("/policy/history?from=x")).status == 400


async def test_a_statement_registered_before_its_issuer_was_removed_is_still_answered(site: Served) -> None:
    """LEAF-7, REG-18: known is known; a new statement of that issuer is refused."""
    statement = site.statement()
    first = await site.post(statement)
    await site.remove_issuer()
    again = await site.post(statement)

    assert again.status == 201
    assert again.body == first.body
    assert (await site.post(site.statement(b"new"))).title == "Rejected"


async def test_one_head_is_shown_to_be_a_prefix_of_another(site: Served) -> None:
    """AMB-7: a consistency receipt, signed over the newer root."""
    for number in range(5):
        await site.post(site.statement(b"%d" % number))
    (key,) = site.log.service_keys.current(keyset.RECEIPTS)
    old = site.log._receipts.head_of_size(3)
    named = await site.get("/consistency?from=3&to=6")
    newest = await site.get("/consistency?from=3", Accept="application/scitt-receipt+cose")

    Receipt.from_bytes(named.body).verify_consistency(3, old.root, key)
    assert Receipt.from_bytes(named.body).tree_size == 6
    assert named.headers["Content-Type"] == "application/cose"
    assert "immutable" in named.headers["Cache-Control"]
    Receipt.from_bytes(newest.body).verify_consistency(3, old.root, key)
    assert Receipt.from_bytes(newest.body).tree_size == 7
    assert newest.headers["Content-Type"] == "application/scitt-receipt+cose"
    assert "immutable" not in newest.headers["Cache-Control"]


async def test_heads_that_do_not_exist_have_no_consistency(site: Served) -> None:
    """API-8: 404 for sizes without a head, 400 for what is not a pair of sizes."""
    await site.post(site.statement())
    for query in ("from=1", "from=1&to=3", "from=2&to=4", "from=3", "from=0&to=3"):
        assert (await site.get(f"/consistency?{query}")).title == "Not Found", query
    for query in ("", "to=3", "from=x", "from=2&to=", "from=3&to=2", "from=2&to=2", "from=2&from=2", "from=%202"):
        assert (await site.get(f"/consistency?{query}")).title == "Malformed request", query
