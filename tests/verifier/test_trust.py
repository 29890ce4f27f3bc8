"""The trust file: what it may say, and that nothing in it is passed over."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.verifier.world import ISS, ISSUER, LOG_ISS, LOG_KEY, ORIGIN, OTHER_LOG_KEY, TIME, Log, statement
from transparency.cose import labels
from transparency.cose.keys import encode_key_set
from transparency.cose.sign1 import Sign1, sign1
from transparency.errors import MalformedError
from transparency.verifier import IssuerTrust, Options, TrustStore, verify

if TYPE_CHECKING:
    from pathlib import Path

INLINE = "cose-key:" + base64.urlsafe_b64encode(LOG_KEY.public.to_cose_key_bytes()).rstrip(b"=").decode()
LOG = f'[[log]]\niss = "{LOG_ISS}"\norigin = "{ORIGIN}"\n'


def test_a_trust_file_names_logs_and_issuers_with_their_keys(tmp_path: Path) -> None:
    (tmp_path / "log.cbor").write_bytes(encode_key_set([LOG_KEY.public, OTHER_LOG_KEY.public]))
    (tmp_path / "issuer.pem").write_bytes(ISSUER.public.to_pem())
    file = tmp_path / "trust.toml"
    file.write_text(
        LOG + f'keys = ["log.cbor"]\n[[issuer]]\niss = "{ISS}"\nkeys = [{{ file = "issuer.pem" }}]\n', encoding="utf-8"
    )

    store = TrustStore.from_file(file)

    assert [trusted.key for trusted in store.logs[0].keys] == [LOG_KEY.public, OTHER_LOG_KEY.public]
    assert (store.logs[0].leaf, store.logs[0].bare) == ("digest", False)
    assert verify(Log().register(statement()), store).verdict == "verified"


def test_a_key_may_stand_in_the_file_itself_with_its_dates() -> None:
    toml = (
        LOG + f'leaf = "raw"\nkeys = ["{INLINE}", {{ cose-key = "{INLINE.removeprefix("cose-key:")}", '
        "not-after = 2026-03-01T10:00:00+01:00, compromised-since = 2026-03-01T09:00:01Z }]\n"
    )

    log = TrustStore.from_toml(toml.encode()).logs[0]

    assert log.leaf == "raw"
    assert [key.key for key in log.keys] == [LOG_KEY.public, LOG_KEY.public]
    assert (log.keys[0].not_after, log.keys[0].compromised_since) == (None, None)
    assert (log.keys[1].not_after, log.keys[1].compromised_since) == (TIME, TIME + 1)


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ("[[log]", "not TOML"),
        ("[log]\nkeys = []", "[[log]]"),
        ("[[logs]]", "'logs' is not one of"),
        (LOG, "at least one key"),
        (LOG + "keys = []", "at least one key"),
        (LOG + f'keys = ["{INLINE}"]\nleaf = "guess"', "leaf is one of"),
        (LOG + f'keys = ["{INLINE}"]\ncompromised = 1', "'compromised' is not one of"),
        (LOG + 'keys = [{ cose-key = "x", compromised_since = 2026-01-01T00:00:00Z }]', "'compromised_since'"),
        (LOG + f'keys = [{{ cose-key = "{INLINE[9:]}", not-after = 2026-01-01T00:00:00 }}]', "with its offset"),
        (LOG + f'keys = [{{ cose-key = "{INLINE[9:]}", not-after = 1767225600 }}]', "with its offset"),
        (LOG + "keys = [{ not-after = 2026-01-01T00:00:00Z }]", "either file or cose-key"),
        (LOG + 'keys = [{ file = "a", cose-key = "b" }]', "either file or cose-key"),
        (LOG + "keys = [5]", "a key is"),
        (LOG + 'keys = ["cose-key:pQ EC"]', "base64url"),
        (LOG + 'keys = ["cose-key:p"]', "base64url"),
        (LOG + 'keys = ["cose-key:AA"]', ""),
        (LOG + 'keys = ["nowhere.pem"]', "cannot be read"),
        (f'[[log]]\niss = ""\nkeys = ["{INLINE}"]', "not empty"),
        (f'[[log]]\niss = 5\nkeys = ["{INLINE}"]', "not empty"),
        (f'[[issuer]]\nkeys = [{{ cose-key = "{INLINE[9:]}", not-before = 2026-01-01T00:00:00Z }}]', "'not-before'"),
    ],
)
def test_a_mistake_in_a_trust_file_is_refused_and_named(tmp_path: Path, toml: str, what: str) -> None:
    with pytest.raises(MalformedError) as refused:
        TrustStore.from_toml(toml.encode(), tmp_path)

    assert what in str(refused.value)


def test_a_private_key_in_a_trust_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.pem").write_bytes(LOG_KEY.to_pem())

    with pytest.raises(MalformedError):
        TrustStore.from_toml((LOG + 'keys = ["log.pem"]').encode(), tmp_path)


def test_an_issuer_without_name_is_a_bare_key() -> None:
    store = TrustStore.from_toml(f'[[issuer]]\nkeys = ["{INLINE}"]'.encode())

    assert store.issuers[0].iss is None


OWN_KID = TrustStore(issuers=(IssuerTrust((ISSUER.public.with_kid(b"2026-a"),), ISS),))


@pytest.mark.parametrize(
    ("kid", "verdict"),
    [
        (b"2026-a", "verified"),
        (ISSUER.public.thumbprint, "verified"),
        (None, "warnings"),
        (b"another", "cannot-tell"),
        (ISSUER.public.thumbprint[:16], "cannot-tell"),
        (OTHER_LOG_KEY.public.thumbprint, "cannot-tell"),
    ],
    ids=["its kid", "its thumbprint", "none", "another", "half a thumbprint", "another key's thumbprint"],
)
def test_an_issuers_key_is_found_by_its_kid_and_its_thumbprint_and_without_a_kid(
    kid: bytes | None, verdict: str
) -> None:
    """SS-3, KEY-7: a kid that names no key of a trusted issuer is never tried; without one the issuer's keys are."""
    report = verify(_signed_with(kid), OWN_KID, options=Options(statement_only=True))

    assert report.verdict == verdict, report.summary


def test_whoever_gives_a_key_by_hand_asks_whether_that_key_signed_under_whatever_kid() -> None:
    by_hand = TrustStore.from_keys(issuer_keys=[ISSUER.public])

    report = verify(_signed_with(b"another"), by_hand, options=Options(statement_only=True))

    assert report.verdict == "verified"


def _signed_with(kid: bytes | None) -> bytes:
    headers = {label: value for label, value in Sign1.from_bytes(statement()).headers.items() if label != labels.KID}
    return sign1(headers if kid is None else {**headers, labels.KID: kid}, b"hello", ISSUER).to_bytes()
