"""Limits of this process, as ``ulimit`` sets them, and how to say that one is exhausted."""

from __future__ import annotations

import errno
import resource

__all__ = ["exhausted_limit"]

_LIMITS = {
    errno.EMFILE: ("ulimit -n", resource.RLIMIT_NOFILE, "more open files"),
    errno.EAGAIN: ("ulimit -u", resource.RLIMIT_NPROC, "more processes and threads"),
}


# What Python raises in place of an OSError.
_NO_THREAD = "can't start new thread"


def exhausted_limit(error: BaseException) -> str | None:
    """Return which limit the error comes from and what would be right; None if from no limit."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        number = errno.EAGAIN
    if number not in _LIMITS:
        return None
    command, limit, what = _LIMITS[number]
    return f"{command} is {resource.getrlimit(limit)[0]}, which is too low; allow {what}"
