"""``aec-bench config`` and ``schema``: show settings and schemas, and set a user's defaults."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.settings.layers import DOCUMENTS
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.documents.variables import DotEnv

__all__ = ["app", "load_environment", "print_schema", "store"]

app = typer.Typer(help="Show settings, and set this user's defaults.", no_args_is_help=True)

_Key = Annotated[str, typer.Argument(help="A setting, such as ledger_root or compute.gcp.region.")]


def load_environment() -> DotEnv:
    """Set the variables of the project's ``.env`` that the shell has not set."""
    from pytest_aecbench.documents.variables import DotEnv, load_dotenv
    from pytest_aecbench.settings.layers import find_root

    root = find_root(Path.cwd())
    return load_dotenv(root) if root else DotEnv()


@app.command()
def view(as_json: AsJson = False) -> None:
    """Show every setting and its source: project, user or default.

    Settings of a run (options, an experiment, pytest's ini) are in pytest --aec-show-config.

    Example: aec-bench config view
    """
    from pytest_aecbench.settings.layers import settings_at
    from pytest_aecbench.settings.show import rows, table

    settings = settings_at(Path.cwd())
    if as_json:
        print_json([row._asdict() for row in rows(settings)])
    else:
        typer.echo(table(settings))


@app.command("set")
def set_(
    key: _Key,
    value: Annotated[
        str,
        typer.Argument(help="A path, from a project's root or absolute; or a backend's option."),
    ],
    as_json: AsJson = False,
) -> None:
    """Set one of this user's defaults, which a project's aec-bench.toml overrides.

    Example: aec-bench config set ledger_root ~/bench/ledger
    """
    from pytest_aecbench.settings.layers import check_user_value

    given = _scalar(value) if key.startswith("compute.") else value
    store({key: check_user_value(key, given, "config set")}, as_json=as_json)


def _scalar(text: str) -> object:
    """Return a number or a truth value where a text is one in JSON, else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    finite = isinstance(value, (bool, int)) or (isinstance(value, float) and isfinite(value))
    return value if finite else text


def store(changes: Mapping[str, object], *, as_json: bool = False) -> None:
    """Set some of this user's defaults, leave the others, and print all; None removes one."""
    from pytest_aecbench.settings.layers import user_values

    changed = {**user_values(), **changes}
    found = {key: value for key, value in changed.items() if value is not None}
    _write(found)
    _print(found, as_json)


@app.command()
def reset(
    key: Annotated[
        str | None,
        typer.Argument(help="A setting, or a table such as compute.gcp; all without it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove one of this user's defaults, or all.

    Example: aec-bench config reset ledger_root
    """
    from pytest_aecbench.settings.layers import check_user_value, user_values

    found: dict[str, object] = {}
    if key is not None:
        whole = key.startswith("compute.") and key.count(".") == 1
        check_user_value(f"{key}.x" if whole else key, "-", "config reset")
        kept = ((name, value) for name, value in user_values().items() if name != key)
        found = {name: value for name, value in kept if not name.startswith(f"{key}.")}
    _write(found)  # also if the file cannot be read, to start anew
    _print(found, as_json)


def _write(values: Mapping[str, object]) -> None:
    from pytest_aecbench.host.files import shown_path, whole
    from pytest_aecbench.settings.layers import user_file

    path = user_file()
    if path is None:
        raise SettingsError("config: this user has no home directory; set XDG_CONFIG_HOME")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as file:
            file.write(f"{json.dumps(values, indent=2, ensure_ascii=False)}\n".encode())
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(f"{shown_path(path)}: cannot be written, {reason.lower()}") from None


def _print(values: Mapping[str, object], as_json: bool) -> None:
    from pytest_aecbench.host.files import shown_path
    from pytest_aecbench.settings.layers import user_file

    path = user_file()
    assert path is not None
    if as_json:
        print_json(values)
        return
    typer.echo(f"{shown_path(path)}:{'' if values else ' nothing set'}")
    for name, value in values.items():
        typer.echo(f"  {name} = {value if isinstance(value, str) else json.dumps(value)}")


def print_schema(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(DOCUMENTS)}.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Accepted by every command; a schema is JSON anyway.")
    ] = False,
) -> None:
    """Print the JSON schema of task.toml, experiment.yaml or aec-bench.toml.

    Example: aec-bench schema experiment > experiment.schema.json
    """
    from pytest_aecbench.settings.schema import json_schema  # slow to import

    if name not in DOCUMENTS:
        raise SettingsError(f"schema: {name!r} is not known; {did_you_mean(name, DOCUMENTS)}")
    print_json(json_schema(name))
