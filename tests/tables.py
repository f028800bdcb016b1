"""The tables of an HTML page, as a reader without JavaScript has them."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["Tables", "tables"]


class Tables(HTMLParser):
    """Collects each table's rows of texts by its name; end tags of cells may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self.sections: dict[str, list[str]] = {}
        self._section = ""
        self._table: list[list[str]] | None = None
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "section":
            self._section = values.get("id") or ""
            self.sections[self._section] = []
        elif tag == "table":
            name = values.get("data-name") or ""
            self._table = self.found.setdefault(name, [])
            self.sections[self._section].append(name)
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th") and self._table is not None:
            self._table[-1].append("")
            self._in_cell = True
        elif tag in ("svg", "title"):
            self._in_cell = False

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table = None
        if tag in ("td", "th", "tr", "thead", "tbody", "table"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell and self._table is not None:
            self._table[-1][-1] += data.strip("\n")


def tables(page: str | bytes) -> Tables:
    """Return the tables of a page."""
    parser = Tables()
    parser.feed(page if isinstance(page, str) else page.decode())
    return parser
