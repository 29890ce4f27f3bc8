"""Signers that live elsewhere, by a package that is really installed: its metadata lies on the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from transparency.cose.keys import PrivateKey, load_signer, names_signer
from transparency.cose.sign1 import sign1
from transparency.errors import SignerError

MODULE = '''
from pathlib import Path
from transparency.cose.keys import PrivateKey

class Remote:
    """Signs with a key that the package under test never holds."""

    def __init__(self, key):
        self._key = key
        self.public = key.public
        self.alg = key.alg

    def sign(self, data):
        return self._key.sign(data)

def from_file(argument):
    return Remote(PrivateKey.from_pem(Path(argument).read_bytes()))

def broken(argument):
    raise RuntimeError(f"cannot log in with {argument}")

def nothing(argument):
    return object()

class _Odd:
    public, alg, sign = "key", -7, print

def odd(argument):
    return _Odd()
'''
POINTS = "[transparency.signers]\n" + "".join(
    f"{name} = fake_hsm:{target}\n"
    for name, target in (
        ("hsm", "from_file"),
        ("broken", "broken"),
        ("nothing", "nothing"),
        ("odd", "odd"),
        ("gone", "x"),
    )
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution ``fake-hsm`` on the path, as pip would leave it."""
    site = tmp_path / "site"
    info = site / "fake_hsm-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "fake_hsm.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-hsm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.mark.usefixtures("installed")
def test_a_signer_is_found_by_its_entry_point_and_signs(tmp_path: Path) -> None:
    key = PrivateKey.generate(-7)
    (tmp_path / "hsm.pem").write_bytes(key.to_pem())

    signer = load_signer(f"hsm:{tmp_path / 'hsm.pem'}")
    message = sign1({1: signer.alg}, b"payload", signer)

    assert signer.public == key.public
    message.verify(key.public)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("other:x", "no installed package offers the signer 'other'; there are: broken, gone, hsm, nothing, odd"),
        ("nothing:x", "failed to open its key (AttributeError)"),
        ("odd:x", "is not a signer"),
        ("gone:x", "failed to open its key (AttributeError)"),
        ("no-colon", "named NAME:ARGUMENT"),
        ("hsm:\x1b[2J", "named NAME:ARGUMENT"),
    ],
)
def test_what_is_no_signer_is_told_in_one_sentence(name: str, why: str) -> None:
    with pytest.raises(SignerError) as refused:
        load_signer(name)

    assert why in str(refused.value)


@pytest.mark.usefixtures("installed")
def test_a_signer_that_fails_does_not_repeat_what_it_was_given() -> None:
    with pytest.raises(SignerError) as refused:
        load_signer("broken:pin-1234")

    assert "pin-1234" not in str(refused.value)


def test_a_path_is_not_taken_for_a_signer() -> None:
    assert names_signer("hsm:slot-1/receipts")
    assert not any(names_signer(name) for name in ("issuer.pem", "./a:b", "/keys/x.pem", ":x", ""))
