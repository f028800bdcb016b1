"""Temporary files for archives on their way to or from a sandbox."""

from __future__ import annotations

import sys
import tempfile
from typing import IO, cast

__all__ = ["spool"]

_MOST_IN_MEMORY = 16 * 1024 * 1024


def spool() -> IO[bytes]:
    """Return a temporary file, which is kept in memory while it is small.

    Before Python 3.11 such a file is not an ``IOBase``, which SDKs ask for. It is on disk there.
    """
    if sys.version_info < (3, 11):
        return tempfile.TemporaryFile()
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY))
