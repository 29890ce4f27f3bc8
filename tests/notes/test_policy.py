"""Policy files: read, printed, and what a quorum asks."""

from __future__ import annotations

import dataclasses
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notes.world import ORIGIN, TIME, log_signer, log_signers, signed, witness
from transparency.cose.algorithms import ML_DSA_44
from transparency.errors import NoteError, SignatureInvalidError
from transparency.notes.note import Note
from transparency.notes.policy import PolicyGroup, QuorumResult, WitnessPolicy
from transparency.notes.signer import CosignatureSigner
from transparency.notes.vkey import COSIGNATURE, ED25519, VerifierKey, key_id

NAMES = ("X1", "X2", "X3", "Y1", "Y2", "Y3")


@cache
def cosigner(name: str) -> CosignatureSigner:
    return witness(f"{name.lower()}.example")


def witness_line(name: str) -> str:
    return f"witness {name} {cosigner(name).vkey.text}\n"


LOG = f"log {log_signer().vkey.text}\n"
X, Y = ("".join(map(witness_line, names)) for names in (NAMES[:3], NAMES[3:]))
# The example of tlog-policy, with keys.
EXAMPLE = (
    f"{LOG}\n{X}group X-witnesses 2 X1 X2 X3\n\n{Y}group Y-witnesses any Y1 Y2 Y3\n\n"
    "group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n"
)


def read(text: str) -> WitnessPolicy:
    return WitnessPolicy.from_text(text.encode())


def test_the_example_of_the_specification() -> None:
    """PO-1."""
    policy = read(EXAMPLE)

    assert [log.key for log in policy.logs] == [log_signer().vkey]
    assert tuple(policy.witnesses) == NAMES
    assert list(policy.groups.values()) == [
        PolicyGroup("X-witnesses", 2, ("X1", "X2", "X3")),
        PolicyGroup("Y-witnesses", 1, ("Y1", "Y2", "Y3")),
        PolicyGroup("X-and-Y", 2, ("X-witnesses", "Y-witnesses")),
    ]
    assert policy.quorum == "X-and-Y"


@given(st.sets(st.sampled_from([*NAMES, "X-witnesses", "X-and-Y", "none", "stranger"])))
def test_a_quorum_of_two_levels(names: set[str]) -> None:
    """PO-1: two of the Xs and one of the Ys; names of groups and strangers count for nothing."""
    enough = len(names & set(NAMES[:3])) >= 2 and len(names & set(NAMES[3:])) >= 1

    assert read(EXAMPLE).satisfied(names) is enough


@pytest.mark.parametrize(
    ("quorum", "names", "enough"),
    [
        ("quorum none\n", "", True),
        ("quorum X1\n", "", False),
        ("quorum X1\n", "X2 X3", False),
        ("quorum X1\n", "X1", True),
        ("group g all X1 X2 X3\nquorum g\n", "X1 X2", False),
        ("group g all X1 X2 X3\nquorum g\n", "X1 X2 X3", True),
        ("group g any X1 X2 X3\nquorum g\n", "", False),
        ("group g any X1 X2 X3\nquorum g\n", "X3", True),
        ("group g 2 X1 X2 X3\nquorum g\n", "X3", False),
        ("group g 2 X1 X2 X3\nquorum g\n", "X1 X3", True),
        ("group g 2 X1 X2 X3\nquorum g\n", "X1 X1", False),
        ("group any any X1\ngroup all all any\nquorum all\n", "X1", True),
        ("group 2 any X1\nquorum 2\n", "X1", True),
    ],
)
def test_quorums(quorum: str, names: str, enough: bool) -> None:
    """PO-1."""
    assert read(X + quorum).satisfied(names.split()) is enough


