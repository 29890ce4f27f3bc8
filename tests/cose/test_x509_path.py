"""Path validation for certificates that sign: every way in which a chain does not lead to a registered root."""

from __future__ import annotations

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose.x509 import Certificate
from transparency.cose.x509_path import Root, check_root, validate
from transparency.errors import CertificateError, RefusedError
from transparency.testing.pki import BEGINS, CODE_SIGNING, ENDS, Authority, extended_key_usage, key_usage

NOW = BEGINS + 86_400
SERVER_AUTH = "1.3.6.1.5.5.7.3.1"
EMAIL = "1.3.6.1.5.5.7.3.4"
ROOT = Authority.create("Root")
ISSUING = ROOT.authority("Issuing")
LEAF = ISSUING.leaf("agent")
TRUSTED = [Root(ROOT.der)]


def refusal(chain: tuple[bytes, ...], roots: list[Root] | None = None, now: int = NOW) -> str:
    with pytest.raises(CertificateError) as caught:
        validate(chain, TRUSTED if roots is None else roots, now)
    return str(caught.value)


def test_a_chain_to_a_registered_root_gives_the_leaf_key_and_its_time() -> None:
    """SS-7: a leaf without subjectAltName, keyUsage or extendedKeyUsage signs."""
    path = validate(LEAF.chain, TRUSTED, NOW)

    assert path.key == LEAF.signer.public
    assert path.certificates == LEAF.chain
    assert path.root == ROOT.der
    assert (path.not_before, path.not_after) == (BEGINS, ENDS)


@pytest.mark.parametrize("kind", ["P-256", "P-384", "RSA"])
def test_chains_of_each_supported_key_type_are_accepted(kind: str) -> None:
    root = Authority.create("Root", kind=kind)
    leaf = root.authority("Issuing", kind=kind).leaf(kind=kind)

    assert validate(leaf.chain, [Root(root.der)], NOW).key == leaf.signer.public


def test_a_chain_may_carry_its_root_and_stand_in_any_order_behind_the_leaf() -> None:
    """RFC 9360 §2: a candidate path is proposed, and building one is still ours."""
    lower = ISSUING.authority("Lower").leaf()

    path = validate((lower.chain[0], ROOT.der, *reversed(lower.chain[1:])), TRUSTED, NOW)

    assert path.certificates == lower.chain


def test_the_path_is_valid_while_all_of_its_certificates_are() -> None:
    issuing = ROOT.authority("Issuing", begins=BEGINS + 10, ends=ENDS - 10)
    leaf = issuing.leaf(begins=BEGINS - 5, ends=ENDS - 5)

    path = validate(leaf.chain, TRUSTED, NOW)

    assert (path.not_before, path.not_after) == (BEGINS + 10, ENDS - 10)
    validate(leaf.chain, TRUSTED, path.not_before)
    validate(leaf.chain, TRUSTED, path.not_after)


def test_an_expired_certificate_is_named() -> None:
    assert "'CN=agent,O=Acme' has expired: it ended at 2027-01-01T00:00:00Z" in refusal(LEAF.chain, now=ENDS + 1)
    assert "has expired" in refusal(LEAF.chain, now=2**53)
    short = ROOT.authority("Short", ends=NOW - 1).leaf()
    assert "'CN=Short,O=Acme' has expired" in refusal(short.chain)
    old = Authority.create("Old", ends=NOW - 1)
    assert "'CN=Old,O=Acme' has expired" in refusal(old.leaf().chain, [Root(old.der)])


def test_a_certificate_that_is_not_valid_yet_is_named() -> None:
    assert "'CN=agent,O=Acme' is not valid yet: it begins at 2026-01-01" in refusal(LEAF.chain, now=BEGINS - 1)
    later = ROOT.authority("Later", begins=NOW + 1).leaf()
    assert "'CN=Later,O=Acme' is not valid yet" in refusal(later.chain)


