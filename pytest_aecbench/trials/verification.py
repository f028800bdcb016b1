"""The verifier's part of a trial: where it runs, and what a failure of it means."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from pytest_aecbench.backends import BackendExecutionRequest
from pytest_aecbench.errors import (
    AecBenchError,
    BackendError,
    BackendLost,
    VerifierError,
)
from pytest_aecbench.text import shortened
from pytest_aecbench.trials.full_disk import full_disk_attributed
from pytest_aecbench.trials.reward import Reward, read_reward
from pytest_aecbench.trials.stages import (
    BACKENDS_OWN,
    attributed,
    collect,
    evidence_kept,
    launch,
    replace_tree,
    stage_inputs,
    transferring,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_aecbench.backends import ComputeBackend
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.trials.trial import Trial

__all__ = [
    "EMPTY",
    "SpareSandbox",
    "end",
    "read_verdict",
    "second_opinion",
    "start_ahead",
    "verifier_request",
    "verify",
    "verify_here",
]

_COPY = "verifier-workspace"
EMPTY = "empty"
_STOP_SEC = 60.0
_PROBE_SEC = 60.0
_MAX_CAUSE = 300


class SpareSandbox:
    """A sandbox for the verifier that starts in the background while the agent works."""

    def __init__(self, start: Callable[[], Sandbox]) -> None:
        self._start = start
        self._workdir: str | None = None
        thread = ThreadPoolExecutor(1, thread_name_prefix="aec-verifier")
        self._sandbox = thread.submit(self._prepare)
        thread.shutdown(wait=False)

    def _prepare(self) -> Sandbox:
        sandbox = self._start()
        try:
            # Files of other users' sandboxes have to be there from the start, as theirs.
            probe = sandbox.execute('[ "$(id -u)" = 0 ] && pwd', timeout_sec=_PROBE_SEC)
        except BaseException:
            sandbox.close()
            raise
        self._workdir = probe.stdout.rstrip("\n") if probe.returncode == 0 else None
        return sandbox

    def take(self) -> tuple[Sandbox, str] | None:
        """Return the sandbox and its working directory; None if files cannot be added to it.

        Raises:
            BackendError: it could not be started.

        """
        sandbox = self._sandbox.result()
        return (sandbox, self._workdir) if self._workdir else None

    def close(self) -> None:
        """Remove the sandbox, once it has started."""
        try:
            sandbox = self._sandbox.result()
        except AecBenchError:
            return  # it was never there
        sandbox.close()


def start_ahead(trial: Trial, backend: ComputeBackend, image: str) -> None:
    """Start the verifier's own sandbox, if the backend can do so beside the agent's."""
    is_separate = trial.task.verifier_mode == "separate"
    if is_separate and trial.settings.verify and getattr(backend, "starts_ahead", False):
        start = partial(launch, trial, backend, image, _empty(trial.directory / _COPY))
        with suppress(RuntimeError):  # no more threads are allowed; it is started when needed
            trial.spare = SpareSandbox(start)


def verify(trial: Trial, sandbox: Sandbox, backend: ComputeBackend, image: str) -> Reward:
    """Stop the agent's processes, run the verifier, bring everything home, read the reward."""
    sandbox.user = trial.task.config.verifier.user
    judge = separately = partial(_verify_separately, trial, sandbox, backend, image)
    try:
        with full_disk_attributed(trial, sandbox, clear=True):
            if trial.task.verifier_mode == "shared" and not trial.broken:
                with attributed(trial):
                    judge = partial(verify_here, trial, sandbox)
                    return judge()
                judge = separately
            _take_home(trial, sandbox)
        judge = separately
        return judge()
    except (VerifierError, BackendError) as error:
        if isinstance(error, BACKENDS_OWN) or trial.is_in_doubt or trial.is_rehearsal:
            raise
        control = partial(_gives_a_reward_for_nothing, trial, backend, image)
        return second_opinion(trial, error, control, judge)


def second_opinion(
    trial: Trial,
    error: VerifierError | BackendError,
    gives_a_reward_for_nothing: Callable[[], bool],
    judge: Callable[[], Reward],
) -> Reward:
    """Find out whether the verifier or the agent's work is to blame for a missing reward.

    A verifier that gives no reward for untouched inputs either is broken itself: an error. If it
    gives one, the agent's work is verified once more, because machines are slow at times. If there
    is no reward again, the agent has earned none.
    """
    if not gives_a_reward_for_nothing():
        raise error
    try:
        return judge()
    except (VerifierError, BackendError) as again:
        if isinstance(again, BACKENDS_OWN):
            raise
        cause = shortened(" ".join(str(again).partition("\n")[0].split()), _MAX_CAUSE)
        trial.broken = trial.broken or f"agent's work broke the verifier: {cause}"
    return Reward(0.0, "none")


def _gives_a_reward_for_nothing(trial: Trial, backend: ComputeBackend, image: str) -> bool:
    control = trial.beside("control")
    stage_inputs(control)
    try:
        with trial.timed("verify"):
            sandbox = launch(control, backend, image, control.workspace_dir)
            try:
                sandbox.user = trial.task.config.verifier.user
                verify_here(control, sandbox)
            finally:
                sandbox.close()
    except (VerifierError, BackendError) as error:
        if isinstance(error, BACKENDS_OWN):
            raise
        return False
    finally:
        shutil.rmtree(control.directory, ignore_errors=True)
    return True


def verify_here(trial: Trial, sandbox: Sandbox) -> Reward:
    """Verify in this very sandbox, whatever the task says."""
    sandbox.user = trial.task.config.verifier.user
    with evidence_kept(trial, sandbox):
        _run_verifier(trial, sandbox, {})
        collect(trial, sandbox)
    return read_verdict(trial)


