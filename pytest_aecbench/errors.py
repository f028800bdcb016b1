"""The exceptions of this package, and what each means for a trial's score.

::

    AecBenchError
    ├── UserError            a mistake in what the user wrote; one line, no traceback
    │   ├── SettingsError    an option, an ini key, a configuration file
    │   └── TaskError        a task directory
    ├── BackendError         a backend's infrastructure failed
    │   ├── BuildError       the task's image could not be built
    │   ├── LaunchError      no sandbox could be started
    │   ├── TransferError    files could not be moved in or out
    │   └── SandboxGone      the sandbox died or vanished
    ├── ProviderError        a model provider failed (auth, quota, 5xx after retries)
    ├── VerifierError        the verifier gave no usable reward
    └── LedgerError          a record or a trial's files could not be kept
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "AecBenchError",
    "BackendError",
    "BuildError",
    "Classification",
    "LaunchError",
    "LedgerError",
    "ProviderError",
    "SandboxGone",
    "SettingsError",
    "TaskError",
    "TransferError",
    "UserError",
    "VerifierError",
    "classify",
]


class AecBenchError(Exception):
    """An error that this package raises on purpose."""


class UserError(AecBenchError):
    """A mistake in what the user wrote."""


class SettingsError(UserError):
    """An option, an ini key or a configuration file is wrong."""


class TaskError(UserError):
    """A task directory is wrong."""


class BackendError(AecBenchError):
    """A backend's infrastructure failed."""


class BuildError(BackendError):
    """The task's image could not be built."""


class LaunchError(BackendError):
    """No sandbox could be started."""


class TransferError(BackendError):
    """Files could not be moved into or out of a sandbox."""


class SandboxGone(BackendError):  # noqa: N818  (a state)
    """The sandbox died or vanished while it was needed."""


class ProviderError(AecBenchError):
    """A model provider failed after retries."""


class VerifierError(AecBenchError):
    """The verifier gave no usable reward."""


class LedgerError(AecBenchError):
    """A record or a trial's files could not be written or read."""


class Classification(NamedTuple):
    """The meaning of an error: a stable cause, whether to retry, whether the trial is scored."""

    cause: str
    retry: bool
    scored: bool


# The most specific class wins. No row is scored: only a reward scores a trial.
_TABLE: dict[type[BaseException], Classification] = {
    SettingsError: Classification("settings", retry=False, scored=False),
    TaskError: Classification("task", retry=False, scored=False),
    BuildError: Classification("build", retry=False, scored=False),
    LaunchError: Classification("launch", retry=True, scored=False),
    TransferError: Classification("transfer", retry=True, scored=False),
    SandboxGone: Classification("sandbox_gone", retry=True, scored=False),
    BackendError: Classification("backend", retry=True, scored=False),
    ProviderError: Classification("provider", retry=True, scored=False),
    VerifierError: Classification("verifier", retry=False, scored=False),
    LedgerError: Classification("ledger", retry=False, scored=False),
    KeyboardInterrupt: Classification("interrupted", retry=False, scored=False),
    BaseException: Classification("internal", retry=False, scored=False),
}


def classify(error: BaseException | type[BaseException]) -> Classification:
    """Return the meaning of ``error`` for its trial."""
    kind = error if isinstance(error, type) else type(error)
    return next(_TABLE[base] for base in kind.__mro__ if base in _TABLE)
