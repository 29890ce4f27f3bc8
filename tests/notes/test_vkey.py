"""Verifier keys, both ways, and what they verify."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tests.notes.world import ORIGIN, log_signer, log_signers, signed, witness, witnesses
from transparency.cose.algorithms import ES256, ML_DSA_44, ML_DSA_65
from transparency.cose.private_key import PrivateKey
from transparency.cose.public_key import PublicKey
from transparency.errors import NoteError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.notes.numbers import write_base64
from transparency.notes.signer import CosignatureSigner, NoteSigner
from transparency.notes.vkey import COSIGNATURE, ECDSA, ED25519, MLDSA, VerifierKey, by_name_and_id, key_id, parse

TEXT = b"any text\n"


def all_keys() -> list[VerifierKey]:
    ecdsa = VerifierKey.of(ORIGIN, ECDSA, PrivateKey.generate(ES256.id).public)
    return [*(signer.vkey for signer in (*log_signers(), *witnesses())), ecdsa]


def test_a_key_prints_and_reads_back() -> None:
    """SN-2."""
    keys = all_keys()

    assert [key.kind for key in keys] == [ED25519, MLDSA, COSIGNATURE, MLDSA, ECDSA]
    for key in keys:
        assert parse(key.text) == key
        assert parse(key.text).text == key.text
        assert len({key, parse(key.text)}) == 1


def test_the_key_id_is_over_name_type_and_key_except_for_ecdsa() -> None:
    """SN-2."""
    for key in all_keys():
        hashed = key.key if key.kind == ECDSA else key.name.encode() + b"\n" + bytes([key.kind]) + key.key
        assert key.key_id == hashlib.sha256(hashed).digest()[:4]


def test_a_key_under_another_name_or_type_has_another_id() -> None:
    """SN-2."""
    key = witness().vkey
    renamed = VerifierKey("other.example", key_id("other.example", key.kind, key.key), key.kind, key.key)
    retyped = VerifierKey(key.name, key_id(key.name, ED25519, key.key), ED25519, key.key)

    assert len({key.key_id, renamed.key_id, retyped.key_id}) == 3
    for each in (renamed, retyped):
        with pytest.raises(NoteError, match="key id is not that"):
            VerifierKey(each.name, key.key_id, each.kind, each.key)


def made(kind: int, material: bytes, name: str = ORIGIN) -> str:
    return f"{name}+{key_id(name, kind, material).hex()}+{write_base64(bytes([kind]) + material)}"


def test_whatever_is_not_a_verifier_key_is_refused() -> None:
    """SN-2."""
    text = log_signer().vkey.text
    name, id_, key = text.split("+", 2)
    raw = log_signer().vkey.key
    p256 = PrivateKey.generate(ES256.id).public.to_der()
    bad = {
        "not <name>": [
            "",
            name,
            f"{name}+{id_}",
            f"{name}+{id_[:-1]}+{key}",
            f"{name}+0x{id_}+{key}",
            f"{name}+{id_[:-1]}g+{key}",
            f"{name} +{id_}\n+{key}",
        ],
        "key name": [
            f"+{id_}+{key}",
            made(ED25519, raw, "a b"),
            made(ED25519, raw, "a\u2003b"),
            made(ED25519, raw, "a\n"),
        ],
        "base64": [text + "\n", text + "=", text + " ", text[:-1]],
        "empty": [f"{name}+{id_}+"],
        "key id is not": [f"{name}+{(int(id_, 16) ^ 1):08x}+{key}", f"{name}x+{id_}+{key}"],
        "is not known": [made(kind, raw) for kind in (0, 3, 5, 7, 0xFA, 0xFF)],
        "verifier key": [
            made(ED25519, raw[:-1]),
            made(COSIGNATURE, raw + b"\0"),
            made(ED25519, b"\x01" + bytes(31)),
            made(ED25519, b"\xff" * 32),
            made(MLDSA, raw),
            made(MLDSA, log_signer(ML_DSA_44.id).vkey.key[:-1]),
            made(ECDSA, raw),
            made(ECDSA, p256 + b"\0"),
            made(ECDSA, p256[:-1]),
            made(ECDSA, log_signer(ML_DSA_44.id).vkey.key),
        ],
    }
    for complaint, texts in bad.items():
        for each in texts:
            with pytest.raises(NoteError, match=complaint):
                VerifierKey.parse(each)
    with pytest.raises(NoteError, match="eight hex digits"):
        VerifierKey.parse(f"{name}+{'ABCDEF01'}+{key}")


@given(st.data())
def test_a_changed_character_never_leaves_the_same_key(data: st.DataObject) -> None:
    """SN-2: nor is anything accepted that prints otherwise."""
    text = log_signer().vkey.text
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters()) + text[at + 1 :]
    try:
        key = VerifierKey.parse(changed)
    except NoteError:
        return
    assert key.text == changed


def test_a_key_of_the_wrong_algorithm_is_refused() -> None:
    """CS-2."""
    wrong = PrivateKey.generate(ES256.id)
    for kind in (ED25519, COSIGNATURE, MLDSA):
        with pytest.raises(NoteError, match="takes a key"):
            VerifierKey.of(ORIGIN, kind, wrong.public)
    with pytest.raises(NoteError, match="not known"):
        VerifierKey.of(ORIGIN, 5, wrong.public)
    for signer in (wrong, PrivateKey.generate(ML_DSA_65.id)):
        with pytest.raises(UnsupportedAlgorithmError, match="notes are signed with"):
            NoteSigner(ORIGIN, signer)
        with pytest.raises(UnsupportedAlgorithmError, match="notes are signed with"):
            CosignatureSigner(ORIGIN, signer)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_ecdsa_signatures_in_der_over_sha_256_hold_on_every_curve(curve: ec.EllipticCurve) -> None:
    """SN-2: 0x02, as transparency-dev's verifiers read them."""
    private = ec.generate_private_key(curve)
    key = VerifierKey.of(ORIGIN, ECDSA, PublicKey(private.public_key()))
    signature = private.sign(TEXT, ec.ECDSA(hashes.SHA256()))

    assert parse(key.text).verify_note(TEXT, signature) is None
    for text, blob in ((TEXT + b"\n", signature), (TEXT, signature[:-1]), (TEXT, signature + b"\0"), (TEXT, b"")):
        with pytest.raises(SignatureInvalidError):
            key.verify_note(text, blob)


