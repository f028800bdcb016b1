"""``aec-bench task validate``: the checks of tasks from the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.etree import ElementTree

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["validate"]

_OUTCOMES = ("passed", "failed", "error", "skipped")


@dataclass(frozen=True, slots=True)
class _Checked:
    task: str
    check: str
    outcome: str
    message: str
    hint: str


def validate(
    paths: Annotated[list[Path], typer.Argument(help="Tasks, or directories of tasks.")],
    as_json: AsJson = False,
    exploits: Annotated[
        bool, typer.Option("--exploits", help="Let agents that cheat try, too.")
    ] = False,
    backend: Annotated[
        str | None, typer.Option(help="Where to run: local, docker, or one of yours.")
    ] = None,
) -> None:
    """Check that tasks are sound before they score anyone; exit 1 unless all are.

    Example: aec-bench task validate tasks/electrical/voltage-drop --exploits
    """
    for path in paths:
        if not path.exists():
            raise SettingsError(f"{path}: does not exist; use the path of a task")
    options = [f"--aec-check={'all' if exploits else 'standard'}"]
    options += [f"--aec-backend={backend}"] if backend else []
    found = _run([*map(str, paths), *options])
    counts = Counter(one.outcome for one in found)
    is_sound = not counts["failed"] and not counts["error"]
    if as_json:
        print_json({"sound": is_sound, "checks": [asdict(one) for one in found]})
    else:
        for one in found:
            typer.echo(_line(one))
        typer.echo(", ".join(f"{counts[name]} {name}" for name in _OUTCOMES if counts[name]))
    raise typer.Exit(0 if is_sound else 1)


def _run(arguments: Sequence[str]) -> list[_Checked]:
    """Run pytest and read what it found from its report for machines."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "junit.xml")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *arguments, f"--junitxml={report}"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        found = list(_read(report)) if report.is_file() else []
    if ended.returncode not in (0, 1):
        lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines() or ["no word of why"]
        if found or ended.returncode != 5:
            raise SettingsError(f"pytest: {lines[-1].removeprefix('ERROR: ')}")
    if not found:
        raise SettingsError(f"{arguments[0]}: no task is there; a task has a task.toml")
    return found


def _read(report: Path) -> Iterator[_Checked]:
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  (our own file)
        about = {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
        name = case.get("name", "")
        if "aec.check" not in about and not name.startswith("check["):
            continue
        told = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        message = told.get("message", "") if told is not None else ""
        yield _Checked(
            task=about.get("aec.task", case.get("classname", "")),
            check=about.get("aec.check", name.removeprefix("check[").rstrip("]")),
            outcome=about.get("aec.outcome", "error"),  # a process that died tells nothing
            message=message.partition("\nhint: ")[0],
            hint=about.get("aec.hint", ""),
        )


def _line(one: _Checked) -> str:
    what = f"{one.outcome.upper():7} {one.task} {one.check}"
    if one.message:
        what += f": {'; '.join(one.message.splitlines())}"
    return f"{what}\n        hint: {one.hint}" if one.hint else what