def test_a_root_of_the_same_name_and_another_key_is_the_wrong_root() -> None:
    """SS-7: a name is not a key."""
    impostor = Authority.create("Root").authority("Issuing").leaf()

    assert "wrong root: 'CN=Issuing,O=Acme' was not issued by the registered root" in refusal(impostor.chain)


def test_a_chain_to_a_root_nobody_registered_is_refused() -> None:
    other = Authority.create("Other")

    assert "wrong root: the chain ends at 'CN=Other,O=Acme'" in refusal((*other.leaf().chain, other.der))
    assert "incomplete chain or wrong root" in refusal(other.leaf().chain)
    assert "no root certificate is registered" in refusal(LEAF.chain, [])


def test_a_missing_intermediate_is_named() -> None:
    assert "the certificate of 'CN=Issuing,O=Acme'" in refusal((LEAF.der,))


def test_an_intermediate_of_the_right_name_and_another_key_does_not_help() -> None:
    fake = Authority.create("Elsewhere").authority("Issuing")

    assert "was not signed by the certificate 'CN=Issuing,O=Acme' in the chain" in refusal((LEAF.der, fake.der))


def test_a_cross_signed_intermediate_leads_to_the_other_root() -> None:
    """AMB-10: both are valid, so which of them was used has to be kept."""
    other = Authority.create("Other")
    crossed = other.authority("Issuing", key=ISSUING.key)

    path = validate((LEAF.der, crossed.der), [*TRUSTED, Root(other.der)], NOW)

    assert path.root == other.der
    assert path.certificates == (LEAF.der, crossed.der)


def test_a_renewed_intermediate_is_another_certificate_of_the_same_path() -> None:
    """AMB-10: a replaced valid intermediate validates; only what was kept tells them apart."""
    renewed = ROOT.authority("Issuing", key=ISSUING.key)

    assert validate((LEAF.der, renewed.der), TRUSTED, NOW).certificates == (LEAF.der, renewed.der)


def test_a_certificate_that_may_not_sign_is_refused() -> None:
    encipher = ISSUING.leaf(extensions=[(key_usage("key_encipherment"), True)])
    certifier = ISSUING.leaf(extensions=[(key_usage("digital_signature", "key_cert_sign"), True)])
    server = ISSUING.leaf(extensions=[(extended_key_usage(SERVER_AUTH), False)])

    assert "keyUsage lacks digitalSignature" in refusal(encipher.chain)
    assert "keyUsage has keyCertSign" in refusal(certifier.chain)
    assert "extendedKeyUsage is for something else" in refusal(server.chain)
    assert "is a CA certificate: not permitted for signing" in refusal(ISSUING.chain)
    assert "is a CA certificate: not permitted for signing" in refusal((ROOT.der,))


@pytest.mark.parametrize("critical", [True, False])
def test_a_signing_certificate_says_so_critically_or_not(critical: bool) -> None:
    leaf = ISSUING.leaf(
        extensions=[
            (key_usage("digital_signature"), critical),
            (extended_key_usage(CODE_SIGNING), critical),
            (x509.SubjectAlternativeName([x509.DNSName("a.acme.example")]), critical),
            (x509.BasicConstraints(ca=False, path_length=None), critical),
        ]
    )

    assert validate(leaf.chain, TRUSTED, NOW).key == leaf.signer.public


def test_a_critical_extension_nobody_here_knows_is_refused() -> None:
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.55555.1"), b"\x05\x00")

    assert "critical extensions" in refusal(ISSUING.leaf(extensions=[(unknown, True)]).chain)
    validate(ISSUING.leaf(extensions=[(unknown, False)]).chain, TRUSTED, NOW)
    identifier = x509.SubjectKeyIdentifier(b"id")
    assert "criticality" in refusal(ISSUING.leaf(extensions=[(identifier, True)]).chain)


