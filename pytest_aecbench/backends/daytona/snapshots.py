"""Snapshots of Daytona, each created by a process of its own.

The SDK empties the environment of its process while it prepares to upload a build's files. Other
threads would find no variables then, and two builds at once would lose them for good.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.backends.remote.calls import Busy, Full, Lost
from pytest_aecbench.errors import AecBenchError, BackendError, SandboxGone, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROGRAM", "Order", "create_apart"]

PROGRAM = [sys.executable, __file__]
_ANSWER = "aecbench-answer "
_ERRORS: dict[str, type[AecBenchError]] = {
    error.__name__: error for error in (BackendError, Busy, Full, Lost, SandboxGone, SettingsError)
}


@dataclass(frozen=True, slots=True)
class Order:
    """A snapshot to create: of an image, or from a Dockerfile; ``options`` are the vendor's."""

    name: str
    docker_image: str | None
    dockerfile: str
    cpu: int | None
    memory_gb: int | None
    disk_gb: int | None
    options: dict[str, str]
    timeout_sec: float


def create_apart(order: Order, on_log: Callable[[str], None]) -> None:
    """Create a snapshot in another process; raise what is raised there."""
    answer = None
    with subprocess.Popen(
        PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it died at once, and its output says why
            print(json.dumps(asdict(order)), file=process.stdin, flush=True)
        # The pipe stays open, because the other process ends when this one closes it or dies.
        for line in process.stdout:
            if line.startswith(_ANSWER):
                answer = json.loads(line.removeprefix(_ANSWER))
            else:
                on_log(line)
    if answer is None:
        code = process.returncode
        raise BackendError(f"daytona: the process that builds {order.name} ended with code {code}")
    if answer:
        kind, message = answer
        raise _ERRORS[kind](message)


def main() -> None:
    """Create the snapshot that is ordered on stdin; print its log, then an empty list or the error.

    End without an answer when the process that asked has ended, or when the time is over.
    """
    from pytest_aecbench.backends.daytona.backend import DaytonaVendor

    order = Order(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    deadline = threading.Timer(order.timeout_sec, os._exit, [1])
    deadline.daemon = True
    deadline.start()
    answer: list[str] = []
    try:
        DaytonaVendor(order.options).create_snapshot(order, lambda text: print(text, flush=True))
    except tuple(_ERRORS.values()) as error:
        kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _ERRORS)
        answer = [kind, str(error)]
    print(f"\n{_ANSWER}{json.dumps(answer)}", flush=True)
    os._exit(0)  # threads of the SDK may go on


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
