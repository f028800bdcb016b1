"""The shape of a resolved compose file: the kinds of values in the parts that are used here.

The compose command checks a file itself, but its versions differ in what they let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_aecbench.text import shortened

__all__ = ["check_shape"]

_MAPPING, _LIST, _TEXT, _NUMBER = "a mapping", "a list", "text", "a number"
_TYPES: dict[str, type | tuple[type, ...]] = {
    _MAPPING: dict,
    _LIST: list,
    _TEXT: str,
    _NUMBER: (int, float),
}
_SHOWN = 60
_DEEPEST = 50


@dataclass(frozen=True)
class _Shape:
    """The kinds that a value may have, and the shapes of a mapping's values and a list's items."""

    kinds: tuple[str, ...]
    keys: Mapping[str, _Shape] = field(default_factory=dict)
    each: _Shape | None = None
    items: _Shape | None = None
    needed: tuple[str, ...] = ()


def _mapping(each: _Shape | None = None, needed: tuple[str, ...] = (), **keys: _Shape) -> _Shape:
    return _Shape((_MAPPING,), keys, each, needed=needed)


def _list(items: _Shape) -> _Shape:
    return _Shape((_LIST,), items=items)


_SCALAR = _Shape((_TEXT, _NUMBER))
_STRING = _Shape((_TEXT,))
_PAIRS = _Shape((_MAPPING, _LIST), each=_SCALAR, items=_STRING)
_VOLUME = _Shape((_MAPPING, _TEXT), {"source": _STRING, "target": _STRING, "type": _STRING})
_LIMITS = _mapping(cpus=_SCALAR, memory=_SCALAR, pids=_SCALAR)
_SERVICE = _mapping(
    build=_mapping(
        needed=("context",), args=_PAIRS, context=_STRING, dockerfile=_STRING, target=_STRING
    ),
    cgroup=_STRING,
    container_name=_STRING,
    deploy=_mapping(resources=_mapping(limits=_LIMITS)),
    image=_STRING,
    ipc=_STRING,
    labels=_PAIRS,
    network_mode=_STRING,
    networks=_Shape((_MAPPING, _LIST), each=_mapping(aliases=_list(_STRING)), items=_STRING),
    pid=_STRING,
    platform=_STRING,
    user=_SCALAR,
    userns_mode=_STRING,
    uts=_STRING,
    volumes=_list(_VOLUME),
    working_dir=_STRING,
)
_SHARED = _mapping(_mapping(file=_STRING, labels=_PAIRS))
_FILE = _mapping(
    services=_mapping(_SERVICE),
    configs=_SHARED,
    networks=_SHARED,
    secrets=_SHARED,
    volumes=_SHARED,
)


def check_shape(model: Any) -> None:
    """Raise a ValueError of one line, with the place, if a value is not of the kind it has to be.

    A value that is missing or None is of every kind, except where it is needed.
    """
    _check_plain(model, "", 0)
    if model is None:
        raise ValueError("the file: is empty; write a mapping with 'services'")
    _check(_FILE, model, "")


def _check(shape: _Shape, value: Any, where: str) -> None:
    if value is None:
        return
    kind = next((kind for kind in shape.kinds if isinstance(value, _TYPES[kind])), None)
    if kind is None:
        raise _wrong(where, value, " or ".join(shape.kinds))
    if kind == _LIST and shape.items is not None:
        for number, one in enumerate(value):
            if one is None:
                raise _wrong(f"{where}[{number}]", one, " or ".join(shape.items.kinds))
            _check(shape.items, one, f"{where}[{number}]")
    if kind != _MAPPING:
        return
    for key in shape.needed:
        if value.get(key) is None:
            raise ValueError(f"{where}.{key}: is missing; add it")
    for key, one in value.items():
        inner = shape.keys.get(key, shape.each)
        if inner is not None:
            _check(inner, one, f"{where}.{key}" if where else key)


def _check_plain(value: Any, where: str, depth: int) -> None:
    """Raise ValueError for a value that JSON cannot carry or no program can be given."""
    if depth > _DEEPEST:
        raise ValueError(f"{where}: is nested too deeply; use fewer levels")
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{where or 'the file'}: the key {key!r} is not text; quote it")
            _check_plain(key, where or "the file", depth)
            _check_plain(one, f"{where}.{key}" if where else key, depth + 1)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            _check_plain(one, f"{where}[{number}]", depth + 1)
    elif isinstance(value, str):
        if "\0" in value or not _is_unicode(value):
            raise _wrong(where, value, "text without NUL and halves of characters")
    elif value is not None and not isinstance(value, (int, float)):
        raise _wrong(where, value, "text, a number, a list or a mapping")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(where: str, value: Any, right: str) -> ValueError:
    shown = shortened(ascii(value), _SHOWN)
    return ValueError(f"{where or 'the file'}: {shown} is not valid; write {right}")
