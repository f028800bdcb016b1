"""The columns of reports and exports: one row for each.

Text, Markdown, CSV and JSON of reports are made from them, and every table of exported attempts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from pytest_aecbench.ledger.entry import EntryCost
from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.reports.paired import too_few_text
from pytest_aecbench.text import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.reports.leaderboard import AgentPair
    from pytest_aecbench.reports.statistics import Interval
    from pytest_aecbench.reports.summary import AgentSummary, Group, Total

__all__ = [
    "ERRORS_AS_ZEROS",
    "EXPORTED",
    "FIGURES",
    "PAIRED",
    "SCORED",
    "TABLE",
    "USED",
    "Column",
    "Exported",
    "Kind",
    "bounds_text",
    "cells",
    "data",
    "heads",
    "number_text",
    "p_text",
]

_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True, slots=True)
class Column(Generic[_ValueT]):
    """A figure: its heading, its text, its width where columns are aligned, and its data by key."""

    head: str
    text: Callable[[_ValueT], str]
    width: int = 0
    data: Mapping[str, Callable[[_ValueT], object]] = field(default_factory=dict)


def heads(columns: Sequence[Column[_ValueT]]) -> tuple[str, ...]:
    """Return the headings."""
    return tuple(column.head for column in columns)


def cells(columns: Sequence[Column[_ValueT]], value: _ValueT) -> tuple[str, ...]:
    """Return a value's figures as they are shown."""
    return tuple(column.text(value) for column in columns)


def data(columns: Sequence[Column[_ValueT]], value: _ValueT) -> dict[str, object]:
    """Return a value's figures for machines, by key."""
    return {key: get(value) for column in columns for key, get in column.data.items()}


def number_text(value: float | None) -> str:
    """Return a figure as it is shown; a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"


def p_text(p: float | None) -> str:
    """Return a p value as it is shown; a dash where too few tasks could show anything."""
    if p is None:
        return "-"
    return "<.001" if p < 0.001 else f"{p:.3f}"


def _mean_text(interval: Interval | None) -> str:
    return number_text(interval.mean if interval else None)


def bounds_text(interval: Interval | None) -> str:
    """Return an interval's bounds as they are shown; a dash where there are none."""
    return "-" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"


def _amount_text(total: Total, decimals: int = 0) -> str:
    """Return a sum as it is shown, with how much of it is known."""
    if total.value is None:
        return "-"
    partly = "" if total.known == total.of else f" (known for {total.known} of {total.of})"
    return f"{total.value:,.{decimals}f}{partly}"


# Those of every table; the terminal has room for no more.
FIGURES: tuple[Column[Group], ...] = (
    Column(
        "trials",
        lambda group: str(group.trials),
        6,
        {"trials": lambda group: group.trials, "scored": lambda group: group.scored},
    ),
    Column(
        "errors",
        lambda group: str(group.errors),
        6,
        {
            "errors": lambda group: group.errors,
            "error_rate": lambda group: group.errors / group.trials if group.trials else None,
        },
    ),
    Column(
        "reward",
        lambda group: _mean_text(group.mean),
        6,
        {"mean": lambda group: group.mean and group.mean.mean},
    ),
    Column(
        "95 % interval",
        lambda group: bounds_text(group.mean),
        14,
        {
            "mean_low": lambda group: group.mean and group.mean.low,
            "mean_high": lambda group: group.mean and group.mean.high,
        },
    ),
    Column(
        "SE",
        lambda group: number_text(group.mean.standard_error if group.mean else None),
        4,
        {"standard_error": lambda group: group.mean and group.mean.standard_error},
    ),
    Column(
        "pass@1",
        lambda group: _mean_text(group.pass_at_1),
        6,
        {"pass_at_1": lambda group: group.pass_at_1 and group.pass_at_1.mean},
    ),
)
SCORED: Column[Group] = Column(
    "scored tasks",
    lambda group: f"{group.tasks_scored} of {group.tasks}",
    data={
        "tasks": lambda group: group.tasks,
        "tasks_scored": lambda group: group.tasks_scored,
        "missing": lambda group: group.missing,
    },
)
ERRORS_AS_ZEROS: Column[Group] = Column(
    "errors as zeros",
    lambda group: number_text(group.errors_as_zeros),
    data={"errors_as_zeros": lambda group: group.errors_as_zeros},
)
# Those of tables that have room.
TABLE = (*FIGURES, SCORED, ERRORS_AS_ZEROS)
PAIRED: tuple[Column[AgentPair], ...] = (
    Column(
        "tasks", lambda pair: str(pair.difference.n), data={"tasks": lambda pair: pair.difference.n}
    ),
    Column(
        "difference",
        lambda pair: f"{pair.difference.mean:+.2f}",
        data={"difference": lambda pair: pair.difference.mean},
    ),
    Column(
        "95 % interval",
        lambda pair: f"{pair.difference.low:+.2f} to {pair.difference.high:+.2f}",
        data={
            "low": lambda pair: pair.difference.low,
            "high": lambda pair: pair.difference.high,
        },
    ),
    Column(
        "SE",
        lambda pair: number_text(pair.difference.standard_error),
        data={"standard_error": lambda pair: pair.difference.standard_error},
    ),
    Column(
        "Holm's p",
        lambda pair: too_few_text(pair.difference.n) if pair.p is None else p_text(pair.p),
        data={"p": lambda pair: pair.p},
    ),
)
USED: tuple[Column[AgentSummary], ...] = (
    Column(
        "tokens in",
        lambda summary: _amount_text(summary.tokens_in),
        data={
            "attempts": lambda summary: summary.attempts,
            "tokens_in": lambda summary: summary.tokens_in.value,
        },
    ),
    Column(
        "tokens out",
        lambda summary: _amount_text(summary.tokens_out),
        data={"tokens_out": lambda summary: summary.tokens_out.value},
    ),
    Column(
        "USD",
        lambda summary: _amount_text(summary.usd, decimals=2),
        data={"usd": lambda summary: summary.usd.value},
    ),
    Column(
        "trial time",
        lambda summary: duration_text(summary.duration_sec),
        data={"duration_sec": lambda summary: summary.duration_sec},
    ),
)