def test_blanks_comments_order_and_urls() -> None:
    """PO-1."""
    policy = read(
        f"\n# comment \u00e9\n \t\n\t #another\n witness\tX1  {cosigner('X1').vkey.text}\thttps://x1.example/ \t\n"
        f"quorum X1\nlog {log_signer().vkey.text} https://log.example\n{witness_line('X2')}"
    )

    assert policy.witnesses["X1"].url == "https://x1.example/"
    assert policy.witnesses["X2"].url is None
    assert policy.logs[0].url == "https://log.example"
    assert WitnessPolicy.from_text(policy.text) == policy


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "newline"),
        ("\n", "no quorum line"),
        (LOG, "no quorum line"),
        ("quorum none", "may be cut off"),
        ("quorum none\r\n", "control character"),
        ("quorum none\x0b\n", "control character"),
        ("quorum none\x7f\n", "control character"),
        ("quorum none\x00\n", "control character"),
        ("quorum none\nquorum none\n", "line 2: a second quorum"),
        (f"{X}quorum X1\nquorum X2\n", "line 5: a second quorum"),
        ("quorum\n", "line 1: not of the form quorum"),
        ("quorum none none\n", "line 1: not of the form quorum"),
        ("Quorum none\n", "not of the form one of"),
        ("quorum none # comment\n", "not of the form quorum"),
        ("quorum\u00a0none\n", "not of the form one of"),
        ("quorum X1\n" + X, "line 1: 'X1' is no witness or group of a line before"),
        (f"{X}quorum x1\n", "'x1' is no witness"),
        ("log\nquorum none\n", "not of the form log"),
        (LOG[:-1] + " url more\nquorum none\n", "not of the form log"),
        (f"{LOG}{LOG}quorum none\n", "line 2: another log has the same public key"),
        (f"log {cosigner('X1').vkey.text}\nquorum none\n", "0x04 stands where"),
        (f"witness X1 {log_signer().vkey.text}\nquorum X1\n", "0x01 stands where"),
        ("witness X1\nquorum X1\n", "not of the form witness"),
        ("witness X1 no-key\nquorum X1\n", "verifier key"),
        (f"{witness_line('X1')}witness X2 {cosigner('X1').vkey.text}\nquorum X1\n", "another witness has the same"),
        (f"{witness_line('X1')}witness X1 {cosigner('X2').vkey.text}\nquorum X1\n", "the name 'X1' is taken"),
        (f"witness none {cosigner('X1').vkey.text}\nquorum none\n", "the name 'none' is taken"),
        (f"{X}group none any X1\nquorum none\n", "the name 'none' is taken"),
        (f"{X}group X1 any X2\nquorum X1\n", "the name 'X1' is taken"),
        (f"{X}group g any X1\ngroup g any X2\nquorum g\n", "the name 'g' is taken"),
        (f"{X}group g any none\nquorum g\n", "'none' is no witness"),
        (f"{X}group g any g\nquorum g\n", "'g' is no witness"),
        (f"{X}group g any h\ngroup h any X1\nquorum g\n", "'h' is no witness"),
        (f"{X}group g any X1 X1\nquorum g\n", "'X1' is a member of a group already"),
        (f"{X}group g any X1\ngroup h any X1\nquorum g\n", "'X1' is a member of a group already"),
        (f"{X}group g any\nquorum g\n", "not of the form group"),
        (f"{X}group g 2\nquorum g\n", "not of the form group"),
        (f"{X}group g 0 X1\nquorum g\n", "threshold"),
        (f"{X}group g 2 X1\nquorum g\n", "threshold"),
        (f"{X}group g 01 X1\nquorum g\n", "threshold"),
        (f"{X}group g +1 X1\nquorum g\n", "threshold"),
        (f"{X}group g -1 X1\nquorum g\n", "threshold"),
        (f"{X}group g \u0661 X1\nquorum g\n", "threshold"),
        (f"{X}group g ALL X1\nquorum g\n", "threshold"),
    ],
)
def test_whatever_is_not_a_policy_is_refused_and_the_line_named(text: str, complaint: str) -> None:
    """PO-1."""
    with pytest.raises(NoteError, match=complaint):
        read(text)


def test_the_same_public_key_under_another_name_or_type_is_a_duplicate() -> None:
    """PO-1: "even if they differ by key name and key id"."""
    key = log_signer().vkey
    renamed = VerifierKey("other.example", key_id("other.example", ED25519, key.key), ED25519, key.key)
    as_witness = VerifierKey("w.example", key_id("w.example", COSIGNATURE, key.key), COSIGNATURE, key.key)

    with pytest.raises(NoteError, match="another log has the same public key"):
        read(f"{LOG}log {renamed.text}\nquorum none\n")
    assert read(f"{LOG}witness w {as_witness.text}\nquorum w\n").quorum == "w"


def test_names_are_octets_and_need_not_be_utf_8() -> None:
    """PO-1: a Kelvin sign is not a K, and 0xFF is a name."""
    vkeys = [cosigner(name).vkey.text.encode() for name in NAMES[:3]]
    names = [b"K", "\u212a".encode(), b"\xff\xfe"]
    lines = [b"witness " + name + b" " + vkey + b"\n" for name, vkey in zip(names, vkeys, strict=True)]
    text = b"".join(lines) + b"group \x80 all K \xff\xfe\nquorum \x80\n"

    policy = WitnessPolicy.from_text(text)

    assert policy.text == text.replace(b"all", b"2")
    assert policy.satisfied(["K", b"\xff\xfe".decode(errors="surrogateescape")])
    assert not policy.satisfied(["K", "\u212a"])


