"""HTML made of elements, so that nothing gets into a page unescaped: text is text unless an element made it.

Text of strangers is first shown as everywhere else (``display.escape_hidden``): control characters and those that
turn the reading direction become visible escapes, and only then is it markup's turn.
"""

from __future__ import annotations

from html import escape
from typing import Final

from transparency.display import escape_hidden

LONGEST: Final = 400
_VOID: Final = frozenset({"meta", "br", "col", "rect", "path", "line", "circle"})
_NAMES: Final = frozenset(
    {
        "html",
        "head",
        "body",
        "title",
        "meta",
        "style",
        "header",
        "footer",
        "nav",
        "main",
        "section",
        "h1",
        "h2",
        "h3",
        "p",
        "a",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "col",
        "colgroup",
        "span",
        "strong",
        "em",
        "code",
        "div",
        "br",
        "figure",
        "figcaption",
        "svg",
        "defs",
        "pattern",
        "rect",
        "path",
        "line",
        "circle",
        "text",
        "small",
    }
)


class Element(str):
    """Markup that this module made."""

    __slots__ = ()


def el(name: str, /, *children: str, **attributes: str | int | None) -> Element:
    """An element; children that are no elements are text. ``class_`` is class, ``_`` in a name is a hyphen."""
    if name not in _NAMES:
        raise ValueError(name)
    inside = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID:
        return Element(f"<{name}{inside}>" if name in ("meta", "br", "col") else f"<{name}{inside}/>")
    return Element(f"<{name}{inside}>{join(*children)}</{name}>")


def join(*children: str) -> Element:
    return Element("".join(child if isinstance(child, Element) else text(child) for child in children))


def text(value: str, longest: int = LONGEST) -> Element:
    """Text, safe to show, cut."""
    shown = value if len(value) <= longest else value[:longest] + "…"
    return Element(escape(escape_hidden(shown), quote=True))


def _attribute(key: str, value: str | int) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name.startswith("on") or name in ("style", "src", "srcset"):
        raise ValueError(name)
    if name == "viewbox":
        name = "viewBox"
    return f' {name}="{escape(escape_hidden(str(value)), quote=True)}"'
