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
    │   ├── SandboxGone      the sandbox died or vanished
    │   ├── SandboxBroken    the sandbox runs, but was made unusable from within
    │   └── BackendLost      the engine or the vendor failed, or cannot be reached
    ├── ProviderError        a model provider failed
    │   ├── AuthFailed       a key is missing, wrong or not allowed to do this
    │   ├── QuotaExceeded    the account has no credit left
    │   ├── RateLimited      too many requests or tokens a minute
    │   ├── Overloaded       the provider has no capacity now (503, 529)
    │   ├── ServerFailed     any other 5xx
    │   ├── ModelTimeout     no answer in time
    │   ├── ConnectionFailed no connection, a reset, a torn answer
    │   ├── ModelNotFound    the provider has no such model
    │   ├── RequestRejected  any other 4xx, such as a parameter that the model does not take
    │   ├── ContextExceeded  the conversation is too long; built-in agents end with it
    │   └── Refused          a content filter answered; built-in agents end with it
    ├── VerifierError        the verifier gave no usable reward
    └── LedgerError          a record or a trial's files could not be kept
        └── EvaluationError  the stored work of one trial cannot be evaluated
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "AecBenchError",
    "AuthFailed",
    "BackendError",
    "BackendLost",
    "BuildError",
    "Classification",
    "ConnectionFailed",
    "ContextExceeded",
    "EvaluationError",
    "LaunchError",
    "LedgerError",
    "ModelNotFound",
    "ModelTimeout",
    "Overloaded",
    "ProviderError",
    "QuotaExceeded",
    "RateLimited",
    "Refused",
    "RequestRejected",
    "SandboxBroken",
    "SandboxGone",
    "ServerFailed",
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


class SandboxBroken(BackendError):  # noqa: N818  (a state)
    """The sandbox runs, but was made unusable from within.

    After an agent has begun, that is the agent's outcome and not an error of the infrastructure.
    """


class BackendLost(BackendError):  # noqa: N818  (a state)
    """The engine or the vendor failed or cannot be reached, which no agent can bring about."""


class ProviderError(AecBenchError):
    """A model provider failed.

    ``status`` is that of HTTP; ``retry_after_sec`` is the time after which the provider wants to
    be asked again. Each is None where the provider did not say.
    """

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_sec: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_sec = retry_after_sec


class AuthFailed(ProviderError):  # noqa: N818  (this one and those below are states)
    """A key is missing, wrong or not allowed to do this."""


class QuotaExceeded(ProviderError):  # noqa: N818
    """The account has no credit left."""


class RateLimited(ProviderError):  # noqa: N818
    """Too many requests or tokens a minute."""


class Overloaded(ProviderError):  # noqa: N818
    """The provider has no capacity now."""


class ServerFailed(ProviderError):  # noqa: N818
    """The provider's server failed."""


class ModelTimeout(ProviderError):  # noqa: N818
    """The model did not answer in time."""


class ConnectionFailed(ProviderError):  # noqa: N818
    """There was no connection, or it broke, or the answer was torn."""


class ModelNotFound(ProviderError):  # noqa: N818
    """The provider has no such model."""


class RequestRejected(ProviderError):  # noqa: N818
    """The provider does not take the request, such as one of its parameters."""


class ContextExceeded(ProviderError):  # noqa: N818
    """The conversation is longer than the model's context."""


class Refused(ProviderError):  # noqa: N818
    """A content filter or the model itself refused to answer."""


class VerifierError(AecBenchError):
    """The verifier gave no usable reward."""


class LedgerError(AecBenchError):
    """A record or a trial's files could not be written or read."""


class EvaluationError(LedgerError):
    """The stored work of one trial cannot be evaluated; that of others may be."""


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
    SandboxBroken: Classification("sandbox_broken", retry=False, scored=False),
    BackendLost: Classification("backend_lost", retry=True, scored=False),
    BackendError: Classification("backend", retry=True, scored=False),
    AuthFailed: Classification("provider_auth", retry=False, scored=False),
    QuotaExceeded: Classification("provider_quota", retry=False, scored=False),
    RateLimited: Classification("rate_limit", retry=True, scored=False),
    ModelNotFound: Classification("model_not_found", retry=False, scored=False),
    RequestRejected: Classification("provider_request", retry=False, scored=False),
    ContextExceeded: Classification("context_length", retry=False, scored=False),
    Refused: Classification("refusal", retry=False, scored=False),
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
