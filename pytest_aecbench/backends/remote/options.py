"""The options of one vendor, from the table ``compute.<vendor>`` of a configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_options"]

_KINDS = {
    str: "a text",
    int: "a whole number above 0",
    float: "a number above 0",
    bool: "true or false",
    list: "a list of texts",
}


def read_options(
    vendor: str, given: Mapping[str, object], kinds: Mapping[str, type]
) -> dict[str, Any]:
    """Return the options of ``compute.<vendor>`` after checking them.

    Raises:
        SettingsError: a key or a value is wrong.

    """
    for key, value in given.items():
        where = f"compute.{vendor}.{key}"
        if key not in kinds:
            raise SettingsError(f"{where}: is not known; {did_you_mean(key, kinds)}")
        if not _fits(value, kinds[key]):
            raise SettingsError(f"{where}: {value!r} is not valid; use {_KINDS[kinds[key]]}")
    return dict(given)


def _fits(value: object, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    if kind in (int, float):
        is_number = isinstance(value, (int, kind)) and not isinstance(value, bool)
        return is_number and value > 0  # type: ignore[operator]
    return isinstance(value, kind)
