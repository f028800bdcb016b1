"""``aec-bench generate``: tasks and suites from templates, and tools for their authors."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import (
    AsJson,
    check_choices,
    print_json,
    print_problem,
    print_table,
    project_settings,
)
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_aecbench.suites.audit import Audit, Row
    from pytest_aecbench.suites.prompt import Cell
    from pytest_aecbench.suites.suite import Generated
    from pytest_aecbench.suites.template import Template

__all__ = ["app"]

_MAX_SEED = 2**63 - 1  # the largest integer of TOML

app = typer.Typer(help="Generate tasks from templates.", no_args_is_help=True)


def _templates(
    user_dirs: Sequence[Path] = (),
    on_problem: Callable[[SettingsError], None] | None = None,
    where: str = "--user-dir",
) -> dict[str, Template]:
    from pytest_aecbench.suites.catalogue import find_templates

    for path in user_dirs:
        if not path.is_dir():
            raise SettingsError(f"{where}: {shown_path(path)} is not a directory; correct the path")
    return find_templates([project_settings().templates_root, *user_dirs], on_problem)


Difficulty = Annotated[
    str | None,
    typer.Option(help="One or more of easy, medium and hard, with commas (default: all)."),
]
Seed = Annotated[int, typer.Option(help="The seed of the draws.", min=0, max=_MAX_SEED)]
TemplateDir = Annotated[
    Path | None, typer.Option("--template", help="The directory of a template, instead of NAME.")
]
TemplateName = Annotated[
    str | None, typer.Argument(help="The template's name, or DISCIPLINE/NAME.")
]


def _chosen(name: str | None, directory: Path | None) -> Template:
    """Return the template that NAME or --template means."""
    from pytest_aecbench.suites.catalogue import find_template
    from pytest_aecbench.suites.loading import load_template

    if (name is None) == (directory is None):
        raise SettingsError("NAME: one of NAME and --template is needed; give exactly one")
    return (
        load_template(directory)
        if directory
        else find_template(str(name), _templates((), print_problem))
    )


def _cells(
    template: Template, difficulty: str | None, visibility: str | None, tool_mode: str | None
) -> list[Cell]:
    """Return a cell for each difficulty that is asked for."""
    from pytest_aecbench.suites.prompt import Cell

    names = [name.strip() for name in difficulty.split(",")] if difficulty else [*template.levels]
    check_choices(names, tuple(template.levels), "--difficulty")
    check_choices([tool_mode] if tool_mode else (), template.tool_modes, "--tool-mode")
    cells = []
    for name in names:
        offered = template.levels[name].visibility
        check_choices([visibility] if visibility else (), offered, "--visibility")
        cells.append(Cell(name, visibility or offered[0], tool_mode or template.tool_modes[0]))
    return cells


Visibility = Annotated[
    str | None, typer.Option(help="all_given or partial (default: the level's first).")
]
ToolMode = Annotated[
    str | None, typer.Option(help="with-tool or no-tool (default: the template's).")
]


@app.command()
def task(
    name: TemplateName = None,
    template_dir: TemplateDir = None,
    instances: Annotated[int, typer.Option(help="How many tasks.", min=1, max=100_000)] = 3,
    difficulty: Difficulty = None,
    visibility: Visibility = None,
    tool_mode: ToolMode = None,
    seed: Seed = 42,
    start_index: Annotated[
        int, typer.Option(help="The index of the first; higher ones give other tasks.", min=0)
    ] = 0,
    output: Annotated[
        Path | None, typer.Option(help="The directory of tasks (default: the project's).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate tasks from one template; difficulties take turns.

    Example: aec-bench generate task feeder-voltage-drop --instances 6 --difficulty easy,hard
    """
    from pytest_aecbench.suites.generation import generate_tasks

    template = _chosen(name, template_dir)
    cells = _cells(template, difficulty, visibility, tool_mode)
    target = output or project_settings().tasks_root
    with _bar(instances, as_json) as step:
        made = generate_tasks(
            template, cells, instances, seed, start_index, target, write=not dry_run, progress=step
        )
    if as_json:
        rows = [
            {
                "index": one.index,
                "instance": one.name,
                "difficulty": one.cell.difficulty,
                "path": str(target / one.name),
            }
            for one in made
        ]
        about = {"dry_run": dry_run, "template": template.id, "output": str(target), "seed": seed}
        print_json({**about, "count": len(rows), "instances": rows})
        return
    for one in made:
        state = "would write" if dry_run else "wrote" if one.is_new else "unchanged"
        typer.echo(f"{state} {target / one.name}")


