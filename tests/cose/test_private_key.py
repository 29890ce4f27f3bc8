"""Private keys: their PEM, their passwords, and that they show nothing of themselves."""

from __future__ import annotations

import base64
import copy
import pickle

import pytest

from transparency.cose import PrivateKey, Signer, algorithm
from transparency.errors import MalformedError, SignatureInvalidError

# One algorithm for each key type.
TYPES = {"EC P-256": -7, "EC P-384": -35, "EC P-521": -36, "OKP Ed25519": -8, "RSA": -37,
         "AKP ML-DSA-44": -48, "AKP ML-DSA-65": -49, "AKP ML-DSA-87": -50}  # fmt: skip
KEYS = {name: PrivateKey.generate(alg) for name, alg in TYPES.items()}
every_type = pytest.mark.parametrize("name", TYPES)


@every_type
def test_a_private_key_survives_pem_with_and_without_a_password(name: str) -> None:
    key = KEYS[name]
    assert PrivateKey.from_pem(key.to_pem()).public == key.public
    assert PrivateKey.from_pem(key.to_pem(b"secret"), b"secret").public == key.public


def test_a_password_that_is_missing_wrong_or_needless_is_told_apart() -> None:
    key = KEYS["EC P-256"]
    with pytest.raises(MalformedError, match="needs a passphrase"):
        PrivateKey.from_pem(key.to_pem(b"secret"))
    with pytest.raises(MalformedError, match="passphrase is wrong"):
        PrivateKey.from_pem(key.to_pem(b"secret"), b"other")
    with pytest.raises(MalformedError, match="has no passphrase"):
        PrivateKey.from_pem(key.to_pem(), b"secret")


def test_an_empty_password_is_not_taken_for_none() -> None:
    with pytest.raises(MalformedError):
        KEYS["EC P-256"].to_pem(b"")


def test_a_private_key_may_be_read_for_another_of_its_algorithms() -> None:
    key = PrivateKey.from_pem(KEYS["OKP Ed25519"].to_pem(), alg=-19)
    assert (key.alg, key.public) == (-19, KEYS["OKP Ed25519"].public)
    key.public.verify(-19, b"data", key.sign(b"data"))


@every_type
def test_a_private_key_shows_nothing_of_itself(name: str) -> None:
    key = KEYS[name]
    pem = b"".join(key.to_pem().split(b"\n")[1:-2])
    shown = repr(key) + str(key) + f"{[key]}"
    secret = base64.b64decode(pem)
    assert key.public.kid.hex() in shown
    assert algorithm(key.alg).name in shown
    for start in range(0, len(secret) - 16, 8):
        assert secret[start : start + 16].hex() not in shown.replace(key.public.kid.hex(), "")
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.deepcopy(key)


def test_a_private_key_is_a_signer() -> None:
    def use(signer: Signer) -> None:
        signer.public.verify(signer.alg, b"data", signer.sign(b"data"))

    use(KEYS["EC P-256"])


def test_a_kid_that_is_not_this_key_does_not_verify() -> None:
    other = PrivateKey.generate(-7)
    posing = other.public.with_kid(KEYS["EC P-256"].public.kid)
    with pytest.raises(SignatureInvalidError):
        posing.verify(-7, b"data", KEYS["EC P-256"].sign(b"data"))