def test_a_certificate_of_version_1_is_refused_for_that() -> None:
    """What ``openssl x509 -req`` makes without an extensions file; its version field is absent (RFC 5280 §4.1)."""
    version = bytes.fromhex("a003020102")
    body = LEAF.certificate.tbs_certificate_bytes
    fields = body[body.index(version) + len(version) :]
    signature = LEAF.der[LEAF.der.index(body) + len(body) :]

    first = sequence(sequence(fields) + signature)

    assert "is an X.509 v1 certificate" in refusal((first, *LEAF.chain[1:]))


def sequence(content: bytes) -> bytes:
    size = len(content).to_bytes(2, "big").lstrip(b"\0")
    return b"\x30" + bytes([0x80 + len(size)]) + size + content


def test_a_required_use_must_be_there() -> None:
    mail = ISSUING.leaf(extensions=[(extended_key_usage(EMAIL), False)])
    anything = ISSUING.leaf(extensions=[(extended_key_usage("2.5.29.37.0"), False)])
    for_mail = [Root(ROOT.der, ekus=(CODE_SIGNING, EMAIL))]

    assert validate(mail.chain, for_mail, NOW).root == ROOT.der
    assert "not permitted for what its root is registered for" in refusal(LEAF.chain, for_mail)
    assert "not permitted for what its root is registered for" in refusal(anything.chain, for_mail)
    validate(anything.chain, TRUSTED, NOW)


def test_a_ca_that_may_issue_for_servers_only_issues_no_signers() -> None:
    tls = ROOT.authority("TLS", extensions=[(extended_key_usage(SERVER_AUTH), False)])
    code = ROOT.authority("Code", extensions=[(extended_key_usage(CODE_SIGNING), False)])

    assert "the CA 'CN=TLS,O=Acme' is not permitted to issue certificates that sign" in refusal(tls.leaf().chain)
    validate(code.leaf().chain, TRUSTED, NOW)


def test_a_ca_in_the_path_must_be_one() -> None:
    no_ca = ROOT.authority("No CA", ca=False, extensions=())
    no_certs = ROOT.authority("No certs", extensions=[(key_usage("digital_signature"), True)])

    assert "not valid" in refusal(no_ca.leaf().chain)
    assert "may not sign certificates (keyUsage)" in refusal(no_certs.leaf().chain)


def test_a_path_length_bounds_the_authorities_below() -> None:
    last = ROOT.authority("Last", path_length=0)

    validate(last.leaf().chain, TRUSTED, NOW)
    assert "path length" in refusal(last.authority("Beyond").leaf().chain)


def test_name_constraints_bind_the_leaf() -> None:
    permitted = x509.NameConstraints([x509.DNSName("acme.example")], None)
    bound = ROOT.authority("Bound", extensions=[(permitted, True)])

    def named(dns: str) -> tuple[bytes, ...]:
        return bound.leaf(extensions=[(x509.SubjectAlternativeName([x509.DNSName(dns)]), False)]).chain

    validate(named("a.acme.example"), TRUSTED, NOW)
    assert "name constraints" in refusal(named("a.other.example"))


@pytest.mark.parametrize("critical", [True, False])
def test_name_constraints_that_would_be_passed_over_are_refused(critical: bool) -> None:
    """Cryptography does not apply directoryName constraints; a CA bound by one is not taken for an unbound one."""
    subtree = x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Other")]))
    bound = ROOT.authority("Bound", extensions=[(x509.NameConstraints([subtree], None), critical)])

    assert "not valid" in refusal(bound.leaf().chain)


def test_nine_certificates_are_too_many_and_eight_are_not() -> None:
    lowest = ROOT
    for number in range(7):
        lowest = lowest.authority(f"CA {number}")

    assert len(lowest.leaf().chain) == 8
    validate(lowest.leaf().chain, TRUSTED, NOW)
    assert "this one has 9" in refusal(lowest.authority("CA 8").leaf().chain)
    assert "this one has 0" in refusal(())


def test_a_chain_of_another_algorithm_is_refused_for_that() -> None:
    """Cryptography's path validation takes ECDSA and RSA; an Ed25519 key below an ECDSA root is a leaf as any."""
    root = Authority.create("Root", kind="Ed25519")

    assert "an algorithm that is not supported for chains" in refusal(root.leaf().chain, [Root(root.der)])
    leaf = ISSUING.leaf(kind="Ed25519")
    assert validate(leaf.chain, TRUSTED, NOW).key == leaf.signer.public


