"""The command's groups, in the order of its help; what each needs is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from pytest_aecbench import __version__
from pytest_aecbench.cli import validating

__all__ = ["app"]

app = typer.Typer(
    help="Benchmark AI agents: tasks, datasets, experiments and results. Trials run in pytest.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an unforeseen error shows its plain traceback
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _say_version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"pytest-aecbench {__version__}")
        raise typer.Exit


task = typer.Typer(help="Write and check tasks.")
app.add_typer(task, name="task")
task.command("validate")(validating.validate)
