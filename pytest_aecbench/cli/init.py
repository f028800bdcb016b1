"""``aec-bench init``: start a project that works right away."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["init"]

STARTER = Path(__file__).with_name("starter")
# Hidden files are stored under another name, so that no tool reads them as this project's own.
HIDDEN = "dot-"
PYTEST_INI = "pytest.ini"
FIRST_RUN = "experiments/first-run.yaml"
# The other files in which pytest looks for its configuration, and the pattern of a section.
CONFIGURATIONS = {
    "pytest.toml": "",
    ".pytest.toml": "",
    ".pytest.ini": "",
    "pyproject.toml": r"^\[tool\.pytest\b",
    "tox.ini": r"^\[pytest\]",
    "setup.cfg": r"^\[tool:pytest\]",
}


def init(
    directory: Annotated[
        Path, typer.Argument(help="The project's directory; created if missing.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Start a project: settings, a working task, experiments, a workflow for CI.

    Existing files are left unchanged.

    Example: aec-bench init demo && cd demo && pytest
    """
    configured = _pytest_configuration(directory)
    written, existing = [], [configured] if configured else []
    try:
        for name, text in _files(directory.resolve().name):
            if configured and name == PYTEST_INI:
                continue  # it would override the existing configuration
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                existing.append(name)
            else:
                written.append(name)
    except OSError as error:
        raise SettingsError(
            f"{error.filename}: cannot be written, {error.strerror}; use another directory"
        ) from None
    if as_json:
        print_json({"directory": directory, "written": written, "existing": existing})
        return
    for name in written:
        typer.echo(f"wrote {directory / name}")
    for name in existing:
        typer.echo(f"kept  {directory / name}, which exists")
    enter = f"cd {shlex.quote(str(directory))} && " if directory != Path() else ""
    where = " tasks" if configured else ""
    typer.echo(f"Try it: {enter}pytest{where} && aec-bench run --config {FIRST_RUN}")


def _pytest_configuration(directory: Path) -> str | None:
    """Return the file that configures pytest already, unless it is the one we write."""
    for name, section in CONFIGURATIONS.items():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = (directory / name).read_text(encoding="utf-8")
            if re.search(section, text, re.MULTILINE):
                return name
    return None


def _files(project: str) -> Iterator[tuple[str, str]]:
    """Yield each file's path in the project and its content."""
    for path in sorted(STARTER.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            parts = path.relative_to(STARTER).parts
            name = "/".join(
                f".{part.removeprefix(HIDDEN)}" if part.startswith(HIDDEN) else part
                for part in parts
            )
            text = path.read_text(encoding="utf-8")
            # A quoted string is written the same in JSON, TOML and YAML.
            yield name, text.replace('"PROJECT"', json.dumps(project, ensure_ascii=False))
