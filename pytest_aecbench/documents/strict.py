"""Configuration files (TOML, YAML, JSON) as plain data, without duplicate keys or deep nesting.

YAML is read as JSON with fewer quotes: no aliases, tags, dates, or ``no`` for false.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_aecbench.documents.problems import dotted, load_toml, shown
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import read_text, shown_path

__all__ = ["dump_yaml", "read_json", "read_toml", "read_yaml"]

_MAX_DEPTH = 50


def read_toml(path: Path) -> dict[str, Any]:
    """Return the data of a TOML file, or raise a SettingsError of one line."""
    return _read(path, load_toml)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the data of a YAML file, or raise a SettingsError of one line."""
    return _read(path, _load_yaml)


def read_json(path: Path) -> dict[str, Any]:
    """Return the data of a JSON file, or raise a SettingsError of one line."""
    return _read(path, _load_json)


def _read(path: Path, load: Callable[[str], object]) -> dict[str, Any]:
    try:
        text = read_text(path)
    except ValueError as error:  # whose message starts with the path
        raise SettingsError(str(error)) from None
    try:
        data = load(text)
        if not isinstance(data, dict):
            found = "contains no keys" if data is None else f"{shown(data)} is not valid"
            raise ValueError(f"{found}; write keys with values")
        _check(data)
    except ValueError as error:
        raise SettingsError(f"{shown_path(path)}: {error}") from None
    return data


def _check(data: dict[str, Any]) -> None:
    """Raise a ValueError for values that JSON does not have, and for deep nesting."""
    pending: list[tuple[tuple[int | str, ...], object]] = [((), data)]
    while pending:
        where, value = pending.pop()
        if len(where) > _MAX_DEPTH:
            raise ValueError(f"{dotted(*where[:3])}: values are nested too deep; nest them less")
        if isinstance(value, dict):
            pending += (((*where, key), item) for key, item in value.items())
        elif isinstance(value, list):
            pending += (((*where, index), item) for index, item in enumerate(value))
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{dotted(*where)}: {value} is not valid; use a finite number")
        elif not (value is None or isinstance(value, (str, int, float))):
            right = "use a string, a number, true or false"
            raise ValueError(f"{dotted(*where)}: {shown(value)} is not valid; {right}")


def _load_json(text: str) -> object:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        data = dict(found)
        if len(data) < len(found):
            keys = [key for key, _ in found]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"key {shown(twice)} occurs twice; keep one")
        return data

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_int=_int)
    except json.JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ValueError(f"line {error.lineno}: {what}; write valid JSON") from None
    except RecursionError:
        raise ValueError("values are nested too deep; nest them less") from None


_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _load_yaml(text: str) -> object:
    import yaml

    try:
        return _build(yaml, yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        raise ValueError(f"{line}{what}; write valid YAML") from None


def dump_yaml(data: object) -> str:
    """Return YAML that ``read_yaml`` reads back unchanged."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes strings that YAML would read as other values; writes prompts as blocks."""

        def represent_text(self, text: str) -> yaml.Node:
            style = None
            if not text.replace("\n", "").isprintable():
                style = '"'
            elif "\n" in text:
                style = "|"
            elif not isinstance(_scalar(text), str):
                style = "'"
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

        def ignore_aliases(self, data: object) -> bool:
            return True

    Dumper.add_representer(str, Dumper.represent_text)
    return str(yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True))


def _build(yaml: Any, events: Any) -> object:
    """Return the data of a stream of events, without recursion, so that no input is too deep."""
    documents: list[object] = []
    containers: list[Any] = [documents]
    keys: list[str | None] = [None]  # each container's key that waits for its value
    for event in events:
        line = f"line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"{line}: '*{event.anchor}' is an alias; write the value out")
        if isinstance(event, yaml.CollectionEndEvent):
            containers.pop()
            keys.pop()
        if not isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            continue
        if event.tag is not None:
            raise ValueError(f"{line}: {shown(event.tag)} is a tag; write plain values")
        if len(containers) > _MAX_DEPTH:
            raise ValueError(f"{line}: values are nested too deep; nest them less")
        container, scalar = containers[-1], isinstance(event, yaml.ScalarEvent)
        if isinstance(container, dict) and keys[-1] is None:
            if not scalar:
                raise ValueError(f"{line}: a key is not a word; write 'key: value'")
            if event.value in container:
                raise ValueError(f"{line}: key {shown(event.value)} occurs twice; keep one")
            keys[-1] = event.value
            continue
        if scalar:
            value = _scalar(event.value) if event.implicit[0] else event.value
        else:
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        if isinstance(container, dict):
            container[keys[-1]] = value
            keys[-1] = None
        else:
            container.append(value)
        if not scalar:
            containers.append(value)
            keys.append(None)
    if len(documents) > 1:
        raise ValueError("there are several documents; write one")
    return documents[0] if documents else None


def _scalar(text: str) -> object:
    """Return the value of an unquoted word by the rules of YAML 1.2."""
    if _NULL.fullmatch(text):
        return None
    if match := _BOOL.fullmatch(text):
        return match[1] is not None
    if _INT.fullmatch(text):
        return _int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python refuses thousands of digits
        raise ValueError("a number has too many digits; write a smaller one") from None
