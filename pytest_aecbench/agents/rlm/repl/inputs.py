"""The variables that a REPL starts with."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import Any

from .values import described


def load_inputs(
    config: Any, variables: dict[str, Any], directory: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Put the inputs into the variables; return what they are, and what went wrong with them."""
    variables["context"] = config["context"]
    variables["history"] = []
    given: dict[str, Any] = {}
    about, problems = [], []
    for one in config["inputs"]:
        try:
            given[one["name"]] = load(one, os.path.join(directory, one["path"]))  # noqa: PTH118
        except Exception as error:  # noqa: BLE001  (whatever it is, the host is told)
            problems.append("{}: {}: {}".format(one["name"], one["path"], error))
    if config.get("handed_over"):
        try:
            with open(config["handed_over"], encoding="utf-8") as file:  # noqa: PTH123
                given.update(json.load(file))
        except (OSError, ValueError) as error:
            problems.append(f"the variables of the parent: {error}")
    for name, value in given.items():
        variables[name] = value
        about.append({"name": name, "type": described(value)})
    return about, problems


def load(one: Any, path: str) -> Any:
    """Return the value of an input."""
    kind = one["type"]
    if kind == "path":
        with open(path, "rb"):  # noqa: PTH123
            return path
    with open(path, "rb") as file:  # noqa: PTH123
        text = file.read().decode("utf-8-sig", "strict" if one["parse"] else "replace")
    if not one["parse"]:
        return text
    if kind == "json":
        return json.loads(text)
    if kind == "toml":
        import tomllib  # type: ignore[import-not-found]  # only in Python 3.11 or newer

        return tomllib.loads(text)
    return list(csv.DictReader(io.StringIO(text, newline="")))
