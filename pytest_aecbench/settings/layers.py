"""The files that settings come from; each gives a layer of ``name -> (value, where)``.

A higher layer wins: options, experiment, project (with pytest's ini below it), user, defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_aecbench.documents.problems import shown
from pytest_aecbench.documents.strict import read_json, read_toml, read_yaml
from pytest_aecbench.documents.variables import DotEnv, load_dotenv
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import read_text, shown_path, user_directory
from pytest_aecbench.settings.table import TABLE
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_aecbench.settings.model import Settings

__all__ = [
    "DOCUMENTS",
    "PROJECT_FILE",
    "USER_KEYS",
    "Layer",
    "check_user_value",
    "conflicts",
    "experiment_layer",
    "find_root",
    "project_layer",
    "settings_at",
    "user_file",
    "user_layer",
    "user_values",
]

Layer: TypeAlias = "dict[str, tuple[object, str]]"

PROJECT_FILE = "aec-bench.toml"
# The files that people write, by the names of their schemas.
DOCUMENTS = {"task": "task.toml", "experiment": "experiment.yaml", "project": PROJECT_FILE}
USER_KEYS = tuple(sorted(row.name for row in TABLE if row.user))


_LONGEST_PATH = 1024
_OPTION = re.compile(r"[a-z][a-z0-9_]*")

_PROJECT_KEYS = {row.name: row.project for row in TABLE if row.project}
_EXPERIMENT_KEYS = {row.name: row.experiment for row in TABLE if row.experiment}


def find_root(start: Path) -> Path | None:
    """Return the nearest directory from ``start`` upward that has an ``aec-bench.toml``."""
    for directory in (start, *start.parents):
        if os.path.lexists(f"{directory}{os.sep}{PROJECT_FILE}"):
            return directory
    return None


def project_layer(root: Path) -> Layer:
    """Read the project's ``aec-bench.toml``."""
    # Imported here and below because pydantic is slow to import.
    from pytest_aecbench.settings.schema import ProjectConfig, check_document

    path = root / PROJECT_FILE
    where = shown_path(path)
    return _layer(check_document(read_toml(path), ProjectConfig, where), _PROJECT_KEYS, where)


def experiment_layer(path: Path) -> Layer:
    """Read an ``experiment.yaml``, with the files it names."""
    from pytest_aecbench.settings.schema import ExperimentConfig, check_document

    where = shown_path(path)
    data = check_document(read_yaml(path), ExperimentConfig, where, table="keys with values")
    for index, agent in enumerate(data.get("agents") or ()):
        if name := agent.pop("system_prompt_file", None):
            key = f"{where}: agents.{index}.system_prompt_file"
            agent["system_prompt"] = _prompt(path.parent / name, key)
        if files := agent.get("files"):
            agent["files"] = [_beside(path.parent, name) for name in files]
        _read_script(agent.get("parameters") or {}, path.parent, f"{where}: agents.{index}")
    return _layer(data, _EXPERIMENT_KEYS, where)


def _beside(directory: Path, name: str) -> str:
    """Return the path of a file beside the experiment; else the name, for the project's root."""
    found = directory / Path(name).expanduser()
    return str(found.absolute()) if found.exists() else name


def _read_script(parameters: dict[str, Any], directory: Path, where: str) -> None:
    """Replace the path of an agent's ``install`` by the script, which is part of its identity."""
    given = parameters.get("install")
    if not isinstance(given, str) or len(given.split()) != 1 or len(given) > _LONGEST_PATH:
        return  # a script
    path = directory / given.strip()
    if path.is_file() or path.suffix == ".sh":
        parameters["install"] = _prompt(path, f"{where}.parameters.install", "script")


def _prompt(path: Path, where: str, what: str = "prompt") -> str:
    try:
        text = read_text(path)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    if not text.strip():
        raise SettingsError(f"{where}: {shown_path(path)} is empty; write the {what} there")
    return text


def _layer(data: Mapping[str, Any], keys: Mapping[str, str], where: str) -> Layer:
    layer: Layer = {}
    for name, key in keys.items():
        value: Any = data
        for part in key.split("."):
            value = value.get(part) if value is not None else None
        if value is not None:
            layer[name] = (value, f"{where}: {key}")
    for table, options in (data.get("compute") or {}).items():
        if table not in ("backend", "resource_limits"):
            key = f"{where}: compute.{table}"
            layer[f"compute:{table}"] = ({}, key)  # to be seen even where it is empty
            for option, value in options.items():
                layer[f"compute:{table}:{option}"] = (value, f"{key}.{option}")
    return layer


def user_file() -> Path | None:
    """Return where this user's configuration is or would be."""
    directory = user_directory("XDG_CONFIG_HOME", ".config")
    return directory / "config.json" if directory else None


def user_layer() -> Layer:
    """Read this user's ``config.json``, if there is one."""
    path = user_file()
    where = shown_path(path) if path else ""
    return {
        key.replace(".", ":"): (value, f"{where}: {key}") for key, value in user_values().items()
    }


def user_values() -> dict[str, object]:
    """Return what this user's ``config.json`` has, by its own keys."""
    path = user_file()
    if path is None or not os.path.lexists(path):
        return {}
    where = shown_path(path)
    return {key: check_user_value(key, value, where) for key, value in read_json(path).items()}


def check_user_value(key: str, value: object, where: str) -> object:
    """Return the value if a user's configuration can have it under this key.

    A key is that of a setting, or ``compute.<backend>.<option>``; the backend checks its options
    when it is used.
    """
    table, _, option = key.removeprefix("compute.").partition(".")
    if key.startswith("compute."):
        _check_backend(table, option, f"{where}: {shown(key)}")
        if isinstance(value, str) and value.strip() and "\0" not in value:
            return value
        if isinstance(value, (bool, int, float)):
            return value
        raise SettingsError(
            f"{where}: {key}: {shown(value)} is not valid; use a text, a number, true or false"
        )
    if key not in USER_KEYS:
        raise SettingsError(
            f"{where}: {shown(key)} is an unknown key; {did_you_mean(key, USER_KEYS)}"
        )
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SettingsError(f"{where}: {key}: {shown(value)} is not valid; use a path")
    return value


def _check_backend(table: str, option: str, where: str) -> None:
    from pytest_aecbench.backends import BACKENDS
    from pytest_aecbench.settings.model import WITHOUT_OPTIONS

    tables = {*BACKENDS} - {*WITHOUT_OPTIONS}
    if table not in tables:
        raise SettingsError(
            f"{where} is an unknown key; {table!r} is not a backend with options, "
            f"{did_you_mean(table, tables)}"
        )
    if not _OPTION.fullmatch(option):
        raise SettingsError(f"{where} is an unknown key; write compute.{table}.OPTION")


def conflicts(lower: Layer, higher: Layer) -> tuple[str, ...]:
    """Return a line for each setting that two layers of one rank disagree on."""
    return tuple(
        f"{lower[name][1]} is {shown(lower[name][0])} but {higher[name][1]} is "
        f"{shown(higher[name][0])}; the latter counts"
        for name in lower
        if name in higher and str(lower[name][0]) != str(higher[name][0])
    )


def settings_at(start: Path) -> Settings:
    """Return the settings of the project at ``start``, as commands beside pytest have them."""
    from pytest_aecbench.settings.resolve import resolve

    root = find_root(start)
    dotenv = load_dotenv(root) if root else DotEnv()
    layer = {**user_layer(), **(project_layer(root) if root else {})}
    return resolve(root or start, layer, secret_names=dotenv.secret)
