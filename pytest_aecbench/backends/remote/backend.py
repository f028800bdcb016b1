"""``RemoteBackend``: the life of a sandbox that a vendor rents out."""

from __future__ import annotations

import math
import secrets
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    Limits,
    TrialHandle,
)
from pytest_aecbench.backends.remote.box import Box
from pytest_aecbench.backends.remote.calls import Busy, Lost, bounded, retry
from pytest_aecbench.backends.remote.environment import Environment
from pytest_aecbench.backends.shared.launch import check_workspace, launch_rebuilt
from pytest_aecbench.backends.shared.paths import WORKSPACE
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.errors import BackendError, BackendLost, LaunchError
from pytest_aecbench.host import slots
from pytest_aecbench.host.homes import abandoned_homes, make_home, remove_tree
from pytest_aecbench.host.owner import LABEL_PREFIX, Owner, is_abandoned, is_out_of_sight
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_aecbench.backends.remote.vendor import Vendor
    from pytest_aecbench.settings.model import Settings

__all__ = ["RemoteBackend"]

_TOKEN_LABEL = f"{LABEL_PREFIX}sandbox"
_EXPIRES_LABEL = f"{LABEL_PREFIX}expires"
PREFLIGHT_SEC = 30.0
_CREATE_SEC = 600.0
_LATE_START_SEC = 10.0  # after which the run may end without knowing whether a sandbox starts
_KILL_SEC = 60.0
_LIFETIME_SEC = 3600.0
# Vendors end a sandbox at the end of its lifetime by their own clock. One that lives for a day
# longer was forgotten; no two clocks differ by as much.
_EXPIRY_MARGIN_SEC = 86_400


class _Sandbox(NamedTuple):
    box: Box
    home: Path


class _Creation:
    """The start of a sandbox, which ``remove`` ends if it starts after it was given up."""

    def __init__(self, create: Callable[[], str], remove: Callable[[str], None]) -> None:
        self._create = create
        self._remove = remove
        self._is_unwanted = threading.Event()
        self._has_ended = threading.Event()

    def run(self) -> str:
        """Start the sandbox, in a thread that may outlive the wait for it; return its id."""
        self._has_ended.clear()
        try:
            sandbox_id = self._create()
            if self._is_unwanted.is_set():
                self._remove(sandbox_id)
            return sandbox_id
        finally:
            self._has_ended.set()

    def give_up(self) -> None:
        """Let the sandbox be removed if it starts from now on, and wait some seconds for that."""
        self._is_unwanted.set()
        self._has_ended.wait(_LATE_START_SEC)


