"""Wait until a sandbox is ready for its agent, as the task's healthcheck tells."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_aecbench.errors import LaunchError

if TYPE_CHECKING:
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.schema import HealthcheckConfig

__all__ = ["await_health"]


def await_health(sandbox: Sandbox, check: HealthcheckConfig, multiplier: float = 1.0) -> None:
    """Run the check until it succeeds; ``multiplier`` is for slow machines.

    Raises:
        LaunchError: it failed as often in a row as the task allows after the start period.

    """
    start_period_ends = time.monotonic() + check.start_period_sec * multiplier
    failures = 0
    while True:
        result = sandbox.execute(check.command, timeout_sec=check.timeout_sec * multiplier)
        if result.returncode == 0:
            return
        starting = time.monotonic() < start_period_ends
        failures += not starting
        if failures >= check.retries:
            raise LaunchError(
                f"healthcheck: {check.command!r} did not succeed in {failures} "
                f"{'try' if failures == 1 else 'tries'}; {_why(result)}"
            )
        time.sleep(check.start_interval_sec if starting else check.interval_sec)


def _why(result: BackendExecutionResult) -> str:
    if result.timed_out:
        return "it took too long"
    last = (result.stdout + result.stderr).strip().rpartition("\n")[2]
    return f"exit code {result.returncode}" + (f", {last!r}" if last else "")
