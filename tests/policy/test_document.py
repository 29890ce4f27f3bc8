"""The policy document: what reads, what is refused, and how a generation follows another."""

from __future__ import annotations

import pytest

from transparency.cose import base64url
from transparency.cose.keys import PrivateKey
from transparency.errors import MalformedError
from transparency.policy.document import Issuer, Policy
from transparency.policy.keyset import CHECKPOINTS, POLICY, RECEIPTS, ServiceKey, ServiceKeys

POLICY_KEY = PrivateKey.generate(-8).public
ISSUER_KEY = PrivateKey.generate(-7).public
OTHER_KEY = PrivateKey.generate(-7).public


def policy(**changes: object) -> Policy:
    base: dict[str, object] = {
        "log": "log.example",
        "generation": 1,
        "previous": "",
        "policy_key": POLICY_KEY,
        "issuers": (Issuer("https://a.example", (ISSUER_KEY,)),),
    }
    return Policy(**{**base, **changes})  # type: ignore[arg-type]


def test_a_policy_reads_back_as_it_was_written() -> None:
    written = policy(content_types=("application/json", "text/*"), max_statement_size=10_000, clock_skew=5)

    assert Policy.from_toml(written.to_toml()) == written


def test_strange_names_survive_the_toml() -> None:
    names = ('quote " and \\ backslash', "tab\tand\x7f", "日本 \U0001f600", "''' and #")
    written = policy(issuers=tuple(Issuer(name, (ISSUER_KEY,)) for name in names))

    assert Policy.from_toml(written.to_toml()) == written


def test_keys_may_have_a_kid_of_their_own() -> None:
    written = policy(issuers=(Issuer("https://a.example", (ISSUER_KEY.with_kid(b"k1"), OTHER_KEY.with_kid(b"k2"))),))

    assert [key.kid for key in Policy.from_toml(written.to_toml()).issuers[0].keys] == [b"k1", b"k2"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"version = 1", b"version = 2", "version"),
        (b"version = 1", b"version = ", "policy.toml:1: not TOML"),
        (b'log = "log.example"', b"log = 7", "policy.log"),
        (b'log = "log.example"', b'log = ""', "log is empty"),
        (b"generation = 1", b"generation = 0", "generation"),
        (b"generation = 1", b"generation = true", "generation"),
        (b"generation = 1", b"generation = 2", "previous"),
        (b"generation = 1", b"generation = 1\nextra = 1", "extra"),
        (b"[accept]", b"[accept]\nsurprise = 1", "surprise"),
        (b'"ES256"', b'"ES257"', "ES257"),
        (b"[[issuer]]", b"[[issuers]]", "not a list of tables"),
        (b'iss = "https://a.example"', b'iss = ""', "iss is empty"),
        (b"BEGIN PUBLIC KEY", b"BEGIN NONSENSE", "pem"),
        (b'kid = "', b'kid = "=', "base64url"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_by_name(old: bytes, new: bytes, says: str) -> None:
    text = policy().to_toml()
    assert old in text

    with pytest.raises(MalformedError, match=says):
        Policy.from_toml(text.replace(old, new))


def test_a_policy_that_is_not_utf8_or_too_large_is_refused() -> None:
    with pytest.raises(MalformedError, match="UTF-8"):
        Policy.from_toml(b"\xff")
    with pytest.raises(MalformedError, match="larger"):
        Policy.from_toml(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(MalformedError):
        Policy.from_toml(b"a = " + b"[" * 100_000)


def test_one_issuer_stands_there_once_with_distinct_kids_and_not_with_the_policy_key() -> None:
    issuer = Issuer("https://a.example", (ISSUER_KEY,))
    with pytest.raises(MalformedError, match="twice"):
        policy(issuers=(issuer, issuer)).check()
    with pytest.raises(MalformedError, match="one kid"):
        policy(issuers=(Issuer("a", (ISSUER_KEY.with_kid(b"k"), OTHER_KEY.with_kid(b"k"))),)).check()
    with pytest.raises(MalformedError, match="policy key"):
        policy(issuers=(Issuer("a", (POLICY_KEY,)),)).check()
    with pytest.raises(MalformedError, match="no key"):
        policy(issuers=(Issuer("a", ()),)).check()


def test_adding_and_removing_an_issuer_makes_the_next_generation() -> None:
    first = policy()
    second = first.with_issuer("https://b.example", (OTHER_KEY,), previous="one")
    third = second.with_issuer("https://a.example", (OTHER_KEY,), previous="two")
    fourth = third.without_issuer("https://a.example", previous="three", kid=ISSUER_KEY.kid)
    fifth = fourth.without_issuer("https://b.example", previous="four")

    assert [p.generation for p in (second, third, fourth, fifth)] == [2, 3, 4, 5]
    assert [p.previous for p in (second, third)] == ["one", "two"]
    assert {issuer.iss for issuer in second.issuers} == {"https://a.example", "https://b.example"}
    third_a, fourth_a = third.issuer("https://a.example"), fourth.issuer("https://a.example")
    assert third_a is not None
    assert {key.kid for key in third_a.keys} == {ISSUER_KEY.kid, OTHER_KEY.kid}
    assert fourth_a is not None
    assert [key.kid for key in fourth_a.keys] == [OTHER_KEY.kid]
    assert fifth.issuer("https://b.example") is None


# -- the key set ---


def key_set() -> ServiceKeys:
    return ServiceKeys(
        "log.example",
        "https://log.example",
        1,
        "",
        (ServiceKey(RECEIPTS, ISSUER_KEY, 5), ServiceKey(POLICY, POLICY_KEY, 5)),
    )


def test_a_key_set_reads_back_and_rotates_without_forgetting() -> None:
    """KEY-8: the retired key stays, with its end; KEY-10: rotation."""
    first = key_set()
    second = first.rotated(RECEIPTS, OTHER_KEY, previous="one", now=9)

    assert ServiceKeys.from_toml(second.to_toml()) == second
    assert second.current(RECEIPTS) == (OTHER_KEY,)
    assert second.ever(RECEIPTS) == (OTHER_KEY, ISSUER_KEY)
    assert second.by_kid(RECEIPTS, ISSUER_KEY.kid) == ISSUER_KEY
    assert [item.until for item in second.keys] == [9, None, None]


def test_one_key_has_one_role() -> None:
    """RC-15, KEY-10: single-purpose keys (RFC 9943 §9.4)."""
    with pytest.raises(MalformedError, match="single-purpose"):
        key_set().rotated(CHECKPOINTS, ISSUER_KEY.with_kid(b"other"), previous="one", now=9)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'role = "receipts"', b'role = "tls"'), (b"since = 5", b"since = -5"), (b"[[key]]", b"[[key]]\nx = 1")],
)
def test_a_key_set_that_cannot_be_meant_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(MalformedError):
        ServiceKeys.from_toml(key_set().to_toml().replace(old, new, 1))


