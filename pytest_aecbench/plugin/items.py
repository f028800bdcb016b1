"""The pytest item that is one check of one task."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_aecbench.errors import TaskError
from pytest_aecbench.plugin.nodes import SandboxItem
from pytest_aecbench.plugin.state import settings_of

if TYPE_CHECKING:
    from pytest_aecbench.checks import Finding

__all__ = ["CheckItem"]

# More than any check runs.
_VERIFICATIONS = 20


class CheckItem(SandboxItem):
    """One check of one task; it works as a trial does, and scores nobody."""

    outcome: str | None = None
    _directory: Path | None = None

    @property
    def check(self) -> str:
        """The check's name."""
        return cast("str", self.callspec.params["check"])

    @property
    def passed(self) -> bool:
        """Whether the check was made and found nothing."""
        return self.outcome == "passed"

    @property
    def finding(self) -> Finding | None:
        """What was found wrong, if the check came to an end."""
        return cast("Finding | None", self.funcargs.get("aec_finding"))

    @property
    def guard_sec(self) -> float:
        """What no check exceeds unless its own deadlines have failed."""
        verifier_sec = self.task.config.verifier.timeout_sec
        multiplier = settings_of(self.config).timeout_multiplier
        return super().guard_sec + _VERIFICATIONS * verifier_sec * multiplier

    def setup(self) -> None:
        """Open an attempt that leaves no record among trials and no files, and look."""
        from pytest_aecbench.checks.rehearsal import agent_of
        from pytest_aecbench.trials.trial import Trial

        if not self.config.option.setupplan:
            self.attempt += 1
            try:
                task = self.task
            except TaskError:
                if self.check != "structure":
                    pytest.skip("the task cannot be read; check[structure] says why")
            else:
                self._directory = Path(tempfile.mkdtemp(prefix="aecbench-check-"))
                settings = replace(settings_of(self.config), jobs_root=self._directory, verify=True)
                self.trial = Trial(task, agent_of(self.check), 1, settings, self.attempt)
        super().setup()

    def teardown(self) -> None:
        """Remove the attempt's files."""
        super().teardown()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
