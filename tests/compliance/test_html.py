"""The page: it loads nothing, runs nothing, and shows what strangers wrote as text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from tests.compliance.reporting import HOSTILE, example_report
from transparency.compliance.html import html
from transparency.compliance.html_elements import el
from transparency.compliance.report import MAX_RECORDS

_LOADS = frozenset({
    "script", "img", "link", "iframe", "object", "embed", "audio", "video", "source", "base", "form", "input", "image",
    "use", "foreignobject", "animate", "set", "template", "noscript", "frame", "track", "button",
})  # fmt: skip
_VOID = frozenset({"meta", "br", "col"})


class Page(HTMLParser):
    """What a browser would find: elements, attributes, text; and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module", params=["plain", "hostile", "records", "empty"])
def source(request: pytest.FixtureRequest) -> str:
    if request.param == "empty":
        return html(example_report(log=False, count=0))
    words = HOSTILE if request.param == "hostile" else ""
    return html(example_report(log=request.param != "records", words=words))


def test_the_page_has_no_script_and_nothing_that_loads(source: str) -> None:
    page = Page(source)

    assert not page.open
    assert not {tag for tag, _ in page.elements} & _LOADS
    for tag, attributes in page.elements:
        names = set(attributes)
        assert not any(name.startswith("on") for name in names), tag
        assert not names & {"src", "srcset", "style", "xlink:href", "action", "background", "poster", "ping"}, tag


def test_links_lead_into_the_page_or_to_the_log_that_was_reported_on(source: str) -> None:
    page = Page(source)
    places = {attributes["id"] for _, attributes in page.elements if "id" in attributes}

    for tag, attributes in page.elements:
        if "href" in attributes:
            target = attributes["href"] or ""
            assert tag == "a"
            assert target[1:] in places if target.startswith("#") else target.startswith("https://log.example/entries/")


def test_a_log_report_links_to_statements_and_proofs() -> None:
    targets = {attributes.get("href") for _, attributes in Page(html(example_report())).elements}

    assert f"https://log.example/entries/{1:064x}/statement" in targets
    assert f"https://log.example/entries/{1:064x}/proof" in targets
    assert f"https://log.example/entries/{'A' * 43}/statement" in targets


def test_nothing_is_fetched_by_style_either(source: str) -> None:
    assert "@import" not in source
    assert set(re.findall(r"url\(([^)]*)\)", source)) <= {"#p-warn", "#p-fail", "#p-attest"}


def test_the_policy_of_the_page_allows_its_style_and_nothing_else(source: str) -> None:
    page = Page(source)
    policies = [a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv")]
    style = source.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"]
    # It has to stand before whatever it is to keep from loading.
    assert [tag for tag, _ in page.elements].index("style") > 3
    assert source.count("<style>") == source.count("</style>") == 1


def test_hostile_text_is_shown_and_inert() -> None:
    source = html(example_report(words=HOSTILE))

    assert "<script>alert(1)</script>" in Page(source).text
    assert "<script" not in source
    for hidden in ("\x1b", "\u202e", "\u2066", "\u200b"):
        assert hidden not in source
    assert "\\u{202e}" in Page(source).text


def test_an_address_that_is_no_web_address_is_no_link() -> None:
    report = example_report()

    page = html(type(report)(**{**{n: getattr(report, n) for n in report.__slots__}, "link": "javascript:alert(1)"}))

    assert "javascript:" not in page


def test_the_word_that_nobody_may_say_is_not_said(source: str) -> None:
    assert "compliant" not in source.lower()


def test_the_lists_are_bounded_and_say_what_they_leave_out() -> None:
    report = example_report(count=MAX_RECORDS + 50)

    page = Page(html(report)).text

    assert len(report.records) == MAX_RECORDS
    assert "50 further sessions are counted above and not listed." in page
    assert len(html(report)) < 2_000_000


def test_every_status_is_written_in_words(source: str) -> None:
    text = Page(source).text

    assert "evidence present" in text or "not applicable" in text
    assert "unverified" in text


@pytest.mark.parametrize("attributes", [{"onclick": "x"}, {"style": "x"}, {"src": "x"}])
def test_an_element_that_could_act_cannot_be_made(attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(attributes))):
        el("p", "x", **attributes)
    with pytest.raises(ValueError, match="script"):
        el("script", "x")
