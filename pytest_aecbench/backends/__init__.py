"""Compute backends: the protocol, its requests and results, and the names that users type."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeGuard, runtime_checkable

from pytest_aecbench.documents.dotted import load_class
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_aecbench.errors import BackendError

__all__ = [
    "BACKENDS",
    "BackendExecutionRequest",
    "BackendExecutionResult",
    "BatchBackend",
    "CollectedArtifacts",
    "ComputeBackend",
    "Limits",
    "Mount",
    "TrialHandle",
    "TrialOutcome",
    "TrialRequest",
    "accepts_limits",
    "check_backend",
    "is_batch",
    "make_backend",
]


@dataclass(frozen=True, slots=True)
class TrialHandle:
    """The name of one sandbox; only the backend that made it can interpret it."""

    backend_name: str
    handle_id: str


@dataclass(frozen=True, slots=True)
class BackendExecutionRequest:
    """One shell command to run to completion in a sandbox.

    ``command`` is given to ``bash -c``. ``uploads`` maps absolute sandbox paths to host files or
    directories; they are placed before the command runs, one after the other, and a directory
    replaces anything at its target. A later upload may go into the directory of an earlier one.
    With ``exclusive``, every process that earlier requests left behind is killed first. ``cwd`` of
    None is the image's working directory. A backend that can stream calls ``on_output`` with the
    command's output while it runs.
    """

    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout_sec: float | None = None
    user: str | None = None
    uploads: Mapping[str, Path] = field(default_factory=dict)
    exclusive: bool = False
    on_output: Callable[[bytes], object] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BackendExecutionResult:
    """The end of a command. A non-zero exit is a result; a dead sandbox is an exception.

    ``returncode`` is None when the command was stopped at its deadline; its output up to then is
    kept. ``truncated`` says that the middle of an over-long output was left out.
    """

    returncode: int | None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    duration_sec: float = 0.0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class CollectedArtifacts:
    """Host directories with the files of a sandbox; valid until teardown.

    ``workspace`` has the working directory's files and ``logs`` those of ``/logs``. ``skipped``
    names the entries left behind (devices, FIFOs, links that lead outside, files over a size cap).
    """

    workspace: Path
    logs: Path
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a sandbox; None means no limit of its own."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    network: bool = True
    lifetime_sec: float | None = None
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host that every sandbox of a run sees, for debugging."""

    source: Path
    target: str
    writable: bool = False

    def __str__(self) -> str:
        """Return the mount as a user writes it."""
        return f"{self.source}:{self.target}:{'rw' if self.writable else 'ro'}"


@runtime_checkable
class ComputeBackend(Protocol):
    """A place where trials run.

    Built-in backends also take ``launch_trial(..., limits=Limits(...))``; a backend with exactly
    these five methods runs unchanged.
    """

    def build_environment(self, *, task_dir: Path) -> str:
        """Build the task's image and return its reference."""
        ...

    def launch_trial(self, *, image_ref: str, workspace_dir: Path) -> TrialHandle:
        """Start a sandbox; copy the contents of ``workspace_dir`` to its working directory."""
        ...

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        """Run one command to completion in the sandbox."""
        ...

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        """Copy the working directory and ``/logs`` to the host."""
        ...

    def teardown(self, *, handle: TrialHandle) -> None:
        """Remove the sandbox; calling it again does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """One whole trial, for a backend that runs many of them as one job.

    ``trial_id`` is the handle's id. The verifier runs after the agent: in a fresh sandbox of
    ``verifier_image_ref`` that gets the agent's working directory, or, if that is None, in the
    agent's own. ``limits`` are those of the agent's sandbox; only its network may differ from the
    verifier's.
    """

    trial_id: str
    image_ref: str
    workspace_dir: Path
    agent: BackendExecutionRequest
    verifier: BackendExecutionRequest | None
    limits: Limits
    verifier_image_ref: str | None = None
    verifier_network: bool = True


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The end of one whole trial.

    ``timing`` has the seconds of phases. ``notes`` are lines for the trial's record.
    """

    agent: BackendExecutionResult
    verifier: BackendExecutionResult | None
    artifacts: CollectedArtifacts
    timing: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@runtime_checkable
class BatchBackend(ComputeBackend, Protocol):
    """A backend that runs whole trials, all that a run has at a time as few jobs.

    ``launch_trial`` only names a trial's place. A trial that is torn down before its outcome is
    there is cancelled. One whose ``single`` is true runs single commands, like any other.
    """

    def submit_trials(
        self, *, requests: Sequence[TrialRequest]
    ) -> Iterator[tuple[str, TrialOutcome | BackendError]]:
        """Start all; yield the id and the outcome, or the error, of each as it arrives."""
        ...


# name -> (dotted path of the class, the extra that installs its dependencies)
BACKENDS: dict[str, tuple[str, str | None]] = {
    "daytona": ("pytest_aecbench.backends.daytona.DaytonaBackend", "daytona"),
    "docker": ("pytest_aecbench.backends.docker.DockerBackend", "docker"),
    "e2b": ("pytest_aecbench.backends.e2b.E2BBackend", "e2b"),
    "gcp": ("pytest_aecbench.backends.gcp.GCPBatchBackend", "gcp"),
    "local": ("pytest_aecbench.backends.local.LocalBackend", None),
    "modal": ("pytest_aecbench.backends.modal.ModalBackend", "modal"),
}


def make_backend(name: str, where: str, settings: object = None) -> ComputeBackend:
    """Make the backend of a name in the table, or of a dotted path; ``where`` names the option.

    A class with a method ``from_settings`` is given the settings, if there are some.

    Raises:
        SettingsError: there is no such backend, or it lacks one of the five methods.

    """
    factory = load_class(name, where, BACKENDS)
    from_settings = getattr(factory, "from_settings", None)
    made = from_settings(settings) if from_settings and settings is not None else factory()
    return check_backend(made, name, where)


def check_backend(made: object, name: str, where: str) -> ComputeBackend:
    """Return what was made for ``name``, if it is a backend."""
    if not isinstance(made, ComputeBackend):
        methods = ("build_environment", "launch_trial", "execute_trial", "collect_outputs")
        missing = [method for method in (*methods, "teardown") if not hasattr(made, method)]
        raise SettingsError(f"{where}: {name!r} has no method {', '.join(missing)}")
    return made


def accepts_limits(backend: ComputeBackend) -> bool:
    """Return whether ``launch_trial`` takes limits, which the protocol does not ask for."""
    parameters = inspect.signature(backend.launch_trial).parameters.values()
    return any(p.name == "limits" or p.kind is p.VAR_KEYWORD for p in parameters)


def is_batch(backend: ComputeBackend) -> TypeGuard[BatchBackend]:
    """Return whether the backend runs whole trials instead of single commands."""
    return hasattr(backend, "submit_trials") and not getattr(backend, "single", False)
