"""``aec-bench run``, ``run-local`` and ``evaluate``: run pytest with shorter options."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    int | None, typer.Option("-n", "--workers", metavar="N", help="How many trials at a time.")
]
_DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print the pytest command and do not run it.")
]
_Backend: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="The backend for trials: local, docker, …")
]
_ExperimentId: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="Name the run's records in the ledger.")
]
_Threshold: TypeAlias = Annotated[
    str | None, typer.Option(metavar="X", help="The reward from 0 to 1 that passes.")
]
_Gate: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="The rule that makes the run pass, such as 'mean>=0.6'."),
]


def run(
    context: typer.Context,
    tasks: _Tasks = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="An experiment.yaml that says what to run.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]AGENT", help="An agent, such as oracle or HARNESS:MODEL."),
    ] = None,
    harness: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --model: the agent HARNESS:MODEL.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="See --harness.")] = None,
    backend: _Backend = None,
    repetitions: Annotated[
        str | None, typer.Option(metavar="N", help="How often each agent attempts each task.")
    ] = None,
    experiment_id: _ExperimentId = None,
    workers: _Workers = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue an experiment; 'latest' is the latest."),
    ] = None,
    rerun: Annotated[
        str | None, typer.Option(metavar="WHICH", help="With --resume: error, failed or all.")
    ] = None,
    retries: Annotated[
        str | None, typer.Option(metavar="N", help="Try again when the infrastructure failed.")
    ] = None,
    threshold: _Threshold = None,
    timeout_multiplier: Annotated[
        str | None, typer.Option(metavar="X", help="Multiply every deadline by X.")
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Run agents only, score nothing.")
    ] = False,
    keep: Annotated[
        str | None, typer.Option(metavar="WHICH", help="Keep 'failed' or 'all' sandboxes.")
    ] = None,
    force_build: Annotated[
        bool, typer.Option("--force-build", help="Build images even if they exist.")
    ] = False,
    gate: _Gate = None,
    max_error_rate: Annotated[
        str | None, typer.Option(metavar="X", help="The share of trials that may be errors.")
    ] = None,
    summary_md: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the summary as Markdown.")
    ] = None,
    dry_run: _DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Run trials: prints the equivalent pytest command, then runs it.

    Arguments after -- go to pytest unchanged.

    Example: aec-bench run electrical --agent oracle --agent nop -n 4 -- -x --junitxml=out.xml
    """
    local = context.info_name == "run-local"
    if local and backend not in (None, "local"):
        raise SettingsError(f"--backend: run-local is local, not {backend!r}; use aec-bench run")
    options = {
        "experiment": config,
        "agent": [*(agent or ()), *_agent(harness, model)],
        "backend": "local" if local else backend,
        "repetitions": repetitions,
        "experiment-id": experiment_id,
        "resume": resume,
        "rerun": rerun,
        "retries": retries,
        "threshold": threshold,
        "timeout-multiplier": timeout_multiplier,
        "no-verify": no_verify,
        "keep": keep,
        "force-build": force_build,
        "gate": gate,
        "max-error-rate": max_error_rate,
        "summary-md": summary_md,
    }
    _become_pytest(context, tasks, options, workers, dry_run=dry_run, as_json=as_json)


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
    backend: _Backend = None,
    experiment_id: _ExperimentId = None,
    workers: _Workers = None,
    threshold: _Threshold = None,
    gate: _Gate = None,
    dry_run: _DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Verify again the work of an experiment's agents, with today's verifiers and without agents.

    The new records are an experiment of their own and refer to the old ones, which stay unchanged.
    Arguments after -- go to pytest unchanged.

    Example: aec-bench evaluate nightly --backend docker --task electrical -n 4
    """
    options = {
        "evaluate": experiment,
        "agent": agent,
        "backend": backend,
        "experiment-id": experiment_id,
        "threshold": threshold,
        "gate": gate,
    }
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