def test_at_least_32_of_each_are_read() -> None:
    """PO-1."""
    names = [f"W{number}" for number in range(40)]
    text = "".join(map(witness_line, names)) + "".join(f"group G{name} any {name}\n" for name in names)
    logs = "".join(f"log {log_signer(name=f'{name}.example').vkey.text}\n" for name in names)

    policy = read(f"{logs}{text}group all all {' '.join(f'G{name}' for name in names)}\nquorum all\n")

    assert (len(policy.logs), len(policy.witnesses), len(policy.groups)) == (40, 40, 41)
    assert policy.satisfied(names)
    assert not policy.satisfied(names[1:])


@given(st.data())
def test_a_policy_read_back_is_the_one_that_was_written(data: st.DataObject) -> None:
    """PO-1: random groups of what is still free."""
    free, lines = list(NAMES), [LOG, X, Y]
    for number in range(data.draw(st.integers(0, 4))):
        members = data.draw(st.lists(st.sampled_from(free), min_size=1, unique=True)) if free else []
        if members:
            threshold = data.draw(st.sampled_from(["all", "any"]) | st.integers(1, len(members)).map(str))
            lines.append(f"group g{number} {threshold} {' '.join(members)}\n")
            free = [each for each in free if each not in members] + [f"g{number}"]
    quorum = data.draw(st.sampled_from(["none", *free]))
    policy = read("".join(lines) + f"quorum {quorum}\n")

    assert WitnessPolicy.from_text(policy.text) == policy
    assert policy.satisfied(NAMES)
    # More witnesses never make less of a quorum.
    some = data.draw(st.sets(st.sampled_from(NAMES)))
    more = some | data.draw(st.sets(st.sampled_from(NAMES)))
    assert policy.satisfied(some) <= policy.satisfied(more)


def test_a_checkpoint_by_a_policy() -> None:
    """PO-1, CS-1, CS-2: who counted and who is missing, by the policy's names."""
    policy = read(EXAMPLE)
    two = signed(by=log_signers()[:1], cosigned_by=(cosigner("X1"), cosigner("X3")))
    three = two.with_signature(cosigner("Y2").sign(two.note.text, TIME))

    result = policy.check(two)
    assert (result.ok, result.counted, result.missing) == (False, ("X1", "X3"), ("X2", "Y1", "Y2", "Y3"))
    result = policy.check(three)
    assert (result.ok, result.counted, result.missing) == (True, ("X1", "X3", "Y2"), ("X2", "Y1", "Y3"))
    assert [each.time for each in result.cosignatures] == [TIME] * 3
    assert isinstance(result, QuorumResult)


def test_the_same_witness_twice_counts_once() -> None:
    """PO-1."""
    policy = read(f"{X}group g 2 X1 X2 X3\nquorum g\n")
    one = signed(cosigned_by=(cosigner("X1"),))
    twice = dataclasses.replace(one, note=Note(one.note.text, (*one.note.signatures, one.note.signatures[-1])))

    assert policy.check(twice).counted == ("X1",)
    assert not policy.check(twice).ok


def test_a_checkpoint_of_a_log_that_is_not_listed_is_refused() -> None:
    """PO-1, SN-3: whatever the quorum says."""
    stranger = log_signer(name="stranger.example")
    checkpoint = signed(by=(stranger,))

    with pytest.raises(SignatureInvalidError, match="known key of its log"):
        read(f"{LOG}quorum none\n").check(checkpoint)
    assert read("quorum none\n").check(checkpoint) == QuorumResult(ok=True, counted=(), missing=())


def test_a_cosignature_that_fails_spoils_the_note_even_where_others_are_enough() -> None:
    """SN-3."""
    policy = read(f"{LOG}{X}quorum X1\n")
    good = signed(cosigned_by=(cosigner("X1"), cosigner("X2")))
    line = good.note.signatures[-1]

    assert policy.check(good).ok
    with pytest.raises(SignatureInvalidError):
        policy.check(good.with_signature(dataclasses.replace(line, blob=line.blob[:-1] + bytes([line.blob[-1] ^ 1]))))


def test_an_ml_dsa_witness_and_log_by_a_policy() -> None:
    """PO-1, CS-2."""
    log, cosigning = log_signer(ML_DSA_44.id), witness("pq.example", ML_DSA_44.id)
    policy = read(f"log {log.vkey.text}\nwitness pq {cosigning.vkey.text}\nquorum pq\n")

    assert policy.check(signed(by=(log,), cosigned_by=(cosigning,))).ok
    assert not policy.check(signed(by=(log,))).ok
    assert policy.logs[0].key.name == ORIGIN


@settings(max_examples=200)
@given(st.binary(max_size=80) | st.text(alphabet="logwitnessgroupquorumnone #\t\n12", max_size=60).map(str.encode))
def test_any_bytes_are_a_policy_or_a_clear_error(data: bytes) -> None:
    """PO-1."""
    try:
        policy = WitnessPolicy.from_text(data)
    except NoteError:
        return
    assert WitnessPolicy.from_text(policy.text) == policy
