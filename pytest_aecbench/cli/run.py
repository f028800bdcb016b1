"""``aec-bench run``, ``run-local`` and ``evaluate``: run pytest with shorter options."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.cli.groups import option, option_group
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.settings.table import OPTIONS, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Parameter

    from pytest_aecbench.api import RunResult

__all__ = ["PassingOn", "evaluate", "run"]


class PassingOn(TyperCommand):
    """A command that passes the arguments after ``--`` to pytest."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before ``--``; the rest goes to the context's ``args``."""
        end = args.index("--") if "--" in args else len(args)
        super().parse_args(ctx, args[:end])
        ctx.args = args[end + 1 :]
        return list(ctx.args)


_Tasks: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Paths or ids of tasks, or node ids (default: all below tasks)."),
]
_Workers: TypeAlias = Annotated[
    int | None, typer.Option("-n", "--workers", metavar="N", help="Run trials in N processes.")
]
_DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print the pytest command and do not run it.")
]
# Settings that an evaluation does not have: it runs no agents, and names its experiment itself.
_NOT_FOR_EVALUATION = {
    "agent_files",
    "agents",
    "checks",
    "evaluate",
    "experiment",
    "join",
    "max_cost_usd",
    "repetitions",
    "rerun",
    "resume",
    "verify",
}


def _with_settings(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each row of the table of settings, as ``settings``."""
    rows = [row for row in OPTIONS if row.name not in left_out]
    parameters = [_option(row) for row in rows]

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        # None and False leave an option out.
        return {str(row.option)[6:]: values[_parameter(row)] for row in rows}

    return option_group("settings", parameters, gather)


def _parameter(row: Setting) -> str:
    return f"set_{row.name}"


def _option(row: Setting) -> Parameter:
    about = row.help.replace("`", "").replace("--aec-", "--")
    help_text = f"{about[:1].upper()}{about[1:]}."
    kind: Any = bool if row.metavar is None else list[str] | None if row.repeats else str | None
    names = [*([f"-{row.letter}"] if row.letter else []), f"--{row.short}"]
    about_option = typer.Option(*names, metavar=row.metavar, help=help_text)
    default = False if row.metavar is None else None
    return option(_parameter(row), Annotated[kind, about_option], default)


@_with_settings()
def run(
    context: typer.Context,
    tasks: _Tasks = None,
    harness: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --model: the agent HARNESS:MODEL.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="See --harness.")] = None,
    workers: _Workers = None,
    dry_run: _DryRun = False,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Run trials: print the equivalent pytest command, then run it.

    Arguments after -- go to pytest unchanged.

    Example: aec-bench run electrical --agent oracle --agent nop -n 4 -- -x --junitxml=out.xml
    """
    if context.info_name == "run-local":
        backend = settings["backend"]
        if backend not in (None, "local"):
            right = "use aec-bench run"
            raise SettingsError(f"--backend: run-local is local, not {backend!r}; {right}")
        settings["backend"] = "local"
    settings["agent"] = [*(settings["agent"] or ()), *_agent(harness, model)]
    _become_pytest(context, tasks, settings, workers, dry_run=dry_run, as_json=as_json)


@_with_settings(*_NOT_FOR_EVALUATION)
def evaluate(
    context: typer.Context,
    experiment: Annotated[str, typer.Argument(help="The id of the experiment in the ledger.")],
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this task, or those below this directory."),
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this agent of the experiment's.")
    ] = None,
    workers: _Workers = None,
    dry_run: _DryRun = False,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Re-score the saved outputs of an experiment with today's verifiers, without running agents.

    The new records are an experiment of their own and refer to the old ones, which stay unchanged.
    Arguments after -- go to pytest unchanged.

    Example: aec-bench evaluate nightly --backend docker --task electrical -n 4
    """
    options = {"evaluate": experiment, "agent": agent, **settings}
    _become_pytest(context, task, options, workers, dry_run=dry_run, as_json=as_json)


def _agent(harness: str | None, model: str | None) -> list[str]:
    if model is not None and harness is None:
        raise SettingsError(f"--model: {model!r} needs a harness; add --harness")
    return [] if harness is None else [f"{harness}:{model}" if model else harness]


def _become_pytest(
    context: typer.Context,
    tasks: list[str] | None,
    options: Mapping[str, object],
    workers: int | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from pytest_aecbench.api import pytest_command

    command = pytest_command(tasks or (), options, workers=workers, extra=context.args)
    if as_json:
        _print_result(command, dry_run=dry_run)
        return
    print(shlex.join(command), flush=True)
    if not dry_run:
        os.execv(command[0], command)  # noqa: S606  (no shell is wanted)


def _print_result(command: list[str], *, dry_run: bool) -> None:
    if dry_run:
        print_json({"command": command})
        return
    from pytest_aecbench.api import execute

    result, said = execute(command, stdout=sys.stderr)
    sys.stderr.write(said)
    print_json(_as_data(result))
    raise typer.Exit(result.exit_code)


def _as_data(result: RunResult) -> dict[str, object]:
    return {
        "command": result.command,
        "exit_code": result.exit_code,
        "experiment_id": result.experiment_id,
        "mean_reward": result.mean_reward,
        "trials": [
            {
                "trial_id": record.trial_id,
                "task": record.task.task_id,
                "agent": record.agent.name,
                "repetition": record.repetition,
                "attempt": record.attempt,
                "reward": record.evaluation.reward,
                "passed": record.evaluation.passed,
                "error": record.evaluation.error.message if record.evaluation.error else None,
                "evaluates": record.evaluates.trial_id if record.evaluates else None,
            }
            for record in result.records
        ],
    }
