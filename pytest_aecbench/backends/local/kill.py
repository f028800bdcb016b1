"""Kill all processes of a command or a sandbox."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "MARKER",
    "kill_children",
    "kill_group",
    "kill_marked",
    "kill_namespace",
    "kill_tree",
    "marked",
]

# The environment variable that names a process's sandbox and command: "<sandbox>.<number>".
MARKER = "AECBENCH_COMMAND"

_GIVE_UP_SEC = 1.0


def kill_tree(root: int, *, marker: str, init: int | None = None) -> None:
    """Kill the process ``root`` and all that it started, found by descent and by ``marker``.

    ``init`` is the first process of a namespace in which ``root`` waits for a child. Its other
    children that started no earlier than ``root`` and have no marker are killed too: they are
    daemons that cleared their environment. ``root`` then ends by itself. If it were killed, its
    child would have to be reaped by the host's init, and the namespace could not end before that.
    """
    first = _processes().get(root)

    def chosen() -> set[int]:
        table = _processes()
        marks = {pid: _mark(pid) for pid in table}
        found = {root} | {pid for pid, mark in marks.items() if mark == marker}
        if init is None or first is None:
            return _with_descendants(found, table)
        orphans = {pid for pid, entry in table.items() if entry.parent == init}
        found |= {pid for pid in orphans if table[pid].born >= first.born and marks[pid] is None}
        return _with_descendants(found, table) - {root}

    _kill_all(chosen)
    if init is not None:
        _await_end(root)
    kill_group(root)  # finds some of them without /proc


def _await_end(pid: int) -> None:
    give_up = time.monotonic() + _GIVE_UP_SEC / 4
    while pid in _processes() and time.monotonic() < give_up:
        time.sleep(0.001)


def kill_children(parent: int) -> None:
    """Kill the processes that a process waits for."""
    for pid, entry in _processes().items():
        if entry.parent == parent:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def kill_group(leader: int) -> None:
    """Kill the processes of a group, unless all of them have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_marked(sandbox: str) -> None:
    """Kill every process whose marker names ``sandbox``."""

    def chosen() -> set[int]:
        table = _processes()
        marked = {pid for pid in table if (_mark(pid) or "").startswith(f"{sandbox}.")}
        return _with_descendants(marked, table)

    _kill_all(chosen)


def marked(homes: Path) -> set[str]:
    """Return the names of the sandboxes that had a home there and still have processes."""
    told = f"={homes}/".encode()
    entries = os.listdir("/proc") if Path("/proc").is_dir() else []  # noqa: PTH208  (of many)
    pids = [int(entry) for entry in entries if entry.isdecimal()]
    mine = [pid for pid in pids if any(told in variable for variable in _environ(pid))]
    return {mark.rpartition(".")[0] for pid in mine if (mark := _mark(pid))}


def kill_namespace(first: int) -> None:
    """Kill every process in the pid namespace of its ``first`` one, which stays, from outside.

    None of them can hinder this, but one that forks fast enough outruns it.
    """

    def chosen() -> set[int]:
        table, space = _processes(), _namespace(first)
        inside = {pid for pid in table if space is not None and _namespace(pid) == space}
        return (inside | _with_descendants({first}, table)) - {first}

    _kill_all(chosen)


def _namespace(pid: int) -> str | None:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115  (it is not a path)
    return None


def _kill_all(chosen: Callable[[], set[int]]) -> None:
    """Kill until no process is left, because one may fork meanwhile."""
    give_up = time.monotonic() + _GIVE_UP_SEC
    while time.monotonic() < give_up and (pids := chosen()):
        # Mostly parents first, because a shell says of a child that it was killed.
        for pid in sorted(pids):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


class _Process(NamedTuple):
    parent: int
    born: int  # clock ticks since boot


def _processes() -> dict[int, _Process]:
    """Return the living processes of this machine; none without /proc."""
    table = {}
    proc = Path("/proc")
    # Not a glob for the files in them, which raises if a process ends meanwhile.
    for directory in proc.iterdir() if proc.is_dir() else ():
        with suppress(OSError, ValueError):
            pid = int(directory.name)
            # The name, in parentheses, may contain anything; the fields after it are plain.
            text = (directory / "stat").read_text(errors="replace")
            fields = text.rpartition(")")[2].split()
            if fields[0] not in "ZX":
                table[pid] = _Process(int(fields[1]), int(fields[19]))
    return table


def _mark(pid: int) -> str | None:
    for variable in _environ(pid):
        name, _, value = variable.partition(b"=")
        if name == MARKER.encode():
            return value.decode(errors="replace")
    return None


def _environ(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def _with_descendants(pids: set[int], table: Mapping[int, _Process]) -> set[int]:
    found = pids & table.keys()
    while more := {pid for pid, entry in table.items() if entry.parent in found} - found:
        found |= more
    return found
