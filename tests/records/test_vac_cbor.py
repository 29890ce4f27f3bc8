"""VAC in CBOR: the same record as in JSON, read strictly."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.records import canonical_json, strict_json, vac_cbor

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "vac"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples" / "vac"

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXT, inner, max_size=5), max_leaves=30
)


def exactly(value: Any) -> Any:
    """The value with its types said, for 1 == 1.0 == True and 0.0 == -0.0 to Python."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value).__name__, repr(value)


@given(st.dictionaries(_TEXT, _JSON, max_size=6), st.booleans())
@settings(max_examples=200, deadline=None)
def test_what_json_holds_is_the_same_in_cbor_and_back(value: dict[str, Any], tagged: bool) -> None:
    from_json = strict_json.loads(canonical_json.dumps(value))
    data = vac_cbor.dumps(from_json, tagged=tagged)

    from_cbor = vac_cbor.loads(data)

    assert exactly(from_cbor) == exactly(from_json) == exactly(value)
    assert vac_cbor.dumps(from_cbor, tagged=tagged) == data
    assert vac_cbor.json_form(from_cbor) == vac_cbor.JsonForm(from_cbor, ())


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_our_records_are_the_same_in_both_forms(path: Path) -> None:
    value = strict_json.loads(path.read_bytes())

    plain, tagged = vac_cbor.dumps(value), vac_cbor.dumps(value, tagged=True)

    assert tagged == b"\xd9\x10\x35" + plain
    assert exactly(vac_cbor.loads(plain)) == exactly(vac_cbor.loads(tagged)) == exactly(value)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside this checkout (../shared/samples)")
def test_the_real_record_in_cbor_is_the_one_in_json() -> None:
    (path,) = SAMPLES.glob("*.vac.cbor")

    assert exactly(vac_cbor.loads(path.read_bytes())) == exactly(json.loads(path.with_suffix(".json").read_bytes()))


def test_keys_may_come_in_any_order() -> None:
    assert vac_cbor.loads(b"\xa2\x61b\x01\x61a\x02") == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "nothing"),
        (b"\xa1\x61a", "cut short"),
        (b"\xa0\x00", "trailing bytes"),
        (b"\xbf\x61a\x01\xff", "an indefinite map"),
        (b"\xa1\x61a\x9f\xff", "an indefinite array"),
        (b"\xa1\x61a\x7f\x61b\xff", "indefinite text"),
        (b"\xa2\x61a\x01\x61a\x02", "a key twice"),
        (b"\xa1\x61a\x18\x01", "a long head"),
        (b"\xa1\x61a\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00", "a long float"),
        (b"\xa1\x61a\xf9\x7e\x00", "NaN"),
        (b"\xa1\x61a\x81\xf9\x7c\x00", "infinity"),
        (b"\xa1\x61a\xf9\xfc\x00", "minus infinity"),
        (b"\xa1\x61a\xf7", "undefined"),
        (b"\xa1\x61a\xc2\x41\x01", "a bignum"),
        (b"\xa1\x61a\xc0\x61b", "a date tag"),
        (b"\xd9\x10\x36\xa0", "another tag outside"),
        (b"\xd9\x10\x35\xd9\x10\x35\xa0", "the tag twice"),
        (b"\xa1\x61a\xd9\x10\x35\xa0", "the tag inside"),
        (b"\xda\x00\x00\x10\x35\xa0", "the tag with a long head"),
        (b"\xa1\x61a\x61\xff", "text that is not UTF-8"),
        (b"\xa1\x80\x01", "an array as key"),
        (b"\xa1\x61a\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "a count nobody backs"),
        (b"\xa1\x61a" + b"\x81" * 100_000 + b"\x00", "nesting"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_strict_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(MalformedError):
        vac_cbor.loads(data)


def test_both_forms_have_the_same_greatest_depth() -> None:
    value: Any = 1
    for _ in range(vac_cbor.MAX_DEPTH):
        value = {"a": value}
    deeper = {"a": value}

    assert strict_json.loads(json.dumps(value).encode()) == vac_cbor.loads(vac_cbor.dumps(value, tagged=True)) == value
    with pytest.raises(MalformedError):
        strict_json.loads(json.dumps(deeper).encode())
    with pytest.raises(MalformedError):
        vac_cbor.loads(b"\xa1\x61a" + vac_cbor.dumps(value))


@pytest.mark.parametrize("value", [2**64, -(2**64) - 1, math.nan, math.inf, [[-math.inf]], "\ud800"])
def test_what_has_no_cbor_form_is_refused_on_writing(value: object) -> None:
    with pytest.raises(MalformedError):
        vac_cbor.dumps({"a": value})


def test_small_bytes_that_are_large_in_memory_are_refused_before_they_are_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vac_cbor, "MAX_WEIGHT", 400_000)
    count = 150_000
    bomb = b"\xa1\x61a\x9a" + count.to_bytes(4, "big") + b"\xa0" * count

    tracemalloc.start()
    with pytest.raises(MalformedError, match="more items"):
        vac_cbor.loads(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # Built, it would take 64 bytes for each.
    assert peak < 1_000_000


def test_a_large_record_of_ordinary_text_is_read() -> None:
    value = {"entries": ["x" * 1000] * 6000}

    assert vac_cbor.loads(vac_cbor.dumps(value)) == value


def test_bytes_stay_bytes_and_are_shown_as_base64url() -> None:
    value = {"session": {"session-id": b"\xfb\xff\x01"}, "x": {1: b"", "a": [b"\x00"]}}

    read = vac_cbor.loads(vac_cbor.dumps(value))
    shown = vac_cbor.json_form(read)

    assert read == value
    assert shown.value == {"session": {"session-id": "-_8B"}, "x": {"1": "", "a": ["AA"]}}
    assert sorted(shown.changed) == ["/session/session-id", "/x/1", "/x/1", "/x/a/0"]


def test_keys_that_json_would_confuse_are_refused_for_display() -> None:
    with pytest.raises(MalformedError, match="two keys"):
        vac_cbor.json_form({"x": {1: "a", "1": "b"}})


@pytest.mark.parametrize("tagged", [False, True])
def test_the_places_of_the_entries_are_exact(tagged: bool) -> None:
    value = strict_json.loads((FIXTURES / "published.json").read_bytes())
    data = vac_cbor.dumps(value, tagged=tagged)

    found = [vac_cbor.loads(data[start:end]) for start, end in vac_cbor.entries(data)]

    assert found == value["session"]["entries"]
    assert vac_cbor.entries(vac_cbor.dumps({"session": {"entries": 1}})) == []
    assert vac_cbor.entries(vac_cbor.dumps({"session": 1})) == []
    assert vac_cbor.entries(vac_cbor.dumps({"version": 1}, tagged=tagged)) == []
