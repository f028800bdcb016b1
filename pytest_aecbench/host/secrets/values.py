"""Secret values: told by the name of their variable, by their use, and by their length."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

__all__ = [
    "handed_over",
    "is_distinctive",
    "is_recognisable",
    "names_credential",
    "names_open",
    "secrets_from",
]

_CREDENTIAL = re.compile(
    r"(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:ACCESS|API|PRIVATE)_?KEY)(?:_|$)"
    r"|_(?:KEY|PWD|PAT|AUTH|CONNECTION_STRING)$",
    re.IGNORECASE,
)
_WHEREABOUTS = re.compile(r"_(?:FILE|PATH|DIR|URL|URI|ENDPOINT)$", re.IGNORECASE)
_OPEN = re.compile(
    r"(?:^|_)(?:DIR|ENDPOINT|FILE|HOST|ID|MODE|MODEL|NAME|PATH|PORT|PROFILE|REGION|URI|URL|VERSION)$",
    re.IGNORECASE,
)

# The fewest characters of a secret: with letters and digits, and without. 100 MB of random letters
# and digits have a given string of six by chance once in twenty times, and one of five mostly.
# Eight given digits stand about once in 100 MB of digits, and eight letters are seldom a word.
_SHORTEST_MIXED, _SHORTEST = 6, 8
# If nothing but its use says that a value is secret, or if space in it is to be ignored, ordinary
# words and numbers must not be meant.
_SHORTEST_MIXED_DISTINCTIVE, _SHORTEST_DISTINCTIVE = 8, 16

_EVERYDAY = {
    "anonymous",
    "changeme",
    "development",
    "disabled",
    "localhost",
    "password",
    "placeholder",
    "postgres",
    "production",
    "required",
    "trajectory",
    "undefined",
    "username",
    "verifier",
    "workspace",
}


def names_credential(name: str) -> bool:
    """Return whether a variable of this name is expected to hold a secret."""
    return bool(_CREDENTIAL.search(name)) and not _WHEREABOUTS.search(name)


def names_open(name: str) -> bool:
    """Return whether a variable of this name holds a value that may appear in results."""
    return bool(_OPEN.search(name)) and not names_credential(name)


def secrets_from(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the values in ``environ`` under a credential's name, and all of ``extra``.

    A URL with a password is a secret under any name, and so is its password alone, which is
    called ``<NAME>_PASSWORD``.
    """
    secrets: dict[str, str] = {}
    for name, value in environ.items():
        password = _url_password(value)
        if password or names_credential(name):
            secrets[name] = value
        if password:
            secrets[f"{name}_PASSWORD"] = password
    return {**secrets, **(extra or {})}


def handed_over(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secret values among the variables that a task or a configuration names.

    Their names need not say so. A variable is left out if its name says that it is open, such as
    ``…_REGION``, or if its value could be an ordinary word or number.
    """
    return {
        name: environ[name]
        for name in names
        if not names_open(name) and is_distinctive(environ.get(name, ""))
    }


def is_recognisable(value: str) -> bool:
    """Return whether the value can be told from ordinary text, so that it may be replaced."""
    return (
        _is_long(value, _SHORTEST_MIXED, _SHORTEST)
        and len(_counted(value)) >= _SHORTEST_MIXED
        and value.lower() not in _EVERYDAY
        and not ("/" in value and os.path.exists(value))  # noqa: PTH110
    )


def is_distinctive(value: str) -> bool:
    """Return whether the value can be told from ordinary text by its looks alone."""
    return _is_long(_counted(value), _SHORTEST_MIXED_DISTINCTIVE, _SHORTEST_DISTINCTIVE)


def _is_long(value: str, mixed: int, other: int) -> bool:
    is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= (mixed if is_mixed else other)


def _counted(value: str) -> str:
    """Return the value without the characters that are ignored where secrets are searched for."""
    return "".join(value.replace("\\", "").split())


def _url_password(value: str) -> str | None:
    with contextlib.suppress(ValueError):
        return unquote(urlsplit(value).password or "") if "://" in value else None
    return None
