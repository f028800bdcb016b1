"""What the tests of the local backend work with: backends, tasks and running sandboxes."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.testing import RunningSandbox
from tests.conformance.driving import PACKAGE_ROOT, DrivenBackend

NAMESPACE_MODES = ("root", "no-overlay", "rootless")
MODES = (*NAMESPACE_MODES, "rewriting")
in_namespaces = pytest.mark.parametrize("mode", NAMESPACE_MODES, indirect=True)
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")

AnyBackend = LocalBackend | DrivenBackend


def make_backend(
    mode: str,
    hidden: tuple[Path, ...] = (),
    *,
    shown: tuple[Path, ...] = (),
    prefix: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    python: str | None = None,
) -> AnyBackend:
    """Return a backend in one of `MODES`; it is driven where another process is called for."""
    root = os.geteuid() == 0
    if mode == "root" and not root:
        pytest.skip("this user is not root")
    if mode == "no-overlay":  # root of a user namespace may mount, but no overlay on the host
        prefix = ("unshare", "--user", "--map-root-user", *prefix)
    elif mode == "rootless" and root:
        prefix, python = (*AS_NOBODY, *prefix), python or python_for_nobody()
    asked = "rewriting" if mode == "rewriting" else "namespaces"
    backend: AnyBackend
    if prefix or env:
        python = python or sys.executable
        backend = DrivenBackend(asked, hidden, shown, prefix=prefix, python=python, env=env)
    else:
        backend = LocalBackend("rewriting" if mode == "rewriting" else "namespaces", hidden, shown)
    try:
        backend.preflight()
    except SettingsError as error:
        if isinstance(backend, DrivenBackend):
            backend.close()
        # Only what the machine lacks is a reason to skip, as seen without our own code.
        if has_namespaces(prefix, user=mode == "rootless"):
            raise
        pytest.skip(str(error))
    return backend


@functools.cache
def has_namespaces(prefix: tuple[str, ...], *, user: bool) -> bool:
    """Return whether processes with that prefix can mount in namespaces of their own."""
    as_root = ("--user", "--map-root-user") if user else ()
    unshare = ("unshare", *as_root, "--mount", "--pid", "--fork")
    argv = (*prefix, *unshare, "mount", "-t", "tmpfs", "tmpfs", "/tmp")
    return subprocess.run(argv, capture_output=True).returncode == 0


@functools.cache
def python_for_nobody() -> str:
    """Return an interpreter with which nobody can run the driver."""
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        argv = [*AS_NOBODY, python, "-B", "-c", "import tests.conformance.driving"]
        if subprocess.run(argv, cwd=PACKAGE_ROOT, capture_output=True).returncode == 0:
            return python
    pytest.skip("nobody has no Python here that can import this package")


@dataclass(frozen=True)
class Box(RunningSandbox):
    """One sandbox of a local backend."""

    image_ref: str

    def home(self) -> Path:
        """Return the sandbox's directory on the host."""
        return self.collect().logs.parent


class Workshop:
    """A directory for tasks and workspaces that every user of a test may use."""

    def __init__(self, mode: str, backend: AnyBackend, directory: Path) -> None:
        self.mode = mode
        self.backend = backend
        self.directory = directory
        self.boxes: list[Box] = []

    def write(self, name: str, content: str | bytes = "", mode: int = 0o644) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    def task(self, dockerfile: str | None = None, **environment: str) -> Path:
        """Make a task directory; keywords are files of its build context."""
        task_dir = self.directory / "task"
        (task_dir / "tests").mkdir(parents=True, exist_ok=True)
        if dockerfile is not None:
            self.write("task/environment/Dockerfile", dockerfile)
        for name, content in environment.items():
            self.write(f"task/environment/{name.replace('__', '/')}", content)
        return task_dir

    def make_workspace(self, name: str | None = None) -> Path:
        workspace = self.directory / (name or f"workspace-{len(self.boxes)}")
        workspace.mkdir(exist_ok=True)
        if self.mode == "rootless" and os.geteuid() == 0:
            os.chown(workspace, NOBODY, NOBODY)
        return workspace

    def launch(self, task_dir: Path | None = None, limits: Limits | None = None) -> Box:
        image_ref = self.backend.build_environment(task_dir=task_dir or self.task())
        workspace = self.make_workspace()
        handle = self.backend.launch_trial(
            image_ref=image_ref, workspace_dir=workspace, limits=limits
        )
        box = Box(self.backend, handle, workspace, image_ref)
        self.boxes.append(box)
        return box
