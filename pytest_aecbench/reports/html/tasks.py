"""The pages of tasks: what each agent earned at a task, part by part, and how sound the task is."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from pytest_aecbench.text import counted, duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["task_pages"]

_MAX_PARTS = 100


def task_pages(figures: Figures) -> dict[str, Any]:
    """Return what the page of each task shows, as text, by the task's id."""
    attempts: dict[str, list[Recorded]] = defaultdict(list)
    for record in figures.attempts:
        attempts[record.task.task_id].append(record)
    final: dict[str, dict[str, list[Recorded]]] = defaultdict(lambda: defaultdict(list))
    for result in figures.final:
        record = figures.records_by_id[result.trial_id]
        final[result.task_id][result.agent].append(record)
    verdicts = {task.task_id: task.verdict for task in figures.saturation.tasks}
    return {
        task_id: {
            **_task(figures, found),
            "verdict": verdicts.get(task_id, ""),
            "agents": [
                _agent(agent, final[task_id][agent], figures.numbers)
                for agent in figures.agents
                if final[task_id].get(agent)
            ],
            **(_parts(figures, final[task_id]) if figures.source.has_results else {}),
        }
        for task_id, found in sorted(attempts.items())
    }


def _task(figures: Figures, records: Sequence[Recorded]) -> dict[str, Any]:
    newest = records[-1].task
    versions = Counter(record.task.digest for record in records)
    checks = figures.source.checks(newest.digest)
    errors = Counter(
        record.evaluation.error.cause for record in records if record.evaluation.error is not None
    )
    warned = sum(bool(record.warnings) for record in records)
    facts = [
        ("domain", newest.domain),
        ("difficulty", newest.difficulty or "unspecified"),
        ("tags", ", ".join(newest.tags) or "none"),
        ("versions", "; ".join(f"{digest[:19]} ({n})" for digest, n in versions.items())),
        ("errors", ", ".join(f"{cause} {n}" for cause, n in sorted(errors.items())) or "none"),
        ("attempts with warnings", f"{warned} of {len(records)}"),
        ("checks", _checks_text(checks) if checks else "not made with these files"),
    ]
    return {"facts": facts}


def _checks_text(checks: Any) -> str:
    parts = [
        f"{word}: {', '.join(names)}"
        for word, names in (("failed", checks.failed), ("errors", checks.errors))
        if names
    ]
    parts.append(f"{counted(len(checks.passed), 'check')} passed")
    if checks.skipped:
        parts.append(f"{len(checks.skipped)} not possible")
    return "; ".join(parts)


def _agent(agent: str, records: Sequence[Recorded], numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return an agent's row: each trial with its reward, the mean, and median time and cost."""
    records = sorted(records, key=lambda record: (record.timing.started_at, record.repetition))
    rewards = [record.evaluation.reward for record in records]
    known = [reward for reward in rewards if reward is not None]
    usd = [record.cost.usd for record in records if record.cost.usd is not None]
    return {
        "agent": agent,
        "trials": [
            [numbers[record.trial_id], "error" if reward is None else f"{reward:.4g}"]
            for record, reward in zip(records, rewards, strict=True)
        ],
        "mean": f"{fmean(known):.2f}" if known else "-",
        "time": duration_text(median(record.timing.spent_sec for record in records)),
        "usd": f"{median(usd):.4f}" if usd else "-",
    }


def _parts(figures: Figures, final: dict[str, list[Recorded]]) -> dict[str, Any]:
    """Return the means of the reward's parts, by part and agent; those missed most come first."""
    agents = [agent for agent in figures.agents if final.get(agent)]
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for agent in agents:
        for record in final[agent]:
            for part, value in record.evaluation.details.items():
                values[part][agent].append(value)
    means = {
        part: fmean(value for found in by_agent.values() for value in found)
        for part, by_agent in values.items()
    }
    order = sorted(means, key=lambda part: (means[part], part))[:_MAX_PARTS]
    return {
        "parts": [
            [
                part,
                *(f"{fmean(values[part][a]):.2f}" if values[part].get(a) else "-" for a in agents),
            ]
            for part in order
        ]
    }
