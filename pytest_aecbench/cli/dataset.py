"""``aec-bench dataset``: create, list, check, compare, export and import datasets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import (
    AsJson,
    check_choices,
    print_json,
    print_problem,
    project_settings,
)
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from pytest_aecbench.datasets.manifest import Manifest
    from pytest_aecbench.datasets.store import Datasets

__all__ = ["app"]

app = typer.Typer(help="Named, versioned, content-hashed sets of tasks.", no_args_is_help=True)

Ref = Annotated[
    str, typer.Argument(metavar="NAME[@VERSION]", help="Without a version, the highest.")
]


def _datasets() -> Datasets:
    from pytest_aecbench.datasets.store import Datasets

    return Datasets(project_settings().datasets_root)


def _load(text: str) -> Manifest:
    datasets = _datasets()
    return datasets.load(datasets.find(text, "dataset"))


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The dataset's name.")],
    version: Annotated[str, typer.Option(help="A semantic version, such as 1.0.0.")],
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Only tasks whose id matches, such as 'electrical/*'."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="No tasks whose id matches.")
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only tasks of this domain.")
    ] = None,
    difficulty: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL", help="Only tasks of this difficulty, such as easy."),
    ] = None,
    lifecycle: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only tasks in this state, such as active."),
    ] = None,
    from_suite: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Exactly the tasks of this generated suite."),
    ] = None,
    holdout: Annotated[bool, typer.Option("--holdout", help="Include held-out tasks.")] = False,
    checked: Annotated[
        bool, typer.Option("--checked", help="Refuse tasks that have not passed their checks.")
    ] = False,
    summary: Annotated[str, typer.Option(help="A one-sentence summary.")] = "",
    purpose: Annotated[str, typer.Option(help="Its purpose.")] = "",
    standard: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A standard that its tasks apply.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a dataset of tasks in their present state. It never changes afterwards.

    Repeated options add up; different ones must all hold.

    Example: aec-bench dataset create electrical --version 1.0.0 --include 'electrical/*'
    """
    from pytest_aecbench.datasets.create import check_soundness, entry_of, selected_tasks
    from pytest_aecbench.datasets.from_suite import suite_tasks
    from pytest_aecbench.datasets.manifest import Manifest
    from pytest_aecbench.datasets.names import check_version, parse_ref
    from pytest_aecbench.errors import SettingsError
    from pytest_aecbench.tasks.selection import Selection

    check_choices(difficulty or (), ("easy", "hard", "medium"), "--difficulty")
    check_choices(lifecycle or (), ("active", "deprecated", "proposed", "retired"), "--lifecycle")
    settings = project_settings()
    ref = parse_ref(f"{name}@{check_version(version, '--version')}", "NAME")
    selection = Selection(
        include_patterns=tuple(include or ()),
        exclude_patterns=tuple(exclude or ()),
        domains=tuple(domain or ()),
        difficulties=tuple(difficulty or ()),
        lifecycle=tuple(lifecycle or ()),
    )
    source = None
    if from_suite is None:
        selected = list(selected_tasks(selection, settings.tasks_root))
    elif selection:
        raise SettingsError("--from-suite: takes all tasks of the suite; leave out the selection")
    else:
        selected, source = suite_tasks(from_suite, settings.tasks_root)
    kept = [task for task in selected if holdout or task.visibility == "public"]
    tasks_root = Path(os.path.normpath(settings.tasks_root))
    inside = tasks_root.is_relative_to(settings.root)
    base = tasks_root.relative_to(settings.root) if inside else Path(tasks_root.name)
    if not kept:
        raise SettingsError(
            f"{name}: no task in {shown_path(settings.tasks_root)} is selected; "
            "a dataset needs at least one"
        )
    if checked:
        check_soundness(kept, settings.ledger_root)
    tasks = [entry_of(task, (base / task.task_id).as_posix()) for task in kept]
    manifest = Manifest.of(
        ref.name,
        version,
        tasks,
        summary=summary,
        purpose=purpose,
        standards=standard or (),
        source=source,
    )
    path = _datasets().add(manifest)
    if as_json:
        print_json(manifest.model_dump(mode="json"))
    else:
        typer.echo(f"{manifest.ref}: {counted(len(tasks), 'task')}, {manifest.content_hash}")
        if left_out := len(selected) - len(kept):
            typer.echo(f"left out: {counted(left_out, 'held-out task')}; --holdout includes them")
        typer.echo(f"in {shown_path(path)}")


@app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """List all datasets, from the lowest version to the highest.

    Example: aec-bench dataset list
    """
    from pytest_aecbench.errors import SettingsError

    datasets, manifests = _datasets(), []
    for ref in datasets.refs():
        try:
            manifests.append(datasets.load(ref))
        except SettingsError as error:
            print_problem(error)
    if as_json:
        print_json([_outline(manifest) for manifest in manifests])
        return
    if not manifests:
        typer.echo(f"no datasets in {shown_path(datasets.root)}")
    width = max((len(manifest.ref) for manifest in manifests), default=0)
    for manifest in manifests:
        about = manifest.description
        typer.echo(
            f"{manifest.ref:{width}}  {about.task_count:>5} tasks  "
            f"{manifest.created_at:%Y-%m-%d}  {', '.join(about.domains)}"
        )


