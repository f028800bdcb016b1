"""A local backend in a process of its own, for tests that need another user or a dead holder.

Run as a program, it answers the calls that `DrivenBackend` sends it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pytest_aecbench.backends import BackendExecutionRequest, Limits
from pytest_aecbench.backends.local import LocalBackend

PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class DrivenBackend:
    """Passes every call on to a backend in a process started with ``prefix``."""

    def __init__(
        self,
        *arguments: object,
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        code: Path = PACKAGE_ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*prefix, python, "-B", "-m", "tests.conformance.driving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=code,
            env={"PATH": os.environ["PATH"], **(env or {})},
        )
        self._send(arguments)
        self._turn = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._turn:
                self._send((name, args, kwargs))
                assert self.process.stdout is not None
                answer = pickle.load(self.process.stdout)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def _send(self, what: object) -> None:
        assert self.process.stdin is not None
        pickle.dump(what, self.process.stdin)
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate()


def eight_at_once(backend: Any, task_dir: Path, workspaces: list[Path]) -> list[str]:
    """Run a sandbox for each workspace, all at the same time; return what each printed."""
    image_ref = backend.build_environment(task_dir=task_dir)
    together = threading.Barrier(len(workspaces), timeout=60)

    def trial(workspace: Path) -> str:
        handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace, limits=Limits())
        together.wait()
        command = f"echo {workspace.name} | tee /tests/mine /logs/mine mine"
        backend.execute_trial(handle=handle, request=BackendExecutionRequest(command))
        together.wait()
        request = BackendExecutionRequest("cat /tests/mine /logs/mine mine", exclusive=True)
        result = backend.execute_trial(handle=handle, request=request)
        backend.teardown(handle=handle)
        return str(result.stdout)

    with ThreadPoolExecutor(len(workspaces)) as threads:
        return list(threads.map(trial, workspaces))


def interpreter_directory(backend: LocalBackend) -> str:
    """Return where the interpreter is that holds the backend."""
    return str(Path(sys.executable).parent)


def chosen_mode(backend: LocalBackend) -> str:
    """Return how the backend makes its sandboxes."""
    return backend.mode


def main() -> None:
    """Answer calls until there are no more."""
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    backend = LocalBackend(*pickle.load(calls))
    while True:
        try:
            name, args, kwargs = pickle.load(calls)
        except EOFError:
            return
        try:
            here = globals().get(name)
            answer = here(backend, *args) if here else getattr(backend, name)(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  (it is the caller's)
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