def test_ecdsa_on_other_curves_is_refused() -> None:
    """SN-2."""
    der = PrivateKey.generate(ES256.id).public.to_der()
    private = ec.generate_private_key(ec.SECP256K1())
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    other = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    assert parse(made(ECDSA, der)).kind == ECDSA
    with pytest.raises(NoteError, match="P-256"):
        parse(made(ECDSA, other))


def test_an_ed25519_signature_is_over_the_text() -> None:
    signer = log_signer()

    assert signer.vkey.verify_note(TEXT, signer.sign(TEXT).blob) is None
    with pytest.raises(SignatureInvalidError):
        signer.vkey.verify_note(TEXT, signer.sign(TEXT + TEXT).blob)


def test_timestamped_signatures_are_over_checkpoints_only() -> None:
    """CS-1, CS-2."""
    for signer in (log_signer(ML_DSA_44.id), *witnesses()):
        with pytest.raises(NoteError):
            signer.sign(TEXT, 1)
        blob = signer.sign(signed().note.text, 1).blob
        with pytest.raises(SignatureInvalidError, match="cannot be one over this text"):
            signer.vkey.verify_note(TEXT, blob)


def test_two_keys_that_no_line_can_tell_apart_are_refused() -> None:
    """SN-3."""
    key, other = log_signer().vkey, witness().vkey
    twin = VerifierKey(key.name, key.key_id, key.kind, key.key)
    object.__setattr__(twin, "key", other.key)

    assert by_name_and_id([key, key, other]) == {(key.name, key.key_id): key, (other.name, other.key_id): other}
    with pytest.raises(NoteError, match="same name and key id"):
        by_name_and_id([key, twin])


def test_a_signer_shows_no_private_key() -> None:
    for signer in (log_signer(), witness()):
        assert repr(signer).startswith(("<NoteSigner log.example", "<CosignatureSigner witness.example"))
