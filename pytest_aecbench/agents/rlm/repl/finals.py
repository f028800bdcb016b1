"""The end of a run, which a model declares in code: FINAL, FINAL_VAR, or ``answer``."""

from __future__ import annotations

import json
import os
from typing import Any

PREVIEW_CHARS = 500


class Finals:
    """Keeps the answer; that of the root goes into the output file, that of a child to the host."""

    def __init__(self, config: Any, variables: dict[str, Any]) -> None:
        self.path: str = config["output"]
        self._is_child = bool(config["is_child"])
        self._variables = variables
        self._told: dict[str, Any] | None = None
        variables["answer"] = {"content": "", "ready": False}

    def final(self, *values: object) -> None:
        """End the run; the value is the answer. Without one, the output file is as you wrote it."""
        if len(values) > 1:
            raise TypeError("FINAL takes one value")
        if values:
            self.write(text_of(values[0], self.path), "final")
        elif self._is_child:
            raise TypeError("FINAL needs the value that is your answer")
        elif not os.path.exists(self.path):  # noqa: PTH110
            raise FileNotFoundError(
                f"FINAL() without a value needs the file {self.path}; write it first"
            )
        else:
            self._told = {"from": "file", "chars": os.path.getsize(self.path)}  # noqa: PTH202

    def final_var(self, name: object) -> None:
        """End the run with the value of the variable that has this name."""
        if not isinstance(name, str):
            self.final(name)
            return
        if name not in self._variables:
            raise NameError(f"there is no variable {name!r}; SHOW_VARS() lists them")
        self.final(self._variables[name])

    def look(self) -> None:
        """End the run if ``answer["ready"]`` is true."""
        answer = self._variables.get("answer")
        if self._told is None and isinstance(answer, dict) and answer.get("ready") is True:
            self.write(text_of(answer.get("content", ""), self.path), "answer")

    def salvage(self, text: str | None) -> None:
        """Keep an answer that was begun, else a text, unless the output file is there."""
        if self._told is not None:
            return
        answer = self._variables.get("answer")
        content = answer.get("content") if isinstance(answer, dict) else None
        if content:
            self.write(text_of(content, self.path), "answer")
        elif text and (self._is_child or not os.path.exists(self.path)):  # noqa: PTH110
            self.write(text, "text")

    def write(self, text: str, source: str) -> None:
        """Make a text the answer."""
        told = {"from": source, "chars": len(text), "preview": text[:PREVIEW_CHARS]}
        if self._is_child:
            told["text"] = text
        else:
            parent = os.path.dirname(self.path)  # noqa: PTH120
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103
            with open(self.path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                file.write(text)
        self._told = told

    def told(self) -> dict[str, Any] | None:
        """Return what the host is told of the answer, once."""
        told, self._told = self._told, None
        return told


def text_of(value: object, path: str = "") -> str:
    """Return a value as the content of a file: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and path.endswith(".jsonl"):
        return "".join(encoded(item) + "\n" for item in value)
    if isinstance(value, (dict, list, tuple, int, float, bool)) or value is None:
        return encoded(value) + "\n"
    return str(value)


def encoded(value: object) -> str:
    """Return JSON, with text for values that it cannot hold."""
    return json.dumps(value, ensure_ascii=False, default=str)
