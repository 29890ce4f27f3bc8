"""Who signed, by certificates: what the protected header names, what may complete it, and what is kept of that."""

from __future__ import annotations

import pytest

from tests.policy.samples import (
    ISS,
    KEY,
    LEAF,
    NOW,
    OTHER,
    POLICY_KEY,
    ROOT,
    certified,
    key_table,
    policy,
    root_table,
    statement,
)
from transparency.cose import labels
from transparency.cose.base64url import encode
from transparency.cose.sign1 import sign1
from transparency.cose.x509 import write_chain, write_x5t
from transparency.errors import CertificateError, RefusedError
from transparency.policy.document import Issuer, Policy
from transparency.policy.identity import Paths
from transparency.policy.judge import Judge
from transparency.policy.toml import write_time
from transparency.statements.certificates import read_collateral, with_collateral
from transparency.statements.statement import Statement
from transparency.testing.pki import ENDS, Authority, make_key

JUDGE = Judge(policy(tables=key_table(KEY) + root_table()))


def refusal(judge: Judge, made: Statement, now: int = NOW) -> str:
    with pytest.raises(RefusedError) as caught:
        judge.judge(made, now)
    return str(caught.value)


def test_a_protected_chain_needs_no_collateral_and_holds_while_it_is_valid() -> None:
    """SS-6, SS-7, REG-21: the certificates' own times bound the judgement."""
    judgement = JUDGE.judge(certified(), NOW)

    assert judgement.collateral == b""
    assert judgement.not_after == ENDS
    assert "expired" in refusal(JUDGE, certified(), ENDS + 1)


@pytest.mark.parametrize("made", [certified(protected=False), certified(kid=LEAF.signer.public.thumbprint)])
def test_a_chain_beside_the_statement_is_kept_and_judged_again_alike(made: Statement) -> None:
    """REG-10, AMB-10: what completed a path for a protected x5t or a thumbprint kid is collateral."""
    judgement = JUDGE.judge(made, NOW)
    stored = Statement.from_bytes(made.normalised)

    assert read_collateral(judgement.collateral) == LEAF.chain
    assert "key: " in refusal(JUDGE, stored)
    assert JUDGE.judge(with_collateral(stored, judgement.collateral), NOW) == judgement


@pytest.mark.parametrize("made", [certified(), certified(protected=False)], ids=["signed chain", "chain beside"])
def test_a_key_that_has_bounds_has_them_under_its_certificate_too(made: Statement) -> None:
    """REG-21: an operator who ended a key by its not-after does not find it at work again by another name."""
    ends = NOW + 10
    bounded = key_table(LEAF.signer, f"not-after = {write_time(ends)}")
    judge = Judge(policy(tables=bounded + root_table()))

    assert judge.judge(made, NOW).not_after == ends
    assert "not-after" in refusal(judge, made, ends + 1)


def test_only_what_was_used_is_kept() -> None:
    noise = Authority.create("Noise").der
    headers = {
        labels.ALG: -7,
        labels.CWT_CLAIMS: {1: ISS, 2: "s"},
        labels.CONTENT_TYPE: "text/plain",
        labels.X5T: write_x5t(LEAF.der),
    }
    chain = write_chain((*LEAF.chain, noise, ROOT.der))
    made = Statement.from_bytes(sign1(headers, b"", LEAF.signer, unprotected={labels.X5CHAIN: chain}).to_bytes())

    assert read_collateral(JUDGE.judge(made, NOW).collateral) == LEAF.chain


def test_certificates_beside_a_registered_kid_never_decide() -> None:
    """REG-15: anybody could have added them."""
    judge = Judge(policy(tables=key_table(LEAF.signer) + root_table(Authority.create("Other"))))
    bare = statement(key=LEAF.signer)
    adorned = Statement.from_bytes(bare.message.with_unprotected({labels.X5CHAIN: write_chain(LEAF.chain)}).to_bytes())

    assert judge.judge(adorned, NOW) == judge.judge(bare, NOW)
    assert judge.judge(adorned, NOW).collateral == b""


def test_a_kid_and_a_protected_chain_must_name_one_key() -> None:
    """SS-5: of several identifiers all that are registered are checked."""
    chain = {labels.X5CHAIN: write_chain(LEAF.chain)}
    both = Judge(policy(tables=key_table(KEY) + key_table(LEAF.signer) + root_table()))

    both.judge(statement(key=LEAF.signer, headers=chain), NOW)
    assert "another key than the certificate" in refusal(both, statement(key=KEY, headers=chain))


def test_a_certificate_for_the_policy_key_signs_nothing() -> None:
    """REG-22: no authority can make an issuer of it."""
    key = make_key()
    leaf = ROOT.leaf("thief", key=key)
    thief = Judge(
        Policy("log.example", 1, "", leaf.signer.public, issuers=(Issuer(ISS, roots=policy().issuers[0].roots),))
    )

    assert "a policy key signs policies only" in refusal(thief, certified(leaf))
    assert POLICY_KEY.public != leaf.signer.public


def test_a_path_is_validated_once_while_it_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transparency.policy.identity._PATHS", 2)
    roots = policy().issuers[0].roots
    paths = Paths()
    chains = [ROOT.leaf(str(n)).chain for n in range(3)]

    first = paths.validate(chains[0], roots, NOW)
    assert paths.validate(chains[0], roots, NOW + 1) is first
    with pytest.raises(CertificateError, match="expired"):
        paths.validate(chains[0], roots, ENDS + 1)
    for chain in chains[1:]:
        paths.validate(chain, roots, NOW)
    assert paths.validate(chains[0], roots, NOW) is not first  # the one not used for longest had to go


@pytest.mark.parametrize("tables", ["", root_table()], ids=["keys only", "with a root"])
def test_a_key_with_a_kid_of_its_own_is_named_by_its_thumbprint_too(tables: str) -> None:
    """RFC 9679: what `transparency sign` writes, whatever kid a key set brought."""
    own = key_table(KEY).replace(encode(KEY.public.kid), encode(b"one"))
    ended = own + f"compromised-since = {write_time(NOW)}\n"

    Judge(policy(tables=own + tables)).judge(statement(key=KEY), NOW)
    assert "compromised" in refusal(Judge(policy(tables=ended + tables)), statement(key=KEY))


def test_a_thumbprint_that_could_mean_two_keys_means_none() -> None:
    one, two = (key_table(KEY).replace(encode(KEY.public.kid), encode(kid)) for kid in (b"one", b"two"))
    stolen = key_table(OTHER).replace(encode(OTHER.public.kid), encode(KEY.public.thumbprint))

    assert "names no key" in refusal(Judge(policy(tables=one + two)), statement(key=KEY))
    assert "signature" in refusal(Judge(policy(tables=one + stolen)), statement(key=KEY))


def test_a_thumbprint_beside_certificates_is_judged_by_them_as_ever() -> None:
    """REG-10: an entry of before that kids could be thumbprints of keys with other kids is replayed alike."""
    own = key_table(LEAF.signer).replace(encode(LEAF.signer.public.kid), encode(b"one"))
    made = certified(kid=LEAF.signer.public.thumbprint)

    assert Judge(policy(tables=own + root_table())).judge(made, NOW) == JUDGE.judge(made, NOW)
