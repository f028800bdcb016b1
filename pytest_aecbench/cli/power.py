"""``aec-bench report power``: the least difference that a design can detect."""

from __future__ import annotations

from typing import Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError

__all__ = ["power"]


def power(
    tasks: Annotated[int, typer.Option(help="How many tasks.")],
    repetitions: Annotated[int, typer.Option(help="How many trials of each task.")] = 1,
    mean: Annotated[
        float, typer.Option(help="The mean reward that you expect (0.5 is the hardest case).")
    ] = 0.5,
    as_json: AsJson = False,
) -> None:
    """Print the least difference of two mean rewards on the same tasks that is likely to be found.

    Example: aec-bench report power --tasks 14 --repetitions 3
    """
    from pytest_aecbench.reports.paired import MIN_TASKS
    from pytest_aecbench.reports.power import POWER, detectable_text, least_detectable
    from pytest_aecbench.reports.statistics import LEVEL
    from pytest_aecbench.text import counted

    for option, count in (("--tasks", tasks), ("--repetitions", repetitions)):
        if not 1 <= count <= 1_000_000:
            right = "use a whole number from 1 to 1000000"
            raise SettingsError(f"{option}: {count!r} is not valid; {right}")
    if not 0 < mean < 1:
        raise SettingsError(f"--mean: {mean!r} is not valid; use a number between 0 and 1")
    found = least_detectable(tasks, repetitions, mean)
    if as_json:
        print_json(
            {
                "tasks": tasks,
                "repetitions": repetitions,
                "mean": mean,
                "level": LEVEL,
                "power": POWER,
                "least_detectable": found.least,
                "however_often": found.however_often,
                "min_tasks": MIN_TASKS,
            }
        )
        return
    design = f"{counted(tasks, 'task')}, {counted(repetitions, 'repetition')}"
    typer.echo(f"{design}: {detectable_text(tasks, found.least)}")
    if found.however_often is not None:
        limit = detectable_text(tasks, found.however_often)
        typer.echo(f"{counted(tasks, 'task')}, any number of repetitions: {limit}")