def _take_home(trial: Trial, sandbox: Sandbox) -> None:
    """End the agent's processes and collect its files, as far as it left them so."""
    with attributed(trial), trial.timed("collect"):
        if trial.is_rehearsal:  # which goes on to use the sandbox
            sandbox.execute(":", exclusive=True)
        else:
            sandbox.stop(_STOP_SEC)
    with attributed(trial):
        collect(trial, sandbox)
    is_in_the_way = trial.spare is None or trial.broken  # it may have filled the disk
    if trial.settings.keep == "none" and is_in_the_way and not trial.is_rehearsal:
        sandbox.close()  # accounts have limits, so the verifier's sandbox takes its place
    for directory in (trial.workspace_dir, trial.logs_dir):
        directory.mkdir(exist_ok=True)


def _verify_separately(
    trial: Trial, sandbox: Sandbox, backend: ComputeBackend, image: str
) -> Reward:
    """Verify in a fresh sandbox that gets nothing of the agent's but its working directory.

    It is removed with the agent's, after the record is kept.
    """
    if not trial.workspace_dir.is_dir():  # it was, when it had been collected
        raise BackendLost(f"{trial.workspace_dir}: was removed on the host while the trial ran")
    try:
        with trial.timed("launch"):
            fresh, uploads = _fresh_sandbox(trial, backend, image)
            trial.verifier_sandbox = fresh
            fresh.user, fresh.env, fresh.echo = sandbox.user, sandbox.env, sandbox.echo
        _run_verifier(trial, fresh, uploads)
        with trial.timed("collect"), transferring(trial.logs_dir):
            replace_tree(fresh.collect().logs / "verifier", trial.logs_dir / "verifier")
    finally:
        if trial.settings.keep == "none":  # a second copy does not belong to the trial's files
            shutil.rmtree(trial.directory / _COPY, ignore_errors=True)
    return read_verdict(trial)


def _fresh_sandbox(
    trial: Trial, backend: ComputeBackend, image: str
) -> tuple[Sandbox, dict[str, Path]]:
    """Return the verifier's sandbox and the files that it needs besides the tests."""
    _end_verification(trial, spare=False)
    if trial.spare is not None:
        spare, trial.spare = trial.spare, None
        taken = spare.take()
        if taken is not None:
            sandbox, workdir = taken
            return sandbox, {workdir: trial.workspace_dir}
        spare.close()
    copy = trial.directory / _COPY
    with transferring(copy):
        replace_tree(trial.workspace_dir, copy)
    return launch(trial, backend, image, copy), {}


def _end_verification(trial: Trial, *, spare: bool = True, keep: bool = False) -> None:
    """Remove the sandboxes that the verifier had to itself, if it had some.

    With ``keep``, the files of one that it used stay.
    """
    used, trial.verifier_sandbox = trial.verifier_sandbox, None
    if used is not None:
        used.close()
    if spare and trial.spare is not None:
        trial.spare.close()
        trial.spare = None
    if trial.spare is None and not (keep and used):
        shutil.rmtree(trial.directory / _COPY, ignore_errors=True)


def end(trial: Trial, sandbox: Sandbox, *, keep: bool) -> str:
    """Remove the trial's sandboxes, or let go of them; return how to enter those that are kept."""
    with ExitStack() as ending:
        ending.enter_context(trial.timed("teardown"))
        ending.callback(sandbox.close)
        ending.callback(_end_verification, trial, keep=keep)
        return _keep_all(trial, sandbox) if keep else ""


def _keep_all(trial: Trial, sandbox: Sandbox) -> str:
    """Keep the trial's sandboxes; return how to enter each."""
    if trial.verifier_sandbox is None:
        return sandbox.keep()
    verifiers = f"the verifier's sandbox:\n{trial.verifier_sandbox.keep()}"
    return f"{verifiers}\n\nthe agent's sandbox:\n{sandbox.keep()}"


def _run_verifier(trial: Trial, sandbox: Sandbox, uploads: Mapping[str, Path]) -> None:
    trial.check_unchanged()
    request = verifier_request(trial, uploads)
    with trial.timed("verify"):
        trial.verification = sandbox.perform(request)
    with transferring(trial.directory):
        (trial.directory / EMPTY).rmdir()
    trial.check_unchanged()  # nor during the upload


def verifier_request(trial: Trial, uploads: Mapping[str, Path]) -> BackendExecutionRequest:
    """Return the command of the task's verifier, with the tests and empty logs as uploads."""
    task = trial.task
    empty = _empty(trial.directory / EMPTY)
    return BackendExecutionRequest(
        task.verifier_command,
        env=task.verifier_env(),
        timeout_sec=trial.verifier_timeout_sec,
        uploads={**uploads, **task.verifier_uploads(), "/logs/verifier": empty},
        exclusive=True,
    )


def _empty(directory: Path) -> Path:
    with transferring(directory):
        directory.mkdir(exist_ok=True)
    return directory


def read_verdict(trial: Trial) -> Reward:
    """Return the reward that the verifier left in the trial's directory."""
    verification = trial.verification
    assert verification is not None
    trial.phase = "verify"
    reward = read_reward(
        trial.logs_dir / "verifier",
        script=trial.task.verifier_command,
        returncode=verification.returncode,
        timed_out=verification.timed_out,
        output=verification.stdout + verification.stderr,
    )
    trial.warnings.extend(reward.warnings)
    if verification.returncode != 0:
        trial.warnings.append(
            f"verifier: exit code {verification.returncode}, but it left a reward"
        )
    return reward
