"""``aec-bench reap``: remove the sandboxes of dead runs, and record the trials that died."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json, project_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def reap(
    context: typer.Context,
    backend: _Backend = None,
    dry_run: _DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove the sandboxes and files that dead runs left on this machine, in any directory.

    A trial that died with its run gets its record, and its files lose their secrets. Sandboxes of
    runs that are alive, or that cannot be proved dead from here, are left alone. A backend that is
    not available is skipped, unless it is named; one that is not set up is not mentioned. Vendors
    are called with the keys of the environment, or of aec-bench.toml's compute tables.

    Example: aec-bench reap --dry-run
    """
    from pytest_aecbench.errors import AecBenchError
    from pytest_aecbench.host import runs
    from pytest_aecbench.trials.reaping import left_alone

    found = _reap_backends(backend, dry_run=dry_run)
    context.obj.unload()  # the .env of this project hides that of another
    leases = runs.find_leases()
    for lease in leases.dead:
        try:
            found.recorded += _record(lease, found.warnings, dry_run=dry_run)
        except AecBenchError as error:
            found.passed_over[str(lease.ledger_root)] = str(error)
    if leases.out_of_sight:
        found.left_alone["runs"] = [lease.run_id for lease in leases.out_of_sight]
    if as_json:
        told = {name: value for name, value in asdict(found).items() if name != "not_set_up"}
        print_json({"dry_run": dry_run, **told})
        return
    verb = "would remove" if dry_run else "removed"
    for name, things in found.removed.items():
        if things or name not in found.left_alone:
            shown = f"{verb} {', '.join(things)}" if things else "nothing was left"
            typer.echo(f"{name}: {shown}")
    for name, things in found.left_alone.items():
        typer.echo(f"{name}: {left_alone(things)}")
    for name, reason in found.passed_over.items():
        if name not in found.not_set_up:
            typer.echo(f"{name}: skipped; {reason}")
    verb = "would record" if dry_run else "recorded"
    for trial in found.recorded:
        typer.echo(f"{verb} {trial['task_id']} ({trial['agent']}) in {trial['experiment']}")
    for warning in found.warnings:
        typer.echo(f"warning: {warning}")


@dataclass
class _Found:
    """The resources that were removed, left alone and passed over, and the recorded trials."""

    removed: dict[str, list[str]] = field(default_factory=dict)
    left_alone: dict[str, list[str]] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)
    not_set_up: set[str] = field(default_factory=set)  # of those, not worth a line
    recorded: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _reap_backends(backend: str | None, *, dry_run: bool) -> _Found:
    """Remove what dead runs left on one backend, or on each that is available."""
    from pytest_aecbench.backends import BACKENDS, make_backend
    from pytest_aecbench.errors import AecBenchError, SettingsError

    settings = project_settings()
    sys.path.insert(0, str(settings.root))  # where a project has its own backends
    found = _Found()
    variables = tuple(os.environ)  # vendors' libraries may be told more by some of our own
    for name in [backend] if backend else sorted(BACKENDS):
        try:
            made = make_backend(name, "--backend", settings.on(name))
            if clean_up := getattr(made, "reap", None):
                found.removed[name] = clean_up(dry_run=dry_run)
            if spared := getattr(made, "left_alone", []):
                found.left_alone[name] = spared
        except AecBenchError as error:
            if backend is not None:
                raise
            found.passed_over[name] = str(error)
            if isinstance(error, SettingsError) and not _is_used(settings, name, variables):
                found.not_set_up.add(name)
    return found


def _is_used(settings: Settings, backend: str, variables: Iterable[str]) -> bool:
    """Return whether the project or the environment has settings for a backend."""
    has_variables = any(name.startswith(f"{backend.upper()}_") for name in variables)
    return backend == settings.backend or bool(settings.options_of(backend)) or has_variables


def _record(lease: Lease, warnings: list[str], *, dry_run: bool) -> list[dict[str, str]]:
    """Record the trials that died with a run; return their tasks, agents and experiments."""
    from pytest_aecbench.documents.variables import load_dotenv
    from pytest_aecbench.settings.resolve import thaw
    from pytest_aecbench.trials.recovery import end_dead_leases, recover

    root = Path(lease.settings.get("root", lease.ledger_root))
    dotenv = load_dotenv(root)
    try:
        settings = replace(thaw(lease.settings, root), ledger_root=lease.ledger_root)
        found = recover(settings, dry_run=dry_run)
        unknown = sorted({*lease.secrets} - {*settings.secrets()})
    finally:
        dotenv.unload()
    if not dry_run:
        end_dead_leases(lease.ledger_root)
    if found and unknown:
        warnings.append(
            f"{settings.jobs_root}: files of these trials may hold {', '.join(unknown)}; "
            "the values are not set here, so they were not removed"
        )
    return [
        {
            "trial_id": record.trial_id,
            "task_id": record.task.task_id,
            "agent": record.agent.name,
            "experiment": str(lease.ledger_root / record.experiment_id),
        }
        for record in found
    ]
