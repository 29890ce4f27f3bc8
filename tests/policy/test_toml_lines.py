"""Lines of a TOML document: exact, whatever its layout."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from transparency.policy.toml import quote
from transparency.policy.toml_lines import Path, line_of, lines_of

DOCUMENT = '''\
# a comment with "quotes" and [brackets]
version = 1
text = "a # b \\" ] }"   # comment
literal = 'c:\\no # escape'

many = """
[not.a.heading]
x = "y" \\""" still
""""   # ends in a quote of its own
more = \'\'\'
[[also.not]]
\'\'\'
list = [
  1, # one
  "]",

  [2, { a = "}", b.c = 3 }],
]
dotted.name."with space" = true
[accept]
algorithms = ["ES256", "EdDSA"]
[[issuer]]
iss = "a"
[issuer.records]
formats = [
 "x",
 "y",
]
[[issuer.key]]
kid = "k1"
[[issuer.key]]
kid = "k2"
not-after = 2026-01-01 00:00:00Z
[[issuer]]

[[issuer.key]]
kid = "k3"
["quoted \\" heading".'it''s']
z = 1
'''.replace("'it''s'", "'its'")


def paths(value: Any) -> set[Path]:
    """Every path there is in what tomllib read."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict | list):
        inner = list(value.items() if isinstance(value, dict) else enumerate(value))
    return {(name,) for name, _ in inner} | {(name, *rest) for name, item in inner for rest in paths(item)}


def test_every_member_has_its_line() -> None:
    lines = DOCUMENT.split("\n")
    found = lines_of(DOCUMENT)

    assert set(found) == paths(tomllib.loads(DOCUMENT))
    for path, shows in {
        ("version",): "version = 1",
        ("literal",): "literal = ",
        ("many",): 'many = """',
        ("more",): "more = ",
        ("list", 1): '  "]",',
        ("list", 2, 1, "b", "c"): "  [2,",
        ("dotted", "name", "with space"): "dotted.",
        ("accept", "algorithms", 1): "algorithms",
        ("issuer", 0, "records", "formats", 1): ' "y"',
        ("issuer", 0, "key", 1): "[[issuer.key]]",
        ("issuer", 0, "key", 1, "not-after"): "not-after",
        ("issuer", 1): "[[issuer]]",
        ("issuer", 1, "key", 0, "kid"): 'kid = "k3"',
        ('quoted " heading', "its", "z"): "z = 1",
    }.items():
        assert lines[found[path] - 1].startswith(shows), path


def test_what_is_missing_is_on_the_line_of_the_table_that_lacks_it() -> None:
    data = DOCUMENT.encode()

    assert line_of(data, ("issuer", 0, "key", 1, "pem")) == line_of(data, ("issuer", 0, "key", 1))
    assert line_of(data, ("log",)) == 1
    assert line_of(b"", ("anything", 3)) == 1
    assert line_of(b"a = 1\r\nb = '\xe2\x80\xa8'\r\nc = 3", ("c",)) == 3


texts = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = (
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | texts.map(lambda text: text.replace("\r", ""))
    | st.datetimes().map(lambda at: at.replace(microsecond=0))
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
gaps = st.sampled_from(["", "\n", "# [x]\n", "\n# a = '''\n\n", " \t\n"])


def inline(value: Any, draw: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote(name)} = {inline(item, draw)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        items = "".join(f"{inline(item, draw)}{draw(gaps)},{draw(gaps)}" for item in value)
        return f"[{draw(gaps)}{items}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quote(value) if draw(st.booleans()) or '"' in value or "\\" in value else f'"""\n{escaped(value)}"""'
    return str(value.isoformat())


def escaped(text: str) -> str:
    return "".join(c if c == "\n" or (c >= " " and c != "\x7f") else f"\\u{ord(c):04x}" for c in text)


@given(st.dictionaries(texts, values, max_size=6), st.data())
def test_each_key_is_found_on_the_line_where_it_was_written(members: dict[str, Any], data: Any) -> None:
    text, expected = "", {}
    for name, value in members.items():
        text += data.draw(gaps)
        expected[name,] = text.count("\n") + 1
        text += f"{quote(name)} = {inline(value, data.draw)}\n"

    found = lines_of(text)

    assert {path: line for path, line in found.items() if len(path) == 1} == expected
    assert set(found) == paths(tomllib.loads(text))
