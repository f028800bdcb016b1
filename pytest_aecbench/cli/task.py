"""``aec-bench task``: create tasks, update their copies of aec_verify.py, and check them."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.ledger.checks import CheckRecord

__all__ = ["app"]

app = typer.Typer(
    help="Create and check tasks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_FIELD = "--output-field"
_NOTHING_SELECTED = 5


@app.command()
def new(
    task_id: Annotated[str, typer.Argument(metavar="DOMAIN/NAME", help="The task's id.")],
    title: Annotated[
        str | None, typer.Option(help="Its heading (default: NAME, in words).")
    ] = None,
    difficulty: Annotated[
        str | None, typer.Option(help="easy, medium (the default) or hard.")
    ] = None,
    output_field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE[:UNIT]",
            help="A field of the answer and its right value: a number, with its unit if it has "
            "one; true or false; or a choice, the right one first, such as C2|C1|C3. "
            "Repeat for several.",
        ),
    ] = None,
    tags: Annotated[str | None, typer.Option(help="Tags to select it by, with commas.")] = None,
    tasks_dir: Annotated[Path, typer.Option(help="The directory of tasks.")] = Path("tasks"),
    as_json: AsJson = False,
) -> None:
    """Create a task that runs right away; on a terminal, asks for missing values.

    Example: aec-bench task new electrical/ohms-law --output-field current_a=2.0:A
    """
    from pytest_aecbench.tasks.scaffold import NewTask, parse_answer

    name = task_id.rpartition("/")[2].replace("-", " ").replace("_", " ")
    asks = sys.stdin.isatty() and not as_json
    if asks:
        title = title or typer.prompt("Title", default=name.capitalize())
        difficulty = difficulty or typer.prompt("Difficulty (easy, medium, hard)", default="medium")
        output_field = output_field or _ask_for_fields()
    task = NewTask(
        task_id=task_id,
        title=title or name.capitalize(),
        difficulty=difficulty or "medium",
        tags=tuple(tag.strip() for tag in (tags or "").split(",") if tag.strip()),
        answers=tuple(parse_answer(text, _FIELD) for text in output_field or ["result=1.0"]),
    )
    path = task.write(tasks_dir)
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    if as_json:
        print_json({"task_id": task_id, "path": str(path), "files": files})
        return
    for file in files:
        typer.echo(path / file)
    typer.echo("\nThe task runs now: the oracle passes and nop fails:")
    typer.echo(f"  pytest {path} --aec-agent=oracle --aec-agent=nop")
    typer.echo(
        "Next, state the problem in instruction.md, solve it in solution/, and check it all:"
    )
    typer.echo(f"  pytest {path} --aec-check")


def _ask_for_fields() -> list[str]:
    from pytest_aecbench.errors import SettingsError
    from pytest_aecbench.tasks.scaffold import parse_answer

    typer.echo("Fields of the answer, each as NAME=VALUE[:UNIT]; an empty line ends them.")
    fields: list[str] = []
    while text := typer.prompt("Field", default="", show_default=False).strip():
        try:
            parse_answer(text, text)
        except SettingsError as error:
            typer.echo(str(error), err=True)
        else:
            fields.append(text)
    return fields


@app.command("vendor-verify")
def vendor_verify(
    tasks: Annotated[
        list[Path] | None, typer.Argument(help="Tasks, or directories of tasks (default: tasks).")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a copy is not current.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Update the copies of aec_verify.py in tasks; a task named itself gets one.

    Only a task that is to run without this package, or to keep its grading, needs a copy.

    Example: aec-bench task vendor-verify tasks/electrical/voltage-drop
    """
    from pytest_aecbench.errors import SettingsError
    from pytest_aecbench.tasks.scaffold import is_current, vendor
    from pytest_aecbench.tasks.supplied import HELPER

    outdated = []
    for path in tasks or [Path("tasks")]:
        found = [path] if (path / "task.toml").is_file() else _with_copies(path, HELPER)
        if not found:
            raise SettingsError(
                f"{path}: contains no task with {HELPER}; name the tasks that should have it"
            )
        outdated += [task for task in found if not is_current(task)]
    if not check:
        for task in outdated:
            vendor(task)
    if as_json:
        print_json({"outdated": [str(task) for task in outdated], "written": not check})
    else:
        for task in outdated:
            typer.echo(f"{task / HELPER}{' is not current' if check else ''}")
    if check and outdated:
        raise typer.Exit(1)


def _with_copies(root: Path, name: str) -> list[Path]:
    tasks = (file.parent for file in root.rglob("task.toml"))
    return sorted(task for task in tasks if (task / name).is_file())


_OUTCOMES = ("passed", "failed", "error", "skipped")


@app.command()
def validate(
    paths: Annotated[list[Path], typer.Argument(help="Tasks, or directories of tasks.")],
    as_json: AsJson = False,
    exploits: Annotated[
        bool, typer.Option("--exploits", help="Also run agents that cheat.")
    ] = False,
    backend: Annotated[
        str | None, typer.Option(help="The backend: local, docker, or one of yours.")
    ] = None,
) -> None:
    """Check that tasks are sound before they score any agent; exit 1 unless all are.

    Example: aec-bench task validate tasks/electrical/voltage-drop --exploits
    """
    for path in paths:
        if not path.exists():
            raise SettingsError(f"{str(path)!r} does not exist; use the path of a task")
    options = [f"--aec-check={'all' if exploits else 'standard'}"]
    options += [f"--aec-backend={backend}"] if backend else []
    found = _run([*map(str, paths), *options])
    counts = Counter(one.outcome for one in found)
    is_sound = not counts["failed"] and not counts["error"]
    if as_json:
        print_json({"sound": is_sound, "checks": [_as_data(one) for one in found]})
    else:
        for one in found:
            typer.echo(_line(one))
        typer.echo(", ".join(f"{counts[name]} {name}" for name in _OUTCOMES if counts[name]))
    raise typer.Exit(0 if is_sound else 1)


def _run(arguments: Sequence[str]) -> tuple[CheckRecord, ...]:
    """Run pytest without showing it, and return the records of its checks."""
    from pytest_aecbench.api import execute

    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stdout:
        command = [sys.executable, "-m", "pytest", "-q", *arguments]
        result, said = execute(command, stdout=stdout)
        stdout.seek(0)
        shown = said.strip() or stdout.read().strip()
    if result.exit_code not in (0, 1) and (result.checks or result.exit_code != _NOTHING_SELECTED):
        lines = shown.splitlines() or ["gave no reason"]
        raise SettingsError(f"pytest: {lines[-1].removeprefix('ERROR: ')}")
    if not result.checks:
        raise SettingsError(f"{arguments[0]}: contains no task; a task has a task.toml")
    return result.checks


def _as_data(one: CheckRecord) -> dict[str, str]:
    return {
        "task": one.task_id,
        "check": one.check,
        "outcome": one.outcome,
        "message": one.message,
        "hint": one.hint,
    }


def _line(one: CheckRecord) -> str:
    what = f"{one.outcome.upper():7} {one.task_id} {one.check}"
    if one.message:
        what += f": {'; '.join(one.message.splitlines())}"
    return f"{what}\n        hint: {one.hint}" if one.hint else what
