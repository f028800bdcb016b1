"""``aec-bench task``: create tasks, update their copies of aec_verify.py, and check them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["app"]

app = typer.Typer(
    help="Create and check tasks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_FIELD = "--output-field"


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
    """Create a task that works right away; on a terminal, asks for missing values.

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
    typer.echo("\nThe task works now: the oracle passes and nop fails:")
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


@dataclass(frozen=True, slots=True)
class _Checked:
    task: str
    check: str
    outcome: str
    message: str
    hint: str


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
    """Run pytest and return the checks from its JUnit report."""
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
        lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines() or ["gave no reason"]
        if found or ended.returncode != 5:
            raise SettingsError(f"pytest: {lines[-1].removeprefix('ERROR: ')}")
    if not found:
        raise SettingsError(f"{arguments[0]}: contains no task; a task has a task.toml")
    return found


def _read(report: Path) -> Iterator[_Checked]:
    from xml.etree import ElementTree

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
            outcome=about.get("aec.outcome", "error"),  # a process that died reports nothing
            message=message.partition("\nhint: ")[0],
            hint=about.get("aec.hint", ""),
        )


def _line(one: _Checked) -> str:
    what = f"{one.outcome.upper():7} {one.task} {one.check}"
    if one.message:
        what += f": {'; '.join(one.message.splitlines())}"
    return f"{what}\n        hint: {one.hint}" if one.hint else what
