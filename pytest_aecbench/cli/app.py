"""The command's groups, in the order of its help; each imports its dependencies when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from pytest_aecbench import __version__
from pytest_aecbench.cli import (
    badge,
    config,
    dataset,
    difficulty,
    generate,
    html,
    init,
    ledger,
    power,
    report,
    task,
)
from pytest_aecbench.cli import run as running
from pytest_aecbench.cli.doctor import doctor
from pytest_aecbench.cli.gcp import gcp
from pytest_aecbench.cli.images import images
from pytest_aecbench.cli.reap import reap
from pytest_aecbench.cli.saturation import saturation
from pytest_aecbench.cli.view import view

__all__ = ["app"]

app = typer.Typer(
    help="Benchmark AI agents: tasks, datasets, experiments and results. Trials run in pytest.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an unexpected error shows its plain traceback
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _say_version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"pytest-aecbench {__version__}")
        raise typer.Exit
    context.obj = config.load_environment()


app.command("init")(init.init)
app.command("run", cls=running.PassingOn)(running.run)
app.command(
    "run-local",
    cls=running.PassingOn,
    help="Run trials on the local backend: aec-bench run --backend local.\n\n"
    "Example: aec-bench run-local electrical/voltage-drop --harness direct --model gpt-4.1-mini",
)(running.run)
app.command("evaluate", cls=running.PassingOn)(running.evaluate)
app.add_typer(task.app, name="task")
app.add_typer(generate.app, name="generate")
app.add_typer(dataset.app, name="dataset")
app.add_typer(ledger.app, name="ledger")
report.app.command()(difficulty.difficulty)
report.app.command()(html.html)
report.app.command()(badge.badge)
report.app.command()(power.power)
report.app.command()(saturation)
app.add_typer(report.app, name="report")
app.command()(view)
config.app.command()(gcp)
app.add_typer(config.app, name="config")
app.command("schema")(config.print_schema)
app.command()(doctor)
app.add_typer(images, name="images")
app.command()(reap)
