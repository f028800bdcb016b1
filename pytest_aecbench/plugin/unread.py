"""Output that is not read any more, as with ``| head``, which must not stop the trials."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from pytest_aecbench.plugin._pytest_internals import replace_output

if TYPE_CHECKING:
    import pytest

__all__ = ["outlive_reader", "print_if_read"]


class _Outliving:
    """A file that takes what is written to it even if its reader is gone."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_unread = False

    def write(self, text: str) -> int:
        if not self._is_unread:
            try:
                self._file.write(text)
            except BrokenPipeError:
                self._is_unread = True
        return len(text)

    def flush(self) -> None:
        if not self._is_unread:
            try:
                self._file.flush()
            except BrokenPipeError:
                self._is_unread = True

    def drop_rest(self) -> None:
        """Drop what was not written, which Python would try again, and then exit with 120."""
        if self._is_unread:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def outlive_reader(config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
    """Let the run go on, and keep its records, when its output is not read any more."""

    def outliving(file: TextIO) -> TextIO:
        wrapped = _Outliving(file)
        config.add_cleanup(wrapped.drop_rest)
        return wrapped  # type: ignore[return-value]

    replace_output(reporter, outliving)


def print_if_read(text: str, end: str = "\n") -> None:
    """Print at once, unless the output is not read any more."""
    with suppress(BrokenPipeError):
        print(text, end=end, flush=True)