@app.command()
def info(dataset: Ref, as_json: AsJson = False) -> None:
    """Show a dataset's description and its tasks.

    Example: aec-bench dataset info electrical@1.0.0
    """
    manifest = _load(dataset)
    if as_json:
        print_json(manifest.model_dump(mode="json"))
        return
    about = manifest.description
    difficulties = about.difficulty_distribution.items()
    shown = {
        "dataset": manifest.ref,
        "hash": manifest.content_hash,
        "created": f"{manifest.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "summary": about.summary,
        "purpose": about.purpose,
        "standards": ", ".join(about.standards),
        "domains": ", ".join(about.domains),
        "difficulties": ", ".join(f"{name} {count}" for name, count in difficulties),
        "tasks": str(about.task_count),
    }
    for key, value in shown.items():
        if value:
            typer.echo(f"{key + ':':<14}{value}")
    for task in manifest.tasks:
        held_out = ", held out" if task.visibility == "holdout" else ""
        typer.echo(f"  {task.task_id} ({task.difficulty or 'unspecified'}{held_out})")


@app.command()
def validate(dataset: Ref, as_json: AsJson = False) -> None:
    """Compare a dataset with the tasks on disk; exit with 1 if they differ.

    Example: aec-bench dataset validate electrical@1.0.0
    """
    from pytest_aecbench.datasets.drift import drift

    manifest = _load(dataset)
    changes = drift(manifest, project_settings().tasks_root)
    if as_json:
        print_json({"dataset": manifest.ref, "valid": not changes, "changes": changes})
    else:
        for change in changes:
            typer.echo(change)
        if not changes:
            typer.echo(f"{manifest.ref}: {counted(len(manifest.tasks), 'task')}, all unchanged")
    if changes:
        raise typer.Exit(1)


@app.command("export")
def export_archive(
    dataset: Ref,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: NAME-VERSION.tar.gz here.")
    ] = None,
    holdout: Annotated[
        bool, typer.Option("--holdout", help="Export it although it has held-out tasks.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a dataset and its tasks to an archive; the same content gives the same bytes.

    Example: aec-bench dataset export electrical@1.0.0 -o electrical.tar.gz
    """
    from pytest_aecbench.datasets.archive import write_archive
    from pytest_aecbench.errors import SettingsError

    datasets = _datasets()
    ref = datasets.find(dataset, "dataset")
    manifest = datasets.load(ref)
    held_out = sum(task.visibility == "holdout" for task in manifest.tasks)
    if held_out and not holdout:
        raise SettingsError(
            f"{ref}: {counted(held_out, 'held-out task')} would become public; "
            "export a dataset without them, or use --holdout"
        )
    target = output or Path(f"{ref.name}-{ref.version}.tar.gz")
    write_archive(manifest, datasets.read(ref), project_settings().tasks_root, target)
    if as_json:
        print_json({"dataset": manifest.ref, "archive": str(target)})
    else:
        typer.echo(f"{manifest.ref}: {counted(len(manifest.tasks), 'task')} in {target}")


@app.command("import")
def import_archive(
    archive: Annotated[Path, typer.Argument(help="An archive written by 'dataset export'.")],
    as_json: AsJson = False,
) -> None:
    """Import a dataset and its tasks from an archive, all or nothing, if all hashes are right.

    Existing tasks stay unchanged; if one of them differs, nothing is imported.

    Example: aec-bench dataset import electrical.tar.gz
    """
    from pytest_aecbench.datasets.importer import import_dataset

    settings = project_settings()
    manifest, new = import_dataset(archive, _datasets(), settings.tasks_root)
    if as_json:
        print_json({"dataset": manifest.ref, "new_tasks": new})
    else:
        there = len(manifest.tasks) - len(new)
        typer.echo(f"{manifest.ref}: {counted(len(new), 'new task')}, {there} existed already")


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A")],
    after: Annotated[str, typer.Argument(metavar="B")],
    as_json: AsJson = False,
) -> None:
    """Show the tasks and files that dataset B adds to, removes from or changes in dataset A.

    Example: aec-bench dataset diff electrical@1.0.0 electrical@1.1.0
    """
    from pytest_aecbench.datasets.drift import differences

    old, new = _load(before), _load(after)
    changes = differences(old, new)
    if as_json:
        print_json({"before": old.ref, "after": new.ref, "changes": changes})
        return
    for change in changes:
        typer.echo(change)
    if not changes:
        typer.echo(f"{old.ref} and {new.ref} have the same tasks")


def _outline(manifest: Manifest) -> dict[str, object]:
    return manifest.model_dump(mode="json", exclude={"tasks"})
