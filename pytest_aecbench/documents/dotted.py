"""Names that stand for classes: those of a table, or dotted paths of a user's own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["load_class"]

_SDKS = {"gcp": "google"}  # of extras that are not called what their SDK is called


def load_class(name: str, where: str, known: Mapping[str, tuple[str, str | None]]) -> Any:
    """Import the class that ``name`` stands for; ``where`` is the option that names it.

    ``known`` has, by name, a dotted path and the extra that installs what it needs.

    Raises:
        SettingsError: the name is not known, or its class cannot be imported.

    """
    dotted, extra = known.get(name, (name, None))
    module_name, _, attribute = dotted.rpartition(".")
    if not module_name:
        right = did_you_mean(name, known)
        own = "" if right.endswith("?") else ", or the dotted path of a class"
        raise SettingsError(f"{where}: {name!r} is not known; {right}{own}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SettingsError(f"{where}: {_why_not(name, extra, error)}") from None
    found = getattr(module, attribute, None)
    if not callable(found):
        raise SettingsError(f"{where}: {name!r} is not a class; use the dotted path of one")
    return found


def _why_not(name: str, extra: str | None, error: ModuleNotFoundError) -> str:
    if extra is None:
        return f"{name!r} cannot be imported; {error}"
    # Anything but the SDK is missing within the SDK.
    if (error.name or "").partition(".")[0] == _SDKS.get(extra, extra):
        return f"{name} is not installed; pip install 'pytest-aecbench[{extra}]'"
    return f"{name} cannot be imported, {error}; pip install 'pytest-aecbench[{extra}]'"
