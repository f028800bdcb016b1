"""Fails a run of the tests that leaves processes behind."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.completeness import NOT_WHOLE

__all__ = ["Leftovers", "processes_of"]

# Processes that were killed may take so long to end.
_PATIENCE_SEC = 10.0


class Leftovers:
    """Looks at the end of a run for processes that have to do with its temporary directory."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield  # workers end meanwhile
        config = session.config
        if hasattr(config, "workerinput"):
            return
        directory = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        if left := await_end(directory):
            if session.exitstatus in (0, pytest.ExitCode.TESTS_FAILED):
                session.exitstatus = NOT_WHOLE
            reporter = config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.ensure_newline()
                reporter.section("processes that tests have left", red=True)
                for pid, command in sorted(left.items()):
                    reporter.write_line(f"{pid}  {command}")


def await_end(directory: Path) -> dict[int, str]:
    """Return the processes of a directory that do not end."""
    give_up = time.monotonic() + _PATIENCE_SEC
    while (left := processes_of(directory)) and time.monotonic() < give_up:
        time.sleep(0.1)
    return left


def processes_of(directory: Path) -> dict[int, str]:
    """Return the command lines of processes that work in a directory, or were told of it."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (proc / "cmdline").read_bytes()
            told = f"{directory}/".encode() in command + (proc / "environ").read_bytes()
            if told or (proc / "cwd").readlink().is_relative_to(directory):
                # One that is starting a program has no command line for a moment.
                command = command or (proc / "cmdline").read_bytes() or (proc / "comm").read_bytes()
                found[int(proc.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    found.pop(os.getpid(), None)
    return found
