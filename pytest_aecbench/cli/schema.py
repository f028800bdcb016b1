"""``aec-bench schema``: what may stand in the files that users write."""

from __future__ import annotations

from typing import Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.documents.problems import hint
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.settings.schema import NAMES, json_schema

__all__ = ["print_schema"]


def print_schema(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    as_json: AsJson = True,
) -> None:
    """Print the JSON schema of task.toml, experiment.yaml or aec-bench.toml.

    Example: aec-bench schema experiment > experiment.schema.json
    """
    if name not in NAMES:
        raise SettingsError(f"schema: {name!r} is not known; {hint(name, NAMES)}")
    print_json(json_schema(name))
