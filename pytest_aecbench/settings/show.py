"""Every setting with its value and where it comes from, for people and for machines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.host.secrets import Scrubber
from pytest_aecbench.ledger.identity import agent_identity
from pytest_aecbench.settings.layers import PROJECT_FILE
from pytest_aecbench.settings.table import OPTIONS
from pytest_aecbench.tasks.selection import Selection

if TYPE_CHECKING:
    from pytest_aecbench.settings.model import Settings

__all__ = ["Row", "readme_table", "rows", "table"]

_NOT_SHOWN = {"backend_options", "given", "notes", "run_id", "secret_names", "selection"}


class Row(NamedTuple):
    """One setting; ``value`` is JSON-able and free of secrets."""

    setting: str
    value: object
    source: str


def rows(settings: Settings) -> list[Row]:
    """Return a row for each setting."""
    scrubber = Scrubber(settings.secrets())
    return [Row(name, scrubber.json(value), source) for name, value, source in _rows(settings)]


def _rows(settings: Settings) -> Iterator[Row]:
    sources = {name: where for name, (_, where) in settings.given.items()}
    marked = (settings.root / PROJECT_FILE).is_file()
    sources["root"] = PROJECT_FILE if marked else f"no {PROJECT_FILE}"
    if "experiment_id" not in sources and not settings.resume:
        sources["experiment_id"] = "made up"
    for field in fields(settings):
        name = field.name
        source = sources.get(name, "default")
        if name == "selection":
            for rule in fields(Selection):
                value = getattr(settings.selection, rule.name)
                yield Row(rule.name, list(value), sources.get(rule.name, "default"))
        elif name == "backend_options":
            for key, (value, where) in settings.given.items():
                if key.startswith(f"compute:{settings.backend}:"):
                    yield Row(key.replace(":", "."), value, where)
        elif name not in _NOT_SHOWN:
            yield Row(name, _plain(settings, name), source)


def _plain(settings: Settings, name: str) -> object:
    value = getattr(settings, name)
    if name == "agents":
        return [{"name": agent.name, **agent_identity(agent)} for agent in settings.agents]
    if name == "root":
        return str(value)
    if name == "gate":
        return settings.given["gate"][0] if value else None
    if name == "mounts":
        return list(map(str, settings.mounts))
    if name == "local_show":
        return [settings.below_root(path) for path in settings.local_show]
    return settings.below_root(value) if isinstance(value, Path) else value


def table(settings: Settings) -> str:
    """Return the rows as a person reads them."""
    found = rows(settings)
    cells = [(row.setting, _shown(row), row.source) for row in found]
    cells.insert(0, ("setting", "value", "from"))
    widths = [min(max(len(line[column]) for line in cells), 40) for column in (0, 1)]
    lines = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in cells]
    return "\n".join((*lines, *(f"warning: {note}" for note in settings.notes)))


def _shown(row: Row) -> str:
    value = row.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(item["name"] if isinstance(item, dict) else str(item) for item in value)
    return "" if value is None else str(value)


def readme_table() -> str:
    """Return the README's table of options, in Markdown."""
    lines = ["| option | ini key | meaning |", "|---|---|---|"]
    for row in OPTIONS:
        value = f" [{row.metavar}]" if row.bare else f" {row.metavar}" if row.metavar else ""
        key = f" `{row.ini_key}` " if row.ini else " "
        about = re.sub(r"(?<!`)(--aec-[a-z-]+(?:=\w+)?)", r"`\1`", row.help)
        lines.append(f"| `{row.option}{value}` |{key}| {about} |")
    return "\n".join(lines)