def test_two_receipts_keys_that_would_share_a_path_are_refused() -> None:
    """KEY-6: raw(A) == base64url(B). Before they are registered: a registered key stays for ever."""
    first = ISSUER_KEY.with_kid(b"B-key")
    second = OTHER_KEY.with_kid(base64url.encode(b"B-key").encode())
    keys = ServiceKeys("log.example", "https://log.example", 1, "", (ServiceKey(RECEIPTS, first, 5),))

    with pytest.raises(MalformedError, match="path segment"):
        keys.rotated(RECEIPTS, second, previous="one", now=9)


@pytest.mark.parametrize(
    "change", [{"max_statement_size": 0}, {"max_statement_size": 2**24 + 1}, {"clock_skew": 86_401}]
)
def test_numbers_that_would_starve_the_log_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(MalformedError):
        policy(**change).check()
    with pytest.raises(MalformedError):
        Policy.from_toml(policy(clock_skew=10**30).to_toml())


def test_the_heading_is_the_policy_without_its_issuers() -> None:
    """However the document is laid out."""
    written = policy(issuers=tuple(Issuer(f"https://{n}.example", (ISSUER_KEY,)) for n in range(5)))
    text = written.to_toml()
    start = text.index(b"[[issuer]]")
    accept = text.index(b"[accept]")
    shuffled = text[:accept] + text[start:] + text[accept:start]

    for layout in (text, shuffled, policy(issuers=()).to_toml()):
        assert Policy.heading(layout) == policy(issuers=())
    assert Policy.from_toml(shuffled) == written


def test_an_algorithm_that_is_not_the_usual_one_is_written_with_the_key() -> None:
    key = PrivateKey.generate(-38).public
    assert key.alg == -38
    written = policy(issuers=(Issuer("https://a.example", (key,)),))

    read = Policy.from_toml(written.to_toml())

    assert read.issuers[0].keys[0].alg == -38
    with pytest.raises(MalformedError, match="alg"):
        Policy.from_toml(written.to_toml().replace(b'"PS384"\npem', b'"ES256"\npem'))
