"""``--aec-evaluate``: verify again what the agents of an earlier experiment left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import EvaluationError, LedgerError, SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.ledger.identity import agent_key, final_attempts
from pytest_aecbench.plugin.state import settings_of, state_of
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pytest

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.agents.stored import StoredAgent
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.trials.trial import Trial

__all__ = [
    "Stored",
    "check",
    "find_rows",
    "stored_agent",
    "stored_record",
    "summary_of",
    "unique_names",
]

Row = tuple[str, dict[str, Any], int, str]  # task id, agent, repetition, trial id: plain types


@dataclass(frozen=True, slots=True)
class Stored:
    """The trials to evaluate: which agents and repetitions there are, and which record is whose."""

    agents: tuple[AgentSpec, ...]
    repetitions: tuple[int, ...]
    trial_ids: dict[tuple[str, str, int], str]

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> Stored:
        """Read the rows that ``find_rows`` returned."""
        from pytest_aecbench.agents.spec import AgentSpec

        agents = {agent_key(agent := AgentSpec(**spec)): agent for _, spec, _, _ in rows}
        return cls(
            agents=tuple(agents.values()),
            repetitions=tuple(sorted({repetition for _, _, repetition, _ in rows})),
            trial_ids={
                (task_id, agent_key(AgentSpec(**spec)), repetition): trial_id
                for task_id, spec, repetition, trial_id in rows
            },
        )

    def trial_id(self, task_id: str, agent: AgentSpec, repetition: int) -> str | None:
        """Return the id of the record that holds this trial, if one does."""
        return self.trial_ids.get((task_id, agent_key(agent), repetition))


def find_rows(config: pytest.Config) -> list[Row]:
    """Return the stored trials in plain types, which can be handed to workers."""
    settings = settings_of(config)
    if settings.evaluate is None:
        return []
    from pytest_aecbench.ledger.store import Ledger

    found = list(Ledger(settings.ledger_root).records(settings.evaluate))
    if not found:
        raise SettingsError(f"--aec-evaluate: {settings.evaluate!r} has no records")
    # Of attempts without a reward, one whose outputs are there is worth more than a later one.
    usable = [one for one in found if one.scored or one.completeness == "complete"]
    best = {_trial(one): one for each in (found, usable) for one in final_attempts(each, _trial)}
    records = _chosen(config, [best[trial] for trial in sorted(best)])
    return [
        (record.task.task_id, record.agent.model_dump(), record.repetition, record.trial_id)
        for record in records
    ]


def _trial(record: TrialRecord) -> tuple[str, str, int]:
    return record.task.task_id, agent_key(record.agent), record.repetition


def _chosen(config: pytest.Config, records: list[TrialRecord]) -> list[TrialRecord]:
    """Return the records of the agents named on the command line, by default of all."""
    if not config.getoption("--aec-agent"):
        return records
    known = {record.agent.name for record in records}
    wanted = {agent.name for agent in settings_of(config).agents}
    if unknown := sorted(wanted - known):
        raise SettingsError(
            f"--aec-agent: {unknown[0]!r} has no trials in {settings_of(config).evaluate}; "
            f"use one of {', '.join(sorted(known))}"
        )
    return [record for record in records if record.agent.name in wanted]


def unique_names(agents: Iterable[AgentSpec]) -> list[str]:
    """Return the agents' names; a stored one may have meant several agents over time."""
    seen: Counter[str] = Counter()
    names = []
    for agent in agents:
        seen[agent.name] += 1
        names.append(agent.name if seen[agent.name] == 1 else f"{agent.name}.{seen[agent.name]}")
    return names


def summary_of(config: pytest.Config) -> str:
    """Return a line on what is evaluated, and on what cannot be because its task is gone."""
    settings, rows = settings_of(config), state_of(config).stored_rows
    gone = [row[0] for row in rows if not _is_there(settings.tasks_root, row[0])]
    gone = [task_id for task_id in gone if not _is_there(settings.root, task_id)]
    line = f"evaluating {settings.evaluate}, which has {counted(len(rows), 'trial')}"
    if not gone:
        return line
    return f"{line}, {len(gone)} of them at tasks that are gone: {', '.join(sorted(set(gone)))}"


def _is_there(root: Path, task_id: str) -> bool:
    return (root / task_id / "task.toml").is_file()


def stored_record(config: pytest.Config, trial: Trial) -> TrialRecord | None:
    """Return the record whose outputs the trial is about to verify again, if that is asked for."""
    stored = state_of(config).stored
    if stored is None:
        return None
    from pytest_aecbench.ledger.record import TrialRecord

    settings = trial.settings
    trial_id = stored.trial_id(trial.task.task_id, trial.agent, trial.repetition)
    path = settings.ledger_root / str(settings.evaluate) / f"{trial_id}.json"
    try:
        return TrialRecord.from_json(path.read_bytes())
    except OSError as error:
        raise EvaluationError(f"{shown_path(path)}: cannot be read; {error.strerror}") from None
    except LedgerError as error:
        raise EvaluationError(f"{shown_path(path)}: {error}") from None


def check(trial: Trial) -> None:
    """Refuse to verify what is not an agent's finished work: it would earn too little for it."""
    record = trial.evaluates
    if record is None:
        return
    trial.phase = "wait"
    workspace = _directory(trial, record) / "workspace"
    where = shown_path(workspace)
    if record.agent_result is None:
        cause = record.evaluation.error.cause if record.evaluation.error else "unknown"
        raise EvaluationError(f"{where}: its agent never finished ({cause}); run the trial again")
    if record.completeness != "complete":
        missing = [warning for warning in record.warnings if "not collected: " in warning]
        said = f" ({missing[0]})" if missing else ""
        raise EvaluationError(f"{where}: was not collected whole{said}; run the trial again")
    if not workspace.is_dir():
        raise EvaluationError(
            f"{where}: is not there any more; bring it back or run the trial again"
        )
    if lost := _lost(workspace.parent, record):
        raise EvaluationError(
            f"{where}: {len(lost)} of its files are gone or changed, such as {lost[0]!r}; "
            "bring them back or run the trial again"
        )
    if record.inputs.instruction_sha256 != trial.task.instruction_sha256:
        trial.warnings.append("the task's instruction has changed since the agent followed it")


def _lost(directory: Path, record: TrialRecord) -> list[str]:
    """Return which of the recorded files of the workspace are not as they were."""
    from pytest_aecbench.host.files import files_below
    from pytest_aecbench.ledger.record import OutputFile

    files = (OutputFile(path=path, size=size) for path, size in files_below(directory))
    found = {(file.path, file.size) for file in files}
    return [
        file.path
        for file in record.outputs.files
        if file.path.startswith("workspace/") and (file.path, file.size) not in found
    ]


def _directory(trial: Trial, record: TrialRecord) -> Path:
    return trial.settings.jobs_root / record.experiment_id / record.trial_id


def stored_agent(trial: Trial, record: TrialRecord) -> StoredAgent:
    """Return what stands in for the agent of a stored trial."""
    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.agents.stored import StoredAgent

    return StoredAgent(_directory(trial, record), AgentResult())
