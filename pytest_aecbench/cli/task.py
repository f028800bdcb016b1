"""``aec-bench task``: make and mend tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json

__all__ = ["app"]

app = typer.Typer(
    help="Write tasks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_FIELD = "--output-field"


@app.command()
def new(
    task_id: Annotated[str, typer.Argument(metavar="DOMAIN/NAME", help="Where the task goes.")],
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
            "one; true or false; or a choice, the right one first, as in C2|C1|C3. "
            "Repeat for several.",
        ),
    ] = None,
    tags: Annotated[str | None, typer.Option(help="Words to select it by, with commas.")] = None,
    tasks_dir: Annotated[Path, typer.Option(help="Where tasks are.")] = Path("tasks"),
    as_json: AsJson = False,
) -> None:
    """Make a task that works as it stands; asks for what is missing when on a terminal.

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
    typer.echo("\nIt works as it stands; the oracle passes and nop fails:")
    typer.echo(f"  pytest {path} --aec-agent=oracle --aec-agent=nop")
    typer.echo("Next, state the problem in instruction.md and solve it in solution/.")


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
    """Bring the copies of aec_verify.py in tasks up to date; a task named itself gets one.

    Example: aec-bench task vendor-verify tasks
    """
    from pytest_aecbench.errors import SettingsError
    from pytest_aecbench.tasks.scaffold import VENDORED, is_current, vendor

    outdated = []
    for path in tasks or [Path("tasks")]:
        found = [path] if (path / "task.toml").is_file() else _with_copies(path, VENDORED)
        if not found:
            raise SettingsError(
                f"{path}: no task with {VENDORED}; name the tasks that are to have it"
            )
        outdated += [task for task in found if not is_current(task)]
    if not check:
        for task in outdated:
            vendor(task)
    if as_json:
        print_json({"outdated": [str(task) for task in outdated], "written": not check})
    else:
        for task in outdated:
            typer.echo(f"{task / VENDORED}{' is not current' if check else ''}")
    if check and outdated:
        raise typer.Exit(1)


def _with_copies(root: Path, name: str) -> list[Path]:
    tasks = (file.parent for file in root.rglob("task.toml"))
    return sorted(task for task in tasks if (task / name).is_file())
