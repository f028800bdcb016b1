"""What others may rely on, pinned."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest_aecbench

NAMES = [
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


def test_the_public_names_are_these() -> None:
    assert sorted(pytest_aecbench.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(pytest_aecbench, name) is not None


def test_the_package_knows_its_version() -> None:
    assert importlib.metadata.version("pytest-aecbench") == pytest_aecbench.__version__


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    code = "import sys, pytest_aecbench; print([m for m in sys.modules if 'aecbench.' in m])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]"
