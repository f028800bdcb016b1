"""Environment variables: load ``.env``, and replace ``$VAR`` in values."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import read_text, shown_path
from pytest_aecbench.host.secrets import names_open

__all__ = ["DotEnv", "expand", "expand_in", "load_dotenv", "variables_in"]


class DotEnv(NamedTuple):
    """The variables that a ``.env`` file set, and those of its variables that are secret."""

    added: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()

    def unload(self) -> None:
        """Remove the variables that the file set."""
        for name in self.added:
            os.environ.pop(name, None)


def load_dotenv(root: Path) -> DotEnv:
    """Set the variables of the ``.env`` in ``root`` that the shell has not set."""
    path = root / ".env"
    if not path.is_file():
        return DotEnv()
    from dotenv import dotenv_values

    try:
        text = read_text(path)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    values = dotenv_values(stream=io.StringIO(text))
    added = []
    for name, value in values.items():
        if value is None or name in os.environ:
            continue
        try:
            os.environ[name] = value
        except (ValueError, OSError):
            right = "use NAME=VALUE without NUL characters"
            raise SettingsError(f"{shown_path(path)}: {name!r} cannot be set; {right}") from None
        added.append(name)
    return DotEnv(tuple(added), tuple(name for name in values if not names_open(name)))


def expand_in(value: Any, where: str, environ: Mapping[str, str] = os.environ) -> Any:
    """Return JSON-like data with the variables in every string replaced; keys are unchanged."""
    if isinstance(value, str):
        try:
            return expand(value, environ)
        except ValueError as error:
            raise SettingsError(f"{where}: {error}") from None
    if isinstance(value, Mapping):
        return {name: expand_in(item, f"{where}.{name}", environ) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [expand_in(item, f"{where}.{i}", environ) for i, item in enumerate(value)]
    return value


_VARIABLE = re.compile(
    r"""\$(?:
        (?P<dollar>\$)
      | (?P<name>[A-Za-z_]\w*)
      | \{(?P<braced>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}
      | (?P<broken>\{[^}]*\}?)
    )""",
    re.ASCII | re.VERBOSE,
)


def expand(value: str, environ: Mapping[str, str]) -> str:
    """Replace ``$VAR``, ``${VAR}`` and ``${VAR:-default}``; ``$$`` is a dollar sign.

    Raise a ValueError for a variable that is not set and has no default; an empty variable has
    its default's value.
    """

    def replace(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["broken"]:
            right = "write ${VAR} or ${VAR:-default}, and $$ for a dollar sign"
            raise ValueError(f"{match[0]!r} is not a variable; {right}")
        name = match["name"] or match["braced"]
        if match["default"] is not None:
            return environ.get(name) or match["default"]
        if name not in environ:
            raise ValueError(f"variable {name!r} is not set; set it or write ${{{name}:-default}}")
        return environ[name]

    return _VARIABLE.sub(replace, value)


def variables_in(value: Any) -> set[str]:
    """Return the names of the variables that ``expand_in`` would replace in JSON-like data."""
    if isinstance(value, str):
        found = _VARIABLE.finditer(value)
        return {match["name"] or match["braced"] for match in found} - {None}
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*map(variables_in, value))
    return set()