@app.command()
def suite(
    config: Annotated[Path, typer.Option("--config", help="The suite's file, such as suite.toml.")],
    seed: Annotated[
        int | None, typer.Option(help="Another seed than the file's.", min=0, max=_MAX_SEED)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Another directory than the file's output.dir.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Draw everything, write nothing.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Only check the file and the templates.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the directory differs from the suite.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Generate a suite of tasks, all of it or nothing; unchanged tasks stay.

    Example: aec-bench generate suite --config suite.toml --dry-run
    """
    from pytest_aecbench.suites.catalogue import matching
    from pytest_aecbench.suites.config import load_suite
    from pytest_aecbench.suites.suite import check_suite, plan_suite, write_suite

    if dry_run + validate_only + check > 1:
        raise SettingsError("--dry-run, --validate-only, --check: exclude one another; use one")
    settings = project_settings()
    asked = load_suite(config)
    if seed is not None:
        asked = asked.model_copy(update={"seed": seed})
    user_dirs = [settings.root / path for path in asked.templates.user_dirs]
    templates = _templates(user_dirs, where="templates.user_dirs")
    matched = matching(asked.templates.include, templates)
    plan = plan_suite(asked, matched)
    for warning in plan.warnings:
        print_problem(warning)
    if validate_only:
        _print_validity(len(matched), len(templates), plan.warnings, as_json)
        return
    target = output or settings.root / asked.output.dir
    with _bar(len(plan.slots), as_json) as step:
        if check:
            changes = check_suite(plan, target, step)
        else:
            made = write_suite(plan, target, write=not dry_run, progress=step)
    if check:
        _print_changes(shown_path(target), len(plan.slots), changes, as_json)
    else:
        _print_suite(made, target, dry_run, as_json)


@contextmanager
def _bar(length: int, silent: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal; yield the function that moves it on."""
    with typer.progressbar(
        length=length, label="generating", file=sys.stderr, hidden=silent or not sys.stderr.isatty()
    ) as bar:
        yield lambda: bar.update(1)


def _print_validity(matched: int, known: int, warnings: Sequence[str], as_json: bool) -> None:
    if as_json:
        about = {"valid": True, "matched_templates": matched, "total_templates": known}
        print_json({**about, "warnings": warnings})
    else:
        typer.echo(f"valid: {matched} of {counted(known, 'template')} match")


def _print_changes(target: str, count: int, changes: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json({"output": target, "current": not changes, "changes": changes})
    else:
        for change in changes:
            typer.echo(change)
        typer.echo(f"{target}: {f'{len(changes)} differ' if changes else f'{count} unchanged'}")
    if changes:
        raise typer.Exit(1)


def _print_suite(made: Generated, target: Path, dry_run: bool, as_json: bool) -> None:
    from pytest_aecbench.suites.suite import GENERATION_FILE

    counts = _counts(made)
    total = len(made.tasks)
    if as_json:
        data: dict[str, object] = {
            "dry_run": dry_run,
            "suite_name": made.plan.config.name,
            "total_instances": total,
            **counts,
            "warnings": made.plan.warnings,
            "rejected": dict(made.rejected.most_common()),
            "instances": [{"name": name, **task} for name, task in sorted(made.tasks.items())],
        }
        if not dry_run:
            data["instances_generated"] = total if made.is_new else 0
            data["manifest_path"] = str(target / GENERATION_FILE)
        print_json(data)
        return
    rows = [
        (axis.removeprefix("by_"), name, count)
        for axis, one in counts.items()
        for name, count in one.items()
    ]
    print_table(("by", "value", "tasks"), rows)
    attempts = total + sum(made.rejected.values())
    typer.echo(f"\n{total} of {attempts} draws accepted")
    state = "would write" if dry_run else "wrote" if made.is_new else "unchanged"
    typer.echo(f"{state} {counted(total, 'task')} in {shown_path(target)}")


def _counts(made: Generated) -> dict[str, dict[str, int]]:
    slots = made.plan.slots
    axes = {
        "by_discipline": [slot.template.partition("/")[0] for slot in slots],
        "by_difficulty": [slot.cell.difficulty for slot in slots],
        "by_visibility": [slot.cell.visibility for slot in slots],
        "by_tool_mode": [slot.cell.tool_mode for slot in slots],
        "by_split": [slot.split for slot in slots if slot.split],
        "by_template": [slot.template for slot in slots],
    }
    order = {"easy": 0, "medium": 1, "hard": 2, "train": 0, "val": 1, "test": 2}
    return {
        axis: dict(sorted(Counter(values).items(), key=lambda one: (order.get(one[0], 0), one[0])))
        for axis, values in axes.items()
    }


@app.command()
def preview(
    name: TemplateName = None,
    template_dir: TemplateDir = None,
    difficulty: Difficulty = None,
    visibility: Visibility = None,
    tool_mode: ToolMode = None,
    seed: Seed = 42,
    index: Annotated[int, typer.Option(help="The index of the instance.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Show the prompt, the answer and the files of an instance; nothing is written.

    Example: aec-bench generate preview part-full-sewer --difficulty hard --seed 7
    """
    from pytest_aecbench.suites.generation import key_of
    from pytest_aecbench.suites.instance import task_files
    from pytest_aecbench.suites.sampling import sample

    template = _chosen(name, template_dir)
    for cell in _cells(template, difficulty, visibility, tool_mode)[:1]:
        instance = sample(template, key_of(template, seed, "", index), cell)
        files = task_files(instance)
    if as_json:
        about = {"template": template.id, "name": instance.name, "params": instance.params}
        print_json({**about, "answer": instance.truth, "files": files})
        return
    typer.echo(instance.prompt)
    typer.echo("---- answer")
    print_table(("field", "value"), [(key, str(value)) for key, value in instance.truth.items()])
    for file, text in instance.files.items():
        typer.echo(f"\n---- /workspace/{file}\n{text.rstrip()}")
    typer.echo(f"\n---- files of {instance.name}")
    for file in sorted(files):
        typer.echo(file)


@app.command("new-template")
def new_template(
    template_id: Annotated[str, typer.Argument(metavar="DISCIPLINE/NAME")],
    templates_dir: Annotated[
        Path | None, typer.Option(help="The directory of templates (default: the project's).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a template that is valid right away; change it to your problem.

    Example: aec-bench generate new-template electrical/ohms-law
    """
    from pytest_aecbench.suites.scaffold import new_template

    path = new_template(template_id, templates_dir or project_settings().templates_root)
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    if as_json:
        print_json({"template": template_id, "path": str(path), "files": files})
        return
    for file in files:
        typer.echo(path / file)
    typer.echo("\nThe template works now:")
    typer.echo(f"  aec-bench generate validate-template {path}")
    typer.echo(f"  aec-bench generate preview --template {path}")


@app.command("list-templates")
def list_templates(
    discipline: Annotated[str | None, typer.Option(help="Only those of this discipline.")] = None,
    user_dir: Annotated[
        list[Path] | None, typer.Option(help="Another directory of templates; repeat for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the templates of this package and of the project.

    Example: aec-bench generate list-templates --discipline electrical
    """
    templates = _templates(user_dir or (), print_problem).values()
    disciplines = sorted({template.table.meta.discipline for template in templates})
    check_choices([discipline] if discipline else (), tuple(disciplines), "--discipline")
    rows = [
        {
            "name": template.table.meta.name,
            "discipline": template.table.meta.discipline,
            "category": template.table.meta.category,
            "tool_mode": template.table.meta.tool_mode,
            "version": template.version,
            "difficulties": list(template.levels),
            "description": template.table.meta.description or template.title,
        }
        for template in templates
        if discipline in (None, template.table.meta.discipline)
    ]
    if as_json:
        print_json(rows)
        return
    shown = ("discipline", "name", "version", "tool_mode", "description")
    print_table(shown, ([row[key] for key in shown] for row in rows))


@app.command("validate-template")
def validate_template(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The template's directory.")],
    draws: Annotated[int, typer.Option(help="Instances for each row of the table.", min=2)] = 200,
    as_json: AsJson = False,
) -> None:
    """Check a template: load it, draw instances, and measure them; exit 1 if it has problems.

    Example: aec-bench generate validate-template templates/electrical/my-template
    """
    from pytest_aecbench.suites.audit import Audit, audit
    from pytest_aecbench.suites.loading import load_template

    try:
        template = load_template(directory)
        found = audit(template, draws, _progress(as_json))
    except SettingsError as error:
        found = Audit(directory.name, (), tuple(str(error).splitlines()))
    if as_json:
        rows = [_row_data(row) for row in found.rows]
        print_json(
            {
                "template": found.template,
                "path": str(directory),
                "valid": not found.problems,
                "rows": rows,
                "errors": found.problems,
            }
        )
    else:
        _print_audit(found)
    if found.problems:
        raise typer.Exit(1)


def _progress(silent: bool) -> Callable[[str], None]:
    def show(what: str) -> None:
        if not silent and sys.stderr.isatty():
            typer.echo(f"\r\x1b[K{what}", nl=False, err=True)

    return show


def _row_data(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__slots__}


def _print_audit(found: Audit) -> None:
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", nl=False, err=True)
    head = ["level", "visibility", "accepted", "sets", "condition", "digits", "mistakes", "guesses"]
    rows = [
        (
            row.difficulty,
            row.visibility,
            f"{row.acceptance:.0%}",
            f"{row.space:.1e}",
            f"{row.condition:.1f}",
            f"{row.sloppy:.1%}",
            f"{row.mistake:.2f}",
            f"{row.baseline:.2f}",
            " ".join(f"{share:.0%}" for share in row.flags.values()) or "-",
            f"{row.milliseconds:.1f}",
        )
        for row in found.rows
    ]
    if rows:
        print_table([*head, "flags", "ms"], rows)
        typer.echo()
    for row in found.rows:
        most = ", ".join(f"{count} {reason}" for reason, count in [*row.rejected.items()][:4])
        typer.echo(f"{row.difficulty}, {row.visibility} rejected: {most or 'nothing'}")
    for problem in found.problems:
        typer.echo(f"problem: {problem}")
    count = len(found.problems)
    typer.echo(f"{found.template}: {counted(count, 'problem') if count else 'no problems'}")