# How a library for tables keeps a column; a category is a text that many attempts share.
Kind: TypeAlias = Literal["boolean", "category", "integer", "number", "text", "time"]


@dataclass(frozen=True, slots=True)
class Exported:
    """A column of exported attempts: its name, its kind, and an attempt's value, None if unknown.

    A time is in whole microseconds since the epoch. ``of`` names the stored values of a sheet that
    determine this one: a value of ``Own`` is the same, ``from_stored`` computes another from them,
    and for the rest ``value`` is asked once for all attempts that have the same.
    """

    name: str
    kind: Kind
    value: Callable[[Entry], Any]
    of: tuple[str, ...]
    from_stored: Callable[..., Any] | None = None


def _part(part: str, name: str) -> Callable[[Entry], Any]:
    """Return what reads an attribute of a part that an attempt may lack."""
    read, read_from = attrgetter(part), attrgetter(name)

    def value(entry: Entry) -> Any:
        found = read(entry)
        return None if found is None else read_from(found)

    return value


def _used(name: str) -> Exported:
    """Return a column of what the agent's model used."""
    kinds: dict[str, Kind] = {"usd": "number", "price_source": "category"}
    return Exported(name, kinds.get(name, "integer"), attrgetter(f"cost.{name}"), (name,))


def _dataset_text(entry: Entry) -> str | None:
    dataset = entry.dataset
    return dataset and f"{dataset.name}@{dataset.version}"


EXPORTED: tuple[Exported, ...] = (
    Exported("experiment_id", "category", attrgetter("experiment_id"), ("experiment_id",)),
    Exported("trial_id", "text", attrgetter("trial_id"), ("trial_id",)),
    Exported("trial_key", "text", attrgetter("trial_key"), ("trial_key",)),
    Exported("run_id", "category", attrgetter("run_id"), ("shared",)),
    Exported("task_id", "category", attrgetter("task.task_id"), ("task",)),
    Exported("task_digest", "category", attrgetter("task.digest"), ("task",)),
    Exported("domain", "category", attrgetter("task.domain"), ("task",)),
    Exported("difficulty", "category", attrgetter("task.difficulty"), ("task",)),
    Exported("visibility", "category", attrgetter("task.visibility"), ("task",)),
    Exported("dataset", "category", _dataset_text, ("shared",)),
    Exported("dataset_drifted", "boolean", _part("dataset", "drifted"), ("shared",)),
    Exported("agent", "category", attrgetter("agent.name"), ("agent",)),
    Exported("harness", "category", attrgetter("agent.harness"), ("agent",)),
    Exported("model", "category", attrgetter("agent.model"), ("agent",)),
    Exported("repetition", "integer", attrgetter("repetition"), ("repetition",)),
    Exported("attempt", "integer", attrgetter("attempt"), ("attempt",)),
    Exported("backend", "category", attrgetter("environment.backend"), ("shared",)),
    Exported("outcome", "category", outcome_of, ("reward", "shared")),
    Exported("validity", "category", attrgetter("evaluation.validity"), ("shared",)),
    Exported("reward", "number", attrgetter("evaluation.reward"), ("reward",)),
    Exported("threshold", "number", attrgetter("evaluation.threshold"), ("shared",)),
    Exported("passed", "boolean", attrgetter("evaluation.passed"), ("reward", "shared")),
    Exported("error_cause", "category", _part("evaluation.error", "cause"), ("shared",)),
    Exported("agent_status", "category", _part("agent_result", "status"), ("shared",)),
    Exported("started_at", "time", attrgetter("timing.started"), ("started",)),
    Exported("finished_at", "time", attrgetter("timing.finished"), ("finished",)),
    Exported(
        "duration_sec",
        "number",
        lambda entry: (entry.timing.finished - entry.timing.started) / 10**6,
        ("started", "finished"),
        lambda started, finished: (finished - started) / 10**6,
    ),
    *map(_used, EntryCost._fields),
    Exported("agent_end", "category", _part("agent_result", "end"), ("shared",)),
    Exported("turns", "integer", _part("agent_result", "turns"), ("turns",)),
)
