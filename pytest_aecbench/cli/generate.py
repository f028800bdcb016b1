"""``aec-bench generate``: tasks and suites from templates, and tools for their authors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json, print_table, project_settings

if TYPE_CHECKING:
    from pytest_aecbench.suites.audit import Audit, Row
    from pytest_aecbench.suites.template import Template

__all__ = ["app"]

app = typer.Typer(help="Generate tasks from templates.", no_args_is_help=True)


def _templates(user_dirs: list[Path] | None = None) -> dict[str, Template]:
    from pytest_aecbench.suites.catalogue import find_templates

    return find_templates([project_settings().templates_root, *(user_dirs or ())])


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
        for template in _templates(user_dir).values()
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
    from pytest_aecbench.errors import SettingsError
    from pytest_aecbench.suites.audit import Audit, audit
    from pytest_aecbench.suites.template import load_template

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


def _progress(silent: bool = False):  # type: ignore[no-untyped-def]
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
    typer.echo(f"{found.template}: {len(found.problems) or 'no'} problems")