class RemoteBackend:
    """Runs trials in sandboxes of a vendor, configured by ``options``.

    ``cpus`` and ``memory_mb`` override a task's values.
    """

    make_vendor: Callable[[Mapping[str, object]], Vendor]
    first_at_once = 10  # vendors also limit how fast sandboxes are started

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        run_id: str = "",
        cpus: float | None = None,
        memory_mb: int | None = None,
        concurrency: int | None = None,
    ) -> None:
        self.vendor = self.make_vendor(options or {})
        self.name = self.vendor.name
        self._sizes = {"cpus": cpus, "memory_mb": memory_mb}
        self._concurrency = concurrency or self.vendor.concurrency
        self._notes: list[str] = []
        self._checked = ""
        self._labels = {f"{LABEL_PREFIX}run": run_id, **(labels or {})}
        self._environments: dict[str, Environment] = {}
        self._sources: dict[str, Path] = {}  # the tasks of images
        self._sandboxes: Sandboxes[_Sandbox] = Sandboxes(self.name)
        self._lock = threading.Lock()
        self.left_alone: list[str] = []  # by the last ``reap``

    @classmethod
    def from_settings(cls, settings: Settings) -> RemoteBackend:
        """Return the backend for a run's settings."""
        return cls(
            settings.backend_options,
            labels={f"{LABEL_PREFIX}experiment": settings.experiment_id},
            run_id=settings.run_id,
            cpus=settings.cpus,
            memory_mb=settings.memory_mb,
            concurrency=settings.concurrency,
        )

    def concurrency(self) -> int:
        """Return how many sandboxes at once an ordinary account may have."""
        return self.vendor.concurrency

    def describe(self) -> str:
        """Return one line about the vendor and the limits that it does not enforce."""
        missing = ", ".join(self.vendor.unenforced())
        known = self._checked or self.vendor.check()
        return f"{known}{f'; no limit on {missing}' if missing else ''}"

    @property
    def awaited(self) -> str:
        """The call that ``preflight`` makes, and its longest duration, for people who wait."""
        return f"asking {self.name} for the account; this takes {PREFLIGHT_SEC:.0f} s at most"

    def preflight(self) -> None:
        """Raise an error if no sandbox can be rented, in a time that a person waits for."""
        try:
            self._checked = bounded(
                lambda: retry(self.vendor.check, patience_sec=0.8 * PREFLIGHT_SEC),
                PREFLIGHT_SEC,
                self.name,
            )
        except (Busy, Lost) as error:
            raise BackendLost(f"{error}; check the network, then run 'aec-bench doctor'") from None

    def refuse_gpus(self) -> str | None:
        """Return why a sandbox cannot have GPUs, or None."""
        return self.vendor.refusal(Limits(gpus=1))

    def build_environment(self, *, task_dir: Path) -> str:
        """Build the image of the task's ``environment`` directory, unless it exists."""
        environment = Environment.read(task_dir)
        sizes = {name: value for name, value in self._sizes.items() if value is not None}
        environment = replace(environment, **sizes)  # type: ignore[arg-type]
        image_ref = retry(lambda: self.vendor.build(environment))
        self._environments[image_ref] = environment
        self._sources[image_ref] = task_dir
        return image_ref

    def launch_trial(
        self, *, image_ref: str, workspace_dir: Path, limits: Limits | None = None
    ) -> TrialHandle:
        """Rent a sandbox; copy the contents of ``workspace_dir`` to its working directory."""
        check_workspace(self.name, workspace_dir)
        launch = partial(self._launch, workspace_dir, limits or Limits())
        task_dir = self._sources.get(image_ref)
        rebuild = partial(self.build_environment, task_dir=task_dir) if task_dir else None
        return launch_rebuilt(image_ref, launch, rebuild)

    def _launch(self, workspace_dir: Path, limits: Limits, image_ref: str) -> TrialHandle:
        if refusal := self.vendor.refusal(limits):
            raise LaunchError(f"{self.name}: {refusal}")
        environment = self._environments.get(image_ref)
        lifetime_sec = math.ceil(limits.lifetime_sec or _LIFETIME_SEC)
        token = secrets.token_hex(8)
        labels = {
            **self._labels,
            **Owner.current().labels(),
            _TOKEN_LABEL: token,
            f"{LABEL_PREFIX}trial": workspace_dir.parent.name,
            _EXPIRES_LABEL: str(int(time.time() + lifetime_sec + _EXPIRY_MARGIN_SEC)),
        }
        creation = _Creation(
            partial(self.vendor.create, image_ref, limits, labels, lifetime_sec), self._kill
        )
        try:
            sandbox_id = retry(
                lambda: bounded(creation.run, _CREATE_SEC, f"{self.name}: a new sandbox"),
                on_busy=self._slow_down,
            )
        except BaseException as error:
            creation.give_up()
            self._forget(token)
            if isinstance(error, BackendError) and not isinstance(error, LaunchError):
                raise LaunchError(str(error)) from None
            raise
        box = Box(
            self.vendor,
            sandbox_id,
            workspace_dir,
            environment.workdir if environment else WORKSPACE,
            environment.env if environment else {},
            environment.user if environment else "",
        )
        home = make_home(self.name)
        with self._lock:
            self._sandboxes[sandbox_id] = _Sandbox(box, home)
        return TrialHandle(self.name, sandbox_id)

    def _slow_down(self) -> None:
        """Use fewer sandboxes at once for a while, in all runs on this machine."""
        now = slots.lower(self.name, self._concurrency)
        self._notes.append(
            f"{self.name} is busy; {counted(now, 'sandbox')} at once for some minutes"
        )

    def notes(self, image_ref: str) -> tuple[str, ...]:
        """Return a line for each time the vendor was too busy."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def _forget(self, token: str) -> None:
        """End a sandbox that may have been started although its start was not confirmed."""
        with suppress(BackendError):
            for rented in self.vendor.rented():
                if rented.labels.get(_TOKEN_LABEL) == token:
                    self._kill(rented.sandbox_id)

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        """Run one command to completion in the sandbox."""
        return self._sandboxes[handle.handle_id].box.execute(request)

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        """Copy ``/logs`` to the host, then replace ``workspace_dir`` by the working directory."""
        box, home = self._sandboxes[handle.handle_id]
        logs, workspace = home / "logs", home / "workspace"
        for directory in (logs, workspace):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        skipped = box.collect(logs, workspace)
        (logs / "verifier").mkdir(exist_ok=True)
        shutil.rmtree(box.workspace_dir, ignore_errors=True)
        shutil.move(workspace, box.workspace_dir)
        return CollectedArtifacts(box.workspace_dir, logs, tuple(skipped))

    def teardown(self, *, handle: TrialHandle) -> None:
        """End the sandbox."""
        with self._lock:
            sandbox = self._sandboxes.pop(handle.handle_id, None)
        if sandbox is not None:
            remove_tree(sandbox.home)
            self._kill(handle.handle_id)

    def _kill(self, sandbox_id: str) -> None:
        retry(
            lambda: bounded(
                lambda: self.vendor.kill(sandbox_id),
                _KILL_SEC,
                f"{self.name}: the end of a sandbox",
            ),
            on_lost=True,
        )

    def reap(self, *, dry_run: bool = False) -> list[str]:
        """End the sandboxes and remove the files of dead runs; return the sandboxes' ids.

        Raises:
            BackendError: some cannot be ended; the others are.

        """
        for home in [] if dry_run else abandoned_homes(self.name):
            remove_tree(home)
        left, self.left_alone = [], []
        for rented in retry(self.vendor.rented, patience_sec=PREFLIGHT_SEC):
            if is_abandoned(rented.labels, is_overdue=_is_expired(rented.labels)):
                left.append(rented.sandbox_id)
            elif is_out_of_sight(rented.labels):
                self.left_alone.append(rented.sandbox_id)
        failures = []
        for sandbox_id in [] if dry_run else left:
            try:
                self._kill(sandbox_id)
            except BackendError as error:
                failures.append(str(error))
        if failures:
            raise BackendError("; ".join(failures))
        return sorted(left)


def _is_expired(labels: Mapping[str, str]) -> bool:
    expires = labels.get(_EXPIRES_LABEL, "")
    return expires.isdecimal() and int(expires) < time.time()
