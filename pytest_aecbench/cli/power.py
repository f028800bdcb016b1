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
    between: Annotated[
        float | None,
        typer.Option(
            help="The share of the rewards' variance that lies between tasks: 0 if every trial is "
            "a matter of luck, 1 if repetitions agree (default: the harder of the two).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which difference of two mean rewards on the same tasks is likely to be found.

    Example: aec-bench report power --tasks 14 --repetitions 3
    """
    from pytest_aecbench.reports.paired import MIN_TASKS, too_few_text
    from pytest_aecbench.reports.power import POWER, least_detectable
    from pytest_aecbench.reports.statistics import LEVEL
    from pytest_aecbench.text import counted

    for option, count in (("--tasks", tasks), ("--repetitions", repetitions)):
        if not 1 <= count <= 1_000_000:
            right = "use a whole number from 1 to 1000000"
            raise SettingsError(f"{option}: {count!r} is not valid; {right}")
    for option, share in (("--mean", mean), ("--between", between)):
        if share is not None and not 0 <= share <= 1:
            raise SettingsError(f"{option}: {share!r} is not valid; use a number from 0 to 1")
    least = least_detectable(tasks, repetitions, mean=mean, between=between)
    if as_json:
        print_json(
            {
                "tasks": tasks,
                "repetitions": repetitions,
                "mean": mean,
                "between": between,
                "level": LEVEL,
                "power": POWER,
                "least_detectable": least,
                "min_tasks": MIN_TASKS,
            }
        )
        return
    design = f"{counted(tasks, 'task')}, {counted(repetitions, 'repetition')}"
    if tasks < MIN_TASKS:
        typer.echo(f"{design}: {too_few_text(tasks)}")
    elif least is None:
        typer.echo(f"{design}: no difference is found with {POWER:.0%} probability; add tasks")
    else:
        typer.echo(
            f"{design}: a difference of {least:.2f} or more is found with {POWER:.0%} probability "
            f"(two-sided level {LEVEL:.0%})"
        )
