"""Limits of this process, as ``ulimit`` sets them, and how to say that one is exhausted."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import ExitStack
from pathlib import Path

__all__ = ["check_open_files", "exhausted_limit", "too_few_processes"]

_LIMITS = {
    errno.EMFILE: ("ulimit -n", resource.RLIMIT_NOFILE, "more open files"),
    errno.EAGAIN: ("ulimit -u", resource.RLIMIT_NPROC, "more processes and threads"),
}

# A sandbox's own processes, and the few that a shell with a pipeline starts.
_PROCESSES_OF_A_TRIAL = 16

# The text of the error that Python raises in place of an OSError.
_NO_THREAD = "can't start new thread"


def exhausted_limit(error: BaseException) -> str | None:
    """Return which limit the error comes from and what would be right; None if from no limit."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        number = errno.EAGAIN
    return _exhausted(number) if number in _LIMITS else None


def check_open_files(count: int) -> None:
    """Raise OSError unless this process may open so many files more."""
    with ExitStack() as opened:
        for _ in range(count):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


def too_few_processes() -> str | None:
    """Return what would be right if this user can hardly start another process; else None.

    A shell that cannot start its commands fails like one whose commands fail, so it has to be
    known before an agent is blamed for that.
    """
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if os.getuid() == 0 or limit == resource.RLIM_INFINITY:
        return None
    try:
        # All on the machine are at least this user's, and much faster to count.
        is_low = limit - _on_machine() < _PROCESSES_OF_A_TRIAL
        is_low = is_low and limit - _of_user(os.getuid()) < _PROCESSES_OF_A_TRIAL
    except OSError:  # a system without /proc
        return None
    return _exhausted(errno.EAGAIN) if is_low else None


def _exhausted(number: int) -> str:
    command, limit, what = _LIMITS[number]
    return f"{command} is {resource.getrlimit(limit)[0]}, which is too low; allow {what}"


def _on_machine() -> int:
    running_of_all = Path("/proc/loadavg").read_text(encoding="ascii").split()[3]
    return int(running_of_all.partition("/")[2])


def _of_user(uid: int) -> int:
    found = 0
    for process in os.scandir("/proc"):
        try:
            if process.name.isdecimal() and process.stat().st_uid == uid:
                found += sum(1 for _ in os.scandir(f"{process.path}/task"))
        except OSError:  # it has ended
            continue
    return found
