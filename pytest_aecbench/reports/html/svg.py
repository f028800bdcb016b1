"""Elements of SVG: text is escaped, and only elements are taken as they are."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pytest_aecbench.reports.html.texts import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Svg", "drawing", "element", "number", "text"]


class Svg(str):
    """The text of elements that this module has made."""

    __slots__ = ()


def number(value: float) -> str:
    """Return a coordinate in as few characters as matter."""
    return f"{value:.1f}".rstrip("0").rstrip(".") or "0"


def element(name: str, *children: Svg | str, **attributes: str | float) -> Svg:
    """Return an element; underscores in names of attributes stand for hyphens."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    if not children:
        return Svg(f"<{name}{given}/>")
    inner = "".join(child if isinstance(child, Svg) else escape(shown(child)) for child in children)
    return Svg(f"<{name}{given}>{inner}</{name}>")


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else number(value)


def text(x: float, y: float, content: str, *, kind: str = "", anchor: str = "start") -> Svg:
    """Return a line of text."""
    return element("text", content, x=x, y=y, class_=kind, text_anchor=anchor)


def drawing(width: float, height: float, title: str, parts: Iterable[Svg]) -> Svg:
    """Return a whole drawing that screen readers name by its title."""
    return element(
        "svg",
        element("title", title),
        *parts,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )
