"""The record of a trial: build it, write it, and keep the logs beside it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

from pytest_aecbench import __version__
from pytest_aecbench.agents import AgentResult
from pytest_aecbench.errors import BackendError, classify
from pytest_aecbench.host import runs
from pytest_aecbench.host.files import files_below, whole
from pytest_aecbench.ledger import journal
from pytest_aecbench.ledger.identity import trial_key
from pytest_aecbench.ledger.record import (
    AgentIdentity,
    AgentOutcome,
    Cost,
    DatasetIdentity,
    Environment,
    Evaluated,
    Evaluation,
    Failure,
    Inputs,
    OutputFile,
    Outputs,
    TaskIdentity,
    Timing,
    TrialRecord,
)
from pytest_aecbench.ledger.store import Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.providers.calls import Meter
    from pytest_aecbench.trials.trial import Trial

__all__ = ["begin", "forget", "keep", "keep_failure", "note_cost", "scrubbed"]

# A record names files, it does not replace a directory listing.
MAX_FILES_NAMED = 500
MAX_EXCERPT_CHARS = 2000

_UNKNOWN = "unknown"


def begin(trial: Trial) -> None:
    """Note that the attempt is under way, so that it leaves a record even if this process dies."""
    trial.begun = scrubbed(_record(trial, _crashed(trial)), trial.scrubber)
    journal.begin(trial.settings.ledger_root, trial.begun)


def keep(trial: Trial, error: BaseException | None) -> TrialRecord:
    """Write the attempt's logs and its record, free of secrets, and return the record."""
    if trial.directory.is_dir():
        _write_logs(trial)
        unread = trial.scrubber.tree(trial.directory)
        trial.warnings.extend(f"not checked for secrets: {path.name}" for path in unread)
    _charge(trial)
    record = scrubbed(_record(trial, _evaluation(trial, error)), trial.scrubber)
    Ledger(trial.settings.ledger_root).append(record)
    trial.kept = True
    return record


def keep_failure(trial: Trial, error: Exception) -> TrialRecord:
    """Write a record that says why no better one could be made, and return it."""
    _charge(trial)
    known: dict[str, Any] = {"evaluation": _evaluation(trial, error)}
    parts = {"agent_result": _agent_outcome, "timing": _timing, "cost": _cost_of}
    for name, part in parts.items():
        with suppress(AttributeError, TypeError, ValueError):  # it may be the one that is wrong
            known[name] = part(trial)
    made = (trial.begun or _unbegun(trial, _crashed(trial))).model_copy(update=known)
    failed = scrubbed(made, trial.scrubber)
    Ledger(trial.settings.ledger_root).append(failed)
    trial.kept = True
    return failed


def _charge(trial: Trial) -> None:
    """Add what the attempt has cost to the cost of the run, once."""
    if trial.settings.max_cost_usd is None or trial.is_charged:
        return
    trial.is_charged = True
    usd = trial.agent_result.cost_usd if trial.agent_result else None
    try:
        runs.add_cost(trial.settings.run_id, usd)
    except (BackendError, OSError) as error:  # no reason to lose the record as well
        trial.warnings.append(f"cost not counted for --aec-max-cost: {error}")


def note_cost(trial: Trial, meter: Meter) -> None:
    """Note what the attempt has cost so far, for the record of one whose process dies."""
    cost = _cost(AgentResult.metered(meter, status="failed"))
    settings = trial.settings
    journal.spend(settings.ledger_root, settings.experiment_id, trial.trial_id, cost)


def forget(trial: Trial) -> None:
    """Take back what ``begin`` noted, as nothing of the attempt is left that could die."""
    settings = trial.settings
    journal.end(settings.ledger_root, settings.experiment_id, trial.trial_id)


def scrubbed(record: TrialRecord, scrubber: Scrubber) -> TrialRecord:
    """Return the record without secrets."""
    return record.cleaned(scrubber.json) if scrubber else record


def _record(trial: Trial, evaluation: Evaluation) -> TrialRecord:
    return TrialRecord(
        **_names(trial, trial.digest),
        trial_key=trial.key,
        dataset=_dataset(trial),
        evaluates=_evaluated(trial),
        inputs=_inputs(trial),
        outputs=_outputs(trial),
        evaluation=evaluation,
        agent_result=_agent_outcome(trial),
        timing=_timing(trial),
        cost=_cost_of(trial),
        completeness="complete" if trial.collected else "partial",
        warnings=tuple(trial.warnings),
    )


def _unbegun(trial: Trial, evaluation: Evaluation) -> TrialRecord:
    """Return the record of an attempt that has not begun, perhaps because of the task's files."""
    mounts = map(str, trial.settings.mounts)
    return TrialRecord(
        **_names(trial, _UNKNOWN),
        trial_key=trial_key(_UNKNOWN, trial.agent, trial.repetition, mounts),
        inputs=Inputs(instruction_sha256="0" * 64),
        evaluation=evaluation,
        timing=Timing(started_at=trial.started_at, finished_at=datetime.now(timezone.utc)),
        completeness="partial",
    )


def _names(trial: Trial, digest: str) -> dict[str, Any]:
    """Return what tells the attempt from others."""
    task, agent, settings = trial.task, trial.agent, trial.settings
    return {
        "trial_id": trial.trial_id,
        "experiment_id": settings.experiment_id,
        "run_id": settings.run_id,
        "task": TaskIdentity(
            task_id=task.task_id,
            digest=digest,
            domain=task.domain,
            difficulty=task.difficulty,
            visibility=task.visibility,
            tags=task.tags,
        ),
        "agent": AgentIdentity(
            name=agent.name,
            harness=agent.harness,
            model=agent.model,
            parameters=dict(agent.parameters),
            system_prompt_sha256=agent.system_prompt_sha256,
            client_sha256=agent.client_sha256,
        ),
        "repetition": trial.repetition,
        "attempt": trial.attempt,
        "environment": Environment(
            backend=settings.backend,
            image=trial.image,
            agent_image=trial.agent_image,
            platform=f"{platform.system()}-{platform.machine()}".lower(),
            mounts=tuple(map(str, settings.mounts)),
        ),
        "harness_version": __version__,
    }


def _dataset(trial: Trial) -> DatasetIdentity | None:
    used = trial.dataset
    if used is None:
        return None
    return DatasetIdentity(
        name=used.name,
        version=used.version,
        content_hash=used.content_hash,
        drifted=used.drifted,
    )


def _evaluated(trial: Trial) -> Evaluated | None:
    stored = trial.evaluates
    if stored is None:
        return None
    return Evaluated(experiment_id=stored.experiment_id, trial_id=stored.trial_id)


def _inputs(trial: Trial) -> Inputs:
    """Return what the agent was given, which may have been long ago, and what applies now."""
    inputs = Inputs(
        instruction_sha256=trial.instruction_sha256,
        agent_timeout_sec=trial.agent_timeout_sec,
        verifier_timeout_sec=trial.verifier_timeout_sec,
        build_timeout_sec=trial.task.config.environment.build_timeout_sec,
        prompt_version=trial.agent_result.prompt_version if trial.agent_result else None,
    )
    if trial.evaluates is None:
        return inputs
    included = {"instruction_sha256", "agent_timeout_sec", "prompt_version"}
    given = trial.evaluates.inputs.model_dump(include=included)
    return inputs.model_copy(update=given)


def _crashed(trial: Trial) -> Evaluation:
    failure = Failure(
        cause="crashed",
        type="Crash",
        message="the worker process died (killed or crashed)",
    )
    return Evaluation(
        reward=None, threshold=trial.threshold, passed=None, validity="crashed", error=failure
    )


def _evaluation(trial: Trial, error: BaseException | None) -> Evaluation:
    reward, verification = trial.reward, trial.verification
    returncode = verification.returncode if verification else None
    if error is not None:
        failure = Failure(
            cause=classify(error).cause,
            type=type(error).__name__,
            message=str(error),
            phase=trial.phase,
        )
        return Evaluation(
            reward=None,
            threshold=trial.threshold,
            passed=None,
            validity="interrupted" if failure.cause == "interrupted" else "error",
            error=failure,
            verifier_returncode=returncode,
        )
    if reward is None:
        return Evaluation(
            reward=None,
            threshold=trial.threshold,
            passed=None,
            validity="unverified",
            cause=trial.broken,
        )
    return Evaluation(
        reward=reward.value,
        threshold=trial.threshold,
        passed=reward.value >= trial.threshold,
        validity="scored",
        details=dict(reward.details),
        breakdown=cast("JsonValue", reward.breakdown),
        cause=trial.broken,
        verifier_returncode=returncode,
    )


def _agent_outcome(trial: Trial) -> AgentOutcome | None:
    stored, result = trial.evaluates, trial.agent_result
    if stored is not None:
        ended = stored.agent_result
        return AgentOutcome(**ended.model_dump()) if ended else None
    if result is None:
        return None
    return AgentOutcome(
        status=result.status,
        returncode=result.returncode,
        error=result.error,
        end=result.end,
        turns=result.turns,
        plan=None if result.plan is None else dict(result.plan),
    )


def _timing(trial: Trial) -> Timing:
    return Timing(
        started_at=trial.started_at,
        finished_at=datetime.now(timezone.utc),
        model_wait=trial.agent_result.waited_sec if trial.agent_result else None,
        **trial.timing,
        starts={phase: round(sec, 3) for phase, sec in trial.starts.items()},
    )


def _cost_of(trial: Trial) -> Cost:
    return Cost() if trial.agent_result is None else _cost(trial.agent_result)


def _cost(result: AgentResult) -> Cost:
    usage = result.usage
    return Cost(
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_cache_read=usage.tokens_cache_read,
        tokens_cache_write=usage.tokens_cache_write,
        tokens_reasoning=usage.tokens_reasoning,
        calls=result.calls,
        cached_calls=result.cached_calls,
        usd=result.cost_usd,
        price_source=result.price_source,
    )


def _outputs(trial: Trial) -> Outputs:
    files = sorted(files_below(trial.directory))
    if len(files) > MAX_FILES_NAMED:
        trial.warnings.append(f"outputs.files names {MAX_FILES_NAMED} of {len(files)} files")
    return Outputs(
        files=tuple(OutputFile(path=path, size=size) for path, size in files[:MAX_FILES_NAMED]),
        output_path=str(trial.output_path),
        written=trial.is_output_written,
        output_excerpt=_excerpt(trial),
        jobs_dir=os.path.relpath(trial.directory, trial.settings.root),
    )


def _excerpt(trial: Trial) -> str | None:
    """Return the start of the output file, never through a link that the agent made."""
    below = trial.output_below_workdir
    if below is None:
        return None
    path = trial.workspace_dir / below
    if not path.is_file() or path.resolve() != trial.workspace_dir.resolve() / below:
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MAX_EXCERPT_CHARS)


def _write_logs(trial: Trial) -> None:
    """Put what the agent's and the verifier's commands printed beside their own logs."""
    printed = {
        "agent/stdout.txt": trial.agent_result.stdout if trial.agent_result else "",
        "agent/stderr.txt": trial.agent_result.stderr if trial.agent_result else "",
        "verifier/test-stdout.txt": trial.verification.stdout if trial.verification else "",
        "verifier/test-stderr.txt": trial.verification.stderr if trial.verification else "",
    }
    for name, text in printed.items():
        if text:
            path = trial.logs_dir / name
            try:
                _replace(path, text)
            except OSError as error:  # no reason to lose the record as well
                trial.warnings.append(f"not kept: logs/{name}, {error.strerror}")


def _replace(path: Path, text: str) -> None:
    """Write a file of ours where the agent may have left something else, such as a link."""
    if path.parent.is_symlink():
        path.parent.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path, durable=False) as file:
        file.write(text.encode("utf-8", "replace"))
