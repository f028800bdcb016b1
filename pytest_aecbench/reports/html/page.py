"""``render`` makes the page: sections, data and details in one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_aecbench.reports.html.columns import HEAD, columns, packed, rows
from pytest_aecbench.reports.html.details import details
from pytest_aecbench.reports.html.pages.compare import compare
from pytest_aecbench.reports.html.pages.cost import cost
from pytest_aecbench.reports.html.pages.errors import errors
from pytest_aecbench.reports.html.pages.groups import groups
from pytest_aecbench.reports.html.pages.leaderboard import leaderboard
from pytest_aecbench.reports.html.pages.matrix import matrix
from pytest_aecbench.reports.html.pages.overview import overview
from pytest_aecbench.reports.html.pages.reliability import reliability
from pytest_aecbench.reports.html.pages.rewards import rewards
from pytest_aecbench.reports.html.pages.times import times
from pytest_aecbench.reports.html.source import Figures
from pytest_aecbench.reports.html.svg import Svg
from pytest_aecbench.reports.html.tasks import task_pages
from pytest_aecbench.reports.html.texts import shown, shown_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jinja2

    from pytest_aecbench.reports.html.blocks import Section
    from pytest_aecbench.reports.html.details import Details
    from pytest_aecbench.reports.html.source import Source

__all__ = ["MAX_BYTES", "Page", "asset", "render", "render_figures", "render_served"]

MAX_BYTES = 15_000_000
_BYTES_PER_PLACE = 6
# Stands for the details until it is known how many fit; no foreign text can contain it.
_HERE = "<!-- details -->"

_PAGES = (
    overview,
    leaderboard,
    compare,
    groups,
    rewards,
    cost,
    reliability,
    matrix,
    errors,
    times,
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page, and how many of its trials have their details in it."""

    text: bytes
    trials: int
    detailed: int


def render(source: Source, *, max_bytes: int = MAX_BYTES) -> Page:
    """Return the page of a source; details go in until it has ``max_bytes``."""
    from markupsafe import Markup

    figures = Figures(source)
    context: dict[str, Any] = {
        "title": _title(figures),
        "sections": _sections(figures),
        "head": HEAD,
        "rows": rows(figures),
        "columns": packed(source.scrub(columns(figures))),
        "tasks": packed(shown_in(source.scrub(task_pages(figures)))),
        "style": Markup(asset("style.css")),  # noqa: S704  (our own)
        "script": Markup(asset("app.js")),  # noqa: S704
        "policy": _policy(),
    }
    context["details"] = Markup(_HERE)  # noqa: S704
    bare = _template().render(context).encode("utf-8", "replace")
    added = details(figures, max_bytes - len(bare) - _BYTES_PER_PLACE * len(figures.attempts))
    text = bare.replace(_HERE.encode(), _elements(figures, added).encode(), 1)
    return Page(text, len(figures.attempts), added.included)


def render_served(title: str, sections: Sequence[Section] = ()) -> str:
    """Return the page without data, style and script, all of which are asked of a server."""
    empty = dict.fromkeys(("rows", "head"), ())
    texts = dict.fromkeys(("columns", "tasks", "details", "style", "script", "policy"), "")
    return _template().render({**empty, **texts, "title": title, "sections": sections})


def render_figures(figures: Figures) -> str:
    """Return the page of some figures for a server to hand out."""
    return render_served(_title(figures), _sections(figures))


def _sections(figures: Figures) -> list[Section]:
    # Without a trial there is nothing to show besides how many are held out or not run.
    pages = _PAGES if figures.attempts else _PAGES[:1]
    found = (page(figures) for page in pages)
    return [section for section in found if section is not None]


def _title(figures: Figures) -> str:
    experiments = sorted({record.experiment_id for record in figures.source.records})
    return ", ".join(experiments[:3]) + (
        f" and {len(experiments) - 3} more" if len(experiments) > 3 else ""
    )


def _elements(figures: Figures, added: Details) -> str:
    """Return the elements that hold the details; all is base64, which needs no escaping."""
    places = [added.places.get(index, -1) for index in range(len(figures.attempts))]
    found = {"places": packed(places)}
    found |= {f"i-{key}": text for key, text in added.instructions.items()}
    found |= {f"b-{number}": text for number, text in enumerate(added.blocks)}
    return "\n".join(
        f'<script type="application/gzip" id="{name}">{text}</script>'
        for name, text in found.items()
    )


@cache
def _template() -> jinja2.Template:
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader({"page.html": asset("page.html")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    environment.filters["drawn"] = _drawn
    environment.tests["kind"] = lambda value, name: type(value).__name__ == name
    return environment.get_template("page.html")


def _drawn(drawing: Svg) -> str:
    """Let a drawing into the page as it is, and nothing else."""
    from markupsafe import Markup

    if not isinstance(drawing, Svg):
        raise TypeError(f"{type(drawing).__name__} is not a drawing")
    return Markup(drawing)  # noqa: S704  (its texts are escaped)


@cache
def asset(name: str) -> str:
    """Return one of the page's files, as it goes into the page."""
    text = (files(__package__) / "assets" / name).read_text("utf-8")
    # Indents and comments on lines of their own are for those who edit it.
    text = re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE)
    return re.sub(r"^/\*.*?\*/\n", "", text, flags=re.MULTILINE | re.DOTALL)


def _policy() -> str:
    """Return the page's policy: its own script and style, and nothing else."""
    hashes = {name: _digest(asset(name)) for name in ("app.js", "style.css")}
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'sha256-{hashes['app.js']}'",
            f"style-src 'sha256-{hashes['style.css']}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
