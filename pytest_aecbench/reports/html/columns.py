"""All attempts as columns of numbers, small enough to be in the page, and as rows of text."""

from __future__ import annotations

import base64
import uuid
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_aecbench.documents.encoding import encoded
from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.reports.html.texts import shown
from pytest_aecbench.text import duration_text, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["HEAD", "columns", "packed", "rows", "why"]

_PARTS = 3
_MAX_WHY = 160
_PHASES = ("wait", "build", "launch", "agent", "collect", "verify")


def packed(data: object) -> str:
    """Return JSON as text that can stand anywhere in a page; equal data gives equal text."""
    return zipped(encoded(data, separators=(",", ":")))


def zipped(data: bytes) -> str:
    """Return bytes as base64 of gzip, without a time in it."""
    gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
    return base64.b64encode(gzip.compress(data) + gzip.flush()).decode()


def why(record: Recorded, *, with_results: bool = True) -> str:
    """Return in one line why an attempt did not pass, or how its agent ended if it did not end.

    Nothing is to be said of one that passed and whose agent ended by itself.
    """
    evaluation = record.evaluation
    if evaluation.error is not None:
        error = evaluation.error
        message = f": {error.message}" if with_results else ""
        return printable(shortened(f"{error.cause}{message}", _MAX_WHY))
    if evaluation.reward is None:
        return "not verified"
    words = []
    if not evaluation.passed:
        missed = sorted((value, name) for name, value in evaluation.details.items() if value < 1)
        parts = ", ".join(f"{name} {value:.4g}" for value, name in missed[:_PARTS])
        words.append(f"reward {evaluation.reward:.4g}, needed {evaluation.threshold:.4g}")
        if parts and with_results:
            words[0] += f" ({parts})"
    if record.agent_result is not None and record.agent_result.status != "completed":
        end = record.agent_result.end or record.agent_result.status
        words.append(f"agent: {end.replace('_', ' ')}")
    return printable(shortened("; ".join(words), _MAX_WHY))


class _Names:
    """Texts by number, in the order in which they are first met."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.numbers = {name: number for number, name in enumerate(known)}

    def __getitem__(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


def columns(figures: Figures) -> dict[str, Any]:
    """Return the attempts, a list per column; texts are numbers of the lists in ``names``."""
    names = {
        name: _Names()
        for name in ("task", "domain", "difficulty", "outcome", "status", "backend", "cause")
    }
    names |= {name: _Names() for name in ("why", "experiment", "digest", "image", "run", "version")}
    names["agent"] = _Names(figures.names)
    with_results = figures.source.has_results
    found: list[dict[str, Any]] = []
    for record in figures.attempts:
        result, cost, timing = record.agent_result, record.cost, record.timing
        error = record.evaluation.error
        texts = {
            "task": record.task.task_id,
            "domain": record.task.domain,
            "difficulty": record.task.difficulty or "unspecified",
            "agent": figures.name_of(record),
            "outcome": outcome_of(record),
            "status": (result.end or result.status) if result else "",
            "backend": record.environment.backend,
            "cause": error.cause if error else "",
            "why": why(record, with_results=with_results),
            "experiment": record.experiment_id,
            "digest": record.task.digest,
            "image": record.environment.image or "",
            "run": record.run_id,
            "version": record.harness_version,
        }
        found.append(
            {
                **{name: names[name][text] for name, text in texts.items()},
                "repetition": record.repetition,
                "attempt": record.attempt,
                "reward": _rounded(record.evaluation.reward, 6),
                "threshold": _rounded(record.evaluation.threshold, 6),
                "usd": _rounded(cost.usd, 6),
                "tokens_in": cost.tokens_in,
                "tokens_out": cost.tokens_out,
                "seconds": _rounded(timing.spent_sec, 2),
                "turns": result.turns if result else None,
                "warnings": len(record.warnings),
                "final": int(record.trial_id in figures.final_ids),
                "different": int(record.task.task_id in figures.different),
                "started": round(timing.started_at.timestamp()),
                **{f"{phase}_sec": _rounded(getattr(timing, phase), 2) for phase in _PHASES},
            }
        )
    ids = b"".join(uuid.UUID(record.trial_id).bytes for record in figures.attempts)
    evaluates = {
        str(index): [record.evaluates.experiment_id, record.evaluates.trial_id]
        for index, record in enumerate(figures.attempts)
        if record.evaluates is not None
    }
    return {
        "n": len(found),
        "ids": base64.b64encode(ids).decode(),
        "names": {name: [*map(shown, texts.numbers)] for name, texts in names.items()},
        "columns": {key: [row[key] for row in found] for key in (found[0] if found else ())},
        "evaluates": evaluates,
        "tasks_root": figures.source.tasks_root,
        "include": figures.source.include,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


HEAD = (
    "task",
    "agent",
    "repetition",
    "attempt",
    "outcome",
    "reward",
    "USD",
    "tokens out",
    "time",
    "turns",
    "why",
)
_Row: TypeAlias = "list[tuple[int, str]]"


def rows(figures: Figures) -> Iterator[_Row]:
    """Yield a row per attempt for readers without JavaScript: cells, each with its number of rows.

    A task and an agent are written once for all their attempts.
    """
    by_task: dict[str, dict[str, list[Recorded]]] = {}
    for record in figures.attempts:
        of_task = by_task.setdefault(record.task.task_id, {})
        of_task.setdefault(figures.name_of(record), []).append(record)
    for task_id, by_agent in sorted(by_task.items()):
        task = [(sum(map(len, by_agent.values())), task_id)]
        for name, records in sorted(by_agent.items()):
            agent = [(len(records), name)]
            for record in records:
                cells = _cells(record, with_results=figures.source.has_results)
                yield [*task, *agent, *((1, text) for text in cells)]
                task, agent = [], []


def _cells(record: Recorded, *, with_results: bool) -> tuple[str, ...]:
    result, cost, reward = record.agent_result, record.cost, record.evaluation.reward
    reason = why(record, with_results=with_results)
    return (
        f"{record.repetition}",
        f"{record.attempt}",
        outcome_of(record),
        "" if reward is None else f"{reward:.4g}",
        "" if cost.usd is None else f"{cost.usd:.4f}",
        "" if cost.tokens_out is None else f"{cost.tokens_out}",
        duration_text(record.timing.spent_sec),
        "" if result is None or result.turns is None else f"{result.turns}",
        reason.removeprefix(f"reward {reward:.4g}, ") if reward is not None else reason,
    )
