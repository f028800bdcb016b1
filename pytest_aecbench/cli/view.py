"""``aec-bench view``: results in a browser, live while a run goes on."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json, print_problem, project_settings
from pytest_aecbench.cli.report import Holdout, Mounted  # noqa: TC001  (typer reads them)
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["view"]

_TRIAL = re.compile("[0-9a-f][0-9a-f-]{7,35}")
# How long the file that leads a browser here must stay, if nothing else keeps the command alive.
_HANDOVER_SEC = 5


def view(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT | TRIAL | A B]",
            help="An experiment, a trial by 8 characters of its id or more, or two experiments to "
            "compare (default: all experiments).",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port (default: 8765, or the next free one)."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    open_: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open a browser (default: if there is a display)."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Answer to this host name too; may be repeated."),
    ] = None,
    holdout: Holdout = False,
    mounted: Mounted = False,
    as_json: AsJson = False,
) -> None:
    """Show results in a browser, live while a run goes on; Ctrl-C ends it.

    Example: aec-bench view latest
    """
    from pytest_aecbench.view.serving import has_display, open_browser, running_viewer, viewer

    settings = project_settings()
    path = _path(settings.ledger_root, what or [])
    opens = has_display() if open_ is None else open_
    if lease := running_viewer(settings.ledger_root):
        address = f"{lease.address}{path}#token={lease.token}"
        _say(address, is_running=True, as_json=as_json)
        if opens:
            open_browser(address)
            time.sleep(_HANDOVER_SEC)
        return
    allowed = allow_host or []
    counts = {"holdout": holdout, "mounted": mounted}
    with viewer(settings, host=host, port=port, allowed=allowed, **counts) as made:
        if allowed:
            print_problem(
                f"--host: {host}; everyone who reaches it and has the token can read all records "
                "and files of trials, and the token is sent unencrypted"
            )
        address = f"{made.lease.address}{path}#token={made.lease.token}"
        _say(address, is_running=False, as_json=as_json)
        if opens:
            open_browser(address)
        with contextlib.suppress(KeyboardInterrupt):
            made.serve()


def _say(address: str, *, is_running: bool, as_json: bool) -> None:
    if as_json:
        print_json({"address": address, "already_running": is_running})
    else:
        typer.echo(f"already running at {address}" if is_running else address)


def _path(ledger_root: Path, what: Sequence[str]) -> str:
    """Return the path of the page that was asked for."""
    from pytest_aecbench.settings.resolve import find_experiment

    if len(what) > 2:
        raise SettingsError("EXPERIMENT: at most two can be compared; name one or two")
    if len(what) == 2:
        before, after = (find_experiment(ledger_root, name, "EXPERIMENT") for name in what)
        return f"/c/{before}/{after}"
    if not what:
        return "/"
    try:
        return f"/e/{find_experiment(ledger_root, what[0], 'EXPERIMENT')}"
    except SettingsError:
        if not _TRIAL.fullmatch(what[0]):
            raise
        return f"/t/{what[0]}"
