"""The pytest items that work on a task in a sandbox: trials and checks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_aecbench.errors import AecBenchError, TaskError, classify
from pytest_aecbench.host.lanes import away, reversible
from pytest_aecbench.plugin._pytest_internals import forget_attempt, shown_as
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    import pluggy
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.checks import Finding
    from pytest_aecbench.ledger.claims import Claim
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.plugin.nodes import TaskFile
    from pytest_aecbench.tasks.task import Task
    from pytest_aecbench.trials.trial import Trial

__all__ = ["CheckItem", "SandboxItem", "TrialItem"]


_VERIFICATIONS_OF_A_TRIAL = 3
_PYTEST = ("_pytest", "pluggy")


def _is_ours(path: Path | str) -> bool:
    """Return whether a frame is one of this package, of pytest or of its hooks."""
    packages = (
        Path(__file__).parents[1],
        *(Path(pytest.__file__).parents[1] / name for name in _PYTEST),
    )
    return any(Path(path).is_relative_to(package) for package in packages)


class SandboxItem(pytest.Function):
    """A test that works on a task in a sandbox."""

    parent: TaskFile
    attempt = 0
    trial: Trial | None = None
    error: BaseException | None = None

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks of the task's own."""
        return self.parent.ihook

    @property
    def task(self) -> Task:
        """The task to work on."""
        return self.parent.task

    @property
    def passed(self) -> bool:
        """True if the test is known to have passed."""
        return False

    @property
    def guard_sec(self) -> float:
        """The time that no attempt exceeds unless its own deadlines have failed."""
        from pytest_aecbench.trials.trial import MARGIN_SEC

        config, settings = self.task.config, settings_of(self.config)
        deadlines = (
            config.environment.build_timeout_sec
            + config.environment.healthcheck_sec
            + (settings.timeout_override_sec or config.agent.timeout_sec)
            + _VERIFICATIONS_OF_A_TRIAL * config.verifier.timeout_sec
        )
        waiting_sec = max((agent.max_wait_sec for agent in settings.agents), default=0.0)
        return deadlines * settings.timeout_multiplier + waiting_sec + MARGIN_SEC

    @property
    def may_be_retried(self) -> bool:
        """True if the last attempt ended in an error that another may not have."""
        return self.error is not None and classify(self.error).retry

    @property
    def is_in_doubt(self) -> bool:
        """True if the last attempt does not tell whether its agent or the backend failed."""
        return self.error is not None and self.trial is not None and self.trial.is_in_doubt

    def forget(self) -> None:
        """Reset everything except the attempt counter."""
        self.trial = self.error = None
        self.user_properties.clear()
        forget_attempt(self)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Point to the task rather than to the template."""
        task_id = settings_of(self.config).task_id(self.path.parent)
        return self.path, 0, f"{task_id}[{self.callspec.id}]"  # a skip must have a line

    def repr_failure(  # type: ignore[override]
        self, excinfo: ExceptionInfo[BaseException]
    ) -> str | TerminalRepr:
        """Show our own errors and sentences as what they say, and others without our source."""
        error = excinfo.value
        if isinstance(error, AecBenchError):
            message = f"{type(error).__name__}: {error}"
        elif isinstance(error, pytest.fail.Exception) and not error.pytrace:
            message = str(error)
        else:
            foreign = excinfo.traceback.filter(lambda entry: not _is_ours(entry.path))
            if foreign and not self.config.getoption("fulltrace", default=False):
                excinfo.traceback = foreign
            return super().repr_failure(excinfo)
        return shown_as(excinfo, message)


class TrialItem(SandboxItem):
    """One trial: one task, one agent, one repetition."""

    reused: TrialRecord | None = None
    was_in_doubt = False
    result: dict[str, str | int | float | bool | None] | None = None
    not_run = False
    _claim: Claim | None = None

    @property
    def agent(self) -> AgentSpec:
        """The agent that attempts the task."""
        return cast("AgentSpec", self.callspec.params["agent"])

    @property
    def repetition(self) -> int:
        """The number of this agent's attempt at this task, from 1."""
        return cast("int", self.callspec.params["repetition"])

    @property
    def passed(self) -> bool:
        """True if the reward is known and reaches the threshold."""
        return self.result is not None and self.result["passed"] is True

    def forget(self) -> None:
        """Reset everything except the attempt counter and an earlier doubt."""
        self.was_in_doubt = self.was_in_doubt or self.is_in_doubt
        self.result = None
        super().forget()

    def setup(self) -> None:
        """Open a new attempt and let the fixtures work on it, unless an earlier one will do."""
        if not self.config.option.setupplan:
            away(self._open)
            if self.reused is not None:
                return
        super().setup()

    def _open(self) -> None:
        """Open a new attempt, or find an earlier one to reuse."""
        from pytest_aecbench.plugin import evaluate
        from pytest_aecbench.plugin.dataset import check_unchanged
        from pytest_aecbench.plugin.join import claim_trial
        from pytest_aecbench.plugin.resume import reused_record, stored_record
        from pytest_aecbench.trials.record import begin, forget
        from pytest_aecbench.trials.trial import Trial

        settings = settings_of(self.config)
        self.attempt += 1
        agent = self.agent
        if agent.harness == "replay" and settings.evaluate is None:
            from pytest_aecbench.agents.replay import pinned

            agent = pinned(agent, self.task, settings.root)
        self.trial = Trial(
            self.task,
            agent,
            self.repetition,
            settings,
            self.attempt,
            state_of(self.config).dataset,
            is_second_chance=self.was_in_doubt,
        )
        self.trial.evaluates = evaluate.stored_record(self.config, self.trial)
        self.reused = reused_record(self.config, self.trial)
        if self.reused is None:
            self.skip_if_spent()
            self._claim = reversible(
                lambda claim: claim.release(None),
                partial(claim_trial, self.config, self.trial, self.name),
            )
            if (trial_id := self._claim.earned_elsewhere()) is not None:
                self.reused = stored_record(self.trial, trial_id)
                return
            check_unchanged(self.trial)
            trial = self.trial
            reversible(lambda _: forget(trial), partial(begin, trial))
            evaluate.check(self.trial)

    def teardown(self) -> None:
        """Let other runs of the experiment have the trial, or its reward."""
        super().teardown()
        if self._claim is not None:
            is_scored = self.result is not None and self.result["reward"] is not None
            assert self.trial is not None
            self._claim.release(self.trial.trial_id if is_scored and not self.reused else None)
            self._claim = None

    def skip_if_spent(self) -> None:
        """Do not run where the run's other trials have cost all that it may cost."""
        from pytest_aecbench.host.runs import spent

        settings = settings_of(self.config)
        limit = settings.max_cost_usd
        if limit is not None and spent(settings.run_id).usd >= limit:
            self.not_run = True
            pytest.skip(f"not run: --aec-max-cost of {limit:g} USD is reached")

    def runtest(self) -> None:
        """Compare the reward with the threshold."""
        if self.reused is None:
            super().runtest()
            return
        from pytest_aecbench.trials.reward import Reward
        from pytest_aecbench.trials.sentence import explain_stored

        evaluation = self.reused.evaluation
        assert evaluation.reward is not None
        assert self.trial is not None
        reward = Reward(evaluation.reward, "reward.json", evaluation.details)
        self.trial.reward = reward
        if reward.value < self.trial.threshold:
            sentence = explain_stored(self.reused, reward, self.trial.threshold)
            pytest.fail(sentence, pytrace=False)