def test_trailing_bytes_after_a_certificate_are_refused() -> None:
    assert "not DER that can be read" in refusal((LEAF.der, LEAF.chain[1] + b"\x00"))


def test_the_signing_certificate_itself_is_no_root() -> None:
    assert "register the CA that issued it" in refusal(LEAF.chain, [Root(LEAF.der)])


def test_the_name_must_be_as_the_root_requires() -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("a.acme.example"), x509.RFC822Name("me@acme.example")])
    leaf = ISSUING.leaf("agent", extensions=[(names, False)])

    validate(leaf.chain, [Root(ROOT.der, {"CN": "agent", "O": "Acme"}, ("dns:*.acme.example",))], NOW)
    validate(leaf.chain, [Root(ROOT.der, sans=("uri:https://x/", "email:*@ACME.example"))], NOW)
    assert "subject CN must be 'other'" in refusal(leaf.chain, [Root(ROOT.der, {"CN": "other"})])
    assert "subject OU must be 'x'" in refusal(leaf.chain, [Root(ROOT.der, {"OU": "x"})])
    assert "no subjectAltName is one of dns:b.acme.example" in refusal(
        leaf.chain, [Root(ROOT.der, sans=("dns:b.acme.example",))]
    )
    assert "no subjectAltName" in refusal(LEAF.chain, [Root(ROOT.der, sans=("dns:*.acme.example",))])


def test_one_root_of_several_is_enough_and_each_has_its_own_requirements() -> None:
    strict, wide = Root(ROOT.der, {"CN": "other"}), Root(ROOT.der, {"CN": "agent"})

    assert validate(LEAF.chain, [Root(Authority.create("Root").der), strict, wide], NOW).root == ROOT.der
    assert "subject CN" in refusal(LEAF.chain, [strict, Root(Authority.create("Other").der)])


def test_a_root_is_a_ca_of_a_supported_key() -> None:
    check_root(ROOT.der)
    check_root(ISSUING.der)
    with pytest.raises(CertificateError, match="is not a CA certificate"):
        check_root(LEAF.der)
    with pytest.raises(CertificateError, match="Ed25519"):
        check_root(Authority.create("Root", kind="Ed25519").der)


def test_a_certificate_error_is_a_refusal() -> None:
    assert issubclass(CertificateError, RefusedError)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=64) | st.sampled_from([*LEAF.chain, ROOT.der]), max_size=9), st.integers(0, 2**53))
def test_no_chain_raises_anything_but_certificate_errors(chain: list[bytes], now: int) -> None:
    try:
        path = validate(chain, TRUSTED, now)
    except CertificateError:
        return
    assert path.key == LEAF.signer.public


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1), st.data())
def test_a_chain_with_any_byte_changed_is_refused(which: int, data: st.DataObject) -> None:
    """SS-7: a signature covers every byte but its own encoding, and that has one form here."""
    changed = bytearray(LEAF.chain[which])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    chain = list(LEAF.chain)
    chain[which] = bytes(changed)

    with pytest.raises(CertificateError):
        validate(chain, TRUSTED, NOW)


@pytest.mark.parametrize("which", [0, 1])
def test_a_signature_that_claims_unused_bits_is_refused(which: int) -> None:
    """SS-7: the parser takes 1 for 0 where the last bit of the signature happens to be 0, and that is every second."""
    for _ in range(12):
        chain = list(Authority.create("Root").authority("Issuing").leaf("agent").chain)
        der = chain[which]
        at = der.rindex(b"\x03\x02\x03", 0, len(der) - 60) + 4  # behind ecdsa-with-SHA256: 03 (BIT STRING), length, 00
        assert der[at] == 0
        with pytest.raises(CertificateError):
            Certificate.from_der(der[:at] + b"\x01" + der[at + 1 :])
