"""``aec-bench reap``: remove the sandboxes of dead runs, and record the trials that died."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json, project_settings

if TYPE_CHECKING:
    from pytest_aecbench.host.runs import Lease
    from pytest_aecbench.settings.model import Settings

__all__ = ["reap"]

_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be removed; change nothing.")
]
_Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", help="Only this backend, which must be available."),
]


def reap(backend: _Backend = None, dry_run: _DryRun = False, as_json: AsJson = False) -> None:
    """Remove the sandboxes and files that dead runs left on this machine, in any directory.

    A trial that died with its run gets its record. Sandboxes of runs that are alive, or of other
    hosts, are left alone. A backend that is not available is skipped, unless it is named; one that
    is not set up is not mentioned. Vendors are called with the keys of the environment, or of
    aec-bench.toml's compute tables.

    Example: aec-bench reap --dry-run
    """
    from pytest_aecbench.backends import BACKENDS, make_backend
    from pytest_aecbench.errors import AecBenchError, SettingsError
    from pytest_aecbench.host import runs

    settings = project_settings()
    sys.path.insert(0, str(settings.root))  # where a project has its own backends
    removed: dict[str, list[str]] = {}
    passed_over: dict[str, str] = {}
    not_set_up: set[str] = set()
    for name in [backend] if backend else sorted(BACKENDS):
        try:
            made = make_backend(name, "--backend", settings.on(name))
            if clean_up := getattr(made, "reap", None):
                removed[name] = clean_up(dry_run=dry_run)
        except AecBenchError as error:
            if backend is not None:
                raise
            passed_over[name] = str(error)
            if isinstance(error, SettingsError) and not _is_used(settings, name):
                not_set_up.add(name)
    recorded = []
    for lease in runs.dead():
        try:
            recorded += _record(lease, dry_run=dry_run)
        except AecBenchError as error:
            passed_over[str(lease.ledger_root)] = str(error)
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "removed": removed,
                "passed_over": passed_over,
                "recorded": recorded,
            }
        )
        return
    verb = "would remove" if dry_run else "removed"
    for name, things in removed.items():
        typer.echo(f"{name}: {f'{verb} ' + ', '.join(things) if things else 'nothing was left'}")
    for name, reason in passed_over.items():
        if name not in not_set_up:
            typer.echo(f"{name}: skipped; {reason}")
    verb = "would record" if dry_run else "recorded"
    for trial in recorded:
        typer.echo(f"{verb} {trial['task_id']} ({trial['agent']}) in {trial['experiment']}")


def _is_used(settings: Settings, backend: str) -> bool:
    """Return whether the project or the environment has settings for a backend."""
    has_variables = any(name.startswith(f"{backend.upper()}_") for name in os.environ)
    return backend == settings.backend or bool(settings.options_of(backend)) or has_variables


def _record(lease: Lease, *, dry_run: bool) -> list[dict[str, str]]:
    """Record the trials that died with a run; return their tasks, agents and experiments."""
    from pytest_aecbench.host import runs
    from pytest_aecbench.ledger import journal

    recorded = [
        {
            "trial_id": record.trial_id,
            "task_id": record.task.task_id,
            "agent": record.agent.name,
            "experiment": str(lease.ledger_root / record.experiment_id),
        }
        for record in journal.recover(lease.ledger_root, dry_run=dry_run)
    ]
    # Workers may survive their run for a short time, and leave more to record when they end.
    if not dry_run and journal.is_quiet(lease.ledger_root):
        runs.end(lease.run_id)
    return recorded
