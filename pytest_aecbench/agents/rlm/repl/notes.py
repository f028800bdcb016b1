"""The scratchpad: notes in a file, so that they outlive the process."""

from __future__ import annotations

import json
import os
from typing import Any

from .values import Shown

PREVIEW_CHARS = 150


class Notes:
    """Texts and other JSON values under keys."""

    def __init__(self, path: str) -> None:
        self._path = path

    def note(self, key: str, value: Any) -> str:
        """Keep a value under a key; it survives compaction and a restart of the REPL."""
        notes = self._read()
        notes[str(key)] = value
        with open(self._path + ".new", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(notes, file, default=str)
        os.replace(self._path + ".new", self._path)  # noqa: PTH105
        return Shown(f"noted {str(key)!r}; {len(notes)} in all")

    def recall(self, key: str | None = None) -> Any:
        """Return a note, or without a key a list of them with their beginnings."""
        notes = self._read()
        if key is not None:
            if key not in notes:
                raise KeyError(f"there is no note {key!r}; there are {sorted(notes)}")
            return notes[key]
        lines = (f"{name}: {str(value)[:PREVIEW_CHARS]}" for name, value in notes.items())
        return Shown("\n".join(lines) or "(no notes)")

    def keys(self) -> list[str]:
        """Return the keys."""
        return sorted(self._read())

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123
                notes = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return notes if isinstance(notes, dict) else {}
