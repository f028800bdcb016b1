"""The report of a task with a template: sections that are filled in the order they need."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from .values import Shown

TYPES: dict[str, Any] = {
    "str": str,
    "string": str,
    "int": int,
    "float": (int, float),
    "number": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
}


class ReportError(ValueError):
    """A section cannot be filled so, or the report is not complete."""


class Report:
    """Sections by their ids; those that are filled are in a file, to outlive the process."""

    def __init__(self, template: Any, path: str) -> None:
        self._sections = {section["id"]: section for section in template["sections"]}
        self._path = path
        self._lock = threading.Lock()
        self.filled: dict[str, Any] = {}
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                kept = json.load(file)
            self.filled = {name: kept[name] for name in self._sections if name in kept}
        except (OSError, ValueError, TypeError, RecursionError):
            pass  # nothing is filled yet

    def section(self, section_id: str) -> Any:
        """Return what the template says of a section."""
        if section_id not in self._sections:
            known = ", ".join(self._sections)
            raise ReportError(f"there is no section {section_id!r}; there are {known}")
        return self._sections[section_id]

    def needs(self, section_id: str) -> set[str]:
        """Return what a section depends on; nothing if there is no such section."""
        found = self._sections.get(section_id)
        return set(found["depends_on"]) if found else set()

    def check_ready(self, section_id: str) -> None:
        """Raise ReportError for a section that cannot be filled yet."""
        missing = [n for n in self.section(section_id)["depends_on"] if n not in self.filled]
        if missing:
            names = ", ".join(missing)
            raise ReportError(f"fill {names} first; {section_id!r} depends on it")

    def fill(self, section_id: str, content: Any) -> str:
        """Fill a section: a dict of its fields, or a text. Fill what it depends on first."""
        section = self.section(section_id)
        with self._lock:
            self.check_ready(section_id)
            check_fields(section, content)
            kept = dict(self.filled)
            kept[section_id] = json.loads(json.dumps(content, default=str))
            with open(self._path + ".new", "w", encoding="utf-8") as file:  # noqa: PTH123
                json.dump(kept, file)
            os.replace(self._path + ".new", self._path)  # noqa: PTH105
            self.filled = kept
        return Shown(f"filled {section_id!r}; {len(kept)} of {len(self._sections)}")

    def status(self, section_id: str | None = None) -> str:
        """List the sections: which are filled, which can be filled next, which wait for others.

        With an id: what is in that section, and in those that it depends on.
        """
        if section_id is not None:
            names = [*self.section(section_id)["depends_on"], section_id]
            return Shown("\n\n".join(f"{name}:\n{self.text(name)}" for name in names))
        lines = []
        for name, section in self._sections.items():
            missing = [other for other in section["depends_on"] if other not in self.filled]
            if name in self.filled:
                state = "filled"
            else:
                state = "waits for " + ", ".join(missing) if missing else "can be filled"
            fields = ", ".join(describe(field) for field in section["fields"])
            guidance = " ".join(section["writing_guidance"])
            lines.append("{}: {} [{}]".format(name, section["title"], state))
            lines += ["    fields: " + fields] if fields else []
            lines += ["    guidance: " + guidance] if guidance else []
        return Shown("\n".join(lines))

    def text(self, section_id: str) -> str:
        """Return what is in a section, as text."""
        if section_id not in self.filled:
            return "(not filled)"
        return prose(self.filled[section_id])

    def gaps(self) -> list[str]:
        """Return the ids of the sections that are not filled."""
        return [name for name in self._sections if name not in self.filled]

    def progress(self) -> dict[str, Any]:
        """Return how far the report is."""
        gaps = self.gaps()
        unlocked = [
            name
            for name in gaps
            if all(other in self.filled for other in self._sections[name]["depends_on"])
        ]
        total = len(self._sections)
        done = [name for name in self._sections if name in self.filled]
        return {"completed": len(done), "total": total, "filled": done, "unlocked": unlocked}

    def composed(self, path: str) -> str:
        """Return the filled sections in the template's order, in the format of the output file."""
        done = [name for name in self._sections if name in self.filled]
        if path.endswith((".json", ".jsonl")):
            return json.dumps({name: self.filled[name] for name in done}, ensure_ascii=False) + "\n"
        texts = []
        for number, name in enumerate(done, 1):
            title = self._sections[name]["title"]
            texts.append(f"# {number}. {title}\n\n{prose(self.filled[name])}\n")
        return "\n".join(texts)


def check_fields(section: Any, content: Any) -> None:
    """Raise ReportError for content that lacks a required field, or has one of another type."""
    fields = section["fields"]
    where = section["id"]
    if not fields:
        if not isinstance(content, (str, dict)) or not content:
            raise ReportError(f"{where!r} needs a text, or a dict of values")
        return
    if not isinstance(content, dict):
        names = ", ".join(field["name"] for field in fields)
        raise ReportError(f"{where!r} needs a dict with {names}")
    for field in fields:
        value = content.get(field["name"])
        if value is None:
            if field.get("required", True):
                raise ReportError(f"{where!r} lacks the field {describe(field)}")
            continue
        kind = TYPES.get(str(field.get("dtype")))
        if kind and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise ReportError(
                "{!r}: {!r} has to be {}, not {}".format(
                    where, field["name"], field["dtype"], type(value).__name__
                )
            )


def describe(field: Any) -> str:
    """Return a field with its type and unit."""
    unit = " in {}".format(field["unit"]) if field.get("unit") else ""
    optional = "" if field.get("required", True) else ", optional"
    return "{} ({}{}{})".format(field["name"], field.get("dtype") or "str", unit, optional)


def prose(content: Any) -> str:
    """Return the content of a section as text."""
    if isinstance(content, str):
        return content.strip()
    if list(content) == ["content"]:
        return str(content["content"]).strip()
    lines = (f"- {name}: {value}" for name, value in content.items())
    return "\n".join(lines)
