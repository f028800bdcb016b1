"""Benchmark AI agents with pytest: a trial is a test."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.agents import Agent, AgentLimits, AgentResult, Usage
    from pytest_aecbench.agents.installation import Installation
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.api import RunResult, evaluate, run
    from pytest_aecbench.backends import (
        BackendExecutionRequest,
        BackendExecutionResult,
        CollectedArtifacts,
        ComputeBackend,
        Limits,
        TrialHandle,
    )
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.cooperbench.patches import PatchTestResult, run_patch_test
    from pytest_aecbench.errors import (
        AecBenchError,
        BackendError,
        BackendLost,
        BuildError,
        LaunchError,
        LedgerError,
        ProviderError,
        SandboxBroken,
        SandboxGone,
        SettingsError,
        TaskError,
        TransferError,
        UserError,
        VerifierError,
    )
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.notebooks import records
    from pytest_aecbench.reports.records import Records
    from pytest_aecbench.tasks.task import Task
    from pytest_aecbench.trials.reward import Reward

__version__ = "0.1.0"

# Read on first use: this package is imported by every pytest run on its user's machine.
_HOMES = {
    "agents": ("Agent", "AgentLimits", "AgentResult", "Usage"),
    "agents.installation": ("Installation",),
    "agents.spec": ("AgentSpec",),
    "api": ("RunResult", "evaluate", "run"),
    "backends": (
        "BackendExecutionRequest",
        "BackendExecutionResult",
        "CollectedArtifacts",
        "ComputeBackend",
        "Limits",
        "TrialHandle",
    ),
    "errors": (
        "AecBenchError",
        "BackendError",
        "BackendLost",
        "BuildError",
        "LaunchError",
        "LedgerError",
        "ProviderError",
        "SandboxBroken",
        "SandboxGone",
        "SettingsError",
        "TaskError",
        "TransferError",
        "UserError",
        "VerifierError",
    ),
    "ledger.store": ("Ledger",),
    "cooperbench.patches": ("PatchTestResult", "run_patch_test"),
    "ledger.record": ("TrialRecord",),
    "notebooks": ("records",),
    "reports.records": ("Records",),
    "trials.reward": ("Reward",),
    "backends.sandbox": ("Sandbox",),
    "tasks.task": ("Task",),
}

__all__ = [
    "AecBenchError",
    "Agent",
    "AgentLimits",
    "AgentResult",
    "AgentSpec",
    "BackendError",
    "BackendExecutionRequest",
    "BackendExecutionResult",
    "BackendLost",
    "BuildError",
    "CollectedArtifacts",
    "ComputeBackend",
    "Installation",
    "LaunchError",
    "Ledger",
    "LedgerError",
    "Limits",
    "PatchTestResult",
    "ProviderError",
    "Records",
    "Reward",
    "RunResult",
    "Sandbox",
    "SandboxBroken",
    "SandboxGone",
    "SettingsError",
    "Task",
    "TaskError",
    "TransferError",
    "TrialHandle",
    "TrialRecord",
    "Usage",
    "UserError",
    "VerifierError",
    "__version__",
    "evaluate",
    "records",
    "run",
    "run_patch_test",
]


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
