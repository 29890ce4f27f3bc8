"""The judgement: who is accepted, who is refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.cbor import bstr
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import sign1
from transparency.errors import RefusedError
from transparency.policy.document import Issuer, Policy
from transparency.policy.judge import Judge, conclude
from transparency.statements.statement import Statement, sign_envelope, sign_statement

KEY = PrivateKey.generate(-7)
OTHER = PrivateKey.generate(-7)
POLICY_KEY = PrivateKey.generate(-8)
ISS = "https://a.example"
NOW = 1_790_000_000


def policy(**changes: Any) -> Policy:
    base: dict[str, Any] = {
        "log": "log.example",
        "generation": 3,
        "previous": "x",
        "policy_key": POLICY_KEY.public,
        "issuers": (Issuer(ISS, (KEY.public,)),),
    }
    return Policy(**{**base, **changes})


def statement(key: PrivateKey = KEY, iss: str = ISS, **options: Any) -> Statement:
    options.setdefault("content_type", "application/json")
    return Statement.from_bytes(sign_statement(b"{}", key, iss=iss, sub="s", **options))


def refusal(made: Statement, **changes: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        Judge(policy(**changes)).judge(made, NOW)
    return str(caught.value)


def test_a_registered_issuer_with_its_key_is_accepted_under_this_generation() -> None:
    """REG-2, REG-6: authenticated by a key on the list."""
    judgement = Judge(policy()).judge(statement(), NOW)

    assert judgement.generation == 3
    assert judgement.holds_at(NOW)


def test_an_unknown_issuer_kid_or_signature_is_refused_with_the_reason() -> None:
    """REG-2, REG-3, SS-5: identity by iss and kid, both in the protected header, and the signature by that key."""
    forged = statement()
    bad_signature = Statement.from_bytes(forged.normalised[:-66] + bstr(bytes(64)))
    impostor = Statement.from_bytes(
        sign_statement(b"{}", OTHER.with_kid(KEY.public.kid), iss=ISS, sub="s", content_type="text/plain")
    )

    assert "iss" in refusal(statement(iss="https://b.example"))
    assert "kid" in refusal(statement(key=OTHER))
    assert "signature" in refusal(bad_signature)
    assert "signature" in refusal(impostor)


@pytest.mark.parametrize("alg", sorted(set(ALGORITHMS) - {-7, -9}))
def test_a_signature_under_another_algorithm_than_the_keys_is_refused(alg: int) -> None:
    """REG-2: a wrong-algorithm signature never passes, whatever the header says."""
    good = statement()
    protected = {**good.message.headers, labels.ALG: alg}

    class Liar:
        public = KEY.public

        def __init__(self, number: int) -> None:
            self.alg = number

        def sign(self, data: bytes) -> bytes:
            return KEY.sign(data)

    forged = sign1(protected, b"{}", Liar(alg)).to_bytes()

    assert "signature" in refusal(Statement.from_bytes(forged))


def test_an_identity_by_certificate_alone_is_refused_while_no_root_is_registered() -> None:
    """SS-6, SS-7: no path to a registered root, no registration."""
    headers = {
        labels.ALG: -7,
        labels.CWT_CLAIMS: {1: ISS, 2: "s"},
        labels.CONTENT_TYPE: "text/plain",
        labels.X5T: [-16, bytes(32)],
    }
    made = Statement.from_bytes(sign1(headers, b"{}", KEY, unprotected={labels.X5CHAIN: b"cert"}).to_bytes())

    assert "X.509" in refusal(made)


def test_what_the_policy_needs_is_looked_for_in_the_protected_header_only() -> None:
    """REG-4, REG-11, REG-15: unprotected content may be there, and never decides."""
    bare = statement()
    adorned = Statement.from_bytes(
        bare.message.with_unprotected({labels.TRACE_METADATA: {"x": 1}, "iss": "https://b.example"}).to_bytes()
    )
    judge = Judge(policy())

    assert judge.judge(adorned, NOW) == judge.judge(bare, NOW)


def test_algorithms_types_and_sizes_are_the_policys() -> None:
    assert "ES256" in refusal(statement(), algorithms=("ES384",))
    assert "content type" in refusal(statement(), content_types=("text/*",))
    assert "content type" in refusal(statement(content_type=None), content_types=("text/*",))
    assert "bytes" in refusal(statement(), max_statement_size=100)
    Judge(policy(content_types=("application/*",))).judge(statement(), NOW)


def test_an_envelope_is_judged_by_the_type_of_its_record() -> None:
    made = Statement.from_bytes(
        sign_envelope(bytes(32), KEY, iss=ISS, sub="s", preimage_content_type="application/json")
    )

    Judge(policy(content_types=("application/json",))).judge(made, NOW)
    assert "content type" in refusal(made, content_types=("text/*",))


def test_a_policy_key_signs_nothing_but_policies() -> None:
    """REG-22: also not when somebody registers it as an issuer's key behind the document's back."""
    sneaky = policy(issuers=(Issuer(ISS, (POLICY_KEY.public,)),))

    with pytest.raises(RefusedError, match="policy key"):
        Judge(sneaky).judge(statement(key=POLICY_KEY), NOW)


def claims(**times: int) -> Statement:
    protected = {
        labels.ALG: -7,
        labels.KID: KEY.public.kid,
        labels.CONTENT_TYPE: "text/plain",
        labels.CWT_CLAIMS: {1: ISS, 2: "s", **{{"exp": 4, "nbf": 5, "iat": 6}[name]: at for name, at in times.items()}},
    }
    return Statement.from_bytes(sign1(protected, b"{}", KEY).to_bytes())


def test_a_judgement_holds_for_the_time_its_claims_allow() -> None:
    """REG-21: the interval travels with the judgement, because time moves before the entry is sequenced."""
    judgement = Judge(policy(clock_skew=10)).judge(claims(iat=NOW + 5, nbf=NOW - 1, exp=NOW + 2), NOW)

    assert (judgement.not_before, judgement.not_after) == (NOW - 1, NOW + 1)
    assert [judgement.holds_at(NOW + n) for n in (-2, -1, 0, 1, 2)] == [False, True, True, True, False]


def test_times_that_do_not_hold_now_are_refused_with_the_reason() -> None:
    assert "exp" in refusal(claims(exp=NOW))
    assert "nbf" in refusal(claims(nbf=NOW + 1))
    assert "iat" in refusal(claims(iat=NOW + 301))
    Judge(policy()).judge(claims(iat=NOW - 10**8), NOW)


@pytest.mark.parametrize("key", [KEY, OTHER, PrivateKey.generate(-8), PrivateKey.generate(-35)])
@pytest.mark.parametrize("damaged", [False, True])
def test_a_judgement_in_two_halves_with_the_digest_at_hand_is_the_same_judgement(
    key: PrivateKey, *, damaged: bool
) -> None:
    made = statement(key, iat=NOW - 5)
    if damaged:
        made = Statement.from_bytes(made.normalised[:-1] + bytes([made.normalised[-1] ^ 1]))
    judge = Judge(policy(issuers=(Issuer(ISS, (KEY.public, key.public)),) if key is not OTHER else policy().issuers))

    def verdict(*, whole: bool) -> object:
        try:
            return judge.judge(made, NOW) if whole else conclude(judge.open(made, NOW, made.tbs_digest))
        except RefusedError as error:
            return str(error)

    assert verdict(whole=False) == verdict(whole=True)
    assert isinstance(verdict(whole=True), str) == (damaged or key is OTHER)


def test_the_first_half_asks_all_but_the_signature_and_the_second_names_the_policy_that_was_asked() -> None:
    """REG-21: whatever judge there is by then."""
    forged = statement()
    forged = Statement.from_bytes(forged.normalised[:-66] + bstr(bytes(64)))

    opened = Judge(policy()).open(forged, NOW)
    with pytest.raises(RefusedError, match=r"^signature: "):
        conclude(opened)
    with pytest.raises(RefusedError, match=r"^key: "):
        Judge(policy()).open(statement(OTHER), NOW)
    assert conclude(Judge(policy(generation=9)).open(statement(), NOW)).generation == 9
