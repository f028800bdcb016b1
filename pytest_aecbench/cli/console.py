"""What every command shares: output for people and for machines."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["AsJson", "print_json"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def print_json(data: object) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