# More than any check runs.
_VERIFICATIONS = 20


class CheckItem(SandboxItem):
    """One check of one task; it runs as a trial does and is not scored."""

    outcome: str | None = None
    record: dict[str, str | int] | None = None
    _home: Path | None = None

    @property
    def check(self) -> str:
        """The check's name."""
        return cast("str", self.callspec.params["check"])

    @property
    def passed(self) -> bool:
        """True if the check was made and found nothing."""
        return self.outcome == "passed"

    @property
    def finding(self) -> Finding | None:
        """The problems that were found, if the check came to an end."""
        return cast("Finding | None", self.funcargs.get("aec_finding"))

    @property
    def guard_sec(self) -> float:
        """The time that no check exceeds unless its own deadlines have failed."""
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
                from dataclasses import replace

                from pytest_aecbench.host.homes import make_home

                self._home = make_home("check")
                settings = settings_of(self.config)
                settings = replace(settings, jobs_root=self._home / "jobs", verify=True)
                self.trial = Trial(task, agent_of(self.check), 1, settings, self.attempt)
                # An agent that cheats is treated as in a trial.
                self.trial.is_rehearsal = not self.check.startswith("exploit:")
        super().setup()

    def teardown(self) -> None:
        """Remove the attempt's files."""
        super().teardown()
        if self._home is not None:
            from pytest_aecbench.host.homes import remove_tree

            home, self._home = self._home, None
            away(remove_tree, home)
